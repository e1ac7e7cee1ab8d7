"""certificates.k8s.io/v1: certificate signing requests, pod certificates and trust bundles."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scalar_types import StringList, Time
from kapiserver.api.types import Kind, Type, field, int32


class CertificateSigningRequest(Kind):
    """A request for an X.509 certificate, which an approver approves and a signer answers."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: CertificateSigningRequestSpec = field(
        2,
        doc="The certificate that is requested. It cannot be changed after creation.",
        required=True,
    )
    status: CertificateSigningRequestStatus = field(
        3, doc="Whether the request was approved or denied, and the certificate."
    )


class CertificateSigningRequestCondition(Type):
    """An approval, a denial or a failure of a request."""

    type: str = field(
        1,
        always=True,
        doc=(
            "Approved, Denied or Failed. Approved and Denied exclude each other, and none of them "
            "can be removed."
        ),
        required=True,
    )
    status: str = field(
        6,
        always=True,
        doc="True for Approved, Denied and Failed; other values are not allowed for these types.",
        required=True,
    )
    reason: str = field(
        2, doc="A CamelCase word for why the request was approved, was denied or failed."
    )
    message: str = field(
        3, doc="A text for people with the details, such as why the signer failed."
    )
    lastUpdateTime: Time = field(4, doc="When the condition was last updated.")
    lastTransitionTime: Time = field(
        5,
        doc=(
            "When the condition was added, or when its status last changed. The server sets it if "
            "it is absent."
        ),
    )


class CertificateSigningRequestSpec(Type):
    """The requested certificate, its signer, and the user who made the request."""

    request: bytes = field(
        1,
        always=True,
        doc=(
            "The PKCS#10 certificate request, encoded as a PEM block of type CERTIFICATE REQUEST."
        ),
        required=True,
    )
    signerName: str = field(
        7,
        always=True,
        doc=(
            "The signer to answer the request, a domain and a path such as "
            "kubernetes.io/kube-apiserver-client."
        ),
        required=True,
    )
    expirationSeconds: int32 | None = field(
        8,
        doc=(
            "Requested validity of the certificate in seconds; 600 or more. The signer may choose "
            "another; if absent, the signer decides."
        ),
    )
    usages: list[str] = field(
        5,
        enum=(
            "signing",
            "digital signature",
            "content commitment",
            "key encipherment",
            "key agreement",
            "data encipherment",
            "cert sign",
            "crl sign",
            "encipher only",
            "decipher only",
            "any",
            "server auth",
            "client auth",
            "code signing",
            "email protection",
            "s/mime",
            "ipsec end system",
            "ipsec tunnel",
            "ipsec user",
            "timestamping",
            "ocsp signing",
            "microsoft sgc",
            "netscape sgc",
        ),
        doc=(
            "The key usages that the certificate should have. Signers for TLS clients, for "
            "instance, expect digital signature and client auth."
        ),
    )
    username: str = field(
        2, doc="Name of the user who made the request. The server sets it on creation."
    )
    uid: str = field(3, doc="UID of the user who made the request. The server sets it on creation.")
    groups: list[str] = field(
        4, doc="Groups of the user who made the request. The server sets them on creation."
    )
    extra: dict[str, ExtraValue] = field(
        6,
        doc=(
            "Extra attributes of the user who made the request. The server sets them on creation."
        ),
    )


class CertificateSigningRequestStatus(Type):
    """The decisions about a request, and the issued certificate."""

    conditions: list[CertificateSigningRequestCondition] = field(
        1, keys=("type",), doc="Approval, denial and failure of the request, by condition type."
    )
    certificate: bytes = field(
        2,
        doc=(
            "The issued certificate, and intermediate ones if there are any, as PEM blocks. "
            "Absent until the signer has issued it."
        ),
    )


