"""Volume sources that a storage plugin or a CSI driver serves."""

from __future__ import annotations

from kapiserver.api.core.v1.references import LocalObjectReference, ObjectReference, SecretReference
from kapiserver.api.types import Type, field, int32


class NFSVolumeSource(Type):
    """A directory that an NFS server exports."""

    server: str = field(
        1, always=True, required=True, doc="Host name or IP address of the NFS server."
    )
    path: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Absolute path of the directory that the NFS server exports, for example /exports/data."
        ),
    )
    readOnly: bool = field(3, doc="Mount the NFS export read-only. Default: false.")


class CSIVolumeSource(Type):
    """A volume that a CSI driver creates for one pod and deletes with it."""

    driver: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the CSI driver, as its CSIDriver object and the node's CSINode list it. At "
            "most 63 characters."
        ),
    )
    readOnly: bool | None = field(2, doc="Mount the inline CSI volume read-only. Default: false.")
    fsType: str | None = field(
        3,
        doc="Filesystem to mount, for example ext4, xfs or ntfs. When absent, the driver chooses.",
    )
    volumeAttributes: dict[str, str] = field(
        4,
        doc=(
            "Settings that the CSI driver needs to create the volume. The documentation of the "
            "driver lists the keys."
        ),
    )
    nodePublishSecretRef: LocalObjectReference | None = field(
        5,
        doc=(
            "Secret in the pod's namespace that the node passes to the driver when it mounts and "
            "unmounts the volume. All keys of the secret are passed."
        ),
    )


class CSIPersistentVolumeSource(Type):
    """A persistent volume that a CSI driver manages."""

    driver: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the CSI driver that handles this volume. At most 63 characters.",
    )
    volumeHandle: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Identifier by which the CSI driver knows the volume. The driver returned it when it "
            "created the volume; it cannot change."
        ),
    )
    readOnly: bool = field(3, doc="Publish the CSI volume read-only to every node. Default: false.")
    fsType: str = field(
        4,
        doc=(
            "Filesystem that the driver formats and mounts, for example ext4 or xfs. When absent, "
            "the driver chooses."
        ),
    )
    volumeAttributes: dict[str, str] = field(
        5,
        doc=(
            "Static properties of the volume, passed to the driver whenever it publishes the "
            "volume to a node."
        ),
    )
    controllerPublishSecretRef: SecretReference | None = field(
        6,
        doc=(
            "Secret that is passed to the driver when it attaches the volume to a node and "
            "detaches it."
        ),
    )
    nodeStageSecretRef: SecretReference | None = field(
        7,
        doc=(
            "Secret that a node passes to the driver when it stages the volume, once per node, "
            "before any pod mounts it."
        ),
    )
    nodePublishSecretRef: SecretReference | None = field(
        8,
        doc=(
            "Secret that a node passes to the driver when it mounts the volume into a pod and "
            "unmounts it."
        ),
    )
    controllerExpandSecretRef: SecretReference | None = field(
        9,
        doc=(
            "Secret that is passed to the driver when its controller expands the volume. It can "
            "be added later, but not changed."
        ),
    )
    nodeExpandSecretRef: SecretReference | None = field(
        10,
        doc=(
            "Secret that a node passes to the driver when it expands the filesystem of the volume."
        ),
    )


class LocalVolumeSource(Type):
    """A disk, partition or directory of one node. The volume needs nodeAffinity."""

    path: str = field(
        1,
        always=True,
        required=True,
        doc='Path on the node: a directory or a block device. It must not contain "..".',
    )
    fsType: str | None = field(
        2,
        doc=(
            "Filesystem for a path that is a block device. When absent, the node detects it. It "
            "has no effect on a directory."
        ),
    )


class AWSElasticBlockStoreVolumeSource(Type):
    """An Amazon EBS volume. Deprecated: the CSI driver ebs.csi.aws.com serves it."""

    volumeID: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Identifier of the EBS volume in AWS, for example vol-0a1b2c3d4e5f60718. The node "
            "must be in the same zone."
        ),
    )
    fsType: str = field(
        2, doc="Filesystem of the EBS volume, for example ext4, xfs or ntfs. When absent: ext4."
    )
    partition: int32 = field(
        3,
        doc=(
            "Number of the partition to mount, 0 to 255, for example 1 for /dev/sda1. Default: 0, "
            "which mounts the whole EBS volume."
        ),
    )
    readOnly: bool = field(4, doc="Mount the EBS volume read-only. Default: false.")


