"""Event of the core group; events.k8s.io shows the same objects in another form."""

from __future__ import annotations

from kapiserver.api.core.v1.references import ObjectReference
from kapiserver.api.leaves import MicroTime, Time
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class Event(Kind):
    """Something that happened to an object."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.", required=True)
    involvedObject: ObjectReference = field(2, required=True)
    reason: str = field(3)
    message: str = field(4)
    source: EventSource = field(5)
    firstTimestamp: Time = field(6)
    lastTimestamp: Time = field(7)
    count: int32 = field(8)
    type: str = field(9)
    eventTime: MicroTime = field(10)
    series: EventSeries | None = field(11)
    action: str = field(12)
    related: ObjectReference | None = field(13)
    reportingComponent: str = field(14, always=True)
    reportingInstance: str = field(15, always=True)


class EventSeries(Type):
    """How often an event happened, and when last."""

    count: int32 = field(1)
    lastObservedTime: MicroTime = field(2)


class EventSource(Type):
    """Who reported an event."""

    component: str = field(1)
    host: str = field(2)
