"""Conversion of certificates.k8s.io: in v1beta1 a signing request may omit its signer, and v1 has
no public key fields in a pod certificate request.

Mirrors pkg/apis/certificates/v1beta1/conversion.go.
"""

from __future__ import annotations

from kapiserver.api.certificates import v1, v1beta1
from kapiserver.api.conversion import Functions
from kapiserver.api.types import Tree


def _convert_signing_spec(source: Tree, target: Tree) -> None:
    target["signerName"] = source.get("signerName") or ""
    if source.get("extra"):
        target["extra"] = source["extra"]


def _no_conversion(source: Tree, target: Tree) -> None:
    """Do nothing. v1 has no public key fields: they are dropped in one direction, and empty in the
    other."""


CONVERSIONS: Functions = {
    (
        v1.CertificateSigningRequestSpec,
        v1beta1.CertificateSigningRequestSpec,
    ): _convert_signing_spec,
    (
        v1beta1.CertificateSigningRequestSpec,
        v1.CertificateSigningRequestSpec,
    ): _convert_signing_spec,
    (v1.PodCertificateRequestSpec, v1beta1.PodCertificateRequestSpec): _no_conversion,
    (v1beta1.PodCertificateRequestSpec, v1.PodCertificateRequestSpec): _no_conversion,
}
