"""Secret: confidential values by key."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, field


class Secret(Kind):
    """Confidential values by key, at most 1 MiB in total, for pods and controllers."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. Some types need an annotation, such as "
            "kubernetes.io/service-account.name."
        ),
    )
    immutable: bool | None = field(
        5,
        doc=(
            "When true, data can no longer change, and this field neither. The Secret can only be "
            "deleted. Default: false."
        ),
    )
    data: dict[str, bytes] = field(
        2,
        doc=(
            'Values by key, in base64 in JSON. Keys consist of letters, digits, "-", "_" and ".". '
            "At most 1 MiB in total."
        ),
    )
    stringData: dict[str, str] = field(
        4,
        doc=(
            "Values by key as plain text, for writing only: they are merged into data, over equal "
            "keys, and never returned."
        ),
    )
    type: str = field(
        3,
        doc=(
            "Purpose of the Secret, which decides the keys that it must have, for example "
            "kubernetes.io/tls. Default: Opaque. It cannot change."
        ),
    )
