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

    capacity: dict[str, Quantity] = field(1, doc="How much there is.")
    persistentVolumeSource: PersistentVolumeSource = field(2, inline=True)
    accessModes: list[str] = field(
        3,
        enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        doc="How it may be mounted.",
    )
    claimRef: ObjectReference | None = field(4, atomic=False, doc="The claim it is bound to.")
    persistentVolumeReclaimPolicy: str = field(
        5, enum=("Recycle", "Delete", "Retain"), doc="Retain, Delete or Recycle once released."
    )
    storageClassName: str = field(6, doc="The storage class, by name.")
    mountOptions: list[str] = field(7, doc="Options of the mount.")
    volumeMode: str | None = field(8, enum=("Block", "Filesystem"), doc="Filesystem or Block.")
    nodeAffinity: VolumeNodeAffinity | None = field(9, doc="Nodes that reach it.")
    volumeAttributesClassName: str | None = field(10, doc="The class of its attributes.")


class PersistentVolumeSource(Type):
    """The one place a persistent volume's content is kept."""

    gcePersistentDisk: GCEPersistentDiskVolumeSource | None = field(
        1, doc="A disk of Google Compute Engine."
    )
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource | None = field(2, doc="A disk of AWS.")
    hostPath: HostPathVolumeSource | None = field(3, doc="A file or folder of the node.")
    glusterfs: GlusterfsPersistentVolumeSource | None = field(4, doc="A volume of Glusterfs.")
    nfs: NFSVolumeSource | None = field(5, doc="A folder of an NFS server.")
    rbd: RBDPersistentVolumeSource | None = field(6, doc="A block device of Ceph.")
    iscsi: ISCSIPersistentVolumeSource | None = field(7, doc="A disk reached over iSCSI.")
    cinder: CinderPersistentVolumeSource | None = field(8, doc="A disk of OpenStack.")
    cephfs: CephFSPersistentVolumeSource | None = field(9, doc="A folder of Ceph.")
    fc: FCVolumeSource | None = field(10, doc="A disk reached over Fibre Channel.")
    flocker: FlockerVolumeSource | None = field(11, doc="A volume of Flocker.")
    flexVolume: FlexPersistentVolumeSource | None = field(
        12, doc="A volume of a program on the node."
    )
    azureFile: AzureFilePersistentVolumeSource | None = field(13, doc="A file share of Azure.")
    vsphereVolume: VsphereVirtualDiskVolumeSource | None = field(14, doc="A disk of vSphere.")
    quobyte: QuobyteVolumeSource | None = field(15, doc="A volume of Quobyte.")
    azureDisk: AzureDiskVolumeSource | None = field(16, doc="A disk of Azure.")
    photonPersistentDisk: PhotonPersistentDiskVolumeSource | None = field(
        17, doc="A disk of Photon."
    )
    portworxVolume: PortworxVolumeSource | None = field(18, doc="A volume of Portworx.")
    scaleIO: ScaleIOPersistentVolumeSource | None = field(19, doc="A volume of ScaleIO.")
    local: LocalVolumeSource | None = field(20, doc="A disk of one node.")
    storageos: StorageOSPersistentVolumeSource | None = field(21, doc="A volume of StorageOS.")
    csi: CSIPersistentVolumeSource | None = field(22, doc="A volume of a CSI driver.")


class PersistentVolumeStatus(Type):
    """What is known of a persistent volume."""

    phase: str = field(
        1,
        enum=("Pending", "Available", "Bound", "Released", "Failed"),
        doc="Pending, Available, Bound, Released or Failed.",
    )
    message: str = field(2, doc="What happened, for people.")
    reason: str = field(3, doc="Why, in one word for programs.")
    lastPhaseTransitionTime: Time | None = field(4, doc="When the phase last changed.")


class VolumeNodeAffinity(Type):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = field(1, doc="What the node must be.")
