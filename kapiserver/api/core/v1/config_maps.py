"""ConfigMap: configuration by key."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, field


class ConfigMap(Kind):
    """Configuration by key, at most 1 MiB in total, for pods and other users."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. Pods refer to the ConfigMap by its name, from the same "
            "namespace."
        ),
    )
    immutable: bool | None = field(
        4,
        doc=(
            "When true, data and binaryData can no longer change, and this field neither. The "
            "ConfigMap can only be deleted. Default: false."
        ),
    )
    data: dict[str, str] = field(
        2,
        doc=(
            'Values by key as UTF-8 text. Keys consist of letters, digits, "-", "_" and "." and '
            "must not be in binaryData too."
        ),
    )
    binaryData: dict[str, bytes] = field(
        3,
        doc=(
            "Values by key that need not be UTF-8, in base64 in JSON. Keys follow the rules of "
            "data and must not be in it."
        ),
    )
