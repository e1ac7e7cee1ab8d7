"""Volumes of a pod: their sources, and the files that the kubelet writes into them."""

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
from kapiserver.api.meta.v1 import LabelSelector
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Type, field, int32, int64


class Volume(Type):
    """A named directory or block device that the containers of a pod can mount."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name by which containers refer to the volume in volumeMounts and volumeDevices: a "
            "DNS label, unique in the pod."
        ),
    )
    volumeSource: VolumeSource = field(2, inline=True)


class VolumeSource(Type):
    """Where the content of a volume comes from. At most one source is set; default: emptyDir."""

    hostPath: HostPathVolumeSource | None = field(
        1,
        doc=(
            "A file or directory of the node. Pods that use it depend on that node and can reach "
            "its data, so few should."
        ),
    )
    emptyDir: EmptyDirVolumeSource | None = field(
        2,
        doc=(
            "A directory that is empty when the pod starts and is deleted with the pod. Used when "
            "no source is set."
        ),
    )
    gcePersistentDisk: GCEPersistentDiskVolumeSource | None = field(
        3,
        doc=(
            "An existing Google Compute Engine disk for the pod. Deprecated: its CSI driver, "
            "pd.csi.storage.gke.io, serves it."
        ),
    )
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource | None = field(
        4,
        doc=(
            "An existing Amazon EBS volume for the pod. Deprecated: its CSI driver, "
            "ebs.csi.aws.com, serves it."
        ),
    )
    gitRepo: GitRepoVolumeSource | None = field(
        5,
        doc=(
            "A git repository that is cloned before the pod starts. Deprecated: clone in an init "
            "container into an emptyDir."
        ),
    )
    secret: SecretVolumeSource | None = field(
        6,
        doc=(
            "Keys of a Secret as files. The kubelet keeps the files in memory and updates them "
            "when the Secret changes."
        ),
    )
    nfs: NFSVolumeSource | None = field(
        7,
        doc=(
            "A directory of an NFS server. Its content outlives the pod, and many pods can write "
            "to it."
        ),
    )
    iscsi: ISCSIVolumeSource | None = field(
        8, doc="An existing iSCSI disk that is attached to the pod's node."
    )
    glusterfs: GlusterfsVolumeSource | None = field(
        9, doc="A Gluster volume. Deprecated: no longer works since Kubernetes 1.26."
    )
    persistentVolumeClaim: PersistentVolumeClaimVolumeSource | None = field(
        10,
        doc=(
            "The volume that is bound to a PersistentVolumeClaim in the pod's namespace. The pod "
            "waits until the claim is bound."
        ),
    )
    rbd: RBDVolumeSource | None = field(
        11,
        doc=(
            "A Ceph block device. Deprecated: no longer works since Kubernetes 1.31; use a CSI "
            "driver."
        ),
    )
    flexVolume: FlexVolumeSource | None = field(
        12, doc="A volume that a driver program on the node mounts. Deprecated: use a CSI driver."
    )
    cinder: CinderVolumeSource | None = field(
        13,
        doc=(
            "An existing OpenStack Cinder volume for the pod. Deprecated: its CSI driver, "
            "cinder.csi.openstack.org, serves it."
        ),
    )
    cephfs: CephFSVolumeSource | None = field(
        14,
        doc=(
            "A CephFS directory. Deprecated: no longer works since Kubernetes 1.31; use a CSI "
            "driver."
        ),
    )
    flocker: FlockerVolumeSource | None = field(
        15, doc="A Flocker dataset. Deprecated: no longer works since Kubernetes 1.25."
    )
    downwardAPI: DownwardAPIVolumeSource | None = field(
        16, doc="Fields of the pod itself as files, for example its labels or its resource limits."
    )
    fc: FCVolumeSource | None = field(
        17, doc="An existing Fibre Channel disk that is attached to the pod's node."
    )
    azureFile: AzureFileVolumeSource | None = field(
        18,
        doc=(
            "An Azure file share for the pod. Deprecated: its CSI driver, file.csi.azure.com, "
            "serves it."
        ),
    )
    configMap: ConfigMapVolumeSource | None = field(
        19,
        doc=(
            "Keys of a ConfigMap as files. The kubelet updates the files when the ConfigMap "
            "changes."
        ),
    )
    vsphereVolume: VsphereVirtualDiskVolumeSource | None = field(
        20,
        doc=(
            "A virtual disk of vSphere for the pod. Deprecated: its CSI driver, "
            "csi.vsphere.vmware.com, serves it."
        ),
    )
    quobyte: QuobyteVolumeSource | None = field(
        21, doc="A Quobyte volume. Deprecated: no longer works since Kubernetes 1.25."
    )
    azureDisk: AzureDiskVolumeSource | None = field(
        22,
        doc=(
            "A data disk of Azure for the pod. Deprecated: its CSI driver, disk.csi.azure.com, "
            "serves it."
        ),
    )
    photonPersistentDisk: PhotonPersistentDiskVolumeSource | None = field(
        23, doc="A disk of Photon Controller. Deprecated: no longer works since Kubernetes 1.16."
    )
    projected: ProjectedVolumeSource | None = field(
        26,
        doc=(
            "Several sources in one directory: secrets, config maps, pod fields, tokens and "
            "certificates."
        ),
    )
    portworxVolume: PortworxVolumeSource | None = field(
        24,
        doc=(
            "A Portworx volume for the pod. Deprecated: its CSI driver, pxd.portworx.com, serves "
            "it."
        ),
    )
    scaleIO: ScaleIOVolumeSource | None = field(
        25, doc="A ScaleIO volume. Deprecated: no longer works since Kubernetes 1.22."
    )
    storageos: StorageOSVolumeSource | None = field(
        27, doc="A StorageOS volume. Deprecated: no longer works since Kubernetes 1.25."
    )
    csi: CSIVolumeSource | None = field(
        28,
        doc=(
            "A volume that a CSI driver creates for this pod alone. The driver must support "
            "inline volumes."
        ),
    )
    ephemeral: EphemeralVolumeSource | None = field(
        29, doc="A volume whose PersistentVolumeClaim is created for this pod and deleted with it."
    )
    image: ImageVolumeSource | None = field(
        30,
        doc=(
            "The filesystem of an OCI image or artifact, mounted read-only. The kubelet pulls the "
            "image before the containers start."
        ),
    )


class EmptyDirVolumeSource(Type):
    """An empty directory that exists as long as the pod is on its node."""

    medium: str = field(
        1,
        doc=(
            "Where the data is kept. Empty (the default): the node's disk. Memory: a tmpfs. "
            "HugePages or HugePages-SIZE: huge pages."
        ),
    )
    sizeLimit: Quantity | None = field(
        2,
        doc=(
            "Maximum size, for example 500Mi; a pod that exceeds it is evicted. With medium "
            "Memory, memory limits bound it too. When absent: no limit."
        ),
    )
    mode: int32 | None = field(
        3,
        doc=(
            "Permission bits of the directory, 0 to 0777 in octal (JSON takes decimal). Alpha: "
            "the server drops this field from new pods."
        ),
    )


class HostPathVolumeSource(Type):
    """A file or directory of the node's filesystem."""

    path: str = field(
        1,
        always=True,
        required=True,
        doc='Path on the node. A symbolic link is followed. The path must not contain "..".',
    )
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
        doc=(
            "What must exist at the path, checked before mounting; the OrCreate types create what "
            "is missing. Default: empty, no check."
        ),
    )


