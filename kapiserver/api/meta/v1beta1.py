"""meta/v1beta1: the list of partial metadata, whose tags differ from those of v1."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ListMeta, PartialObjectMetadata
from kapiserver.api.types import Kind, field


class PartialObjectMetadataList(Kind):
    """A list of objects of any kind, reduced to their metadata, for clients of meta/v1beta1."""

    listed = False

    metadata: ListMeta = field(
        2, doc="Standard list metadata: the list's resourceVersion and the token for its next page."
    )
    items: list[PartialObjectMetadata] = field(
        1, always=True, doc="The metadata of each object of the list."
    )
