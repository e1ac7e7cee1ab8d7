"""What differs between the versions of certificates.k8s.io: who signs may be left out in v1beta1,
and v1 has the key of a pod's request in its stub alone.

Mirrors pkg/apis/certificates/v1beta1/conversion.go.
"""

from __future__ import annotations

from kapiserver.api.certificates import v1, v1beta1
from kapiserver.api.conversion import Functions
from kapiserver.api.types import Tree


def _signing_spec(source: Tree, target: Tree) -> None:
    target["signerName"] = source.get("signerName") or ""
    if source.get("extra"):
        target["extra"] = source["extra"]


def _not_in_v1(source: Tree, target: Tree) -> None:
    """Nothing to add: v1 drops the key and its proof, the other way they are empty."""


CONVERSIONS: Functions = {
    (v1.CertificateSigningRequestSpec, v1beta1.CertificateSigningRequestSpec): _signing_spec,
    (v1beta1.CertificateSigningRequestSpec, v1.CertificateSigningRequestSpec): _signing_spec,
    (v1.PodCertificateRequestSpec, v1beta1.PodCertificateRequestSpec): _not_in_v1,
    (v1beta1.PodCertificateRequestSpec, v1.PodCertificateRequestSpec): _not_in_v1,
}
