"""The hub of what v1 of certificates.k8s.io does not hold. Never on the wire."""

from __future__ import annotations

from kapiserver.api.certificates import v1beta1


class PodCertificateRequest(v1beta1.PodCertificateRequest):
    """A request as the server handles it: with the key and its proof, which v1 left out."""
