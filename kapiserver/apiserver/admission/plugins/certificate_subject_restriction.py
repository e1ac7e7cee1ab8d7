"""CertificateSubjectRestriction: refuses client certificates of group `system:masters`.

Mirrors plugin/pkg/admission/certificates/subjectrestriction.
"""

from __future__ import annotations

import base64

from kapiserver.api.accessors import value_at
from kapiserver.api.certificates import pem
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import MASTERS

_SIGNER = "kubernetes.io/kube-apiserver-client"


async def validate(
    _server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raise Forbidden for the group, or for a request that cannot be parsed."""
    if new is None or value_at(new, "spec", "signerName") != _SIGNER:
        return
    try:
        text = base64.b64decode(value_at(new, "spec", "request") or "").decode("latin-1")
        groups = pem.subject_values(pem.parse_signing_request(text), pem.ORGANIZATION)
    except ValueError as error:
        raise attributes.forbidden(f"failed to parse CSR: {error}") from None
    if MASTERS in groups:
        raise attributes.forbidden(f"use of {_SIGNER} signer with {MASTERS} group is not allowed")
