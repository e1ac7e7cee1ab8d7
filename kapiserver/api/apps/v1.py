"""apps/v1: controllers that keep pods running."""

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


class DaemonSet(Kind):
    """One pod on each node of a set."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: DaemonSetSpec = field(2, required=True, doc="The desired state.")
    status: DaemonSetStatus = field(3, doc="The observed state.")


class DaemonSetCondition(Type):
    """One finding about a daemon set."""

    type: str = field(1, always=True, doc="What the finding is about.")
    status: str = field(2, always=True, doc="True, False or Unknown.")
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")


class DaemonSetSpec(Type):
    """Which pods, made from what, and how they are replaced."""

    selector: LabelSelector | None = field(1, always=True, required=True)
    template: PodTemplateSpec = field(2, required=True)
    updateStrategy: DaemonSetUpdateStrategy = field(3)
    minReadySeconds: int32 = field(4)
    revisionHistoryLimit: int32 | None = field(6)


class DaemonSetStatus(Type):
    """What is known of a daemon set."""

    currentNumberScheduled: int32 = field(1, always=True, required=True)
    numberMisscheduled: int32 = field(2, always=True, required=True)
    desiredNumberScheduled: int32 = field(3, always=True, required=True)
    numberReady: int32 = field(4, always=True, required=True)
    observedGeneration: int64 = field(5)
    updatedNumberScheduled: int32 = field(6)
    numberAvailable: int32 = field(7)
    numberUnavailable: int32 = field(8)
    collisionCount: int32 | None = field(9)
    conditions: list[DaemonSetCondition] = field(10, keys=("type",), merge="type")


class DaemonSetUpdateStrategy(Type):
    """How the pods of a daemon set are replaced."""

    type: str = field(1, enum=("RollingUpdate", "OnDelete"))
    rollingUpdate: RollingUpdateDaemonSet | None = field(2)


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


class DeploymentSpec(Type):
    """How many pods, made from what, and how they are replaced."""

    replicas: int32 | None = field(1, doc="How many pods there should be.")
    selector: LabelSelector | None = field(
        2, always=True, required=True, doc="Labels of the deployment's pods."
    )
    template: PodTemplateSpec = field(3, required=True, doc="What the pods look like.")
    strategy: DeploymentStrategy = field(
        4, patch="retainKeys", doc="How old pods give way to new ones."
    )
    minReadySeconds: int32 = field(5)
    revisionHistoryLimit: int32 | None = field(6)
    paused: bool = field(7, doc="No rollout while true.")
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

    type: str = field(1, enum=("Recreate", "RollingUpdate"))
    rollingUpdate: RollingUpdateDeployment | None = field(2)


class ReplicaSet(Kind):
    """Keeps a number of pods running."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ReplicaSetSpec = field(2, required=True, doc="The desired state.")
    status: ReplicaSetStatus = field(3, doc="The observed state.")


class ReplicaSetCondition(Type):
    """One finding about a replica set."""

    type: str = field(1, always=True, doc="What the finding is about.")
    status: str = field(2, always=True, doc="True, False or Unknown.")
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")


class ReplicaSetSpec(Type):
    """How many pods, which, and made from what."""

    replicas: int32 | None = field(1)
    minReadySeconds: int32 = field(4)
    selector: LabelSelector | None = field(2, always=True, required=True)
    template: PodTemplateSpec = field(3)


class ReplicaSetStatus(Type):
    """What is known of a replica set."""

    replicas: int32 = field(1, always=True, required=True)
    fullyLabeledReplicas: int32 = field(2)
    readyReplicas: int32 = field(4)
    availableReplicas: int32 = field(5)
    terminatingReplicas: int32 | None = field(7)
    observedGeneration: int64 = field(3)
    conditions: list[ReplicaSetCondition] = field(6, keys=("type",), merge="type")


class RollingUpdateDaemonSet(Type):
    """Pace of a daemon set's rolling update."""

    maxUnavailable: IntOrString | None = field(1)
    maxSurge: IntOrString | None = field(2)


class RollingUpdateDeployment(Type):
    """Pace of a deployment's rolling update."""

    maxUnavailable: IntOrString | None = field(1)
    maxSurge: IntOrString | None = field(2)


class RollingUpdateStatefulSetStrategy(Type):
    """Pace and border of a stateful set's rolling update."""

    partition: int32 | None = field(1)
    maxUnavailable: IntOrString | None = field(2)


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
    selector: LabelSelector | None = field(2, always=True, required=True)
    template: PodTemplateSpec = field(3, required=True)
    volumeClaimTemplates: list[PersistentVolumeClaim] = field(4)
    serviceName: str = field(5, always=True)
    podManagementPolicy: str = field(6, enum=("OrderedReady", "Parallel"))
    updateStrategy: StatefulSetUpdateStrategy = field(7)
    revisionHistoryLimit: int32 | None = field(8)
    minReadySeconds: int32 = field(9)
    persistentVolumeClaimRetentionPolicy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = (
        field(10)
    )
    ordinals: StatefulSetOrdinals | None = field(11)


class StatefulSetStatus(Type):
    """What is known of a stateful set."""

    observedGeneration: int64 = field(1)
    replicas: int32 = field(2, always=True, required=True)
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

    type: str = field(1, enum=("RollingUpdate", "OnDelete", "Recreate"))
    rollingUpdate: RollingUpdateStatefulSetStrategy | None = field(2)
