"""List: objects of any kind together, as clients keep them in files."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ListMeta
from kapiserver.api.scalar_types import RawExtension
from kapiserver.api.types import Kind, field


class List(Kind):
    """A list of objects of any kind in a file. Clients send each object by itself."""

    listed = False

    metadata: ListMeta = field(1, doc="Standard list metadata. Clients leave it empty.")
    items: list[RawExtension] = field(
        2, always=True, doc="Objects of the list, each with its own apiVersion and kind."
    )
