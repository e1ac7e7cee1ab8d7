"""events.k8s.io/v1: reports about what happened to objects."""

from __future__ import annotations

from kapiserver.api.core.v1 import EventSource, ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import MicroTime, Time
from kapiserver.api.types import Kind, Type, field, int32


class Event(Kind):
    """A report about something that happened to an object. Events are deleted after a while."""

    metadata: ObjectMeta = field(
        1,
        doc="Standard object's metadata. The event is in the namespace of the object it regards.",
    )
    eventTime: MicroTime = field(
        2, doc="Time at which the event first happened. Required for new events.", required=True
    )
    series: EventSeries | None = field(
        3,
        doc="Number and last time of repetitions. Absent for an event that happened once.",
    )
    reportingController: str = field(
        4,
        doc=(
            "Name of the controller that reports the event, such as kubernetes.io/kubelet. "
            "Required for new events."
        ),
    )
    reportingInstance: str = field(
        5,
        doc=(
            "The instance of the controller that reports, such as kubelet-xyzf. Required for new "
            "events; at most 128 characters."
        ),
    )
    action: str = field(
        6,
        doc=(
            "A CamelCase word for the action that the controller took or failed to take. Required "
            "for new events; at most 128 characters."
        ),
    )
    reason: str = field(
        7,
        doc=(
            "A CamelCase word for why the action was taken. Required for new events; at most 128 "
            "characters."
        ),
    )
    regarding: ObjectReference = field(
        8, doc="The object that the event is about, often the one that the controller manages."
    )
    related: ObjectReference | None = field(
        9,
        doc=(
            "A second object for events that involve two, such as the pod that a replica set made."
        ),
    )
    note: str = field(10, doc="A text for people that describes the event, at most 1024 bytes.")
    type: str = field(11, doc="Normal or Warning. Required for new events.")
    deprecatedSource: EventSource = field(
        12,
        doc=(
            "The component that reported the event, for events of core/v1. New events use "
            "reportingController."
        ),
    )
    deprecatedFirstTimestamp: Time = field(
        13, doc="Time of the first occurrence, for events of core/v1. New events use eventTime."
    )
    deprecatedLastTimestamp: Time = field(
        14,
        doc=(
            "Time of the last occurrence, for events of core/v1. New events use "
            "series.lastObservedTime."
        ),
    )
    deprecatedCount: int32 = field(
        15,
        doc="Number of occurrences, for events of core/v1. New events use series.count.",
    )


class EventSeries(Type):
    """The repetitions of an event."""

    count: int32 = field(
        1,
        always=True,
        required=True,
        doc="Number of occurrences of the event so far; 2 or more.",
    )
    lastObservedTime: MicroTime = field(
        2, required=True, doc="Time of the last occurrence that the controller has reported."
    )
