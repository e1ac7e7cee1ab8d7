"""apps/v1: deployments, replica sets, daemon sets, stateful sets and their revisions."""

from __future__ import annotations

from kapiserver.api.core.v1 import PersistentVolumeClaim, PodTemplateSpec
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import IntOrString, RawExtension, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class ControllerRevision(Kind):
    """A past template of a stateful set or daemon set, used for rolling back."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    data: RawExtension = field(
        2,
        required=True,
        doc="The state of the controller's template at this revision. It cannot be changed.",
    )
    revision: int64 = field(
        3,
        always=True,
        doc="Number of the revision; zero or more. The newest revision has the highest number.",
    )


class DaemonSet(Kind):
    """Runs one pod on each node, or on each node that matches the pod template."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: DaemonSetSpec = field(
        2, required=True, doc="The pod template, and the rollout of its changes."
    )
    status: DaemonSetStatus = field(
        3, doc="Counts of the nodes that run the pods, as the controller last observed."
    )


class DaemonSetCondition(Type):
    """One condition of a daemon set."""

    type: str = field(
        1, always=True, doc="Type of the condition; the daemon set controller itself sets none."
    )
    status: str = field(
        2, always=True, doc="Whether the daemon set has the condition: True, False or Unknown."
    )
    lastTransitionTime: Time = field(
        3, doc="When the condition last went from one status to another."
    )
    reason: str = field(4, doc="A CamelCase word for the cause of the last transition.")
    message: str = field(5, doc="A text for people about the last transition.")


class DaemonSetSpec(Type):
    """The pods of a daemon set, and the update of them."""

    selector: LabelSelector | None = field(
        1,
        always=True,
        required=True,
        doc=(
            "Labels of the pods that belong to the daemon set. It must match the labels of the "
            "template and cannot be changed."
        ),
    )
    template: PodTemplateSpec = field(
        2,
        required=True,
        doc=(
            "The pods to run on each node that matches the template's node selector and affinity. "
            "Its restartPolicy must be Always."
        ),
    )
    updateStrategy: DaemonSetUpdateStrategy = field(
        3, doc="The way in which existing pods are replaced after the template changed."
    )
    minReadySeconds: int32 = field(
        4,
        doc=(
            "Seconds that a new pod must be ready before it counts as available. Defaults to 0: "
            "as soon as it is ready."
        ),
    )
    revisionHistoryLimit: int32 | None = field(
        6, doc="Number of old revisions to keep for rolling back. Defaults to 10."
    )


class DaemonSetStatus(Type):
    """Counts of the nodes that a daemon set serves, and its conditions."""

    currentNumberScheduled: int32 = field(
        1,
        always=True,
        required=True,
        doc="Number of nodes that should run a pod of the daemon set and do.",
    )
    numberMisscheduled: int32 = field(
        2,
        always=True,
        required=True,
        doc="Number of nodes that run a pod of the daemon set but should not.",
    )
    desiredNumberScheduled: int32 = field(
        3,
        always=True,
        required=True,
        doc="Number of nodes that should run a pod of the daemon set.",
    )
    numberReady: int32 = field(
        4,
        always=True,
        required=True,
        doc="Number of nodes that should run a pod and have a ready one.",
    )
    observedGeneration: int64 = field(
        5, doc="The metadata.generation that the controller last observed."
    )
    updatedNumberScheduled: int32 = field(
        6, doc="Number of nodes that run a pod made from the current template."
    )
    numberAvailable: int32 = field(
        7,
        doc=(
            "Number of nodes that should run a pod and have one that has been ready for "
            "minReadySeconds."
        ),
    )
    numberUnavailable: int32 = field(
        8, doc="Number of nodes that should run a pod but have no available one."
    )
    collisionCount: int32 | None = field(
        9,
        doc=(
            "Number of times that the name of a new ControllerRevision was already taken. The "
            "controller uses it to make other names."
        ),
    )
    conditions: list[DaemonSetCondition] = field(
        10, keys=("type",), merge="type", doc="The state of the daemon set, by condition type."
    )


class DaemonSetUpdateStrategy(Type):
    """The way in which a daemon set replaces its pods after the template changed."""

    type: str = field(
        1,
        enum=("RollingUpdate", "OnDelete"),
        doc=(
            "RollingUpdate (the default) replaces pods node by node. OnDelete makes new pods only "
            "where old ones were deleted."
        ),
    )
    rollingUpdate: RollingUpdateDaemonSet | None = field(
        2,
        doc=(
            "Limits on the nodes that are updated at the same time. Only for the type "
            "RollingUpdate."
        ),
    )


