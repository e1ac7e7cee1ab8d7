"""Event of the core group; events.k8s.io serves the same objects in another form."""

from __future__ import annotations

from kapiserver.api.core.v1.references import ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import MicroTime, Time
from kapiserver.api.types import Kind, Type, field, int32


class Event(Kind):
    """A report of something that happened to an object. Events expire after some time."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The namespace is that of the involved object; "
            "generateName is the usual choice."
        ),
        required=True,
    )
    involvedObject: ObjectReference = field(2, required=True, doc="Object that the event is about.")
    reason: str = field(
        3,
        doc=(
            "CamelCase code of what happened, for example FailedScheduling. Required with "
            "eventTime, then at most 128 bytes."
        ),
    )
    message: str = field(
        4, doc="Human-readable description of what happened. With eventTime, at most 1024 bytes."
    )
    source: EventSource = field(
        5,
        doc=(
            "Component that reported the event, with its host. Newer reporters use "
            "reportingComponent and reportingInstance."
        ),
    )
    firstTimestamp: Time = field(6, doc="When the event first occurred.")
    lastTimestamp: Time = field(7, doc="When the event last occurred.")
    count: int32 = field(
        8, doc="Number of times that the event occurred between firstTimestamp and lastTimestamp."
    )
    type: str = field(
        9,
        doc=(
            "Kind of the event: Normal or Warning. Clients must accept types that are added later."
        ),
    )
    eventTime: MicroTime = field(
        10,
        doc=(
            "When the event first occurred, with microseconds. An event with it also needs "
            "reason, action, reportingComponent and reportingInstance."
        ),
    )
    series: EventSeries | None = field(
        11,
        doc="Repetitions of the event, for events with eventTime. Absent for a single occurrence.",
    )
    action: str = field(
        12,
        doc=(
            "CamelCase code of what was done to the object, for example Binding. Required with "
            "eventTime, then at most 128 bytes."
        ),
    )
    related: ObjectReference | None = field(
        13,
        doc=(
            "Another object that the event is about, for example the pod that a ReplicaSet deleted."
        ),
    )
    reportingComponent: str = field(
        14,
        always=True,
        doc=(
            "Name of the controller that reported the event, for example kubernetes.io/kubelet. "
            "Required with eventTime."
        ),
    )
    reportingInstance: str = field(
        15,
        always=True,
        doc=(
            "Instance of the controller that reported the event, for example its pod's or node's "
            "name. Required with eventTime, then at most 128 bytes."
        ),
    )


class EventSeries(Type):
    """Repetitions of an event."""

    count: int32 = field(1, doc="Number of occurrences in the series up to lastObservedTime.")
    lastObservedTime: MicroTime = field(
        2, doc="When the event of the series last occurred, with microseconds."
    )


class EventSource(Type):
    """The component that reported an event."""

    component: str = field(
        1, doc="Name of the component that reported the event, for example kubelet."
    )
    host: str = field(2, doc="Node on which the component that reported the event runs.")