class ConfigMapVolumeSource(Type):
    """The keys of a ConfigMap as files of a volume."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    items: list[KeyToPath] = field(
        2,
        doc=(
            "Keys to write and the file of each. When empty, every key becomes a file of its "
            "name. A listed key that is missing is an error unless optional is true."
        ),
    )
    defaultMode: int32 | None = field(
        3,
        doc=(
            "Permission bits of files without a mode of their own, 0 to 0777 in octal (JSON takes "
            "decimal: 420 is 0644). Default: 0644."
        ),
    )
    optional: bool | None = field(
        4, doc="Start the pod although the ConfigMap or a listed key is missing. Default: false."
    )
    defaultUser: int64 | None = field(
        5,
        doc=(
            "User ID that owns the ConfigMap's files unless an item names another. Alpha: the "
            "server drops this field from new pods."
        ),
    )


class SecretVolumeSource(Type):
    """The keys of a Secret as files of a volume."""

    secretName: str = field(1, doc="Name of the Secret in the pod's namespace. It is required.")
    items: list[KeyToPath] = field(
        2,
        doc=(
            "Keys to write and the file of each. When empty, every key becomes a file of its "
            "name. A key that the Secret lacks is an error unless optional is true."
        ),
    )
    defaultMode: int32 | None = field(
        3,
        doc=(
            "Permission bits of the Secret's files that have no mode of their own, 0 to 0777 in "
            "octal (JSON takes decimal). Default: 0644 (420)."
        ),
    )
    optional: bool | None = field(
        4, doc="Start the pod although the Secret or a listed key is missing. Default: false."
    )
    defaultUser: int64 | None = field(
        5,
        doc=(
            "User ID that owns the Secret's files unless an item names another. Alpha: the server "
            "drops this field from new pods."
        ),
    )


class DownwardAPIVolumeSource(Type):
    """Fields of the pod as files of a volume."""

    items: list[DownwardAPIVolumeFile] = field(
        1, doc="Files to write, each with one field of the pod or one resource of a container."
    )
    defaultMode: int32 | None = field(
        2,
        doc=(
            "Permission bits of pod-field files that have no mode of their own, 0 to 0777 in "
            "octal (JSON takes decimal). Default: 0644 (420)."
        ),
    )
    defaultUser: int64 | None = field(
        3,
        doc=(
            "User ID that owns the pod-field files unless an item names another. Alpha: the "
            "server drops this field from new pods."
        ),
    )


class DownwardAPIVolumeFile(Type):
    """A file with one field of the pod or one resource of a container."""

    path: str = field(
        1,
        always=True,
        required=True,
        doc='File to write, relative to the volume. It must not contain ".." or begin with it.',
    )
    fieldRef: ObjectFieldSelector | None = field(
        2,
        doc=(
            "Field of the pod: its name, namespace, uid, labels or annotations. Excludes "
            "resourceFieldRef."
        ),
    )
    resourceFieldRef: ResourceFieldSelector | None = field(
        3,
        doc=(
            "CPU, memory, ephemeral storage or huge pages of a container, which must be named. "
            "Excludes fieldRef."
        ),
    )
    mode: int32 | None = field(
        4,
        doc=(
            "Permission bits of this file, 0 to 0777 in octal (JSON takes decimal). When absent: "
            "the volume's defaultMode."
        ),
    )
    user: int64 | None = field(
        5,
        doc=(
            "User ID that owns this pod-field file. When absent: the volume's defaultUser. Alpha: "
            "the server drops this field from new pods."
        ),
    )


class ProjectedVolumeSource(Type):
    """Several sources whose files are combined in one directory."""

    sources: list[VolumeProjection] = field(
        1,
        always=True,
        doc=(
            "Sources to combine, in order. Each entry names one source, and no two may write the "
            "same path."
        ),
    )
    defaultMode: int32 | None = field(
        2,
        doc=(
            "Permission bits of projected files that have no mode of their own, 0 to 0777 in "
            "octal (JSON takes decimal). Default: 0644 (420)."
        ),
    )
    defaultUser: int64 | None = field(
        3,
        doc=(
            "User ID that owns projected files unless a source names another. Alpha: the server "
            "drops this field from new pods."
        ),
    )


class VolumeProjection(Type):
    """One source of a projected volume. Exactly one field is set."""

    secret: SecretProjection | None = field(
        1, doc="Keys of a Secret in the pod's namespace, each written to a file."
    )
    downwardAPI: DownwardAPIProjection | None = field(
        2, doc="Fields of the pod, each written to a file of the projected volume."
    )
    configMap: ConfigMapProjection | None = field(
        3, doc="Keys of a ConfigMap in the pod's namespace, each written to a file."
    )
    serviceAccountToken: ServiceAccountTokenProjection | None = field(
        4,
        doc=(
            "A token of the pod's service account. The kubelet requests it and renews it before "
            "it expires."
        ),
    )
    clusterTrustBundle: ClusterTrustBundleProjection | None = field(
        5,
        doc=(
            "Certificates from ClusterTrustBundle objects, in PEM form. The kubelet removes "
            "duplicates and rewrites the file on changes."
        ),
    )
    podCertificate: PodCertificateProjection | None = field(
        6,
        doc=(
            "A key pair and a certificate chain for this pod. The kubelet requests them from a "
            "signer and renews them."
        ),
    )


class ConfigMapProjection(Type):
    """Keys of a ConfigMap as files of a projected volume."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    items: list[KeyToPath] = field(
        2,
        doc=(
            "Keys of the ConfigMap to project and the file of each. When empty, every key becomes "
            "a file of its name."
        ),
    )
    optional: bool | None = field(
        4,
        doc=(
            "Start the pod although the projected ConfigMap or a listed key is missing. Default: "
            "false."
        ),
    )


