"""storage.k8s.io/v1: storage classes, CSI drivers and volume attachments."""

from __future__ import annotations

from kapiserver.api.core.v1 import PersistentVolumeSpec, TopologySelectorTerm
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import Quantity, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class CSIDriver(Kind):
    """A CSI driver of the cluster and what Kubernetes has to do for its volumes."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name is the name that the driver reports, of at most "
            "63 characters."
        ),
    )
    spec: CSIDriverSpec = field(
        2, doc="What Kubernetes has to do for the driver's volumes.", required=True
    )


class CSIDriverSpec(Type):
    """The features of a CSI driver."""

    attachRequired: bool | None = field(
        1,
        doc=(
            "Whether volumes must be attached to a node, through a VolumeAttachment, before they "
            "are mounted. Defaults to true; cannot be updated."
        ),
    )
    podInfoOnMount: bool | None = field(
        2,
        doc=(
            "Whether the driver receives the pod's name, namespace, uid and service account when "
            "it mounts a volume. Defaults to false."
        ),
    )
    volumeLifecycleModes: list[str] = field(
        3,
        set=True,
        doc=(
            "Kinds of volumes that the driver supports: Persistent (the default), Ephemeral for "
            "inline volumes of pods, or both. Cannot be updated."
        ),
    )
    storageCapacity: bool | None = field(
        4,
        doc=(
            "Whether the scheduler places pods by the CSIStorageCapacity objects that the driver "
            "publishes. Defaults to false."
        ),
    )
    fsGroupPolicy: str | None = field(
        5,
        doc=(
            "When the volume's owner and permissions are changed to the pod's fsGroup: "
            "ReadWriteOnceWithFSType (the default), File for always, None for never."
        ),
    )
    tokenRequests: list[TokenRequest] = field(
        6,
        doc=(
            "Service account tokens of the pod that the driver receives when it mounts a volume, "
            "at most one per audience."
        ),
    )
    requiresRepublish: bool | None = field(
        7,
        doc=(
            "Whether the kubelet calls NodePublishVolume again at intervals, so that the driver "
            "can refresh mounted data. Defaults to false."
        ),
    )
    seLinuxMount: bool | None = field(
        8,
        doc=(
            "Whether the driver supports mounting with -o context, which sets the SELinux label "
            "without relabelling each file. Defaults to false."
        ),
    )
    nodeAllocatableUpdatePeriodSeconds: int64 | None = field(
        9,
        doc=(
            "Seconds between updates of the driver's allocatable count in CSINode, at least 10. "
            "Unset disables periodic updates."
        ),
    )
    serviceAccountTokenInSecrets: bool | None = field(
        10,
        doc=(
            "True passes the tokens of tokenRequests in the secrets field of the call, false in "
            "the volume context. Needs tokenRequests. Defaults to false."
        ),
    )
    preventPodSchedulingIfMissing: bool | None = field(
        11,
        doc=(
            "Whether the scheduler keeps pods with volumes of the driver off nodes where it is "
            "not installed. Defaults to false."
        ),
    )


class CSINode(Kind):
    """The CSI drivers that are installed on one node. The kubelet maintains it."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. The name is the name of the Node."
    )
    spec: CSINodeSpec = field(2, doc="The drivers installed on the node.", required=True)
    status: CSINodeStatus = field(3, doc="Health of the drivers' storage as seen from the node.")


class CSINodeDriver(Type):
    """One CSI driver that is installed on a node."""

    name: str = field(
        1, always=True, required=True, doc="Name of the driver, as in its CSIDriver object."
    )
    nodeID: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Name of the node as the driver knows it, which may differ from the Node's. At most "
            "256 characters."
        ),
    )
    topologyKeys: list[str] = field(
        3,
        always=True,
        doc=(
            "Node labels that the driver uses to say where its volumes are reachable, such as "
            "topology.example.com/zone. Empty if it has no topology."
        ),
    )
    allocatable: VolumeNodeResources | None = field(
        4,
        doc="Limits of the driver's volumes on the node. Unset means that there is no known limit.",
    )