class ClusterTrustBundle(Kind):
    """A set of X.509 trust anchors (root certificates) that pods can mount."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. With a signerName, the name must begin with it, slashes "
            "replaced by colons, and a colon."
        ),
    )
    spec: ClusterTrustBundleSpec = field(
        2, doc="The trust anchors and the signer that they belong to.", required=True
    )


class ClusterTrustBundleSpec(Type):
    """The trust anchors of a bundle."""

    signerName: str = field(
        1,
        doc=(
            "The signer whose certificates the anchors verify. It cannot be changed. If it is "
            "empty, the bundle belongs to no signer."
        ),
    )
    trustBundle: str = field(
        2,
        always=True,
        doc=(
            "The trust anchors as PEM blocks of CA certificates without headers; at least one, no "
            "duplicates, at most 1 MiB."
        ),
        required=True,
    )


class ExtraValue(StringList):
    """The values of one extra attribute of a user."""


class PodCertificateRequest(Kind):
    """A kubelet's request, for a pod, for an X.509 certificate from a signer."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. The request is in the namespace of its pod."
    )
    spec: PodCertificateRequestSpec = field(
        2,
        required=True,
        doc="The pod, its public key and the signer. It cannot be changed after creation.",
    )
    status: PodCertificateRequestStatus = field(
        3,
        doc=(
            "The issued certificates, or why there are none. It cannot be changed once the "
            "request is issued, denied or failed."
        ),
    )


class PodCertificateRequestSpec(Type):
    """The pod, the signer and the key for which a certificate is requested."""

    signerName: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "The signer to answer the request, a domain and a path such as example.com/my-signer."
        ),
    )
    podName: str = field(
        2, always=True, required=True, doc="Name of the pod that will use the certificate."
    )
    podUID: str = field(
        3, always=True, required=True, doc="UID of the pod that will use the certificate."
    )
    serviceAccountName: str = field(
        4, always=True, required=True, doc="Name of the service account of the pod."
    )
    serviceAccountUID: str = field(
        5, always=True, required=True, doc="UID of the service account of the pod."
    )
    nodeName: str = field(
        6,
        always=True,
        required=True,
        doc="Name of the node that runs the pod. Its kubelet makes the request.",
    )
    nodeUID: str = field(7, always=True, required=True, doc="UID of the node that runs the pod.")
    maxExpirationSeconds: int32 | None = field(
        8,
        default=86400,
        doc=(
            "Longest validity of the certificate in seconds: 3600 (1 hour) to 7862400 (91 days), "
            "at most 86400 for signers of kubernetes.io."
        ),
    )
    stubPKCS10Request: bytes = field(
        12,
        always=True,
        required=True,
        doc=(
            "A DER-encoded PKCS#10 request that holds only the public key and is signed with the "
            "private key, as proof of possession."
        ),
    )
    unverifiedUserAnnotations: dict[str, str] = field(
        11,
        doc=(
            "Key-value pairs from the pod's author to the signer, with domain-prefixed keys. "
            "Kubernetes does not verify the values."
        ),
    )


class PodCertificateRequestStatus(Type):
    """The answer of the signer to a pod's request."""

    conditions: list[Condition] = field(
        1,
        keys=("type",),
        merge="type",
        doc=(
            "The outcome: one condition of type Issued, Denied or Failed with status True, and "
            "never another after it."
        ),
    )
    certificateChain: str = field(
        2,
        doc=(
            "The issued certificate and its intermediates as PEM blocks, the pod's own first. At "
            "most 100 KiB; required when issued."
        ),
    )
    notBefore: Time | None = field(
        4, doc="When the certificate begins to be valid, as stated in it. Required when issued."
    )
    beginRefreshAt: Time | None = field(
        5,
        doc=(
            "When the kubelet should begin to ask for a new certificate: at least 10 minutes "
            "after notBefore and before notAfter."
        ),
    )
    notAfter: Time | None = field(
        6, doc="When the certificate expires, as stated in it. Required when issued."
    )
