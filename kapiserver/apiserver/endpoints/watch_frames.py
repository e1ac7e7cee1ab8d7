"""Framers that encode the objects of watch events as Tables or as PartialObjectMetadata.

The framer of the resource encodes errors, which need no conversion. Mirrors watchEmbeddedEncoder of
k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.endpoints.tables import TableBuilder, partial_metadata
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.media_types import MediaType
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import EventType, Framer
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.list_encoder import event_frame

INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


class _ConvertingFramer:
    """The base of framers that decode an object and encode another one, which they make of it.

    plain  the framer of the resource, which encodes errors
    """

    def __init__(
        self, codecs: CodecFactory, media: MediaType, plain: Framer, offloader: Offloader
    ) -> None:
        self._codecs = codecs
        self._media = media
        self._plain = plain
        self._offloader = offloader

    @property
    def version(self) -> GroupVersion:
        """The version of the resource that the client watches."""
        return self._plain.version

    def is_slow(self, entry: Entry) -> bool:
        """Whether a thread is to decode the object."""
        return entry.is_slow_to_decode()

    async def prepare(self, entry: Entry) -> None:
        """Decode an object in a thread."""
        await self._offloader.tree(entry, limited=False)

    def error(self, error: Exception) -> bytes:
        """Encode the error that ends the stream."""
        return self._plain.error(error)

    def _frame(self, kind: str, obj: Tree) -> bytes:
        body = self._codecs.serializer_for(self._media).encode(obj)
        return event_frame(self._media.extension, kind, body)


class MetadataFramer(_ConvertingFramer):
    """Encodes objects as PartialObjectMetadata."""

    def __init__(
        self,
        codecs: CodecFactory,
        media: MediaType,
        plain: Framer,
        version: GroupVersion,
        offloader: Offloader,
    ) -> None:
        super().__init__(codecs, media, plain, offloader)
        self._version = version

    @property
    def identity(self) -> Hashable:
        """The key under which watches share frames: media type and version."""
        return (self._media.name, self._version, "PartialObjectMetadata")

    def event(self, kind: EventType, entry: Entry) -> bytes:
        """Encode a change of an object."""
        return self._frame(kind, partial_metadata(entry.tree(), self._version))

    def bookmark(self, revision: Revision, *, initial_events_end: bool) -> bytes:
        """Encode a bookmark."""
        metadata = bookmark_metadata(revision, initial_events_end=initial_events_end)
        return self._frame("BOOKMARK", partial_metadata({"metadata": metadata}, self._version))


class TableFramer(_ConvertingFramer):
    """Encodes objects as Tables of one row. Only the first Table of a watch has column definitions,
    so watches cannot share frames."""

    def __init__(
        self,
        codecs: CodecFactory,
        media: MediaType,
        plain: Framer,
        table: TableBuilder,
        empty: Callable[[Tree], Tree],
        now: Callable[[], datetime],
        offloader: Offloader,
    ) -> None:
        super().__init__(codecs, media, plain, offloader)
        self._table = table
        self._empty = empty
        self._now = now
        self._has_columns = False

    @property
    def identity(self) -> Hashable:
        """A key of this framer alone: its frames are not shared."""
        return (id(self), "Table")

    def event(self, kind: EventType, entry: Entry) -> bytes:
        """Encode a change of an object."""
        return self._frame(kind, self._table_of(entry.tree()))

    def bookmark(self, revision: Revision, *, initial_events_end: bool) -> bytes:
        """Encode a bookmark as the row of an object that has a resourceVersion only."""
        metadata = bookmark_metadata(revision, initial_events_end=initial_events_end)
        return self._frame("BOOKMARK", self._table_of(self._empty(metadata)))

    def _table_of(self, obj: Tree) -> Tree:
        table = self._table.head({"resourceVersion": obj["metadata"]["resourceVersion"]})
        if self._has_columns:
            table["columnDefinitions"] = None
        self._has_columns = True
        table["rows"].append(self._table.row(obj, self._now()))
        return table


def bookmark_metadata(revision: Revision, *, initial_events_end: bool) -> Tree:
    """Return the metadata of a bookmark's object."""
    metadata: Tree = {"resourceVersion": str(revision)}
    if initial_events_end:
        metadata["annotations"] = dict(INITIAL_EVENTS_END)
    return metadata
