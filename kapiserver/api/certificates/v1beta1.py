"""certificates.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.certificates import v1
from kapiserver.api.types import field, inherit_types, override_field

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
        doc=(
            "The signer to answer the request, a domain and a path. If it is absent, the server "
            "chooses a legacy signer by the request's content."
        ),
    )  # type: ignore[assignment] # a pointer here
    usages = override_field(enum=())


class PodCertificateRequest(v1.PodCertificateRequest):
    """A kubelet's request, for a pod, for an X.509 certificate from a signer."""


class PodCertificateRequestSpec(v1.PodCertificateRequestSpec):
    pkixPublicKey: bytes = field(
        9,
        always=True,
        before="stubPKCS10Request",
        doc=(
            "The public key in PKIX (DER) form: ECDSA, Ed25519 or RSA. Needs proofOfPossession; "
            "excludes stubPKCS10Request."
        ),
    )
    proofOfPossession: bytes = field(
        10,
        always=True,
        before="stubPKCS10Request",
        doc=(
            "Signature of the pod's UID with the private key of pkixPublicKey. Required with that "
            "field."
        ),
    )
    stubPKCS10Request = override_field(
        doc=(
            "A DER-encoded PKCS#10 request that holds only the public key, signed with the "
            "private key. Excludes pkixPublicKey."
        )
    )
