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

    name: str = field(1, always=True, required=True, doc="Its name.")
    volumeSource: VolumeSource = field(2, inline=True)


class VolumeSource(Type):
    """The one place a volume's content comes from."""

    hostPath: HostPathVolumeSource | None = field(1, doc="A file or folder of the node.")
    emptyDir: EmptyDirVolumeSource | None = field(
        2, doc="An empty folder that lives as long as the pod."
    )
    gcePersistentDisk: GCEPersistentDiskVolumeSource | None = field(
        3, doc="A disk of Google Compute Engine."
    )
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource | None = field(4, doc="A disk of AWS.")
    gitRepo: GitRepoVolumeSource | None = field(5, doc="Deprecated: a checkout of git.")
    secret: SecretVolumeSource | None = field(6, doc="The keys of a secret, one a file.")
    nfs: NFSVolumeSource | None = field(7, doc="A folder of an NFS server.")
    iscsi: ISCSIVolumeSource | None = field(8, doc="A disk reached over iSCSI.")
    glusterfs: GlusterfsVolumeSource | None = field(9, doc="A volume of Glusterfs.")
    persistentVolumeClaim: PersistentVolumeClaimVolumeSource | None = field(
        10, doc="The volume of a claim."
    )
    rbd: RBDVolumeSource | None = field(11, doc="A block device of Ceph.")
    flexVolume: FlexVolumeSource | None = field(12, doc="A volume of a program on the node.")
    cinder: CinderVolumeSource | None = field(13, doc="A disk of OpenStack.")
    cephfs: CephFSVolumeSource | None = field(14, doc="A folder of Ceph.")
    flocker: FlockerVolumeSource | None = field(15, doc="A volume of Flocker.")
    downwardAPI: DownwardAPIVolumeSource | None = field(16, doc="What the pod knows of itself.")
    fc: FCVolumeSource | None = field(17, doc="A disk reached over Fibre Channel.")
    azureFile: AzureFileVolumeSource | None = field(18, doc="A file share of Azure.")
    configMap: ConfigMapVolumeSource | None = field(19, doc="Out of a config map.")
    vsphereVolume: VsphereVirtualDiskVolumeSource | None = field(20, doc="A disk of vSphere.")
    quobyte: QuobyteVolumeSource | None = field(21, doc="A volume of Quobyte.")
    azureDisk: AzureDiskVolumeSource | None = field(22, doc="A disk of Azure.")
    photonPersistentDisk: PhotonPersistentDiskVolumeSource | None = field(
        23, doc="A disk of Photon."
    )
    projected: ProjectedVolumeSource | None = field(26, doc="Several sources in one folder.")
    portworxVolume: PortworxVolumeSource | None = field(24, doc="A volume of Portworx.")
    scaleIO: ScaleIOVolumeSource | None = field(25, doc="A volume of ScaleIO.")
    storageos: StorageOSVolumeSource | None = field(27, doc="A volume of StorageOS.")
    csi: CSIVolumeSource | None = field(28, doc="A volume of a CSI driver.")
    ephemeral: EphemeralVolumeSource | None = field(29, doc="A claim made for this pod.")
    image: ImageVolumeSource | None = field(30, doc="The image, by name.")


class EmptyDirVolumeSource(Type):
    """An empty directory that lives as long as the pod."""

    medium: str = field(1, doc="Empty: the node's disk; Memory or HugePages.")
    sizeLimit: Quantity | None = field(2, doc="How large it may grow.")
    mode: int32 | None = field(3, doc="The permission bits.")


class HostPathVolumeSource(Type):
    """A file or directory of the node."""

    path: str = field(1, always=True, required=True, doc="The path on the node.")
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
        doc="What must be there, as Directory or File; empty: anything.",
    )