class SecretProjection(Type):
    """Keys of a Secret as files of a projected volume."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    items: list[KeyToPath] = field(
        2,
        doc=(
            "Keys of the Secret to project and the file of each. When empty, every key becomes a "
            "file of its name."
        ),
    )
    optional: bool | None = field(
        4,
        doc=(
            "Start the pod although the projected Secret or a listed key is missing. Default: "
            "false."
        ),
    )


class DownwardAPIProjection(Type):
    """Fields of the pod as files of a projected volume."""

    items: list[DownwardAPIVolumeFile] = field(
        1, doc="Files to project, each with one field of the pod or one resource of a container."
    )


class ServiceAccountTokenProjection(Type):
    """A token of the pod's service account as a file of a projected volume."""

    audience: str = field(
        1,
        doc=(
            "Recipient that the token is meant for; a recipient must refuse tokens for others. "
            "When empty: the API server."
        ),
    )
    expirationSeconds: int64 | None = field(
        2,
        doc=(
            "Requested lifetime of the token in seconds, 600 to 2^32. The kubelet renews it after "
            "80% or 24 hours. Default: 3600."
        ),
    )
    path: str = field(
        3,
        always=True,
        required=True,
        doc='File for the token, relative to the volume. It must not contain "..".',
    )
    user: int64 | None = field(
        4,
        doc=(
            "User ID that owns the token's file. Alpha: the server drops this field from new pods."
        ),
    )


