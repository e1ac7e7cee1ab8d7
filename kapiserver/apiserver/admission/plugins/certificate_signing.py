"""CertificateSigning: a user who sets the certificate or a condition needs the verb `sign` on the
signer.

Mirrors plugin/pkg/admission/certificates/signing.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.plugins.signers import is_allowed
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raise Forbidden if the user may not sign for the signer."""
    if new is None or old is None:
        return
    fields = ("certificate", "conditions")
    if all(value_at(new, "status", field) == value_at(old, "status", field) for field in fields):
        return
    signer = value_at(old, "spec", "signerName") or ""
    if not await is_allowed(server, attributes, "sign", signer):
        raise attributes.forbidden(
            f'user not permitted to sign requests with signerName "{signer}"'
        )