class GCEPersistentDiskVolumeSource(Type):
    """A Google Compute Engine disk. Deprecated: pd.csi.storage.gke.io serves it."""

    pdName: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the persistent disk in Google Compute Engine. The node must be in the same "
            "project and zone."
        ),
    )
    fsType: str = field(
        2,
        doc="Filesystem of the persistent disk, for example ext4, xfs or ntfs. When absent: ext4.",
    )
    partition: int32 = field(
        3,
        doc=(
            "Number of the disk's partition to mount, 0 to 255. Default: 0, which mounts the "
            "whole persistent disk."
        ),
    )
    readOnly: bool = field(
        4,
        doc=(
            "Mount the persistent disk read-only. Several nodes can use the disk at once only in "
            "this mode. Default: false."
        ),
    )


class AzureDiskVolumeSource(Type):
    """A data disk of Azure. Deprecated: the CSI driver disk.csi.azure.com serves it."""

    diskName: str = field(1, always=True, required=True, doc="Name of the data disk in Azure.")
    diskURI: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "URI of the data disk. It begins with /subscriptions/ for kind Managed, and with "
            "https:// for Shared and Dedicated."
        ),
    )
    cachingMode: str | None = field(
        3,
        default="ReadWrite",
        enum=("None", "ReadOnly", "ReadWrite"),
        doc="Host caching of the disk: None, ReadOnly or ReadWrite. Default: ReadWrite.",
    )
    fsType: str | None = field(
        4,
        default="ext4",
        doc="Filesystem of the Azure disk, for example ext4, xfs or ntfs. Default: ext4.",
    )
    readOnly: bool | None = field(
        5, default=False, doc="Mount the Azure disk read-only. Default: false."
    )
    kind: str | None = field(
        6,
        default="Shared",
        enum=("Shared", "Dedicated", "Managed"),
        doc=(
            "Shared: a blob in an account with other disks. Dedicated: a blob in an account of "
            "its own. Managed: a managed disk. Default: Shared."
        ),
    )


class AzureFileVolumeSource(Type):
    """An Azure file share for a pod. Deprecated: file.csi.azure.com serves it."""

    secretName: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Secret in the pod's namespace with the name and the key of the Azure storage account."
        ),
    )
    shareName: str = field(
        2, always=True, required=True, doc="Name of the Azure file share that the pod mounts."
    )
    readOnly: bool = field(
        3, doc="Mount the Azure file share read-only in the pod. Default: false."
    )


class AzureFilePersistentVolumeSource(Type):
    """An Azure file share as a persistent volume. Deprecated: use its CSI driver."""

    secretName: str = field(
        1,
        always=True,
        required=True,
        doc="Secret with the name and the key of the Azure storage account.",
    )
    shareName: str = field(
        2,
        always=True,
        required=True,
        doc="Name of the Azure file share behind the persistent volume.",
    )
    readOnly: bool = field(
        3,
        doc=(
            "Mount the Azure file share read-only for every pod that uses the volume. Default: "
            "false."
        ),
    )
    secretNamespace: str | None = field(
        4,
        always=True,
        doc=(
            "Namespace of the secret. When absent: the namespace of the claim that is bound to "
            "the volume. It must not be empty."
        ),
    )


class CephFSVolumeSource(Type):
    """A CephFS directory for a pod. Deprecated: no longer works since Kubernetes 1.31."""

    monitors: list[str] = field(
        1,
        always=True,
        required=True,
        doc="Addresses of the Ceph monitors, at least one, for example 10.16.154.78:6789.",
    )
    path: str = field(
        2, doc="Directory of the CephFS tree that the pod mounts. When absent: / (the whole tree)."
    )
    user: str = field(3, doc="Ceph user that mounts the directory. When absent: admin.")
    secretFile: str = field(
        4,
        doc=(
            "File on the node with the key of the Ceph user. When absent: /etc/ceph/user.secret. "
            "secretRef overrides it."
        ),
    )
    secretRef: LocalObjectReference | None = field(
        5,
        doc=(
            "Secret in the pod's namespace with the key of the Ceph user. It overrides secretFile."
        ),
    )
    readOnly: bool = field(
        6, doc="Mount the CephFS directory read-only in the pod. Default: false."
    )


