"""Secret."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, field


class Secret(Kind):
    """Key and value of a kind that must not be shown around."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    immutable: bool | None = field(5, doc="No change is allowed but deletion.")
    data: dict[str, bytes] = field(2, doc="Bytes by key.")
    stringData: dict[str, str] = field(4, doc="Text by key, written into data and never shown.")
    type: str = field(3, doc="What the keys mean.")
