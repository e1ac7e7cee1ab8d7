"""certificates.k8s.io/v1: requests for certificates, and bundles of trusted ones."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scalar_types import StringList, Time
from kapiserver.api.types import Kind, Type, field, int32


class CertificateSigningRequest(Kind):
    """Asks a signer for a certificate."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: CertificateSigningRequestSpec = field(2, doc="The desired state.", required=True)
    status: CertificateSigningRequestStatus = field(3, doc="The observed state.")


class CertificateSigningRequestCondition(Type):
    """A decision about a request."""

    type: str = field(1, always=True, doc="Approved, Denied or Failed.", required=True)
    status: str = field(6, always=True, doc="True, False or Unknown.", required=True)
    reason: str = field(2, doc="Why, in one word for programs.")
    message: str = field(3, doc="Why, for people.")
    lastUpdateTime: Time = field(4, doc="When the finding was last made.")
    lastTransitionTime: Time = field(5, doc="When the status last changed.")


class CertificateSigningRequestSpec(Type):
    """What is asked for, of whom and by whom."""

    request: bytes = field(1, always=True, doc="The request as PEM.", required=True)
    signerName: str = field(7, always=True, doc="Who shall sign.", required=True)
    expirationSeconds: int32 | None = field(8, doc="How long the certificate shall be good.")
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
        doc="What the key may be used for.",
    )
    username: str = field(2, doc="Who asks; set by the server.")
    uid: str = field(3, doc="Its uid.")
    groups: list[str] = field(4, doc="The groups.")
    extra: dict[str, ExtraValue] = field(6, doc="What else is known of the user.")


class CertificateSigningRequestStatus(Type):
    """The decisions, and the certificate."""

    conditions: list[CertificateSigningRequestCondition] = field(
        1, keys=("type",), doc="What was found out about it."
    )
    certificate: bytes = field(2, doc="The certificate as PEM.")


class ClusterTrustBundle(Kind):
    """Certificates that clients of a signer trust."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ClusterTrustBundleSpec = field(2, doc="The desired state.", required=True)


class ClusterTrustBundleSpec(Type):
    """The certificates, and whose."""

    signerName: str = field(1, doc="Whose certificates these are.")
    trustBundle: str = field(2, always=True, doc="The certificates as PEM.", required=True)


class ExtraValue(StringList):
    """The values of one further attribute of a user."""


class PodCertificateRequest(Kind):
    """Asks a signer for a certificate of a pod."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PodCertificateRequestSpec = field(2, required=True, doc="The desired state.")
    status: PodCertificateRequestStatus = field(3, doc="The observed state.")


class PodCertificateRequestSpec(Type):
    """Which pod, which key, and which signer."""

    signerName: str = field(1, always=True, required=True, doc="Who signs.")
    podName: str = field(2, always=True, required=True, doc="The pod, by name.")
    podUID: str = field(3, always=True, required=True, doc="The pod, by uid.")
    serviceAccountName: str = field(
        4, always=True, required=True, doc="The service account, by name."
    )
    serviceAccountUID: str = field(
        5, always=True, required=True, doc="The service account, by uid."
    )
    nodeName: str = field(6, always=True, required=True, doc="The node, by name.")
    nodeUID: str = field(7, always=True, required=True, doc="The node, by uid.")
    maxExpirationSeconds: int32 | None = field(
        8, default=86400, doc="How long it may be valid at most."
    )
    stubPKCS10Request: bytes = field(
        12, always=True, required=True, doc="The public key, in the form of a request."
    )
    unverifiedUserAnnotations: dict[str, str] = field(11, doc="What the pod says to the signer.")


class PodCertificateRequestStatus(Type):
    """The certificate, or why there is none."""

    conditions: list[Condition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )
    certificateChain: str = field(2, doc="The certificates, as PEM.")
    notBefore: Time | None = field(4, doc="From when it is valid.")
    beginRefreshAt: Time | None = field(5, doc="When to ask for the next one.")
    notAfter: Time | None = field(6, doc="Until when it is valid.")
