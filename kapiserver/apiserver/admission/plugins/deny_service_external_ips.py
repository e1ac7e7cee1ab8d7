"""DenyServiceExternalIPs: services get no new external addresses.

Mirrors plugin/pkg/admission/network/denyserviceexternalips.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.context import Server


async def validate(
    _server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raises Forbidden."""
    if new is None or attributes.target.subresource:
        return
    before = value_at(old or {}, "spec", "externalIPs") or ()
    if any(one not in before for one in value_at(new, "spec", "externalIPs") or ()):
        raise attributes.forbidden("Use of external IPs is denied by admission control.")