class ClusterTrustBundleProjection(Type):
    """Certificates of trust bundles as a file of a projected volume."""

    name: str | None = field(
        1,
        doc=(
            "Name of a single ClusterTrustBundle. Excludes signerName and labelSelector; either "
            "name or signerName is required."
        ),
    )
    signerName: str | None = field(
        2,
        doc=(
            "Signer whose ClusterTrustBundles are all combined, as far as labelSelector selects "
            "them. Excludes name."
        ),
    )
    labelSelector: LabelSelector | None = field(
        3,
        doc=(
            "Which bundles of signerName to use. When absent: none. When empty ({}): all of them. "
            "Needs signerName."
        ),
    )
    optional: bool | None = field(
        5,
        doc=(
            "Start the pod although the bundle, or every bundle of the signer, is missing. "
            "Default: false, so the pod waits."
        ),
    )
    path: str = field(
        4,
        always=True,
        required=True,
        doc='File for the certificates, relative to the volume. It must not contain "..".',
    )
    user: int64 | None = field(
        6,
        doc=(
            "User ID that owns the file with the certificates. Alpha: the server drops this field "
            "from new pods."
        ),
    )


class PodCertificateProjection(Type):
    """A private key and certificate of the pod as files of a projected volume."""

    signerName: str = field(
        1,
        required=True,
        doc=(
            "Signer that issues the certificate, as domain/name, for example example.com/my-signer."
        ),
    )
    keyType: str = field(
        2,
        required=True,
        doc=(
            "Type of the private key: RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521 or ED25519."
        ),
    )
    maxExpirationSeconds: int32 | None = field(
        3,
        doc=(
            "Maximum lifetime of the certificate in seconds: 3600 (1 hour) to 7862400 (91 days), "
            "or to 86400 for kubernetes.io signers. When absent: 86400."
        ),
    )
    credentialBundlePath: str = field(
        4,
        doc=(
            "File for the private key followed by the certificate chain, all PEM. One file "
            "changes atomically, so prefer it to two."
        ),
    )
    keyPath: str = field(
        5,
        doc=(
            "File for the private key alone. It may briefly not match the file at "
            "certificateChainPath while both are renewed."
        ),
    )
    certificateChainPath: str = field(
        6,
        doc=(
            "File for the certificate chain alone. At least one of this path, keyPath and "
            "credentialBundlePath is required."
        ),
    )
    userAnnotations: dict[str, str] = field(
        7,
        doc=(
            "Extra information for the signer, copied to the PodCertificateRequest. Each key "
            "needs a domain, for example example.com/team."
        ),
    )
    user: int64 | None = field(
        8,
        doc=(
            "User ID that owns the files with the key and the chain. Alpha: the server drops this "
            "field from new pods."
        ),
    )


