"""DenyServiceExternalIPs: refuses new external IPs of services.

Mirrors plugin/pkg/admission/network/denyserviceexternalips.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server


async def validate(
    _server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raise Forbidden for an external IP that the old service does not have."""
    if new is None or attributes.target.subresource:
        return
    old_addresses = value_at(old or {}, "spec", "externalIPs") or ()
    if any(address not in old_addresses for address in value_at(new, "spec", "externalIPs") or ()):
        raise attributes.forbidden("Use of external IPs is denied by admission control.")
