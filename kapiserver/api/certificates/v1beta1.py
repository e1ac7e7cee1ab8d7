"""certificates.k8s.io/v1beta1: the types of v1, but for the differences below."""

from __future__ import annotations

from kapiserver.api.certificates import v1
from kapiserver.api.types import Type, field, inherit_types, int32, override_field

inherit_types(__name__, v1)


class CertificateSigningRequest(v1.CertificateSigningRequest):
    spec = override_field(required=False)


class CertificateSigningRequestCondition(v1.CertificateSigningRequestCondition):
    type = override_field(required=False)
    status = override_field(required=False)


class CertificateSigningRequestSpec(v1.CertificateSigningRequestSpec):
    request = override_field(required=False)
    signerName: str | None = field(
        7,
        doc="The signer to answer the request, a domain and a path. If it is absent, the server "
        "chooses a legacy signer by the request's content.",
    )  # type: ignore[assignment]
    usages = override_field(enum=())


class PodCertificateRequest(v1.PodCertificateRequest):
    """A kubelet's request, for a pod, for an X.509 certificate from a signer."""


class PodCertificateRequestSpec(Type):
    """The pod, the signer and the key of a requested certificate."""

    signerName: str = field(
        1,
        always=True,
        required=True,
        doc="The signer that should answer the request, as a domain and a path such as "
        "example.com/my-signer.",
    )
    podName: str = field(
        2, always=True, required=True, doc="Name of the pod that gets the certificate."
    )
    podUID: str = field(
        3, always=True, required=True, doc="UID of the pod that gets the certificate."
    )
    serviceAccountName: str = field(
        4, always=True, required=True, doc="Name of the service account that the pod runs as."
    )
    serviceAccountUID: str = field(
        5, always=True, required=True, doc="UID of the service account that the pod runs as."
    )
    nodeName: str = field(
        6,
        always=True,
        required=True,
        doc="Name of the pod's node, whose kubelet makes the request.",
    )
    nodeUID: str = field(7, always=True, required=True, doc="UID of the pod's node.")
    maxExpirationSeconds: int32 | None = field(
        8,
        default=86400,
        doc="The longest allowed validity in seconds: 3600 (1 hour) to 7862400 (91 days), or "
        "86400 for signers of kubernetes.io.",
    )
    pkixPublicKey: bytes = field(
        9,
        always=True,
        doc="The public key in PKIX (DER) form: ECDSA, Ed25519 or RSA. Needs proofOfPossession; "
        "excludes stubPKCS10Request.",
    )
    proofOfPossession: bytes = field(
        10,
        always=True,
        doc="Signature of the pod's UID with the private key of pkixPublicKey. Required with "
        "that field.",
    )
    stubPKCS10Request: bytes = field(
        12,
        always=True,
        required=True,
        doc="A DER-encoded PKCS#10 request that holds only the public key, signed with the "
        "private key. Excludes pkixPublicKey.",
    )
    unverifiedUserAnnotations: dict[str, str] = field(
        11,
        doc="Key-value pairs from the pod's author to the signer. Kubernetes checks the form of "
        "keys, not the content.",
    )