class KeyToPath(Type):
    """Writes one key of a ConfigMap or Secret to a file."""

    key: str = field(1, always=True, required=True, doc="Key of the ConfigMap or Secret to write.")
    path: str = field(
        2,
        always=True,
        required=True,
        doc=(
            'File for the value, relative to the volume. It must not contain ".." or begin with it.'
        ),
    )
    mode: int32 | None = field(
        3,
        doc=(
            "Permission bits of the key's file, 0 to 0777 in octal (JSON takes decimal). When "
            "absent: the volume's defaultMode."
        ),
    )
    user: int64 | None = field(
        4,
        doc=(
            "User ID that owns the key's file. When absent: the volume's defaultUser. Alpha: the "
            "server drops this field from new pods."
        ),
    )


class PersistentVolumeClaimVolumeSource(Type):
    """The volume that is bound to a claim in the pod's namespace."""

    claimName: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the PersistentVolumeClaim in the pod's namespace.",
    )
    readOnly: bool = field(
        2, doc="Mount the claim's volume read-only in every container of the pod. Default: false."
    )


class EphemeralVolumeSource(Type):
    """A volume whose claim is created with the pod and deleted with it."""

    volumeClaimTemplate: PersistentVolumeClaimTemplate | None = field(
        1,
        doc=(
            "Template of the claim, which is named POD-VOLUME and owned by the pod. It is "
            "required. An unrelated claim of that name blocks the pod."
        ),
    )


class ImageVolumeSource(Type):
    """The filesystem of an OCI image or artifact."""

    reference: str = field(
        1,
        doc=(
            "Image or artifact to mount, in the same form as a container's image. A pod needs it; "
            "a pod template may leave it to admission."
        ),
    )
    pullPolicy: str = field(
        2,
        enum=("Always", "Never", "IfNotPresent"),
        doc=(
            "When the kubelet pulls the image of the volume: Always, IfNotPresent or Never. "
            "Default: Always for the tag latest or without tag and digest, otherwise "
            "IfNotPresent."
        ),
    )


class GitRepoVolumeSource(Type):
    """A clone of a git repository. Deprecated: clone in an init container instead."""

    repository: str = field(
        1, always=True, required=True, doc="URL of the git repository to clone."
    )
    revision: str = field(2, doc="Commit to check out. When empty: the head of the default branch.")
    directory: str = field(
        3,
        doc=(
            'Directory for the clone, relative to the volume, without "..". "." clones into the '
            "volume itself; when empty, git names a subdirectory."
        ),
    )
