"""Volumes by the kind of storage behind them."""

from __future__ import annotations

from kapiserver.api.core.v1.references import LocalObjectReference, ObjectReference, SecretReference
from kapiserver.api.types import Type, field, int32


class NFSVolumeSource(Type):
    """An NFS export."""

    server: str = field(1, always=True, required=True, doc="The server.")
    path: str = field(2, always=True, required=True, doc="Where it is.")
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")


class CSIVolumeSource(Type):
    """A volume that a CSI driver makes for the pod."""

    driver: str = field(1, always=True, required=True, doc="The driver that it belongs to.")
    readOnly: bool | None = field(2, doc="Whether nothing may be written to it.")
    fsType: str | None = field(3, doc="The file system to mount, as ext4.")
    volumeAttributes: dict[str, str] = field(4, doc="What the driver is told of the volume.")
    nodePublishSecretRef: LocalObjectReference | None = field(
        5, doc="The secret with which the volume is mounted in a pod."
    )


class CSIPersistentVolumeSource(Type):
    """A volume that a CSI driver manages."""

    driver: str = field(1, always=True, required=True, doc="The driver that it belongs to.")
    volumeHandle: str = field(
        2, always=True, required=True, doc="The volume, as the driver names it."
    )
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")
    fsType: str = field(4, doc="The file system to mount, as ext4.")
    volumeAttributes: dict[str, str] = field(5, doc="What the driver is told of the volume.")
    controllerPublishSecretRef: SecretReference | None = field(
        6, doc="The secret with which it is attached."
    )
    nodeStageSecretRef: SecretReference | None = field(
        7, doc="The secret with which a node prepares it."
    )
    nodePublishSecretRef: SecretReference | None = field(
        8, doc="The secret with which the volume is mounted in a pod."
    )
    controllerExpandSecretRef: SecretReference | None = field(
        9, doc="The secret with which it grows."
    )
    nodeExpandSecretRef: SecretReference | None = field(
        10, doc="The secret with which it grows on a node."
    )


class LocalVolumeSource(Type):
    """A disk or directory attached to one node."""

    path: str = field(1, always=True, required=True, doc="Where it is.")
    fsType: str | None = field(2, doc="The file system to mount, as ext4.")


class AWSElasticBlockStoreVolumeSource(Type):
    """A disk of Amazon EBS."""

    volumeID: str = field(1, always=True, required=True, doc="The volume, as its system names it.")
    fsType: str = field(2, doc="The file system to mount, as ext4.")
    partition: int32 = field(3, doc="The number of the partition; 0: all of the disk.")
    readOnly: bool = field(4, doc="Whether nothing may be written to it.")


class GCEPersistentDiskVolumeSource(Type):
    """A persistent disk of Google Compute Engine."""

    pdName: str = field(1, always=True, required=True, doc="The disk, by name.")
    fsType: str = field(2, doc="The file system to mount, as ext4.")
    partition: int32 = field(3, doc="The number of the partition; 0: all of the disk.")
    readOnly: bool = field(4, doc="Whether nothing may be written to it.")


class AzureDiskVolumeSource(Type):
    """A disk of Azure."""

    diskName: str = field(1, always=True, required=True, doc="The disk, by name.")
    diskURI: str = field(2, always=True, required=True, doc="The disk, by URI.")
    cachingMode: str | None = field(
        3,
        default="ReadWrite",
        enum=("None", "ReadOnly", "ReadWrite"),
        doc="None, ReadOnly or ReadWrite.",
    )
    fsType: str | None = field(4, default="ext4", doc="The file system to mount, as ext4.")
    readOnly: bool | None = field(5, default=False, doc="Whether nothing may be written to it.")
    kind: str | None = field(
        6,
        default="Shared",
        enum=("Shared", "Dedicated", "Managed"),
        doc="Shared, Dedicated or Managed.",
    )


class AzureFileVolumeSource(Type):
    """A file share of Azure, secret in the pod's namespace."""

    secretName: str = field(1, always=True, required=True, doc="The secret, by name.")
    shareName: str = field(2, always=True, required=True, doc="The share, by name.")
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")


