"""apps/v1: controllers that keep pods running."""

from __future__ import annotations

from kapiserver.api.core.v1 import PersistentVolumeClaim, PodTemplateSpec
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import IntOrString, RawExtension, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class ControllerRevision(Kind):
    """A past state of a controller's template."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    data: RawExtension = field(2, required=True, doc="The data.")
    revision: int64 = field(3, always=True, doc="Its number: the newest has the largest.")


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

    selector: LabelSelector | None = field(
        1, always=True, required=True, doc="Its pods, by their labels; cannot change."
    )
    template: PodTemplateSpec = field(2, required=True, doc="What pods are made from.")
    updateStrategy: DaemonSetUpdateStrategy = field(3, doc="How pods are replaced.")
    minReadySeconds: int32 = field(4, doc="How long a pod must be ready to count as available.")
    revisionHistoryLimit: int32 | None = field(6, doc="How many old revisions are kept.")


class DaemonSetStatus(Type):
    """What is known of a daemon set."""

    currentNumberScheduled: int32 = field(
        1, always=True, required=True, doc="Nodes that run its pod and shall."
    )
    numberMisscheduled: int32 = field(
        2, always=True, required=True, doc="Nodes that run its pod and shall not."
    )
    desiredNumberScheduled: int32 = field(
        3, always=True, required=True, doc="Nodes that shall run its pod."
    )
    numberReady: int32 = field(4, always=True, required=True, doc="Nodes on which it is ready.")
    observedGeneration: int64 = field(5, doc="The generation that this is about.")
    updatedNumberScheduled: int32 = field(6, doc="Nodes that run an up to date pod.")
    numberAvailable: int32 = field(7, doc="Nodes on which it is available.")
    numberUnavailable: int32 = field(8, doc="Nodes on which it is missing.")
    collisionCount: int32 | None = field(9, doc="How often a name was taken, to find new ones.")
    conditions: list[DaemonSetCondition] = field(
        10, keys=("type",), merge="type", doc="What was found out about it."
    )


class DaemonSetUpdateStrategy(Type):
    """How the pods of a daemon set are replaced."""

    type: str = field(1, enum=("RollingUpdate", "OnDelete"), doc="RollingUpdate or OnDelete.")
    rollingUpdate: RollingUpdateDaemonSet | None = field(2, doc="How fast pods are replaced.")


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
    minReadySeconds: int32 = field(5, doc="How long a pod must be ready to count as available.")
    revisionHistoryLimit: int32 | None = field(6, doc="How many old revisions are kept.")
    paused: bool = field(7, doc="No rollout while true.")
    progressDeadlineSeconds: int32 | None = field(9, doc="How long a rollout may stand still.")


class DeploymentStatus(Type):
    """What is known of a deployment."""

    observedGeneration: int64 = field(1, doc="The generation that this is about.")
    replicas: int32 = field(2, doc="How many pods there are.")
    updatedReplicas: int32 = field(3, doc="How many are up to date.")
    readyReplicas: int32 = field(7, doc="How many are ready.")
    availableReplicas: int32 = field(4, doc="How many are available.")
    unavailableReplicas: int32 = field(5, doc="How many are missing.")
    terminatingReplicas: int32 | None = field(9, doc="How many are ending.")
    conditions: list[DeploymentCondition] = field(
        6, keys=("type",), merge="type", doc="What was found out about it."
    )
    collisionCount: int32 | None = field(8, doc="How often a name was taken, to find new ones.")


class DeploymentStrategy(Type):
    """How the pods of a deployment are replaced."""

    type: str = field(1, enum=("Recreate", "RollingUpdate"), doc="Recreate or RollingUpdate.")
    rollingUpdate: RollingUpdateDeployment | None = field(2, doc="How fast pods are replaced.")


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

    replicas: int32 | None = field(1, doc="How many pods there shall be; 1 where nothing is said.")
    minReadySeconds: int32 = field(4, doc="How long a pod must be ready to count as available.")
    selector: LabelSelector | None = field(
        2, always=True, required=True, doc="Its pods, by their labels; cannot change."
    )
    template: PodTemplateSpec = field(3, doc="What pods are made from.")


class ReplicaSetStatus(Type):
    """What is known of a replica set."""

    replicas: int32 = field(1, always=True, required=True, doc="How many pods there are.")
    fullyLabeledReplicas: int32 = field(2, doc="How many have all labels of the template.")
    readyReplicas: int32 = field(4, doc="How many are ready.")
    availableReplicas: int32 = field(5, doc="How many are available.")
    terminatingReplicas: int32 | None = field(7, doc="How many are ending.")
    observedGeneration: int64 = field(3, doc="The generation that this is about.")
    conditions: list[ReplicaSetCondition] = field(
        6, keys=("type",), merge="type", doc="What was found out about it."
    )


class RollingUpdateDaemonSet(Type):
    """Pace of a daemon set's rolling update."""

    maxUnavailable: IntOrString | None = field(
        1, doc="How many may be missing meanwhile: number or percentage."
    )
    maxSurge: IntOrString | None = field(
        2, doc="How many there may be in excess meanwhile: number or percentage."
    )