class CephFSPersistentVolumeSource(Type):
    """A CephFS directory as a persistent volume. It no longer works since Kubernetes 1.31."""

    monitors: list[str] = field(
        1,
        always=True,
        required=True,
        doc="Addresses of the Ceph monitors that the nodes contact, at least one.",
    )
    path: str = field(
        2,
        doc="Directory of the CephFS tree that the volume holds. When absent: / (the whole tree).",
    )
    user: str = field(3, doc="Ceph user that mounts the volume. When absent: admin.")
    secretFile: str = field(
        4,
        doc=(
            "File on the node with the key of the volume's Ceph user. When absent: "
            "/etc/ceph/user.secret. secretRef overrides it."
        ),
    )
    secretRef: SecretReference | None = field(
        5,
        doc=(
            "Secret with the key of the volume's Ceph user, in any namespace. It overrides "
            "secretFile."
        ),
    )
    readOnly: bool = field(
        6,
        doc=(
            "Mount the CephFS directory read-only for every pod that uses the volume. Default: "
            "false."
        ),
    )


class CinderVolumeSource(Type):
    """An OpenStack Cinder volume for a pod. Deprecated: its CSI driver serves it."""

    volumeID: str = field(
        1, always=True, required=True, doc="Identifier of the Cinder volume that the pod mounts."
    )
    fsType: str = field(
        2, doc="Filesystem of the pod's Cinder volume, for example ext4 or xfs. When absent: ext4."
    )
    readOnly: bool = field(3, doc="Mount the Cinder volume read-only in the pod. Default: false.")
    secretRef: LocalObjectReference | None = field(
        4, doc="Secret in the pod's namespace with the parameters that connect to OpenStack."
    )


class CinderPersistentVolumeSource(Type):
    """An OpenStack Cinder volume as a persistent volume. Deprecated: use its CSI driver."""

    volumeID: str = field(
        1,
        always=True,
        required=True,
        doc="Identifier of the Cinder volume behind the persistent volume.",
    )
    fsType: str = field(
        2, doc="Filesystem of the Cinder volume, for example ext4 or xfs. When absent: ext4."
    )
    readOnly: bool = field(
        3, doc="Mount the Cinder volume read-only for every pod that uses it. Default: false."
    )
    secretRef: SecretReference | None = field(
        4,
        doc=(
            "Secret with the parameters that connect to OpenStack. Its name and namespace are "
            "both required."
        ),
    )


class FCVolumeSource(Type):
    """A disk that nodes reach over Fibre Channel."""

    targetWWNs: list[str] = field(
        1,
        doc=(
            "World wide names of the Fibre Channel targets. Needs lun. Set either this list or "
            "wwids."
        ),
    )
    lun: int32 | None = field(
        2, doc="Number of the logical unit on the targets, 0 to 255. Required with targetWWNs."
    )
    fsType: str = field(
        3,
        doc=(
            "Filesystem of the Fibre Channel disk, for example ext4, xfs or ntfs. When absent: "
            "ext4."
        ),
    )
    readOnly: bool = field(4, doc="Mount the Fibre Channel disk read-only. Default: false.")
    wwids: list[str] = field(
        5, doc="World wide identifiers of the volume. Set either this list or targetWWNs with lun."
    )


class FlexVolumeSource(Type):
    """A volume for a pod that a Flex driver mounts. Deprecated: use a CSI driver."""

    driver: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the Flex driver that is installed on the node, for example example.com/lvm.",
    )
    fsType: str = field(
        2,
        doc=(
            "Filesystem for the Flex driver to mount in the pod. When absent, the driver's script "
            "chooses."
        ),
    )
    secretRef: LocalObjectReference | None = field(
        3, doc="Secret in the pod's namespace whose keys are all passed to the Flex driver."
    )
    readOnly: bool = field(4, doc="Mount the Flex volume read-only in the pod. Default: false.")
    options: dict[str, str] = field(
        5,
        doc=(
            "Further options for the Flex driver. Keys in the domains kubernetes.io and k8s.io "
            "are reserved."
        ),
    )


