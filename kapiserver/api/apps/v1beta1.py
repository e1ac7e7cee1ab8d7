"""apps/v1beta1: controllers that keep pods running."""

from __future__ import annotations

from kapiserver.api.core.v1 import PersistentVolumeClaim, PodTemplateSpec
from kapiserver.api.leaves import IntOrString, RawExtension, Time
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class ControllerRevision(Kind):
    """A past state of a controller's template."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    data: RawExtension = field(2, required=True)
    revision: int64 = field(3, always=True)


class Deployment(Kind):
    """Keeps a number of pods running and rolls out their changes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: DeploymentSpec = field(2, required=True, doc="The desired state.")
    status: DeploymentStatus = field(3, doc="The observed state.")


class DeploymentCondition(Type):
    """One finding about a deployment."""

    type: str = field(1, always=True, doc="What the finding is about.")
    status: str = field(2, always=True, doc="True, False or Unknown.")
    lastUpdateTime: Time = field(6, doc="When the finding was last made.")
    lastTransitionTime: Time = field(7, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")


class DeploymentRollback(Kind):
    """Asks for an earlier state of a deployment."""

    listed = False

    name: str = field(1, always=True, required=True)
    updatedAnnotations: dict[str, str] = field(2)
    rollbackTo: RollbackConfig = field(3)


class DeploymentSpec(Type):
    """How many pods, made from what, and how they are replaced."""

    replicas: int32 | None = field(1, doc="How many pods there should be.")
    selector: LabelSelector | None = field(2, doc="Labels of the deployment's pods.")
    template: PodTemplateSpec = field(3, required=True, doc="What the pods look like.")
    strategy: DeploymentStrategy = field(
        4, patch="retainKeys", doc="How old pods give way to new ones."
    )
    minReadySeconds: int32 = field(5)
    revisionHistoryLimit: int32 | None = field(6)
    paused: bool = field(7, doc="No rollout while true.")
    rollbackTo: RollbackConfig | None = field(8)
    progressDeadlineSeconds: int32 | None = field(9)


class DeploymentStatus(Type):
    """What is known of a deployment."""

    observedGeneration: int64 = field(1)
    replicas: int32 = field(2)
    updatedReplicas: int32 = field(3)
    readyReplicas: int32 = field(7)
    availableReplicas: int32 = field(4)
    unavailableReplicas: int32 = field(5)
    terminatingReplicas: int32 | None = field(9)
    conditions: list[DeploymentCondition] = field(6, keys=("type",), merge="type")
    collisionCount: int32 | None = field(8)


class DeploymentStrategy(Type):
    """How the pods of a deployment are replaced."""

    type: str = field(1)
    rollingUpdate: RollingUpdateDeployment | None = field(2)


class RollbackConfig(Type):
    """Which earlier state."""

    revision: int64 = field(1)


class RollingUpdateDeployment(Type):
    """Pace of a deployment's rolling update."""

    maxUnavailable: IntOrString | None = field(1)
    maxSurge: IntOrString | None = field(2)


class RollingUpdateStatefulSetStrategy(Type):
    """Pace and border of a stateful set's rolling update."""

    partition: int32 | None = field(1)
    maxUnavailable: IntOrString | None = field(2)


class Scale(Kind):
    """How many pods of a workload are wanted and how many there are."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ScaleSpec = field(2, doc="The desired state.")
    status: ScaleStatus = field(3, doc="The observed state.")


class ScaleSpec(Type):
    """How many pods are wanted."""

    replicas: int32 = field(1, default=0)


class ScaleStatus(Type):
    """How many pods there are, and which."""

    replicas: int32 = field(1, always=True)
    selector: dict[str, str] = field(2)
    targetSelector: str = field(3)


class StatefulSet(Kind):
    """Pods with a stable name, address and storage each."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: StatefulSetSpec = field(2, required=True, doc="The desired state.")
    status: StatefulSetStatus = field(3, doc="The observed state.")


class StatefulSetCondition(Type):
    """One finding about a stateful set."""

    type: str = field(1, always=True, doc="What the finding is about.")
    status: str = field(2, always=True, doc="True, False or Unknown.")
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")


class StatefulSetOrdinals(Type):
    """The number with which the pods' names begin to count."""

    start: int32 = field(1, always=True)


class StatefulSetPersistentVolumeClaimRetentionPolicy(Type):
    """What becomes of claims when pods or the set go."""

    whenDeleted: str = field(1)
    whenScaled: str = field(2)


class StatefulSetSpec(Type):
    """How many pods, made from what, with which claims."""

    replicas: int32 | None = field(1)
    selector: LabelSelector | None = field(2, required=True)
    template: PodTemplateSpec = field(3, required=True)
    volumeClaimTemplates: list[PersistentVolumeClaim] = field(4)
    serviceName: str = field(5, always=True)
    podManagementPolicy: str = field(6)
    updateStrategy: StatefulSetUpdateStrategy = field(7)
    revisionHistoryLimit: int32 | None = field(8)
    minReadySeconds: int32 = field(9)
    persistentVolumeClaimRetentionPolicy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = (
        field(10)
    )
    ordinals: StatefulSetOrdinals | None = field(11)


class StatefulSetStatus(Type):
    """What is known of a stateful set."""

    observedGeneration: int64 | None = field(1)
    replicas: int32 = field(2, always=True)
    readyReplicas: int32 = field(3)
    currentReplicas: int32 = field(4)
    updatedReplicas: int32 = field(5)
    currentRevision: str = field(6)
    updateRevision: str = field(7)
    collisionCount: int32 | None = field(9)
    conditions: list[StatefulSetCondition] = field(10, keys=("type",), merge="type")
    availableReplicas: int32 = field(11, always=True)


class StatefulSetUpdateStrategy(Type):
    """How the pods of a stateful set are replaced."""

    type: str = field(1)
    rollingUpdate: RollingUpdateStatefulSetStrategy | None = field(2)
