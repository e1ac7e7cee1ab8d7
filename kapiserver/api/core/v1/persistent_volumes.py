"""PersistentVolume."""

from __future__ import annotations

from kapiserver.api.core.v1.references import ObjectReference
from kapiserver.api.core.v1.scheduling import NodeSelector
from kapiserver.api.core.v1.volume_plugins import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFilePersistentVolumeSource,
    CephFSPersistentVolumeSource,
    CinderPersistentVolumeSource,
    CSIPersistentVolumeSource,
    FCVolumeSource,
    FlexPersistentVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GlusterfsPersistentVolumeSource,
    ISCSIPersistentVolumeSource,
    LocalVolumeSource,
    NFSVolumeSource,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    RBDPersistentVolumeSource,
    ScaleIOPersistentVolumeSource,
    StorageOSPersistentVolumeSource,
    VsphereVirtualDiskVolumeSource,
)
from kapiserver.api.core.v1.volumes import HostPathVolumeSource
from kapiserver.api.leaves import Quantity, Time
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field


class PersistentVolume(Kind):
    """A piece of storage in the cluster."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PersistentVolumeSpec = field(2, doc="The desired state.")
    status: PersistentVolumeStatus = field(3, doc="The observed state.")


class PersistentVolumeSpec(Type):
    """Size, access and place of a persistent volume."""

    capacity: dict[str, Quantity] = field(1)
    persistentVolumeSource: PersistentVolumeSource = field(2, inline=True)
    accessModes: list[str] = field(
        3, enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
    )
    claimRef: ObjectReference | None = field(4, atomic=False)
    persistentVolumeReclaimPolicy: str = field(5, enum=("Recycle", "Delete", "Retain"))
    storageClassName: str = field(6)
    mountOptions: list[str] = field(7)
    volumeMode: str | None = field(8, enum=("Block", "Filesystem"))
    nodeAffinity: VolumeNodeAffinity | None = field(9)
    volumeAttributesClassName: str | None = field(10)


class PersistentVolumeSource(Type):
    """The one place a persistent volume's content is kept."""

    gcePersistentDisk: GCEPersistentDiskVolumeSource | None = field(1)
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource | None = field(2)
    hostPath: HostPathVolumeSource | None = field(3)
    glusterfs: GlusterfsPersistentVolumeSource | None = field(4)
    nfs: NFSVolumeSource | None = field(5)
    rbd: RBDPersistentVolumeSource | None = field(6)
    iscsi: ISCSIPersistentVolumeSource | None = field(7)
    cinder: CinderPersistentVolumeSource | None = field(8)
    cephfs: CephFSPersistentVolumeSource | None = field(9)
    fc: FCVolumeSource | None = field(10)
    flocker: FlockerVolumeSource | None = field(11)
    flexVolume: FlexPersistentVolumeSource | None = field(12)
    azureFile: AzureFilePersistentVolumeSource | None = field(13)
    vsphereVolume: VsphereVirtualDiskVolumeSource | None = field(14)
    quobyte: QuobyteVolumeSource | None = field(15)
    azureDisk: AzureDiskVolumeSource | None = field(16)
    photonPersistentDisk: PhotonPersistentDiskVolumeSource | None = field(17)
    portworxVolume: PortworxVolumeSource | None = field(18)
    scaleIO: ScaleIOPersistentVolumeSource | None = field(19)
    local: LocalVolumeSource | None = field(20)
    storageos: StorageOSPersistentVolumeSource | None = field(21)
    csi: CSIPersistentVolumeSource | None = field(22)


class PersistentVolumeStatus(Type):
    """What is known of a persistent volume."""

    phase: str = field(1, enum=("Pending", "Available", "Bound", "Released", "Failed"))
    message: str = field(2)
    reason: str = field(3)
    lastPhaseTransitionTime: Time | None = field(4)


class VolumeNodeAffinity(Type):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = field(1)
