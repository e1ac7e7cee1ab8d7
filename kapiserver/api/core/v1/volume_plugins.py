"""Volumes by the kind of storage behind them."""

from __future__ import annotations

from kapiserver.api.core.v1.references import LocalObjectReference, ObjectReference, SecretReference
from kapiserver.api.types import Type, field, int32


class NFSVolumeSource(Type):
    """An NFS export."""

    server: str = field(1, always=True, required=True)
    path: str = field(2, always=True, required=True)
    readOnly: bool = field(3)


class CSIVolumeSource(Type):
    """A volume that a CSI driver makes for the pod."""

    driver: str = field(1, always=True, required=True)
    readOnly: bool | None = field(2)
    fsType: str | None = field(3)
    volumeAttributes: dict[str, str] = field(4)
    nodePublishSecretRef: LocalObjectReference | None = field(5)


class CSIPersistentVolumeSource(Type):
    """A volume that a CSI driver manages."""

    driver: str = field(1, always=True, required=True)
    volumeHandle: str = field(2, always=True, required=True)
    readOnly: bool = field(3)
    fsType: str = field(4)
    volumeAttributes: dict[str, str] = field(5)
    controllerPublishSecretRef: SecretReference | None = field(6)
    nodeStageSecretRef: SecretReference | None = field(7)
    nodePublishSecretRef: SecretReference | None = field(8)
    controllerExpandSecretRef: SecretReference | None = field(9)
    nodeExpandSecretRef: SecretReference | None = field(10)


class LocalVolumeSource(Type):
    """A disk or directory attached to one node."""

    path: str = field(1, always=True, required=True)
    fsType: str | None = field(2)


class AWSElasticBlockStoreVolumeSource(Type):
    """A disk of Amazon EBS."""

    volumeID: str = field(1, always=True, required=True)
    fsType: str = field(2)
    partition: int32 = field(3)
    readOnly: bool = field(4)


class GCEPersistentDiskVolumeSource(Type):
    """A persistent disk of Google Compute Engine."""

    pdName: str = field(1, always=True, required=True)
    fsType: str = field(2)
    partition: int32 = field(3)
    readOnly: bool = field(4)


class AzureDiskVolumeSource(Type):
    """A disk of Azure."""

    diskName: str = field(1, always=True, required=True)
    diskURI: str = field(2, always=True, required=True)
    cachingMode: str | None = field(3, default="ReadWrite", enum=("None", "ReadOnly", "ReadWrite"))
    fsType: str | None = field(4, default="ext4")
    readOnly: bool | None = field(5, default=False)
    kind: str | None = field(6, default="Shared", enum=("Shared", "Dedicated", "Managed"))


class AzureFileVolumeSource(Type):
    """A file share of Azure, secret in the pod's namespace."""

    secretName: str = field(1, always=True, required=True)
    shareName: str = field(2, always=True, required=True)
    readOnly: bool = field(3)


class AzureFilePersistentVolumeSource(Type):
    """A file share of Azure, secret in any namespace."""

    secretName: str = field(1, always=True, required=True)
    shareName: str = field(2, always=True, required=True)
    readOnly: bool = field(3)
    secretNamespace: str | None = field(4, always=True)


class CephFSVolumeSource(Type):
    """A Ceph file system, secret in the pod's namespace."""

    monitors: list[str] = field(1, always=True, required=True)
    path: str = field(2)
    user: str = field(3)
    secretFile: str = field(4)
    secretRef: LocalObjectReference | None = field(5)
    readOnly: bool = field(6)


class CephFSPersistentVolumeSource(Type):
    """A Ceph file system, secret in any namespace."""

    monitors: list[str] = field(1, always=True, required=True)
    path: str = field(2)
    user: str = field(3)
    secretFile: str = field(4)
    secretRef: SecretReference | None = field(5)
    readOnly: bool = field(6)


class CinderVolumeSource(Type):
    """A block device of OpenStack Cinder, secret in the pod's namespace."""

    volumeID: str = field(1, always=True, required=True)
    fsType: str = field(2)
    readOnly: bool = field(3)
    secretRef: LocalObjectReference | None = field(4)


class CinderPersistentVolumeSource(Type):
    """A block device of OpenStack Cinder, secret in any namespace."""

    volumeID: str = field(1, always=True, required=True)
    fsType: str = field(2)
    readOnly: bool = field(3)
    secretRef: SecretReference | None = field(4)


class FCVolumeSource(Type):
    """A Fibre Channel disk."""

    targetWWNs: list[str] = field(1)
    lun: int32 | None = field(2)
    fsType: str = field(3)
    readOnly: bool = field(4)
    wwids: list[str] = field(5)


class FlexVolumeSource(Type):
    """A volume of a Flex driver, secret in the pod's namespace."""

    driver: str = field(1, always=True, required=True)
    fsType: str = field(2)
    secretRef: LocalObjectReference | None = field(3)
    readOnly: bool = field(4)
    options: dict[str, str] = field(5)


class FlexPersistentVolumeSource(Type):
    """A volume of a Flex driver, secret in any namespace."""

    driver: str = field(1, always=True, required=True)
    fsType: str = field(2)
    secretRef: SecretReference | None = field(3)
    readOnly: bool = field(4)
    options: dict[str, str] = field(5)