class AzureFilePersistentVolumeSource(Type):
    """A file share of Azure, secret in any namespace."""

    secretName: str = field(1, always=True, required=True, doc="The secret, by name.")
    shareName: str = field(2, always=True, required=True, doc="The share, by name.")
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")
    secretNamespace: str | None = field(4, always=True, doc="The namespace of the secret.")


class CephFSVolumeSource(Type):
    """A Ceph file system, secret in the pod's namespace."""

    monitors: list[str] = field(1, always=True, required=True, doc="Addresses of the monitors.")
    path: str = field(2, doc="Where it is.")
    user: str = field(3, doc="Who it is.")
    secretFile: str = field(4, doc="The file with the key.")
    secretRef: LocalObjectReference | None = field(
        5, doc="The secret with what is needed to log in."
    )
    readOnly: bool = field(6, doc="Whether nothing may be written to it.")


class CephFSPersistentVolumeSource(Type):
    """A Ceph file system, secret in any namespace."""

    monitors: list[str] = field(1, always=True, required=True, doc="Addresses of the monitors.")
    path: str = field(2, doc="Where it is.")
    user: str = field(3, doc="Who it is.")
    secretFile: str = field(4, doc="The file with the key.")
    secretRef: SecretReference | None = field(5, doc="The secret with what is needed to log in.")
    readOnly: bool = field(6, doc="Whether nothing may be written to it.")


class CinderVolumeSource(Type):
    """A block device of OpenStack Cinder, secret in the pod's namespace."""

    volumeID: str = field(1, always=True, required=True, doc="The volume, as its system names it.")
    fsType: str = field(2, doc="The file system to mount, as ext4.")
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")
    secretRef: LocalObjectReference | None = field(
        4, doc="The secret with what is needed to log in."
    )


class CinderPersistentVolumeSource(Type):
    """A block device of OpenStack Cinder, secret in any namespace."""

    volumeID: str = field(1, always=True, required=True, doc="The volume, as its system names it.")
    fsType: str = field(2, doc="The file system to mount, as ext4.")
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")
    secretRef: SecretReference | None = field(4, doc="The secret with what is needed to log in.")


class FCVolumeSource(Type):
    """A Fibre Channel disk."""

    targetWWNs: list[str] = field(1, doc="World wide names of the targets.")
    lun: int32 | None = field(2, doc="The number of the logical unit.")
    fsType: str = field(3, doc="The file system to mount, as ext4.")
    readOnly: bool = field(4, doc="Whether nothing may be written to it.")
    wwids: list[str] = field(5, doc="World wide ids of the volumes.")


class FlexVolumeSource(Type):
    """A volume of a Flex driver, secret in the pod's namespace."""

    driver: str = field(1, always=True, required=True, doc="The driver that it belongs to.")
    fsType: str = field(2, doc="The file system to mount, as ext4.")
    secretRef: LocalObjectReference | None = field(
        3, doc="The secret with what is needed to log in."
    )
    readOnly: bool = field(4, doc="Whether nothing may be written to it.")
    options: dict[str, str] = field(5, doc="Further options, for the driver.")


class FlexPersistentVolumeSource(Type):
    """A volume of a Flex driver, secret in any namespace."""

    driver: str = field(1, always=True, required=True, doc="The driver that it belongs to.")
    fsType: str = field(2, doc="The file system to mount, as ext4.")
    secretRef: SecretReference | None = field(3, doc="The secret with what is needed to log in.")
    readOnly: bool = field(4, doc="Whether nothing may be written to it.")
    options: dict[str, str] = field(5, doc="Further options, for the driver.")


class FlockerVolumeSource(Type):
    """A dataset of the Flocker agent."""

    datasetName: str = field(1, doc="Deprecated: the data set, by name.")
    datasetUUID: str = field(2, doc="The data set, by uid.")


class GlusterfsVolumeSource(Type):
    """A Gluster volume."""

    endpoints: str = field(
        1, always=True, required=True, doc="The endpoints object with its servers."
    )
    path: str = field(2, always=True, required=True, doc="Where it is.")
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")


