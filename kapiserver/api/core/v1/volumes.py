"""Volumes of a pod that need no plugin of their own."""

from __future__ import annotations

from kapiserver.api.core.v1.environment import ObjectFieldSelector, ResourceFieldSelector
from kapiserver.api.core.v1.persistent_volume_claims import PersistentVolumeClaimTemplate
from kapiserver.api.core.v1.references import LocalObjectReference
from kapiserver.api.core.v1.volume_plugins import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CephFSVolumeSource,
    CinderVolumeSource,
    CSIVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GlusterfsVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    RBDVolumeSource,
    ScaleIOVolumeSource,
    StorageOSVolumeSource,
    VsphereVirtualDiskVolumeSource,
)
from kapiserver.api.leaves import Quantity
from kapiserver.api.meta.v1 import LabelSelector
from kapiserver.api.types import Type, field, int32, int64


class Volume(Type):
    """A named directory or device for the containers of a pod."""

    name: str = field(1, always=True, required=True)
    volumeSource: VolumeSource = field(2, inline=True)


class VolumeSource(Type):
    """The one place a volume's content comes from."""

    hostPath: HostPathVolumeSource | None = field(1)
    emptyDir: EmptyDirVolumeSource | None = field(2)
    gcePersistentDisk: GCEPersistentDiskVolumeSource | None = field(3)
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource | None = field(4)
    gitRepo: GitRepoVolumeSource | None = field(5)
    secret: SecretVolumeSource | None = field(6)
    nfs: NFSVolumeSource | None = field(7)
    iscsi: ISCSIVolumeSource | None = field(8)
    glusterfs: GlusterfsVolumeSource | None = field(9)
    persistentVolumeClaim: PersistentVolumeClaimVolumeSource | None = field(10)
    rbd: RBDVolumeSource | None = field(11)
    flexVolume: FlexVolumeSource | None = field(12)
    cinder: CinderVolumeSource | None = field(13)
    cephfs: CephFSVolumeSource | None = field(14)
    flocker: FlockerVolumeSource | None = field(15)
    downwardAPI: DownwardAPIVolumeSource | None = field(16)
    fc: FCVolumeSource | None = field(17)
    azureFile: AzureFileVolumeSource | None = field(18)
    configMap: ConfigMapVolumeSource | None = field(19)
    vsphereVolume: VsphereVirtualDiskVolumeSource | None = field(20)
    quobyte: QuobyteVolumeSource | None = field(21)
    azureDisk: AzureDiskVolumeSource | None = field(22)
    photonPersistentDisk: PhotonPersistentDiskVolumeSource | None = field(23)
    projected: ProjectedVolumeSource | None = field(26)
    portworxVolume: PortworxVolumeSource | None = field(24)
    scaleIO: ScaleIOVolumeSource | None = field(25)
    storageos: StorageOSVolumeSource | None = field(27)
    csi: CSIVolumeSource | None = field(28)
    ephemeral: EphemeralVolumeSource | None = field(29)
    image: ImageVolumeSource | None = field(30)


class EmptyDirVolumeSource(Type):
    """An empty directory that lives as long as the pod."""

    medium: str = field(1)
    sizeLimit: Quantity | None = field(2)
    mode: int32 | None = field(3)


class HostPathVolumeSource(Type):
    """A file or directory of the node."""

    path: str = field(1, always=True, required=True)
    type: str | None = field(
        2,
        enum=(
            "",
            "DirectoryOrCreate",
            "Directory",
            "FileOrCreate",
            "File",
            "Socket",
            "CharDevice",
            "BlockDevice",
        ),
    )


