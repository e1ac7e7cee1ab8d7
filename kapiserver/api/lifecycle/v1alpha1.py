"""lifecycle.k8s.io/v1alpha1: evictions that are asked for and answered step by step."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class Eviction(Kind):
    """The progress of an eviction, seen by all who have a part in it."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: EvictionSpec = field(2, required=True, doc="The desired state.")
    status: EvictionStatus = field(3, doc="The observed state.")


class EvictionPodReference(Type):
    """The pod that goes."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    uid: str = field(2, always=True, required=True, doc="Its uid.")


class EvictionRequest(Kind):
    """One party's wish that something goes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: EvictionRequestSpec = field(2, required=True, doc="The desired state.")
    status: EvictionRequestStatus = field(3, doc="The observed state.")


class EvictionRequestPodReference(Type):
    """The pod that shall go."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    uid: str = field(2, always=True, required=True, doc="Its uid.")


class EvictionRequestSpec(Type):
    """What shall go, and who wants it."""

    target: EvictionRequestTarget = field(1, required=True, doc="What it is about.")
    requester: str = field(2, always=True, required=True, doc="Who asks.")
    intent: str = field(
        3, always=True, required=True, enum=("Eviction", "Withdrawn"), doc="What is asked for."
    )


class EvictionRequestStatus(Type):
    """What is known of a request."""

    conditions: list[Condition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )
    observedGeneration: int64 | None = field(2, doc="The generation that this is about.")


class EvictionRequestTarget(Type):
    """What shall go."""

    pod: EvictionRequestPodReference | None = field(1, doc="The pod.")


class EvictionSpec(Type):
    """What goes."""

    target: EvictionTarget = field(1, required=True, doc="What it is about.")


class EvictionStatus(Type):
    """Who asked, who answers and how far they are."""

    conditions: list[Condition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )
    observedGeneration: int64 | None = field(2, doc="The generation that this is about.")
    requesters: list[Requester] = field(3, keys=("name",), merge="name", doc="Who asks for it.")
    targetResponders: list[TargetResponder] = field(
        4, keys=("name",), merge="name", doc="Who may answer, in order."
    )
    responders: list[ResponderStatus] = field(
        5, keys=("name",), merge="name", doc="How far each has come."
    )


class EvictionTarget(Type):
    """What is going."""

    pod: EvictionPodReference | None = field(1, doc="The pod.")


class Requester(Type):
    """One who asked for the eviction."""

    atomic = True

    name: str = field(1, always=True, required=True, doc="Its name.")
    intent: str = field(
        2, always=True, required=True, enum=("Eviction", "Withdrawn"), doc="What is asked for."
    )


class ResponderStatus(Type):
    """How far one who answers has come."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    startTime: Time | None = field(2, doc="When it began.")
    heartbeatTime: Time | None = field(3, doc="When it last said something.")
    expectedCompletionTime: Time | None = field(4, doc="When it hopes to be done.")
    completionTime: Time | None = field(5, doc="When it was done.")
    message: str | None = field(6, doc="What happened, for people.")


class TargetResponder(Type):
    """One who may answer, in which order."""

    atomic = True

    name: str = field(1, always=True, required=True, doc="Its name.")
    priority: int32 | None = field(
        2, always=True, required=True, doc="The higher, the more important."
    )
    state: str = field(
        3,
        always=True,
        required=True,
        enum=("Inactive", "Active", "Interrupted", "Canceled", "Completed"),
        doc="How far it has come.",
    )
