"""Event of the core group; events.k8s.io shows the same objects in another form."""

from __future__ import annotations

from kapiserver.api.core.v1.references import ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import MicroTime, Time
from kapiserver.api.types import Kind, Type, field, int32


class Event(Kind):
    """Something that happened to an object."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.", required=True)
    involvedObject: ObjectReference = field(2, required=True, doc="The object it is about.")
    reason: str = field(3, doc="Why, in one word for programs.")
    message: str = field(4, doc="What happened, for people.")
    source: EventSource = field(5, doc="Who saw it.")
    firstTimestamp: Time = field(6, doc="When it was first seen.")
    lastTimestamp: Time = field(7, doc="When it was last seen.")
    count: int32 = field(8, doc="How often it was seen.")
    type: str = field(9, doc="Normal or Warning.")
    eventTime: MicroTime = field(10, doc="When it was first seen, to the microsecond.")
    series: EventSeries | None = field(11, doc="How often it happened, where that is often.")
    action: str = field(12, doc="What was done.")
    related: ObjectReference | None = field(13, doc="Another object that it is about.")
    reportingComponent: str = field(14, always=True, doc="Who saw it, as kubernetes.io/kubelet.")
    reportingInstance: str = field(15, always=True, doc="Who saw it: which of the controllers.")


class EventSeries(Type):
    """How often an event happened, and when last."""

    count: int32 = field(1, doc="How often so far.")
    lastObservedTime: MicroTime = field(2, doc="When it was last seen.")


class EventSource(Type):
    """Who reported an event."""

    component: str = field(1, doc="The program.")
    host: str = field(2, doc="The host, by name or address.")
