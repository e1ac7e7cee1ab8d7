"""CertificateApproval: a user who approves or denies a request needs the verb `approve` on its
signer.

Mirrors plugin/pkg/admission/certificates/approval.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.plugins.signers import is_allowed
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server


async def validate(
    server: Server, attributes: Attributes, _new: Tree | None, old: Tree | None
) -> None:
    """Raise Forbidden if the user may not approve for the signer."""
    signer = value_at(old or {}, "spec", "signerName") or ""
    if not await is_allowed(server, attributes, "approve", signer):
        raise attributes.forbidden(
            f'user not permitted to approve requests with signerName "{signer}"'
        )
