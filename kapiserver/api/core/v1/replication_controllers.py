"""ReplicationController, the predecessor of ReplicaSet."""

from __future__ import annotations

from kapiserver.api.core.v1.pods import PodTemplateSpec
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class ReplicationController(Kind):
    """Keeps a number of equal pods running. Deployments and ReplicaSets replace it."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. When it has no labels, it gets those of the pod template."
        ),
    )
    spec: ReplicationControllerSpec = field(
        2,
        doc="Desired state of the replication controller: how many pods, and from which template.",
    )
    status: ReplicationControllerStatus = field(
        3, doc="Observed state of the replication controller: how many pods it has."
    )


class ReplicationControllerSpec(Type):
    """Number, selector and template of a replication controller's pods."""

    replicas: int32 | None = field(
        1, default=1, doc="Number of pods to keep running, 0 or more. Default: 1."
    )
    minReadySeconds: int32 = field(
        4,
        default=0,
        doc=(
            "Seconds that a new pod must be ready before it counts as available. Default: 0, as "
            "soon as it is ready."
        ),
    )
    selector: dict[str, str] = field(
        2,
        atomic=True,
        doc=(
            "Labels of the pods to count. The template must have them. When empty: the template's "
            "labels."
        ),
    )
    template: PodTemplateSpec | None = field(
        3,
        doc=(
            "Template for the pods that the controller creates when there are too few. Its "
            "restartPolicy must be Always."
        ),
    )


class ReplicationControllerStatus(Type):
    """Observed state of a replication controller."""

    replicas: int32 = field(
        1,
        always=True,
        required=True,
        doc="Number of pods that the replication controller has at present.",
    )
    fullyLabeledReplicas: int32 = field(
        2, doc="Number of pods that have all labels of the template."
    )
    readyReplicas: int32 = field(4, doc="Number of pods with a Ready condition that is True.")
    availableReplicas: int32 = field(
        5, doc="Number of pods that have been ready for at least minReadySeconds."
    )
    observedGeneration: int64 = field(
        3, doc="The metadata.generation of the replication controller that this status describes."
    )
    conditions: list[ReplicationControllerCondition] = field(
        6,
        keys=("type",),
        merge="type",
        doc="Conditions of the replication controller, one entry per type.",
    )


class ReplicationControllerCondition(Type):
    """One aspect of a replication controller's state."""

    type: str = field(
        1,
        always=True,
        doc=(
            "Aspect that the replication controller's condition describes: ReplicaFailure, when a "
            "pod cannot be created or deleted."
        ),
        required=True,
    )
    status: str = field(
        2,
        always=True,
        doc="Whether the replication controller's condition holds: True, False or Unknown.",
        required=True,
    )
    lastTransitionTime: Time = field(
        3, doc="When the status of the replication controller's condition last changed."
    )
    reason: str = field(
        4, doc="CamelCase code of the condition's last change, for example FailedCreate."
    )
    message: str = field(
        5,
        doc=(
            "Human-readable explanation of the condition's last change, for example why a pod "
            "could not be created."
        ),
    )