class GlusterfsPersistentVolumeSource(Type):
    """A Gluster volume, endpoints in any namespace."""

    endpoints: str = field(
        1, always=True, required=True, doc="The endpoints object with its servers."
    )
    path: str = field(2, always=True, required=True, doc="Where it is.")
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")
    endpointsNamespace: str | None = field(4, doc="The namespace of the endpoints.")


class ISCSIVolumeSource(Type):
    """An iSCSI disk, secret in the pod's namespace."""

    targetPortal: str = field(1, always=True, required=True, doc="Address of the portal.")
    iqn: str = field(2, always=True, required=True, doc="The qualified name of the target.")
    lun: int32 = field(3, always=True, required=True, doc="The number of the logical unit.")
    iscsiInterface: str = field(4, default="default", doc="The interface to use.")
    fsType: str = field(5, doc="The file system to mount, as ext4.")
    readOnly: bool = field(6, doc="Whether nothing may be written to it.")
    portals: list[str] = field(7, doc="Addresses of further portals.")
    chapAuthDiscovery: bool = field(8, doc="Whether finding the portals takes a password.")
    chapAuthSession: bool = field(11, doc="Whether a session takes a password.")
    secretRef: LocalObjectReference | None = field(
        10, doc="The secret with what is needed to log in."
    )
    initiatorName: str | None = field(12, doc="The name of this end.")


class ISCSIPersistentVolumeSource(Type):
    """An iSCSI disk, secret in any namespace."""

    targetPortal: str = field(1, always=True, required=True, doc="Address of the portal.")
    iqn: str = field(2, always=True, required=True, doc="The qualified name of the target.")
    lun: int32 = field(3, always=True, required=True, doc="The number of the logical unit.")
    iscsiInterface: str = field(4, default="default", doc="The interface to use.")
    fsType: str = field(5, doc="The file system to mount, as ext4.")
    readOnly: bool = field(6, doc="Whether nothing may be written to it.")
    portals: list[str] = field(7, doc="Addresses of further portals.")
    chapAuthDiscovery: bool = field(8, doc="Whether finding the portals takes a password.")
    chapAuthSession: bool = field(11, doc="Whether a session takes a password.")
    secretRef: SecretReference | None = field(10, doc="The secret with what is needed to log in.")
    initiatorName: str | None = field(12, doc="The name of this end.")


class PhotonPersistentDiskVolumeSource(Type):
    """A disk of Photon Controller."""

    pdID: str = field(1, always=True, required=True, doc="The disk, by id.")
    fsType: str = field(2, doc="The file system to mount, as ext4.")


class PortworxVolumeSource(Type):
    """A volume of Portworx."""

    volumeID: str = field(1, always=True, required=True, doc="The volume, as its system names it.")
    fsType: str = field(2, doc="The file system to mount, as ext4.")
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")


class QuobyteVolumeSource(Type):
    """A volume of Quobyte."""

    registry: str = field(1, always=True, required=True, doc="Addresses of its registry.")
    volume: str = field(2, always=True, required=True, doc="The volume, by name.")
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")
    user: str = field(4, doc="The user that it is mounted as.")
    group: str = field(5, doc="The group that it is mounted as.")
    tenant: str = field(6, doc="Whose it is.")


class RBDVolumeSource(Type):
    """A Ceph block device, secret in the pod's namespace."""

    monitors: list[str] = field(1, always=True, required=True, doc="Addresses of the monitors.")
    image: str = field(2, always=True, required=True, doc="The image, by name.")
    fsType: str = field(3, doc="The file system to mount, as ext4.")
    pool: str = field(4, default="rbd", doc="The pool that it belongs to.")
    user: str = field(5, default="admin", doc="Who it is.")
    keyring: str = field(6, default="/etc/ceph/keyring", doc="The file with the keys.")
    secretRef: LocalObjectReference | None = field(
        7, doc="The secret with what is needed to log in."
    )
    readOnly: bool = field(8, doc="Whether nothing may be written to it.")


