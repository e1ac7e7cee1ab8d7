"""The hub version of PodCertificateRequest, with the fields of v1beta1. It is never encoded."""

from __future__ import annotations

from kapiserver.api.certificates import v1beta1


class PodCertificateRequest(v1beta1.PodCertificateRequest):
    """A request in the hub version, with the two public key fields that v1 lacks."""