class FlexPersistentVolumeSource(Type):
    """A persistent volume that a Flex driver mounts. Deprecated: use a CSI driver."""

    driver: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the Flex driver that mounts the volume. It must be installed on every node "
            "that uses the volume."
        ),
    )
    fsType: str = field(
        2, doc="Filesystem of the persistent volume. When absent, the Flex driver's script chooses."
    )
    secretRef: SecretReference | None = field(
        3, doc="Secret, in any namespace, whose keys are all passed to the Flex driver."
    )
    readOnly: bool = field(
        4, doc="Mount the Flex volume read-only for every pod that uses it. Default: false."
    )
    options: dict[str, str] = field(
        5,
        doc=(
            "Further options for the Flex driver of the persistent volume. Keys in kubernetes.io "
            "and k8s.io are reserved."
        ),
    )


class FlockerVolumeSource(Type):
    """A dataset of Flocker. Deprecated: no longer works since Kubernetes 1.25."""

    datasetName: str = field(
        1,
        doc=(
            'Name of the Flocker dataset, without "/". Deprecated: use datasetUUID. Set either '
            "this field or datasetUUID."
        ),
    )
    datasetUUID: str = field(
        2,
        doc="UUID of the Flocker dataset. Exactly one of datasetName and datasetUUID is required.",
    )


class GlusterfsVolumeSource(Type):
    """A Gluster volume for a pod. Deprecated: no longer works since Kubernetes 1.26."""

    endpoints: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the Endpoints object in the pod's namespace that lists the Gluster servers.",
    )
    path: str = field(
        2, always=True, required=True, doc="Name of the Gluster volume that the pod mounts."
    )
    readOnly: bool = field(3, doc="Mount the Gluster volume read-only in the pod. Default: false.")


class GlusterfsPersistentVolumeSource(Type):
    """A Gluster volume as a persistent volume. It no longer works since 1.26."""

    endpoints: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the Endpoints object that lists the Gluster servers of the persistent volume."
        ),
    )
    path: str = field(
        2,
        always=True,
        required=True,
        doc="Name of the Gluster volume behind the persistent volume.",
    )
    readOnly: bool = field(
        3, doc="Mount the Gluster volume read-only for every pod that uses it. Default: false."
    )
    endpointsNamespace: str | None = field(
        4,
        doc=(
            "Namespace of the Endpoints object. When absent: the namespace of the claim that is "
            "bound to the volume."
        ),
    )


class ISCSIVolumeSource(Type):
    """A disk for a pod that nodes reach over iSCSI."""

    targetPortal: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Address of the iSCSI portal: IP address or host name, with a port unless it is the "
            "default, 3260."
        ),
    )
    iqn: str = field(
        2,
        always=True,
        required=True,
        doc="Qualified name of the iSCSI target; it begins with iqn, eui or naa.",
    )
    lun: int32 = field(
        3,
        always=True,
        required=True,
        doc="Number of the logical unit on the iSCSI target, 0 to 255.",
    )
    iscsiInterface: str = field(
        4,
        default="default",
        doc="iSCSI interface of the node that the session uses. Default: default, which is TCP.",
    )
    fsType: str = field(
        5,
        doc=(
            "Filesystem of the pod's iSCSI disk, for example ext4, xfs or ntfs. When absent: ext4."
        ),
    )
    readOnly: bool = field(6, doc="Mount the iSCSI disk read-only in the pod. Default: false.")
    portals: list[str] = field(
        7,
        doc=(
            "Further portals of the same target, for multipath: IP address or host name, with a "
            "port unless it is 3260."
        ),
    )
    chapAuthDiscovery: bool = field(
        8,
        doc=(
            "Authenticate with CHAP when the node discovers targets. Needs secretRef. Default: "
            "false."
        ),
    )
    chapAuthSession: bool = field(
        11,
        doc=(
            "Authenticate with CHAP when the node opens a session. Needs secretRef. Default: false."
        ),
    )
    secretRef: LocalObjectReference | None = field(
        10,
        doc=(
            "Secret in the pod's namespace with the CHAP credentials. Required with "
            "chapAuthDiscovery or chapAuthSession."
        ),
    )
    initiatorName: str | None = field(
        12,
        doc=(
            "Initiator name of the node for this session; it begins with iqn, eui or naa. When "
            "absent: the one of iscsiInterface."
        ),
    )