class RollingUpdateDeployment(Type):
    """Pace of a deployment's rolling update."""

    maxUnavailable: IntOrString | None = field(
        1, doc="How many may be missing meanwhile: number or percentage."
    )
    maxSurge: IntOrString | None = field(
        2, doc="How many there may be in excess meanwhile: number or percentage."
    )


class RollingUpdateStatefulSetStrategy(Type):
    """Pace and border of a stateful set's rolling update."""

    partition: int32 | None = field(1, doc="Pods with a smaller ordinal are not replaced.")
    maxUnavailable: IntOrString | None = field(
        2, doc="How many may be missing meanwhile: number or percentage."
    )


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

    start: int32 = field(1, always=True, doc="The ordinal of the first pod.")


class StatefulSetPersistentVolumeClaimRetentionPolicy(Type):
    """What becomes of claims when pods or the set go."""

    whenDeleted: str = field(1, doc="Retain or Delete with the set.")
    whenScaled: str = field(2, doc="Retain or Delete with the pod.")


class StatefulSetSpec(Type):
    """How many pods, made from what, with which claims."""

    replicas: int32 | None = field(1, doc="How many there shall be.")
    selector: LabelSelector | None = field(
        2, always=True, required=True, doc="Its pods, by their labels; cannot change."
    )
    template: PodTemplateSpec = field(3, required=True, doc="What pods are made from.")
    volumeClaimTemplates: list[PersistentVolumeClaim] = field(
        4, named="v1", doc="What the claims of each pod are made from."
    )
    serviceName: str = field(5, always=True, doc="The headless service that names its pods.")
    podManagementPolicy: str = field(
        6, enum=("OrderedReady", "Parallel"), doc="OrderedReady or Parallel."
    )
    updateStrategy: StatefulSetUpdateStrategy = field(7, doc="How pods are replaced.")
    revisionHistoryLimit: int32 | None = field(8, doc="How many old revisions are kept.")
    minReadySeconds: int32 = field(9, doc="How long a pod must be ready to count as available.")
    persistentVolumeClaimRetentionPolicy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = (
        field(10, doc="What becomes of the claims.")
    )
    ordinals: StatefulSetOrdinals | None = field(11, doc="How pods are numbered.")


class StatefulSetStatus(Type):
    """What is known of a stateful set."""

    observedGeneration: int64 = field(1, doc="The generation that this is about.")
    replicas: int32 = field(2, always=True, required=True, doc="How many pods there are.")
    readyReplicas: int32 = field(3, doc="How many are ready.")
    currentReplicas: int32 = field(4, doc="How many are of the current revision.")
    updatedReplicas: int32 = field(5, doc="How many are up to date.")
    currentRevision: str = field(6, doc="The revision that is being left.")
    updateRevision: str = field(7, doc="The revision that is being made.")
    collisionCount: int32 | None = field(9, doc="How often a name was taken, to find new ones.")
    conditions: list[StatefulSetCondition] = field(
        10, keys=("type",), merge="type", doc="What was found out about it."
    )
    availableReplicas: int32 = field(11, always=True, doc="How many are available.")


class StatefulSetUpdateStrategy(Type):
    """How the pods of a stateful set are replaced."""

    type: str = field(
        1, enum=("RollingUpdate", "OnDelete", "Recreate"), doc="RollingUpdate or OnDelete."
    )
    rollingUpdate: RollingUpdateStatefulSetStrategy | None = field(
        2, doc="How fast pods are replaced."
    )
