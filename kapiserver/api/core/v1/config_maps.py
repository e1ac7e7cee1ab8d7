"""ConfigMap."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, field


class ConfigMap(Kind):
    """Configuration as key and value, for pods to consume."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    immutable: bool | None = field(4, doc="No change is allowed but deletion.")
    data: dict[str, str] = field(2, doc="Text by key.")
    binaryData: dict[str, bytes] = field(3, doc="Bytes by key.")