class ConfigMapVolumeSource(Type):
    """The keys of a ConfigMap as files."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    items: list[KeyToPath] = field(2)
    defaultMode: int32 | None = field(3)
    optional: bool | None = field(4)
    defaultUser: int64 | None = field(5)


class SecretVolumeSource(Type):
    """The keys of a Secret as files."""

    secretName: str = field(1)
    items: list[KeyToPath] = field(2)
    defaultMode: int32 | None = field(3)
    optional: bool | None = field(4)
    defaultUser: int64 | None = field(5)


class DownwardAPIVolumeSource(Type):
    """Fields of the pod as files."""

    items: list[DownwardAPIVolumeFile] = field(1)
    defaultMode: int32 | None = field(2)
    defaultUser: int64 | None = field(3)


class DownwardAPIVolumeFile(Type):
    """One file that holds a field of the pod."""

    path: str = field(1, always=True, required=True)
    fieldRef: ObjectFieldSelector | None = field(2)
    resourceFieldRef: ResourceFieldSelector | None = field(3)
    mode: int32 | None = field(4)
    user: int64 | None = field(5)


class ProjectedVolumeSource(Type):
    """Several sources in one directory."""

    sources: list[VolumeProjection] = field(1, always=True)
    defaultMode: int32 | None = field(2)
    defaultUser: int64 | None = field(3)


class VolumeProjection(Type):
    """The one source of a projected volume's part."""

    secret: SecretProjection | None = field(1)
    downwardAPI: DownwardAPIProjection | None = field(2)
    configMap: ConfigMapProjection | None = field(3)
    serviceAccountToken: ServiceAccountTokenProjection | None = field(4)
    clusterTrustBundle: ClusterTrustBundleProjection | None = field(5)
    podCertificate: PodCertificateProjection | None = field(6)


class ConfigMapProjection(Type):
    """Keys of a ConfigMap in a projected volume."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    items: list[KeyToPath] = field(2)
    optional: bool | None = field(4)


class SecretProjection(Type):
    """Keys of a Secret in a projected volume."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    items: list[KeyToPath] = field(2)
    optional: bool | None = field(4)


class DownwardAPIProjection(Type):
    """Fields of the pod in a projected volume."""

    items: list[DownwardAPIVolumeFile] = field(1)


class ServiceAccountTokenProjection(Type):
    """A service account token in a projected volume."""

    audience: str = field(1)
    expirationSeconds: int64 | None = field(2)
    path: str = field(3, always=True, required=True)
    user: int64 | None = field(4)


class ClusterTrustBundleProjection(Type):
    """Trust anchors in a projected volume."""

    name: str | None = field(1)
    signerName: str | None = field(2)
    labelSelector: LabelSelector | None = field(3)
    optional: bool | None = field(5)
    path: str = field(4, always=True, required=True)
    user: int64 | None = field(6)


class PodCertificateProjection(Type):
    """A key and certificate of the pod's own in a projected volume."""

    signerName: str = field(1, required=True)
    keyType: str = field(2, required=True)
    maxExpirationSeconds: int32 | None = field(3)
    credentialBundlePath: str = field(4)
    keyPath: str = field(5)
    certificateChainPath: str = field(6)
    userAnnotations: dict[str, str] = field(7)
    user: int64 | None = field(8)


class KeyToPath(Type):
    """Puts one key at a path."""

    key: str = field(1, always=True, required=True)
    path: str = field(2, always=True, required=True)
    mode: int32 | None = field(3)
    user: int64 | None = field(4)


class PersistentVolumeClaimVolumeSource(Type):
    """A volume bound to a claim in the pod's namespace."""

    claimName: str = field(1, always=True, required=True)
    readOnly: bool = field(2)


class EphemeralVolumeSource(Type):
    """A volume whose claim is made for the pod and goes with it."""

    volumeClaimTemplate: PersistentVolumeClaimTemplate | None = field(1)


class ImageVolumeSource(Type):
    """The files of an OCI image."""

    reference: str = field(1)
    pullPolicy: str = field(2, enum=("Always", "Never", "IfNotPresent"))


class GitRepoVolumeSource(Type):
    """A clone of a git repository (deprecated)."""

    repository: str = field(1, always=True, required=True)
    revision: str = field(2)
    directory: str = field(3)