class ISCSIPersistentVolumeSource(Type):
    """An iSCSI disk as a persistent volume."""

    targetPortal: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Address of the iSCSI portal that serves the persistent volume, with a port unless it "
            "is the default, 3260."
        ),
    )
    iqn: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Qualified name of the volume's iSCSI target, for example "
            "iqn.2025-01.com.example:disk1."
        ),
    )
    lun: int32 = field(
        3,
        always=True,
        required=True,
        doc="Number of the volume's logical unit on the iSCSI target, 0 to 255.",
    )
    iscsiInterface: str = field(
        4,
        default="default",
        doc=(
            "iSCSI interface of the nodes for sessions to the volume. Default: default, which is "
            "TCP."
        ),
    )
    fsType: str = field(
        5,
        doc=(
            "Filesystem of the volume's iSCSI disk, for example ext4, xfs or ntfs. When absent: "
            "ext4."
        ),
    )
    readOnly: bool = field(
        6, doc="Mount the iSCSI disk read-only for every pod that uses the volume. Default: false."
    )
    portals: list[str] = field(
        7,
        doc=(
            "Further portals of the volume's target, for multipath, with a port unless it is 3260."
        ),
    )
    chapAuthDiscovery: bool = field(
        8,
        doc=(
            "Authenticate with CHAP when a node discovers the volume's target. Needs secretRef. "
            "Default: false."
        ),
    )
    chapAuthSession: bool = field(
        11,
        doc=(
            "Authenticate with CHAP when a node opens a session to the volume. Needs secretRef. "
            "Default: false."
        ),
    )
    secretRef: SecretReference | None = field(
        10,
        doc=(
            "Secret, in any namespace, with the CHAP credentials. Required with chapAuthDiscovery "
            "or chapAuthSession."
        ),
    )
    initiatorName: str | None = field(
        12,
        doc=(
            "Initiator name for sessions to the volume; it begins with iqn, eui or naa. When "
            "absent: the one of iscsiInterface."
        ),
    )


class PhotonPersistentDiskVolumeSource(Type):
    """A Photon Controller disk. Deprecated: no longer works since Kubernetes 1.16."""

    pdID: str = field(
        1, always=True, required=True, doc="Identifier of the persistent disk in Photon Controller."
    )
    fsType: str = field(
        2, doc="Filesystem of the Photon disk, for example ext4, xfs or ntfs. When absent: ext4."
    )


class PortworxVolumeSource(Type):
    """A Portworx volume. Deprecated: the CSI driver pxd.portworx.com serves it."""

    volumeID: str = field(
        1, always=True, required=True, doc="Identifier of the volume in Portworx."
    )
    fsType: str = field(
        2, doc="Filesystem of the Portworx volume, for example ext4 or xfs. When absent: ext4."
    )
    readOnly: bool = field(3, doc="Mount the Portworx volume read-only. Default: false.")


class QuobyteVolumeSource(Type):
    """A Quobyte volume. Deprecated: no longer works since Kubernetes 1.25."""

    registry: str = field(
        1,
        always=True,
        required=True,
        doc="Registries of the Quobyte cluster as host:port, separated by commas.",
    )
    volume: str = field(2, always=True, required=True, doc="Name of an existing Quobyte volume.")
    readOnly: bool = field(3, doc="Mount the Quobyte volume read-only. Default: false.")
    user: str = field(
        4,
        doc=(
            "User that owns what the pod writes to the Quobyte volume. When absent: the user of "
            "the service account."
        ),
    )
    group: str = field(
        5, doc="Group that owns what the pod writes to the Quobyte volume. When absent: no group."
    )
    tenant: str = field(
        6,
        doc=(
            "Quobyte tenant that owns the volume, as a UUID of at most 64 characters. "
            "Provisioners set it."
        ),
    )


