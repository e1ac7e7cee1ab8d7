"""meta/v1beta1: what old clients still ask for by this name; everything else is that of v1."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ListMeta, PartialObjectMetadata
from kapiserver.api.types import Kind, field


class PartialObjectMetadataList(Kind):
    """The metadata of many objects; v1 has the tags the other way round."""

    listed = False

    metadata: ListMeta = field(2, doc="Standard list metadata.")
    items: list[PartialObjectMetadata] = field(1, always=True)