class RBDPersistentVolumeSource(Type):
    """A Ceph block device, secret in any namespace."""

    monitors: list[str] = field(1, always=True, required=True, doc="Addresses of the monitors.")
    image: str = field(2, always=True, required=True, doc="The image, by name.")
    fsType: str = field(3, doc="The file system to mount, as ext4.")
    pool: str = field(4, default="rbd", doc="The pool that it belongs to.")
    user: str = field(5, default="admin", doc="Who it is.")
    keyring: str = field(6, default="/etc/ceph/keyring", doc="The file with the keys.")
    secretRef: SecretReference | None = field(7, doc="The secret with what is needed to log in.")
    readOnly: bool = field(8, doc="Whether nothing may be written to it.")


class ScaleIOVolumeSource(Type):
    """A volume of ScaleIO, secret in the pod's namespace."""

    gateway: str = field(1, always=True, required=True, doc="Address of its gateway.")
    system: str = field(2, always=True, required=True, doc="The storage system, by name.")
    secretRef: LocalObjectReference | None = field(
        3, always=True, required=True, doc="The secret with what is needed to log in."
    )
    sslEnabled: bool = field(4, doc="Whether it is asked over TLS.")
    protectionDomain: str = field(5, doc="The protection domain, by name.")
    storagePool: str = field(6, doc="The storage pool, by name.")
    storageMode: str = field(
        7, default="ThinProvisioned", doc="ThickProvisioned or ThinProvisioned."
    )
    volumeName: str = field(8, doc="The volume, by name.")
    fsType: str = field(9, default="xfs", doc="The file system to mount, as ext4.")
    readOnly: bool = field(10, doc="Whether nothing may be written to it.")


class ScaleIOPersistentVolumeSource(Type):
    """A volume of ScaleIO, secret in any namespace."""

    gateway: str = field(1, always=True, required=True, doc="Address of its gateway.")
    system: str = field(2, always=True, required=True, doc="The storage system, by name.")
    secretRef: SecretReference | None = field(
        3, always=True, required=True, doc="The secret with what is needed to log in."
    )
    sslEnabled: bool = field(4, doc="Whether it is asked over TLS.")
    protectionDomain: str = field(5, doc="The protection domain, by name.")
    storagePool: str = field(6, doc="The storage pool, by name.")
    storageMode: str = field(
        7, default="ThinProvisioned", doc="ThickProvisioned or ThinProvisioned."
    )
    volumeName: str = field(8, doc="The volume, by name.")
    fsType: str = field(9, default="xfs", doc="The file system to mount, as ext4.")
    readOnly: bool = field(10, doc="Whether nothing may be written to it.")


class StorageOSVolumeSource(Type):
    """A volume of StorageOS, secret in the pod's namespace."""

    volumeName: str = field(1, doc="The volume, by name.")
    volumeNamespace: str = field(2, doc="Where the volume's name lies.")
    fsType: str = field(3, doc="The file system to mount, as ext4.")
    readOnly: bool = field(4, doc="Whether nothing may be written to it.")
    secretRef: LocalObjectReference | None = field(
        5, doc="The secret with what is needed to log in."
    )


class StorageOSPersistentVolumeSource(Type):
    """A volume of StorageOS, secret in any namespace."""

    volumeName: str = field(1, doc="The volume, by name.")
    volumeNamespace: str = field(2, doc="Where the volume's name lies.")
    fsType: str = field(3, doc="The file system to mount, as ext4.")
    readOnly: bool = field(4, doc="Whether nothing may be written to it.")
    secretRef: ObjectReference | None = field(5, doc="The secret with what is needed to log in.")


class VsphereVirtualDiskVolumeSource(Type):
    """A virtual disk of vSphere."""

    volumePath: str = field(1, always=True, required=True, doc="The path of the volume.")
    fsType: str = field(2, doc="The file system to mount, as ext4.")
    storagePolicyName: str = field(3, doc="The storage policy, by name.")
    storagePolicyID: str = field(4, doc="The storage policy, by id.")