class ConfigMapVolumeSource(Type):
    """The keys of a ConfigMap as files."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    items: list[KeyToPath] = field(
        2, doc="Which keys, and in which files; all where nothing is said."
    )
    defaultMode: int32 | None = field(3, doc="Permission bits of files that say nothing.")
    optional: bool | None = field(4, doc="Whether it may be missing.")
    defaultUser: int64 | None = field(5, doc="The owner of files that say nothing.")


class SecretVolumeSource(Type):
    """The keys of a Secret as files."""

    secretName: str = field(1, doc="The secret, by name.")
    items: list[KeyToPath] = field(
        2, doc="Which keys, and in which files; all where nothing is said."
    )
    defaultMode: int32 | None = field(3, doc="Permission bits of files that say nothing.")
    optional: bool | None = field(4, doc="Whether it may be missing.")
    defaultUser: int64 | None = field(5, doc="The owner of files that say nothing.")


class DownwardAPIVolumeSource(Type):
    """Fields of the pod as files."""

    items: list[DownwardAPIVolumeFile] = field(1, doc="The files.")
    defaultMode: int32 | None = field(2, doc="Permission bits of files that say nothing.")
    defaultUser: int64 | None = field(3, doc="The owner of files that say nothing.")


class DownwardAPIVolumeFile(Type):
    """One file that holds a field of the pod."""

    path: str = field(1, always=True, required=True, doc="The file.")
    fieldRef: ObjectFieldSelector | None = field(2, doc="A field of the pod.")
    resourceFieldRef: ResourceFieldSelector | None = field(
        3, doc="What a container asks for or may use."
    )
    mode: int32 | None = field(4, doc="The permission bits.")
    user: int64 | None = field(5, doc="The owner of the file.")


class ProjectedVolumeSource(Type):
    """Several sources in one directory."""

    sources: list[VolumeProjection] = field(1, always=True, doc="What the files come from.")
    defaultMode: int32 | None = field(2, doc="Permission bits of files that say nothing.")
    defaultUser: int64 | None = field(3, doc="The owner of files that say nothing.")


class VolumeProjection(Type):
    """The one source of a projected volume's part."""

    secret: SecretProjection | None = field(1, doc="The keys of a secret, one a file.")
    downwardAPI: DownwardAPIProjection | None = field(2, doc="What the pod knows of itself.")
    configMap: ConfigMapProjection | None = field(3, doc="Out of a config map.")
    serviceAccountToken: ServiceAccountTokenProjection | None = field(
        4, doc="A token of the service account."
    )
    clusterTrustBundle: ClusterTrustBundleProjection | None = field(5, doc="Certificates to trust.")
    podCertificate: PodCertificateProjection | None = field(6, doc="A certificate for this pod.")


class ConfigMapProjection(Type):
    """Keys of a ConfigMap in a projected volume."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    items: list[KeyToPath] = field(
        2, doc="Which keys, and in which files; all where nothing is said."
    )
    optional: bool | None = field(4, doc="Whether it may be missing.")


class SecretProjection(Type):
    """Keys of a Secret in a projected volume."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    items: list[KeyToPath] = field(
        2, doc="Which keys, and in which files; all where nothing is said."
    )
    optional: bool | None = field(4, doc="Whether it may be missing.")


class DownwardAPIProjection(Type):
    """Fields of the pod in a projected volume."""

    items: list[DownwardAPIVolumeFile] = field(1, doc="The files.")


class ServiceAccountTokenProjection(Type):
    """A service account token in a projected volume."""

    audience: str = field(1, doc="Whom it is for.")
    expirationSeconds: int64 | None = field(2, doc="How long it is valid.")
    path: str = field(3, always=True, required=True, doc="The file.")
    user: int64 | None = field(4, doc="The owner of the file.")


class ClusterTrustBundleProjection(Type):
    """Trust anchors in a projected volume."""

    name: str | None = field(1, doc="Its name.")
    signerName: str | None = field(2, doc="Who signs.")
    labelSelector: LabelSelector | None = field(3, doc="Which objects, by their labels.")
    optional: bool | None = field(5, doc="Whether it may be missing.")
    path: str = field(4, always=True, required=True, doc="The file.")
    user: int64 | None = field(6, doc="The owner of the file.")


class PodCertificateProjection(Type):
    """A key and certificate of the pod's own in a projected volume."""

    signerName: str = field(1, required=True, doc="Who signs.")
    keyType: str = field(
        2, required=True, doc="RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521 or ED25519."
    )
    maxExpirationSeconds: int32 | None = field(3, doc="How long it may be valid at most.")
    credentialBundlePath: str = field(4, doc="The file for key and certificates.")
    keyPath: str = field(5, doc="The file for the key.")
    certificateChainPath: str = field(6, doc="The file for the certificates.")
    userAnnotations: dict[str, str] = field(7, doc="What the signer is told.")
    user: int64 | None = field(8, doc="The owner of the files.")


class KeyToPath(Type):
    """Puts one key at a path."""

    key: str = field(1, always=True, required=True, doc="Its key.")
    path: str = field(2, always=True, required=True, doc="The file.")
    mode: int32 | None = field(3, doc="The permission bits.")
    user: int64 | None = field(4, doc="The owner of the file.")


class PersistentVolumeClaimVolumeSource(Type):
    """A volume bound to a claim in the pod's namespace."""

    claimName: str = field(1, always=True, required=True, doc="The claim, by name.")
    readOnly: bool = field(2, doc="Whether nothing may be written to it.")


class EphemeralVolumeSource(Type):
    """A volume whose claim is made for the pod and goes with it."""

    volumeClaimTemplate: PersistentVolumeClaimTemplate | None = field(
        1, doc="What the claim is made from."
    )


class ImageVolumeSource(Type):
    """The files of an OCI image."""

    reference: str = field(1, doc="The image.")
    pullPolicy: str = field(
        2, enum=("Always", "Never", "IfNotPresent"), doc="Always, IfNotPresent or Never."
    )


class GitRepoVolumeSource(Type):
    """A clone of a git repository (deprecated)."""

    repository: str = field(1, always=True, required=True, doc="The URL of the repository.")
    revision: str = field(2, doc="The commit.")
    directory: str = field(3, doc="The folder.")
