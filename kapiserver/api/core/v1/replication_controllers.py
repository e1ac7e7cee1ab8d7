"""ReplicationController, the elder of ReplicaSet."""

from __future__ import annotations

from kapiserver.api.core.v1.pods import PodTemplateSpec
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class ReplicationController(Kind):
    """Keeps a number of pods running (older than ReplicaSet)."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ReplicationControllerSpec = field(2, doc="The desired state.")
    status: ReplicationControllerStatus = field(3, doc="The observed state.")


class ReplicationControllerSpec(Type):
    """How many pods, which, and made from what."""

    replicas: int32 | None = field(
        1, default=1, doc="How many pods there shall be; 1 where nothing is said."
    )
    minReadySeconds: int32 = field(
        4, default=0, doc="How long a pod must be ready to count as available."
    )
    selector: dict[str, str] = field(2, atomic=True, doc="Which objects, by their labels.")
    template: PodTemplateSpec | None = field(3, doc="What pods are made from.")


class ReplicationControllerStatus(Type):
    """What is known of a replication controller."""

    replicas: int32 = field(1, always=True, required=True, doc="How many pods there are.")
    fullyLabeledReplicas: int32 = field(2, doc="How many have all labels of the template.")
    readyReplicas: int32 = field(4, doc="How many are ready.")
    availableReplicas: int32 = field(5, doc="How many are available.")
    observedGeneration: int64 = field(3, doc="The generation that this is about.")
    conditions: list[ReplicationControllerCondition] = field(
        6, keys=("type",), merge="type", doc="What was found out about it."
    )


class ReplicationControllerCondition(Type):
    """One finding about a replication controller."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")