class Deployment(Kind):
    """Runs a number of identical pods and rolls out changes of their template."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: DeploymentSpec = field(
        2,
        required=True,
        doc="The pod template, the number of pods, and the rollout of changes.",
    )
    status: DeploymentStatus = field(
        3,
        doc="Counts of the pods and the progress of the rollout, as the controller last observed.",
    )


class DeploymentCondition(Type):
    """One condition of a deployment."""

    type: str = field(
        1,
        always=True,
        doc=(
            "Available (enough pods are available), Progressing (a rollout advances or is "
            "complete) or ReplicaFailure (pods cannot be made or deleted)."
        ),
    )
    status: str = field(
        2, always=True, doc="Whether the deployment has the condition: True, False or Unknown."
    )
    lastUpdateTime: Time = field(6, doc="When the controller last updated the condition.")
    lastTransitionTime: Time = field(
        7,
        doc=(
            "When the condition last went from one status to another. Updates that keep the "
            "status do not count."
        ),
    )
    reason: str = field(
        4,
        doc=(
            "A CamelCase word for the cause of the last transition, such as "
            "MinimumReplicasAvailable."
        ),
    )
    message: str = field(
        5,
        doc="A text for people about the last transition, such as which replica set progresses.",
    )


class DeploymentSpec(Type):
    """The pods of a deployment, and the rollout of changes."""

    replicas: int32 | None = field(1, doc="Number of pods to run; zero or more. Defaults to 1.")
    selector: LabelSelector | None = field(
        2,
        always=True,
        required=True,
        doc=(
            "Labels of the pods that belong to the deployment. It must match the labels of the "
            "template and cannot be changed."
        ),
    )
    template: PodTemplateSpec = field(
        3,
        required=True,
        doc="The pods to run. A change starts a rollout. Its restartPolicy must be Always.",
    )
    strategy: DeploymentStrategy = field(
        4, patch="retainKeys", doc="The way in which old pods are replaced by new ones."
    )
    minReadySeconds: int32 = field(
        5,
        doc=(
            "Seconds that a new pod must be ready, without a container crash, to count as "
            "available. Defaults to 0."
        ),
    )
    revisionHistoryLimit: int32 | None = field(
        6, doc="Number of old replica sets to keep for rolling back. Defaults to 10."
    )
    paused: bool = field(
        7, doc="If true, changes of the template are not rolled out until it is false again."
    )
    progressDeadlineSeconds: int32 | None = field(
        9,
        doc=(
            "Seconds without progress after which a rollout is reported as failed. It must exceed "
            "minReadySeconds. Defaults to 600."
        ),
    )


class DeploymentStatus(Type):
    """Counts of the pods of a deployment, and its conditions."""

    observedGeneration: int64 = field(
        1, doc="The metadata.generation that the deployment controller last observed."
    )
    replicas: int32 = field(
        2, doc="Number of pods that match the selector and are not terminating."
    )
    updatedReplicas: int32 = field(
        3, doc="Number of pods, without terminating ones, that were made from the current template."
    )
    readyReplicas: int32 = field(
        7, doc="Number of pods, without terminating ones, whose Ready condition is true."
    )
    availableReplicas: int32 = field(
        4, doc="Number of pods, without terminating ones, that have been ready for minReadySeconds."
    )
    unavailableReplicas: int32 = field(
        5,
        doc=(
            "Number of pods that are missing for all replicas to be available: not yet made, or "
            "not yet available."
        ),
    )
    terminatingReplicas: int32 | None = field(
        9, doc="Number of pods that have a deletionTimestamp but have not ended."
    )
    conditions: list[DeploymentCondition] = field(
        6, keys=("type",), merge="type", doc="The state of the deployment, by condition type."
    )
    collisionCount: int32 | None = field(
        8,
        doc=(
            "Number of times that the name of a new replica set was already taken. The controller "
            "uses it to make other names."
        ),
    )


class DeploymentStrategy(Type):
    """The way in which a deployment replaces old pods by new ones."""

    type: str = field(
        1,
        enum=("Recreate", "RollingUpdate"),
        doc=(
            "Recreate deletes all old pods before it makes new ones. RollingUpdate (the default) "
            "replaces them step by step."
        ),
    )
    rollingUpdate: RollingUpdateDeployment | None = field(
        2,
        doc=(
            "Limits on missing and excess pods during a rollout. Only for the type RollingUpdate."
        ),
    )


class ReplicaSet(Kind):
    """Keeps a number of identical pods running. Deployments make and manage replica sets."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. Without labels, the object gets the labels of the pod "
            "template."
        ),
    )
    spec: ReplicaSetSpec = field(2, required=True, doc="The pod template and the number of pods.")
    status: ReplicaSetStatus = field(3, doc="Counts of the pods, as the controller last observed.")