class RBDVolumeSource(Type):
    """A Ceph block device for a pod. Deprecated: no longer works since Kubernetes 1.31."""

    monitors: list[str] = field(
        1,
        always=True,
        required=True,
        doc="Addresses of the Ceph monitors that know the block device, at least one.",
    )
    image: str = field(
        2, always=True, required=True, doc="Name of the RBD image that the pod mounts."
    )
    fsType: str = field(
        3, doc="Filesystem of the pod's RBD image, for example ext4 or xfs. When absent: ext4."
    )
    pool: str = field(
        4, default="rbd", doc="Ceph pool with the RBD image of the pod. Default: rbd."
    )
    user: str = field(
        5, default="admin", doc="Ceph user that maps the pod's RBD image. Default: admin."
    )
    keyring: str = field(
        6,
        default="/etc/ceph/keyring",
        doc=(
            "Keyring file on the node for the Ceph user of the pod's image. Default: "
            "/etc/ceph/keyring. secretRef overrides it."
        ),
    )
    secretRef: LocalObjectReference | None = field(
        7, doc="Secret in the pod's namespace with the key of the Ceph user. It overrides keyring."
    )
    readOnly: bool = field(8, doc="Mount the RBD image read-only in the pod. Default: false.")


class RBDPersistentVolumeSource(Type):
    """A Ceph block device as a persistent volume. It no longer works since 1.31."""

    monitors: list[str] = field(
        1,
        always=True,
        required=True,
        doc="Addresses of the Ceph monitors that know the volume's block device, at least one.",
    )
    image: str = field(
        2, always=True, required=True, doc="Name of the RBD image behind the persistent volume."
    )
    fsType: str = field(
        3, doc="Filesystem of the volume's RBD image, for example ext4 or xfs. When absent: ext4."
    )
    pool: str = field(
        4, default="rbd", doc="Ceph pool with the RBD image of the persistent volume. Default: rbd."
    )
    user: str = field(
        5,
        default="admin",
        doc="Ceph user that maps the RBD image of the persistent volume. Default: admin.",
    )
    keyring: str = field(
        6,
        default="/etc/ceph/keyring",
        doc=(
            "Keyring file on each node for the volume's Ceph user. Default: /etc/ceph/keyring. "
            "secretRef overrides it."
        ),
    )
    secretRef: SecretReference | None = field(
        7,
        doc=(
            "Secret, in any namespace, with the key of the volume's Ceph user. It overrides "
            "keyring."
        ),
    )
    readOnly: bool = field(
        8, doc="Mount the RBD image read-only for every pod that uses the volume. Default: false."
    )


class ScaleIOVolumeSource(Type):
    """A ScaleIO volume for a pod. Deprecated: no longer works since Kubernetes 1.22."""

    gateway: str = field(
        1,
        always=True,
        required=True,
        doc="Address of the ScaleIO gateway: host and port of its API.",
    )
    system: str = field(2, always=True, required=True, doc="Name of the ScaleIO storage system.")
    secretRef: LocalObjectReference | None = field(
        3,
        always=True,
        required=True,
        doc="Secret in the pod's namespace with the user and password for the ScaleIO gateway.",
    )
    sslEnabled: bool = field(
        4, doc="Use TLS between the node and the ScaleIO gateway. Default: false."
    )
    protectionDomain: str = field(
        5, doc="Name of the ScaleIO protection domain with the pod's volume."
    )
    storagePool: str = field(
        6, doc="Name of the storage pool within the protection domain of the pod's volume."
    )
    storageMode: str = field(
        7,
        default="ThinProvisioned",
        doc=(
            "Provisioning of the pod's ScaleIO volume: ThickProvisioned or ThinProvisioned. "
            "Default: ThinProvisioned."
        ),
    )
    volumeName: str = field(
        8, doc="Name of the existing ScaleIO volume that the pod mounts. It is required."
    )
    fsType: str = field(
        9,
        default="xfs",
        doc="Filesystem of the pod's ScaleIO volume, for example xfs or ext4. Default: xfs.",
    )
    readOnly: bool = field(10, doc="Mount the ScaleIO volume read-only in the pod. Default: false.")


