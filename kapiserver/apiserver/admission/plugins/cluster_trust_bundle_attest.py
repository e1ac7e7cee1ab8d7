"""ClusterTrustBundleAttest: a user who writes the trust bundle of a signer needs the verb `attest`
on it.

Mirrors plugin/pkg/admission/certificates/ctbattest.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.gc_fields import changes_only_gc_fields
from kapiserver.apiserver.admission.plugins.signers import is_allowed
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raise Forbidden if the user may not attest for the signer of the bundle."""
    if new is None or changes_only_gc_fields(new, old):
        return
    signer = value_at(new, "spec", "signerName") or ""
    if signer and not await is_allowed(server, attributes, "attest", signer):
        raise attributes.forbidden(f'user not permitted to attest for signerName "{signer}"')