class CSINodeSpec(Type):
    """The CSI drivers that are installed on a node."""

    drivers: list[CSINodeDriver] = field(
        1,
        always=True,
        keys=("name",),
        merge="name",
        doc="The installed drivers, one entry per name. Empty if none is installed.",
        required=True,
    )


class CSINodeStatus(Type):
    """The observed state of the CSI drivers of a node."""

    storageHealth: list[StorageHealth] = field(
        1,
        keys=("name",),
        merge="name",
        doc="Storage problems per driver. A driver without an entry has no known problem.",
    )


class CSIStorageCapacity(Kind):
    """How much storage of one StorageClass is available in one part of the cluster. A CSI driver
    publishes it for the scheduler."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. The name has no meaning; use generateName."
    )
    nodeTopology: LabelSelector | None = field(
        2,
        doc=(
            "Labels of the nodes that can reach the storage. Unset matches no node, empty matches "
            "all. Cannot be updated."
        ),
    )
    storageClassName: str = field(
        3,
        always=True,
        doc="Name of the StorageClass that the capacity is for. Cannot be updated.",
        required=True,
    )
    capacity: Quantity | None = field(
        4,
        doc=(
            "Storage available in this part of the cluster, as a quantity such as 100Gi. Unset if "
            "the driver cannot tell."
        ),
    )
    maximumVolumeSize: Quantity | None = field(
        5,
        doc=(
            "Size of the largest volume that can be created here, as a quantity. Unset if the "
            "driver cannot tell; then capacity is used."
        ),
    )


class StorageClass(Kind):
    """A class of storage that volumes are provisioned from. The annotation
    storageclass.kubernetes.io/is-default-class marks the default."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    provisioner: str = field(
        2,
        always=True,
        required=True,
        doc="Name of the driver that provisions volumes of the class. Cannot be updated.",
    )
    parameters: dict[str, str] = field(
        3,
        doc=(
            "Settings for the provisioner, which defines their meaning: at most 512 entries and "
            "256 KiB. Cannot be updated."
        ),
    )
    reclaimPolicy: str | None = field(
        4,
        enum=("Recycle", "Delete", "Retain"),
        doc=(
            "What happens to a provisioned volume once its claim is deleted: Delete (the default) "
            "or Retain. Cannot be updated."
        ),
    )
    mountOptions: list[str] = field(
        5,
        doc=(
            "Options for mounting volumes of the class, such as ro. They are not validated; a "
            "wrong one makes mounting fail."
        ),
    )
    allowVolumeExpansion: bool | None = field(
        6,
        doc=(
            "Whether claims may be enlarged after creation, if the driver supports that. Unset "
            "means no."
        ),
    )
    volumeBindingMode: str | None = field(
        7,
        enum=("Immediate", "WaitForFirstConsumer"),
        doc=(
            "When volumes are provisioned and bound: Immediate (the default), or "
            "WaitForFirstConsumer once a pod uses the claim. Cannot be updated."
        ),
    )
    allowedTopologies: list[TopologySelectorTerm] = field(
        8, doc="Where volumes may be provisioned, by labels of nodes. Empty means no restriction."
    )


class StorageHealth(Type):
    """The storage problems of one CSI driver on a node."""

    name: str = field(
        1, always=True, required=True, doc="Name of the driver, as in spec.drivers of the CSINode."
    )
    healthConditions: list[StorageHealthCondition] = field(
        2, doc="Current problems of the driver's storage. Empty if there is none."
    )


