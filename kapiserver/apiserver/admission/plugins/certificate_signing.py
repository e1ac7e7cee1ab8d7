"""CertificateSigning: who gives the certificate, or says that it failed, may `sign` for the
signer.

Mirrors plugin/pkg/admission/certificates/signing.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.admission.plugins.signers import may
from kapiserver.apiserver.context import Server


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raises Forbidden."""
    if new is None or old is None:
        return
    parts = ("certificate", "conditions")
    if all(value_at(new, "status", one) == value_at(old, "status", one) for one in parts):
        return
    signer = value_at(old, "spec", "signerName") or ""
    if not await may(server, attributes, "sign", signer):
        raise attributes.forbidden(
            f'user not permitted to sign requests with signerName "{signer}"'
        )
