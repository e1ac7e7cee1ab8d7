"""lifecycle.k8s.io/v1alpha1: evictions that are asked for and answered step by step."""

from __future__ import annotations

from kapiserver.api.leaves import Time
from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class Eviction(Kind):
    """The progress of an eviction, seen by all who have a part in it."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: EvictionSpec = field(2, required=True, doc="The desired state.")
    status: EvictionStatus = field(3, doc="The observed state.")


class EvictionPodReference(Type):
    """The pod that goes."""

    name: str = field(1, always=True, required=True)
    uid: str = field(2, always=True, required=True)


class EvictionRequest(Kind):
    """One party's wish that something goes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: EvictionRequestSpec = field(2, required=True, doc="The desired state.")
    status: EvictionRequestStatus = field(3, doc="The observed state.")


class EvictionRequestPodReference(Type):
    """The pod that shall go."""

    name: str = field(1, always=True, required=True)
    uid: str = field(2, always=True, required=True)


class EvictionRequestSpec(Type):
    """What shall go, and who wants it."""

    target: EvictionRequestTarget = field(1, required=True)
    requester: str = field(2, always=True, required=True)
    intent: str = field(3, always=True, required=True, enum=("Eviction", "Withdrawn"))


class EvictionRequestStatus(Type):
    """What is known of a request."""

    conditions: list[Condition] = field(1, keys=("type",), merge="type")
    observedGeneration: int64 | None = field(2)


class EvictionRequestTarget(Type):
    """What shall go."""

    pod: EvictionRequestPodReference | None = field(1)


class EvictionSpec(Type):
    """What goes."""

    target: EvictionTarget = field(1, required=True)


class EvictionStatus(Type):
    """Who asked, who answers and how far they are."""

    conditions: list[Condition] = field(1, keys=("type",), merge="type")
    observedGeneration: int64 | None = field(2)
    requesters: list[Requester] = field(3, keys=("name",), merge="name")
    targetResponders: list[TargetResponder] = field(4, keys=("name",), merge="name")
    responders: list[ResponderStatus] = field(5, keys=("name",), merge="name")


class EvictionTarget(Type):
    """What is going."""

    pod: EvictionPodReference | None = field(1)


class Requester(Type):
    """One who asked for the eviction."""

    atomic = True

    name: str = field(1, always=True, required=True)
    intent: str = field(2, always=True, required=True, enum=("Eviction", "Withdrawn"))


class ResponderStatus(Type):
    """How far one who answers has come."""

    name: str = field(1, always=True, required=True)
    startTime: Time | None = field(2)
    heartbeatTime: Time | None = field(3)
    expectedCompletionTime: Time | None = field(4)
    completionTime: Time | None = field(5)
    message: str | None = field(6)


class TargetResponder(Type):
    """One who may answer, in which order."""

    atomic = True

    name: str = field(1, always=True, required=True)
    priority: int32 | None = field(2, always=True, required=True)
    state: str = field(
        3,
        always=True,
        required=True,
        enum=("Inactive", "Active", "Interrupted", "Canceled", "Completed"),
    )