class StorageHealthCondition(Type):
    """One problem of a driver's storage, for some or all of its volumes."""

    status: str = field(
        1,
        always=True,
        required=True,
        enum=("StorageUnreachable", "StorageDegraded"),
        doc=(
            "Kind of the problem: StorageUnreachable if volumes cannot be used, StorageDegraded "
            "if they work with limits."
        ),
    )
    reason: str = field(
        2,
        always=True,
        required=True,
        doc="A machine-readable CamelCase reason of the problem, defined by the driver.",
    )
    message: str = field(3, doc="Details of the problem for people; may be empty.")
    accessMode: str | None = field(
        4,
        enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        doc=(
            "Access mode of the volumes concerned: ReadWriteOnce, ReadOnlyMany, ReadWriteMany or "
            "ReadWriteOncePod. Unset means all."
        ),
    )
    volumeMode: str | None = field(
        5,
        enum=("Block", "Filesystem"),
        doc="Volume mode of the volumes concerned: Block or Filesystem. Unset means both.",
    )
    lastTransitionTime: Time = field(6, doc="When the problem began or last changed.")


class TokenRequest(Type):
    """A service account token that a CSI driver receives for each pod."""

    audience: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Audience of the token. Unique in the list; empty means the audience of the API server."
        ),
    )
    expirationSeconds: int64 | None = field(
        2, doc="Lifetime of the token in seconds, from 600 to 2^32. Defaults to 3600."
    )


class VolumeAttachment(Kind):
    """The intent to attach a volume to a node, or to detach it once the object is deleted. The CSI
    driver carries it out."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: VolumeAttachmentSpec = field(
        2, required=True, doc="The volume, the node and the driver. Cannot be updated."
    )
    status: VolumeAttachmentStatus = field(
        3, doc="Whether the volume is attached. Written by the driver's attacher."
    )


class VolumeAttachmentSource(Type):
    """The volume to attach: exactly one field is set."""

    persistentVolumeName: str | None = field(
        1, doc="Name of the PersistentVolume to attach. Excludes inlineVolumeSpec."
    )
    inlineVolumeSpec: PersistentVolumeSpec | None = field(
        2,
        doc=(
            "Specification of a volume without a PersistentVolume object, for inline volumes "
            "migrated to CSI. Excludes persistentVolumeName."
        ),
    )


class VolumeAttachmentSpec(Type):
    """Which volume to attach to which node, by which driver."""

    attacher: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the CSI driver that attaches the volume, a DNS subdomain of at most 63 "
            "characters."
        ),
    )
    source: VolumeAttachmentSource = field(
        2, doc="The volume to attach: a PersistentVolume or an inline volume.", required=True
    )
    nodeName: str = field(
        3, always=True, doc="Name of the Node that the volume is attached to.", required=True
    )


class VolumeAttachmentStatus(Type):
    """The observed state of an attachment."""

    attached: bool = field(
        1,
        always=True,
        doc="True once the volume is attached. Set by the attacher, false until then.",
        required=True,
    )
    attachmentMetadata: dict[str, str] = field(
        2, doc="Data that the driver returned on attaching and needs for mounting. At most 256 KiB."
    )
    attachError: VolumeError | None = field(
        3, doc="Last error of attaching the volume. Absent if there was none."
    )
    detachError: VolumeError | None = field(
        4, doc="Last error of detaching the volume. Absent if there was none."
    )


class VolumeAttributesClass(Kind):
    """A named set of volume attributes, such as performance limits, that can be changed while a
    volume is in use."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    driverName: str = field(
        2,
        always=True,
        doc="Name of the CSI driver that the attributes are for. Cannot be updated.",
        required=True,
    )
    parameters: dict[str, str] = field(
        3,
        doc=(
            "Attributes for the driver, which defines their meaning: at least one, at most 512 "
            "entries and 256 KiB. Cannot be updated."
        ),
    )


class VolumeError(Type):
    """An error of attaching or detaching a volume."""

    time: Time = field(1, doc="When the error happened.")
    message: str = field(
        2, doc="Details of the error for people, at most 1024 bytes. Must not contain secrets."
    )
    errorCode: int32 | None = field(
        3,
        doc=(
            "Numeric gRPC code of the error, not negative. 8 (ResourceExhausted) makes the "
            "kubelet update the node's volume limits."
        ),
    )


class VolumeNodeResources(Type):
    """The limits of a CSI driver on a node."""

    count: int32 | None = field(
        1,
        doc=(
            "Largest number of the driver's volumes on the node, not negative. Unset means no "
            "limit."
        ),
    )
