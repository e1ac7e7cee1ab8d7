"""storage.k8s.io/v1: classes, drivers and attachments of volumes."""

from __future__ import annotations

from kapiserver.api.core.v1 import PersistentVolumeSpec, TopologySelectorTerm
from kapiserver.api.leaves import Quantity, Time
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class CSIDriver(Kind):
    """What the cluster must know of a driver of volumes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: CSIDriverSpec = field(2, doc="The desired state.", required=True)


class CSIDriverSpec(Type):
    """What a driver can do and wants."""

    attachRequired: bool | None = field(
        1, doc="Whether volumes are attached before they are mounted."
    )
    podInfoOnMount: bool | None = field(2, doc="Whether the driver is told about the pod.")
    volumeLifecycleModes: list[str] = field(3, set=True, doc="Persistent or Ephemeral.")
    storageCapacity: bool | None = field(4, doc="Whether the scheduler looks at capacities.")
    fsGroupPolicy: str | None = field(5, doc="Whether ownership of files is changed.")
    tokenRequests: list[TokenRequest] = field(6, doc="Tokens that the driver is given.")
    requiresRepublish: bool | None = field(7, doc="Whether mounts are renewed now and then.")
    seLinuxMount: bool | None = field(8, doc="Whether it mounts with a label of SELinux.")
    nodeAllocatableUpdatePeriodSeconds: int64 | None = field(
        9, doc="How often its bound is read anew."
    )
    serviceAccountTokenInSecrets: bool | None = field(
        10, doc="Whether tokens come among the secrets."
    )
    preventPodSchedulingIfMissing: bool | None = field(
        11, doc="Whether nodes without it get none of its pods."
    )


class CSINode(Kind):
    """The drivers of a node."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: CSINodeSpec = field(2, doc="The desired state.", required=True)
    status: CSINodeStatus = field(3, doc="The observed state.")


class CSINodeDriver(Type):
    """One driver of a node."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    nodeID: str = field(2, always=True, required=True, doc="The node, as the driver names it.")
    topologyKeys: list[str] = field(3, always=True, doc="Labels of nodes that it knows.")
    allocatable: VolumeNodeResources | None = field(4, doc="How many volumes there may be.")


class CSINodeSpec(Type):
    """The drivers that are installed."""

    drivers: list[CSINodeDriver] = field(
        1, always=True, keys=("name",), merge="name", doc="The drivers.", required=True
    )


class CSINodeStatus(Type):
    """What is known of a node's drivers."""

    storageHealth: list[StorageHealth] = field(
        1, keys=("name",), merge="name", doc="How the storage of the node is."
    )


class CSIStorageCapacity(Kind):
    """How much storage of a class there is in a part of the cluster."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    nodeTopology: LabelSelector | None = field(2, doc="The nodes that reach the storage.")
    storageClassName: str = field(3, always=True, doc="The class.", required=True)
    capacity: Quantity | None = field(4, doc="How much there is.")
    maximumVolumeSize: Quantity | None = field(5, doc="The largest volume there can be.")


class StorageClass(Kind):
    """A sort of storage that volumes are made from."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    provisioner: str = field(2, always=True, required=True, doc="Who makes the volumes.")
    parameters: dict[str, str] = field(3, doc="Settings for the provisioner.")
    reclaimPolicy: str | None = field(
        4, enum=("Recycle", "Delete", "Retain"), doc="What becomes of a volume when its claim goes."
    )
    mountOptions: list[str] = field(5, doc="Options of mounting.")
    allowVolumeExpansion: bool | None = field(6, doc="Whether volumes can grow.")
    volumeBindingMode: str | None = field(
        7,
        enum=("Immediate", "WaitForFirstConsumer"),
        doc="Whether volumes wait for their first pod.",
    )
    allowedTopologies: list[TopologySelectorTerm] = field(8, doc="Where volumes may be made.")


class StorageHealth(Type):
    """The health of one driver's storage."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    healthConditions: list[StorageHealthCondition] = field(
        2, doc="What was found out about its health."
    )


class StorageHealthCondition(Type):
    """One finding about a driver's storage."""

    status: str = field(
        1,
        always=True,
        required=True,
        enum=("StorageUnreachable", "StorageDegraded"),
        doc="True, False or Unknown.",
    )
    reason: str = field(2, always=True, required=True, doc="Why, in one word for programs.")
    message: str = field(3, doc="Why, for people.")
    accessMode: str | None = field(
        4,
        enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        doc="How it is mounted.",
    )
    volumeMode: str | None = field(5, enum=("Block", "Filesystem"), doc="Filesystem or Block.")
    lastTransitionTime: Time = field(6, doc="When the status last changed.")


class TokenRequest(Type):
    """A token that a driver wants with its calls."""

    audience: str = field(1, always=True, required=True, doc="Whom it is for.")
    expirationSeconds: int64 | None = field(2, doc="How long it is valid.")


class VolumeAttachment(Kind):
    """Asks for a volume to be attached to a node."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: VolumeAttachmentSpec = field(2, required=True, doc="The desired state.")
    status: VolumeAttachmentStatus = field(3, doc="The observed state.")


class VolumeAttachmentSource(Type):
    """The volume."""

    persistentVolumeName: str | None = field(1, doc="The volume, by name.")
    inlineVolumeSpec: PersistentVolumeSpec | None = field(
        2, doc="The volume, where there is no object of it."
    )


class VolumeAttachmentSpec(Type):
    """Which volume, which node, by whom."""

    attacher: str = field(1, always=True, required=True, doc="The driver that attaches.")
    source: VolumeAttachmentSource = field(2, doc="The volume.", required=True)
    nodeName: str = field(3, always=True, doc="The node.", required=True)


class VolumeAttachmentStatus(Type):
    """Whether the volume is attached."""

    attached: bool = field(1, always=True, doc="Whether it is attached.", required=True)
    attachmentMetadata: dict[str, str] = field(2, doc="What mounting it needs to know.")
    attachError: VolumeError | None = field(3, doc="What went wrong attaching it.")
    detachError: VolumeError | None = field(4, doc="What went wrong detaching it.")


class VolumeAttributesClass(Kind):
    """Attributes of volumes that can change while they are in use."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    driverName: str = field(2, always=True, doc="The driver.", required=True)
    parameters: dict[str, str] = field(3, doc="The attributes.")


class VolumeError(Type):
    """What went wrong, and when."""

    time: Time = field(1, doc="When it was.")
    message: str = field(2, doc="What happened, for people.")
    errorCode: int32 | None = field(3, doc="The code of the error.")


class VolumeNodeResources(Type):
    """How many volumes a node bears."""

    count: int32 | None = field(1, doc="How many volumes there may be.")