class ReplicaSetCondition(Type):
    """One condition of a replica set."""

    type: str = field(
        1,
        always=True,
        doc=(
            "Type of the condition: ReplicaFailure, which means that pods cannot be made or "
            "deleted."
        ),
    )
    status: str = field(
        2, always=True, doc="Whether the replica set has the condition: True, False or Unknown."
    )
    lastTransitionTime: Time = field(
        3, doc="When the replica set last gained or lost the condition."
    )
    reason: str = field(
        4, doc="A CamelCase word for the cause of the last transition, such as FailedCreate."
    )
    message: str = field(
        5,
        doc=(
            "A text for people about the last transition, such as the error of a failed creation."
        ),
    )


class ReplicaSetSpec(Type):
    """The pods of a replica set."""

    replicas: int32 | None = field(1, doc="Number of pods to run. Zero or more; 1 if it is absent.")
    minReadySeconds: int32 = field(
        4,
        doc=(
            "Seconds that a new pod must be ready to count as available. 0, the default, means at "
            "once."
        ),
    )
    selector: LabelSelector | None = field(
        2,
        always=True,
        required=True,
        doc=(
            "Labels of the pods that belong to the replica set. It must match the template's "
            "labels and cannot be changed."
        ),
    )
    template: PodTemplateSpec = field(
        3, doc="The pods to make when there are too few. Changes do not affect pods that exist."
    )


class ReplicaSetStatus(Type):
    """Counts of the pods of a replica set, and its conditions."""

    replicas: int32 = field(
        1,
        always=True,
        required=True,
        doc="Number of pods of the replica set that are not terminating.",
    )
    fullyLabeledReplicas: int32 = field(
        2, doc="Number of pods, without terminating ones, that have all labels of the pod template."
    )
    readyReplicas: int32 = field(4, doc="Number of pods, without terminating ones, that are ready.")
    availableReplicas: int32 = field(
        5, doc="Number of pods that are not terminating and have been ready for minReadySeconds."
    )
    terminatingReplicas: int32 | None = field(
        7, doc="Number of pods of the replica set that have a deletionTimestamp but have not ended."
    )
    observedGeneration: int64 = field(
        3, doc="The metadata.generation that the replica set controller last observed."
    )
    conditions: list[ReplicaSetCondition] = field(
        6, keys=("type",), merge="type", doc="The state of the replica set, by condition type."
    )


class RollingUpdateDaemonSet(Type):
    """Limits on the nodes that a daemon set updates at the same time."""

    maxUnavailable: IntOrString | None = field(
        1,
        doc=(
            "Nodes that may lack an available pod during an update: a number, or a percentage of "
            "all nodes, rounded up. Defaults to 1. Must not be 0 if maxSurge is 0."
        ),
    )
    maxSurge: IntOrString | None = field(
        2,
        doc=(
            "Nodes that may run an old and a new pod at the same time: a number, or a percentage, "
            "rounded up. Defaults to 0. Must be 0 unless maxUnavailable is 0."
        ),
    )


class RollingUpdateDeployment(Type):
    """Limits on missing and excess pods during a rollout of a deployment."""

    maxUnavailable: IntOrString | None = field(
        1,
        doc=(
            "Pods that may be unavailable during a rollout: a number, or a percentage of "
            "replicas, rounded down. Defaults to 25%. Must not be 0 if maxSurge is 0."
        ),
    )
    maxSurge: IntOrString | None = field(
        2,
        doc=(
            "Pods that may exist above the number of replicas during a rollout: a number, or a "
            "percentage, rounded up. Defaults to 25%. Must not be 0 if maxUnavailable is 0."
        ),
    )


class RollingUpdateStatefulSetStrategy(Type):
    """Limits on the pods of a stateful set that are updated."""

    partition: int32 | None = field(
        1, doc="Only pods with this ordinal or a higher one are updated. Defaults to 0: all pods."
    )
    maxUnavailable: IntOrString | None = field(
        2,
        doc=(
            "Pods that may be unavailable during an update: a number, or a percentage of "
            "replicas, rounded up; not 0. Defaults to 1."
        ),
    )


