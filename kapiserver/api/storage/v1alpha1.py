"""storage.k8s.io/v1alpha1: classes, drivers and attachments of volumes."""

from __future__ import annotations

from kapiserver.api.core.v1 import PersistentVolumeSpec
from kapiserver.api.leaves import Quantity, Time
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class CSIStorageCapacity(Kind):
    """How much storage of a class there is in a part of the cluster."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    nodeTopology: LabelSelector | None = field(2, doc="The nodes that reach the storage.")
    storageClassName: str = field(3, always=True, doc="The class.")
    capacity: Quantity | None = field(4, doc="How much there is.")
    maximumVolumeSize: Quantity | None = field(5)


class VolumeAttachment(Kind):
    """Asks for a volume to be attached to a node."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: VolumeAttachmentSpec = field(2, required=True, doc="The desired state.")
    status: VolumeAttachmentStatus = field(3, doc="The observed state.")


class VolumeAttachmentSource(Type):
    """The volume."""

    persistentVolumeName: str | None = field(1)
    inlineVolumeSpec: PersistentVolumeSpec | None = field(2)


class VolumeAttachmentSpec(Type):
    """Which volume, which node, by whom."""

    attacher: str = field(1, always=True, required=True, doc="The driver that attaches.")
    source: VolumeAttachmentSource = field(2, doc="The volume.")
    nodeName: str = field(3, always=True, doc="The node.")


class VolumeAttachmentStatus(Type):
    """Whether the volume is attached."""

    attached: bool = field(1, always=True, doc="Whether it is attached.")
    attachmentMetadata: dict[str, str] = field(2)
    attachError: VolumeError | None = field(3)
    detachError: VolumeError | None = field(4)


class VolumeAttributesClass(Kind):
    """Attributes of volumes that can change while they are in use."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    driverName: str = field(2, always=True, doc="The driver.")
    parameters: dict[str, str] = field(3, doc="The attributes.")


class VolumeError(Type):
    """What went wrong, and when."""

    time: Time = field(1)
    message: str = field(2)
    errorCode: int32 | None = field(3)
