"""lifecycle.k8s.io/v1alpha1: requests for evictions, and their progress."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class Eviction(Kind):
    """The eviction of a target, with its requesters and responders."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: EvictionSpec = field(2, required=True, doc="The target of the eviction.")
    status: EvictionStatus = field(
        3, doc="The requesters, the responders and the progress of the eviction."
    )


class EvictionPodReference(Type):
    """The pod that is evicted."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the evicted pod, in the namespace of the Eviction.",
    )
    uid: str = field(
        2,
        always=True,
        required=True,
        doc="UID of the evicted pod. It tells the pod from a later one of the same name.",
    )


class EvictionRequest(Kind):
    """The request of one requester to evict a target."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: EvictionRequestSpec = field(
        2,
        required=True,
        doc="The target, the requester, and whether the request stands.",
    )
    status: EvictionRequestStatus = field(
        3, doc="The outcome of the request, as the controller last observed."
    )


class EvictionRequestPodReference(Type):
    """The pod to evict."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the pod to evict, in the namespace of the request.",
    )
    uid: str = field(
        2,
        always=True,
        required=True,
        doc="UID of the pod to evict. A pod of the same name with another UID is left alone.",
    )


class EvictionRequestSpec(Type):
    """The target of an eviction request, and its requester."""

    target: EvictionRequestTarget = field(
        1, required=True, doc="The object to evict. It cannot be changed."
    )
    requester: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Name of the requester, with a domain, such as example.com/descheduler. It cannot be "
            "changed."
        ),
    )
    intent: str = field(
        3,
        always=True,
        required=True,
        enum=("Eviction", "Withdrawn"),
        doc="Eviction asks for the eviction, Withdrawn takes the request back.",
    )


class EvictionRequestStatus(Type):
    """The outcome of an eviction request."""

    conditions: list[Condition] = field(
        1,
        keys=("type",),
        merge="type",
        doc="The outcome of the request by condition type, at most 100.",
    )
    observedGeneration: int64 | None = field(
        2,
        doc=(
            "The metadata.generation of the request that the controller last observed. It never "
            "decreases."
        ),
    )


class EvictionRequestTarget(Type):
    """The object to evict; exactly one field is set."""

    pod: EvictionRequestPodReference | None = field(
        1, doc="The pod to evict. Required, as there is no other kind of target."
    )


class EvictionSpec(Type):
    """The target of an eviction."""

    target: EvictionTarget = field(
        1, required=True, doc="The object that is evicted. It cannot be changed."
    )


class EvictionStatus(Type):
    """The requesters, the responders and the progress of an eviction."""

    conditions: list[Condition] = field(
        1,
        keys=("type",),
        merge="type",
        doc=(
            "The outcome of the eviction by condition type, at most 100. A final outcome cannot "
            "be reverted."
        ),
    )
    observedGeneration: int64 | None = field(
        2,
        doc=(
            "The metadata.generation of the Eviction that the controller last observed. It never "
            "decreases."
        ),
    )
    requesters: list[Requester] = field(
        3, keys=("name",), merge="name", doc="Everyone who requested the eviction, at most 100."
    )
    targetResponders: list[TargetResponder] = field(
        4,
        keys=("name",),
        merge="name",
        doc=(
            "The responders in the order in which they act, at most 11. Set once; then only their "
            "state changes."
        ),
    )
    responders: list[ResponderStatus] = field(
        5, keys=("name",), merge="name", doc="The progress that each responder reports, at most 11."
    )


class EvictionTarget(Type):
    """The object that is evicted; exactly one field is set."""

    pod: EvictionPodReference | None = field(
        1, doc="The pod that is evicted. Required, as there is no other kind of target."
    )


class Requester(Type):
    """A requester of an eviction, and its intent."""

    atomic = True

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the requester, taken from the spec of its EvictionRequest.",
    )
    intent: str = field(
        2,
        always=True,
        required=True,
        enum=("Eviction", "Withdrawn"),
        doc=(
            "Whether the requester asks for the eviction (Eviction) or took its request back "
            "(Withdrawn)."
        ),
    )


class ResponderStatus(Type):
    """The progress of one responder, as it reports it."""

    name: str = field(
        1, always=True, required=True, doc="Name of the responder, as listed in targetResponders."
    )
    startTime: Time | None = field(
        2, doc="When the responder began to act. It cannot be changed once set."
    )
    heartbeatTime: Time | None = field(
        3,
        doc=(
            "When the responder last reported. A responder that is silent for too long is "
            "interrupted."
        ),
    )
    expectedCompletionTime: Time | None = field(4, doc="When the responder expects to be done.")
    completionTime: Time | None = field(
        5, doc="When the responder was done. It cannot be changed once set."
    )
    message: str | None = field(
        6, doc="A text for people about the responder's progress, at most 4000 characters."
    )


class TargetResponder(Type):
    """A responder to an eviction, its rank and its state."""

    atomic = True

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the responder, with a domain, such as example.com/migrator.",
    )
    priority: int32 | None = field(
        2,
        always=True,
        required=True,
        doc=(
            "Rank of the responder, from 0 to 100000; the highest acts first. It cannot be changed."
        ),
    )
    state: str = field(
        3,
        always=True,
        required=True,
        enum=("Inactive", "Active", "Interrupted", "Canceled", "Completed"),
        doc=(
            "Inactive (not its turn yet), Active, Interrupted (stopped reporting), Canceled or "
            "Completed."
        ),
    )