class StatefulSet(Kind):
    """Runs pods with stable names, network identities and storage, in order."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The pods are named after the stateful set and their "
            "ordinal, such as web-0."
        ),
    )
    spec: StatefulSetSpec = field(
        2, required=True, doc="The pods, their number and their volume claims."
    )
    status: StatefulSetStatus = field(
        3, doc="Counts of the pods and their revisions, as the controller last observed."
    )


class StatefulSetCondition(Type):
    """One condition of a stateful set."""

    type: str = field(
        1, always=True, doc="Type of the condition; the stateful set controller itself sets none."
    )
    status: str = field(
        2, always=True, doc="Whether the stateful set has the condition: True, False or Unknown."
    )
    lastTransitionTime: Time = field(
        3, doc="When the stateful set last gained or lost the condition."
    )
    reason: str = field(
        4, doc="A CamelCase word for why the stateful set gained or lost the condition."
    )
    message: str = field(
        5, doc="A text for people about why the stateful set gained or lost the condition."
    )


class StatefulSetOrdinals(Type):
    """The numbering of the pods of a stateful set."""

    start: int32 = field(
        1,
        always=True,
        doc=(
            "Ordinal of the first pod; zero or more. With 3 replicas and start 5, the pods are "
            "numbered 5, 6 and 7. Defaults to 0."
        ),
    )


class StatefulSetPersistentVolumeClaimRetentionPolicy(Type):
    """Retention of the claims from volumeClaimTemplates."""

    whenDeleted: str = field(
        1,
        doc=(
            "Retain (the default) keeps the claims when the stateful set is deleted, Delete "
            "deletes them too."
        ),
    )
    whenScaled: str = field(
        2,
        doc=(
            "Retain (the default) keeps the claims of pods that scaling down removes, Delete "
            "deletes them too."
        ),
    )


class StatefulSetSpec(Type):
    """The pods of a stateful set, their storage and the update of them."""

    replicas: int32 | None = field(
        1, doc="Number of pods to run, each with its own ordinal. Defaults to 1."
    )
    selector: LabelSelector | None = field(
        2,
        always=True,
        required=True,
        doc=(
            "Labels of the pods that belong to the stateful set. It must match the template's "
            "labels and cannot be changed."
        ),
    )
    template: PodTemplateSpec = field(
        3,
        required=True,
        doc=(
            "The pods to run; each gets a name made of the stateful set's name and its ordinal. "
            "The restartPolicy must be Always."
        ),
    )
    volumeClaimTemplates: list[PersistentVolumeClaim] = field(
        4,
        item_api_version="v1",
        doc=(
            "Claims that each pod gets for its own. A claim overrides a volume of the same name "
            "in the pod template. Cannot be changed."
        ),
    )
    serviceName: str = field(
        5,
        always=True,
        doc=(
            "Name of the headless service that gives the pods DNS names, in the same namespace. "
            "Cannot be changed."
        ),
    )
    podManagementPolicy: str = field(
        6,
        enum=("OrderedReady", "Parallel"),
        doc=(
            "OrderedReady (the default) makes and deletes pods one by one in order. Parallel does "
            "not wait for the pod before. Cannot be changed."
        ),
    )
    updateStrategy: StatefulSetUpdateStrategy = field(
        7, doc="The way in which pods are replaced after the template changed."
    )
    revisionHistoryLimit: int32 | None = field(
        8, doc="Number of old revisions to keep for rolling back. 10 if it is absent."
    )
    minReadySeconds: int32 = field(
        9,
        doc=(
            "Seconds that a new pod must be ready before it is available and the next one is "
            "updated. Defaults to 0."
        ),
    )
    persistentVolumeClaimRetentionPolicy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = (
        field(
            10,
            doc=(
                "Whether claims are deleted with their pods or with the stateful set. By default, "
                "they are kept."
            ),
        )
    )
    ordinals: StatefulSetOrdinals | None = field(
        11, doc="The numbers in the pods' names. By default, they begin at 0."
    )


class StatefulSetStatus(Type):
    """Counts of the pods of a stateful set, and its revisions."""

    observedGeneration: int64 = field(
        1, doc="The metadata.generation that the stateful set controller last observed."
    )
    replicas: int32 = field(
        2, always=True, required=True, doc="Number of pods that the controller has created."
    )
    readyReplicas: int32 = field(3, doc="Number of pods of the stateful set that are ready.")
    currentReplicas: int32 = field(4, doc="Number of pods of the revision currentRevision.")
    updatedReplicas: int32 = field(5, doc="Number of pods of the revision updateRevision.")
    currentRevision: str = field(
        6, doc="Name of the ControllerRevision of pods that are not updated yet."
    )
    updateRevision: str = field(7, doc="Name of the ControllerRevision of pods that are updated.")
    collisionCount: int32 | None = field(
        9,
        doc=(
            "Number of times that the name of a new ControllerRevision was taken, so that the "
            "controller made another one."
        ),
    )
    conditions: list[StatefulSetCondition] = field(
        10, keys=("type",), merge="type", doc="The state of the stateful set, by condition type."
    )
    availableReplicas: int32 = field(
        11,
        always=True,
        doc="Number of pods of the stateful set that have been ready for minReadySeconds.",
    )


class StatefulSetUpdateStrategy(Type):
    """The way in which a stateful set replaces its pods after the template changed."""

    type: str = field(
        1,
        enum=("RollingUpdate", "OnDelete", "Recreate"),
        doc=(
            "RollingUpdate (the default) replaces pods from the highest ordinal down, OnDelete "
            "replaces pods that were deleted, Recreate replaces all at once."
        ),
    )
    rollingUpdate: RollingUpdateStatefulSetStrategy | None = field(
        2, doc="Limits on the pods that are updated. Only for the type RollingUpdate."
    )
