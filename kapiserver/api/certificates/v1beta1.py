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
    signerName: str | None = field(7, doc="Who shall sign.")  # type: ignore[assignment]
    usages = override_field(enum=())


class PodCertificateRequest(v1.PodCertificateRequest):
    """A pod's request for a certificate, with its public key and the proof of possession."""


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
    pkixPublicKey: bytes = field(9, always=True, doc="The public key.")
    proofOfPossession: bytes = field(10, always=True, doc="What shows that the key is the pod's.")
    stubPKCS10Request: bytes = field(
        12, always=True, required=True, doc="The public key, in the form of a request."
    )
    unverifiedUserAnnotations: dict[str, str] = field(11, doc="What the pod says to the signer.")
