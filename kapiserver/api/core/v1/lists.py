"""A list of objects of any kind, as clients keep them in files."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ListMeta
from kapiserver.api.scalar_types import RawExtension
from kapiserver.api.types import Kind, field


class List(Kind):
    """Objects of any kind; the server takes them one by one."""

    listed = False

    metadata: ListMeta = field(1, doc="Standard list metadata.")
    items: list[RawExtension] = field(2, always=True, doc="The objects.")
