"""events.k8s.io/v1: what happened to objects."""

from __future__ import annotations

from kapiserver.api.core.v1 import EventSource, ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import MicroTime, Time
from kapiserver.api.types import Kind, Type, field, int32


class Event(Kind):
    """Something that happened to an object."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    eventTime: MicroTime = field(2, doc="When it was first seen.", required=True)
    series: EventSeries | None = field(3, doc="How often it happened, where that is often.")
    reportingController: str = field(4, doc="Who says so.")
    reportingInstance: str = field(5, doc="Who saw it: which of the controllers.")
    action: str = field(6, doc="What was done.")
    reason: str = field(7, doc="Why, in one word for programs.")
    regarding: ObjectReference = field(8, doc="The object it happened to.")
    related: ObjectReference | None = field(9, doc="Another object that it is about.")
    note: str = field(10, doc="What happened, for people.")
    type: str = field(11, doc="Normal or Warning.")
    deprecatedSource: EventSource = field(12, doc="As in core/v1.")
    deprecatedFirstTimestamp: Time = field(13, doc="As in core/v1.")
    deprecatedLastTimestamp: Time = field(14, doc="As in core/v1.")
    deprecatedCount: int32 = field(15, doc="As in core/v1.")


class EventSeries(Type):
    """How often an event came again."""

    count: int32 = field(1, always=True, required=True, doc="How often so far.")
    lastObservedTime: MicroTime = field(2, required=True, doc="When it was last seen.")
