"""AlwaysDeny: refuses every write.

Mirrors plugin/pkg/admission/deny.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server


async def admit(
    _server: Server, attributes: Attributes, _new: Tree | None, _old: Tree | None
) -> None:
    """Raise Forbidden."""
    raise attributes.forbidden("admission control is denying all modifications")
