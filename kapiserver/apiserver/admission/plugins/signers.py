"""Authorizes users for signers; shared by the certificate plugins, not a plugin itself.

Mirrors plugin/pkg/admission/certificates.
"""

from __future__ import annotations

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request_info import RequestInfo

_CERTIFICATES = GroupVersion("certificates.k8s.io", "v1")


async def is_allowed(server: Server, attributes: Attributes, verb: str, signer: str) -> bool:
    """Report whether the user may `approve`, `sign` or `attest` for the signer, or for all signers
    of its domain."""
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        info = RequestInfo(verb=verb, version=_CERTIFICATES, resource="signers", name=name)
        if (await server.authorizer.authorize(attributes.user, info)).allowed:
            return True
    return False