class FlockerVolumeSource(Type):
    """A dataset of the Flocker agent."""

    datasetName: str = field(1)
    datasetUUID: str = field(2)


class GlusterfsVolumeSource(Type):
    """A Gluster volume."""

    endpoints: str = field(1, always=True, required=True)
    path: str = field(2, always=True, required=True)
    readOnly: bool = field(3)


class GlusterfsPersistentVolumeSource(Type):
    """A Gluster volume, endpoints in any namespace."""

    endpoints: str = field(1, always=True, required=True)
    path: str = field(2, always=True, required=True)
    readOnly: bool = field(3)
    endpointsNamespace: str | None = field(4)


class ISCSIVolumeSource(Type):
    """An iSCSI disk, secret in the pod's namespace."""

    targetPortal: str = field(1, always=True, required=True)
    iqn: str = field(2, always=True, required=True)
    lun: int32 = field(3, always=True, required=True)
    iscsiInterface: str = field(4, default="default")
    fsType: str = field(5)
    readOnly: bool = field(6)
    portals: list[str] = field(7)
    chapAuthDiscovery: bool = field(8)
    chapAuthSession: bool = field(11)
    secretRef: LocalObjectReference | None = field(10)
    initiatorName: str | None = field(12)


class ISCSIPersistentVolumeSource(Type):
    """An iSCSI disk, secret in any namespace."""

    targetPortal: str = field(1, always=True, required=True)
    iqn: str = field(2, always=True, required=True)
    lun: int32 = field(3, always=True, required=True)
    iscsiInterface: str = field(4, default="default")
    fsType: str = field(5)
    readOnly: bool = field(6)
    portals: list[str] = field(7)
    chapAuthDiscovery: bool = field(8)
    chapAuthSession: bool = field(11)
    secretRef: SecretReference | None = field(10)
    initiatorName: str | None = field(12)


class PhotonPersistentDiskVolumeSource(Type):
    """A disk of Photon Controller."""

    pdID: str = field(1, always=True, required=True)
    fsType: str = field(2)


class PortworxVolumeSource(Type):
    """A volume of Portworx."""

    volumeID: str = field(1, always=True, required=True)
    fsType: str = field(2)
    readOnly: bool = field(3)


class QuobyteVolumeSource(Type):
    """A volume of Quobyte."""

    registry: str = field(1, always=True, required=True)
    volume: str = field(2, always=True, required=True)
    readOnly: bool = field(3)
    user: str = field(4)
    group: str = field(5)
    tenant: str = field(6)


class RBDVolumeSource(Type):
    """A Ceph block device, secret in the pod's namespace."""

    monitors: list[str] = field(1, always=True, required=True)
    image: str = field(2, always=True, required=True)
    fsType: str = field(3)
    pool: str = field(4, default="rbd")
    user: str = field(5, default="admin")
    keyring: str = field(6, default="/etc/ceph/keyring")
    secretRef: LocalObjectReference | None = field(7)
    readOnly: bool = field(8)


class RBDPersistentVolumeSource(Type):
    """A Ceph block device, secret in any namespace."""

    monitors: list[str] = field(1, always=True, required=True)
    image: str = field(2, always=True, required=True)
    fsType: str = field(3)
    pool: str = field(4, default="rbd")
    user: str = field(5, default="admin")
    keyring: str = field(6, default="/etc/ceph/keyring")
    secretRef: SecretReference | None = field(7)
    readOnly: bool = field(8)


class ScaleIOVolumeSource(Type):
    """A volume of ScaleIO, secret in the pod's namespace."""

    gateway: str = field(1, always=True, required=True)
    system: str = field(2, always=True, required=True)
    secretRef: LocalObjectReference | None = field(3, always=True, required=True)
    sslEnabled: bool = field(4)
    protectionDomain: str = field(5)
    storagePool: str = field(6)
    storageMode: str = field(7, default="ThinProvisioned")
    volumeName: str = field(8)
    fsType: str = field(9, default="xfs")
    readOnly: bool = field(10)


class ScaleIOPersistentVolumeSource(Type):
    """A volume of ScaleIO, secret in any namespace."""

    gateway: str = field(1, always=True, required=True)
    system: str = field(2, always=True, required=True)
    secretRef: SecretReference | None = field(3, always=True, required=True)
    sslEnabled: bool = field(4)
    protectionDomain: str = field(5)
    storagePool: str = field(6)
    storageMode: str = field(7, default="ThinProvisioned")
    volumeName: str = field(8)
    fsType: str = field(9, default="xfs")
    readOnly: bool = field(10)


class StorageOSVolumeSource(Type):
    """A volume of StorageOS, secret in the pod's namespace."""

    volumeName: str = field(1)
    volumeNamespace: str = field(2)
    fsType: str = field(3)
    readOnly: bool = field(4)
    secretRef: LocalObjectReference | None = field(5)


class StorageOSPersistentVolumeSource(Type):
    """A volume of StorageOS, secret in any namespace."""

    volumeName: str = field(1)
    volumeNamespace: str = field(2)
    fsType: str = field(3)
    readOnly: bool = field(4)
    secretRef: ObjectReference | None = field(5)


class VsphereVirtualDiskVolumeSource(Type):
    """A virtual disk of vSphere."""

    volumePath: str = field(1, always=True, required=True)
    fsType: str = field(2)
    storagePolicyName: str = field(3)
    storagePolicyID: str = field(4)