class ScaleIOPersistentVolumeSource(Type):
    """A ScaleIO volume as a persistent volume. It no longer works since Kubernetes 1.22."""

    gateway: str = field(
        1,
        always=True,
        required=True,
        doc="Address of the ScaleIO gateway that serves the volume: host and port of its API.",
    )
    system: str = field(
        2,
        always=True,
        required=True,
        doc="Name of the ScaleIO storage system with the persistent volume.",
    )
    secretRef: SecretReference | None = field(
        3,
        always=True,
        required=True,
        doc="Secret, in any namespace, with the user and password for the ScaleIO gateway.",
    )
    sslEnabled: bool = field(
        4, doc="Use TLS between the nodes and the ScaleIO gateway of the volume. Default: false."
    )
    protectionDomain: str = field(
        5, doc="Name of the ScaleIO protection domain with the persistent volume."
    )
    storagePool: str = field(
        6, doc="Name of the storage pool within the protection domain of the persistent volume."
    )
    storageMode: str = field(
        7,
        default="ThinProvisioned",
        doc=(
            "Provisioning of the persistent ScaleIO volume: ThickProvisioned or ThinProvisioned. "
            "Default: ThinProvisioned."
        ),
    )
    volumeName: str = field(
        8, doc="Name of the existing ScaleIO volume behind the persistent volume. It is required."
    )
    fsType: str = field(
        9,
        default="xfs",
        doc="Filesystem of the persistent ScaleIO volume, for example xfs or ext4. Default: xfs.",
    )
    readOnly: bool = field(
        10, doc="Mount the ScaleIO volume read-only for every pod that uses it. Default: false."
    )


class StorageOSVolumeSource(Type):
    """A StorageOS volume for a pod. Deprecated: no longer works since Kubernetes 1.25."""

    volumeName: str = field(
        1,
        doc=(
            "Name of the StorageOS volume that the pod mounts: a DNS label, unique in its "
            "StorageOS namespace."
        ),
    )
    volumeNamespace: str = field(
        2, doc="StorageOS namespace of the pod's volume. When absent: the namespace of the pod."
    )
    fsType: str = field(
        3,
        doc=(
            "Filesystem of the pod's StorageOS volume, for example ext4 or xfs. When absent: ext4."
        ),
    )
    readOnly: bool = field(
        4, doc="Mount the StorageOS volume read-only in the pod. Default: false."
    )
    secretRef: LocalObjectReference | None = field(
        5,
        doc=(
            "Secret in the pod's namespace with the StorageOS credentials. When absent, the node "
            "uses defaults."
        ),
    )


class StorageOSPersistentVolumeSource(Type):
    """A StorageOS volume as a persistent volume. It no longer works since 1.25."""

    volumeName: str = field(
        1,
        doc=(
            "Name of the StorageOS volume behind the persistent volume: a DNS label, unique in "
            "its StorageOS namespace."
        ),
    )
    volumeNamespace: str = field(
        2,
        doc=(
            "StorageOS namespace of the persistent volume. When absent: the namespace of the pod "
            "that uses it."
        ),
    )
    fsType: str = field(
        3,
        doc=(
            "Filesystem of the persistent StorageOS volume, for example ext4 or xfs. When absent: "
            "ext4."
        ),
    )
    readOnly: bool = field(
        4, doc="Mount the StorageOS volume read-only for every pod that uses it. Default: false."
    )
    secretRef: ObjectReference | None = field(
        5, doc="Secret with the StorageOS credentials. Its name and namespace are both required."
    )


class VsphereVirtualDiskVolumeSource(Type):
    """A virtual disk of vSphere. Deprecated: csi.vsphere.vmware.com serves it."""

    volumePath: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Path of the virtual disk in its datastore, for example [datastore1] "
            "volumes/disk1.vmdk."
        ),
    )
    fsType: str = field(
        2, doc="Filesystem of the virtual disk, for example ext4, xfs or ntfs. When absent: ext4."
    )
    storagePolicyName: str = field(
        3, doc="Name of the vSphere storage policy that the virtual disk was created with."
    )
    storagePolicyID: str = field(
        4, doc="Identifier of the vSphere storage policy that storagePolicyName names."
    )
