"""ReplicationController, the elder of ReplicaSet."""

from __future__ import annotations

from kapiserver.api.core.v1.pods import PodTemplateSpec
from kapiserver.api.leaves import Time
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class ReplicationController(Kind):
    """Keeps a number of pods running (older than ReplicaSet)."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ReplicationControllerSpec = field(2, doc="The desired state.")
    status: ReplicationControllerStatus = field(3, doc="The observed state.")


class ReplicationControllerSpec(Type):
    """How many pods, which, and made from what."""

    replicas: int32 | None = field(1, default=1)
    minReadySeconds: int32 = field(4, default=0)
    selector: dict[str, str] = field(2, atomic=True)
    template: PodTemplateSpec | None = field(3)


class ReplicationControllerStatus(Type):
    """What is known of a replication controller."""

    replicas: int32 = field(1, always=True, required=True)
    fullyLabeledReplicas: int32 = field(2)
    readyReplicas: int32 = field(4)
    availableReplicas: int32 = field(5)
    observedGeneration: int64 = field(3)
    conditions: list[ReplicationControllerCondition] = field(6, keys=("type",), merge="type")


class ReplicationControllerCondition(Type):
    """One finding about a replication controller."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")
