"""PersistentVolume: a piece of storage that exists beside the pods that use it."""

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
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Quantity, Time
from kapiserver.api.types import Kind, Type, field


class PersistentVolume(Kind):
    """A piece of storage in the cluster, made by an administrator or a provisioner."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. Persistent volumes have no namespace; provisioners name "
            "them pvc-UID."
        ),
    )
    spec: PersistentVolumeSpec = field(
        2, doc="Desired state of the volume: its size, access modes, source and reclaim policy."
    )
    status: PersistentVolumeStatus = field(
        3, doc="Observed state of the volume: its phase and why it is in it. Controllers set it."
    )


class PersistentVolumeSpec(Type):
    """Size, access modes, source and reclaim policy of a persistent volume."""

    capacity: dict[str, Quantity] = field(
        1,
        doc=(
            "Size of the volume under the key storage, for example 10Gi. It is required, and "
            "storage is the only key."
        ),
    )
    persistentVolumeSource: PersistentVolumeSource = field(2, inline=True)
    accessModes: list[str] = field(
        3,
        enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        doc=(
            "Ways the volume can be mounted: ReadWriteOnce (one node), ReadOnlyMany, "
            "ReadWriteMany (many nodes), ReadWriteOncePod (one pod, alone in the list)."
        ),
    )
    claimRef: ObjectReference | None = field(
        4,
        atomic=False,
        doc=(
            "Claim that the volume is bound to, or reserved for. A claim with another uid is not "
            "served. Set when a claim is bound."
        ),
    )
    persistentVolumeReclaimPolicy: str = field(
        5,
        enum=("Recycle", "Delete", "Retain"),
        doc=(
            "What happens when the claim is deleted: Retain keeps volume and data, Delete removes "
            "both, Recycle (deprecated) wipes the data. Default: Retain; provisioners set Delete."
        ),
    )
    storageClassName: str = field(
        6,
        doc=(
            "StorageClass of the volume. Only claims that name it can be bound. When empty: only "
            "claims without a class."
        ),
    )
    mountOptions: list[str] = field(
        7,
        doc=(
            "Options of the mount, for example ro or nfsvers=4.1. They are not checked here: a "
            "wrong one makes the mount fail."
        ),
    )
    volumeMode: str | None = field(
        8,
        enum=("Block", "Filesystem"),
        doc=(
            "Filesystem: containers see a directory. Block: containers see a raw block device. "
            "Default: Filesystem. It cannot change."
        ),
    )
    nodeAffinity: VolumeNodeAffinity | None = field(
        9,
        doc=(
            "Nodes from which the volume can be reached; pods that use it run there only. When "
            "absent: every node. Required for local volumes."
        ),
    )
    volumeAttributesClassName: str | None = field(
        10,
        doc=(
            "VolumeAttributesClass whose parameters the volume has. CSI volumes only. Once set, "
            "it may change but not be removed."
        ),
    )


class PersistentVolumeSource(Type):
    """Where the data of a persistent volume is. Exactly one source is set; it cannot change."""

    gcePersistentDisk: GCEPersistentDiskVolumeSource | None = field(
        1,
        doc=(
            "A Google Compute Engine disk. Deprecated: its CSI driver, pd.csi.storage.gke.io, "
            "serves the volume."
        ),
    )
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource | None = field(
        2,
        doc=(
            "An Amazon EBS volume. Deprecated: its CSI driver, ebs.csi.aws.com, serves the volume."
        ),
    )
    hostPath: HostPathVolumeSource | None = field(
        3,
        doc=(
            "A directory of a node, for tests on a single node. Pods on other nodes do not see "
            "the data. Prefer local."
        ),
    )
    glusterfs: GlusterfsPersistentVolumeSource | None = field(
        4, doc="A Gluster volume as the store. Deprecated: no longer works since Kubernetes 1.26."
    )
    nfs: NFSVolumeSource | None = field(
        5, doc="A directory of an NFS server, mounted by every node that needs it."
    )
    rbd: RBDPersistentVolumeSource | None = field(
        6,
        doc=(
            "A Ceph block device as the store. Deprecated: no longer works since Kubernetes 1.31; "
            "use a CSI driver."
        ),
    )
    iscsi: ISCSIPersistentVolumeSource | None = field(
        7, doc="An iSCSI disk that is attached to the node of the pod that uses it."
    )
    cinder: CinderPersistentVolumeSource | None = field(
        8,
        doc=(
            "An OpenStack Cinder volume. Deprecated: its CSI driver, cinder.csi.openstack.org, "
            "serves the volume."
        ),
    )
    cephfs: CephFSPersistentVolumeSource | None = field(
        9,
        doc=(
            "A CephFS directory as the store. Deprecated: no longer works since Kubernetes 1.31; "
            "use a CSI driver."
        ),
    )
    fc: FCVolumeSource | None = field(
        10, doc="A Fibre Channel disk that is attached to the node of the pod that uses it."
    )
    flocker: FlockerVolumeSource | None = field(
        11, doc="A Flocker dataset as the store. Deprecated: no longer works since Kubernetes 1.25."
    )
    flexVolume: FlexPersistentVolumeSource | None = field(
        12, doc="A volume that a driver program on each node mounts. Deprecated: use a CSI driver."
    )
    azureFile: AzureFilePersistentVolumeSource | None = field(
        13,
        doc=(
            "An Azure file share. Deprecated: its CSI driver, file.csi.azure.com, serves the "
            "volume."
        ),
    )
    vsphereVolume: VsphereVirtualDiskVolumeSource | None = field(
        14,
        doc=(
            "A virtual disk of vSphere. Deprecated: its CSI driver, csi.vsphere.vmware.com, "
            "serves the volume."
        ),
    )
    quobyte: QuobyteVolumeSource | None = field(
        15, doc="A Quobyte volume as the store. Deprecated: no longer works since Kubernetes 1.25."
    )
    azureDisk: AzureDiskVolumeSource | None = field(
        16,
        doc=(
            "A data disk of Azure. Deprecated: its CSI driver, disk.csi.azure.com, serves the "
            "volume."
        ),
    )
    photonPersistentDisk: PhotonPersistentDiskVolumeSource | None = field(
        17,
        doc=(
            "A disk of Photon Controller as the store. Deprecated: no longer works since "
            "Kubernetes 1.16."
        ),
    )
    portworxVolume: PortworxVolumeSource | None = field(
        18,
        doc="A Portworx volume. Deprecated: its CSI driver, pxd.portworx.com, serves the volume.",
    )
    scaleIO: ScaleIOPersistentVolumeSource | None = field(
        19, doc="A ScaleIO volume as the store. Deprecated: no longer works since Kubernetes 1.22."
    )
    local: LocalVolumeSource | None = field(
        20,
        doc=(
            "A disk, partition or directory of one node. The volume needs a nodeAffinity that "
            "selects this node."
        ),
    )
    storageos: StorageOSPersistentVolumeSource | None = field(
        21,
        doc="A StorageOS volume as the store. Deprecated: no longer works since Kubernetes 1.25.",
    )
    csi: CSIPersistentVolumeSource | None = field(
        22, doc="A volume that an external CSI driver manages. The usual choice."
    )


class PersistentVolumeStatus(Type):
    """Observed state of a persistent volume."""

    phase: str = field(
        1,
        enum=("Pending", "Available", "Bound", "Released", "Failed"),
        doc=(
            "Pending (not usable yet), Available (free), Bound (to a claim), Released (its claim "
            "is gone) or Failed (it could not be reclaimed)."
        ),
    )
    message: str = field(2, doc="Human-readable explanation of the volume's phase.")
    reason: str = field(3, doc="CamelCase code of why the volume failed.")
    lastPhaseTransitionTime: Time | None = field(
        4,
        doc=(
            "When the phase of the volume last changed. The server sets it to the creation time "
            "of a new volume."
        ),
    )


class VolumeNodeAffinity(Type):
    """The nodes from which a persistent volume can be reached."""

    required: NodeSelector | None = field(
        1, doc="Terms that select the nodes; a node must match one of them. It must be set."
    )
