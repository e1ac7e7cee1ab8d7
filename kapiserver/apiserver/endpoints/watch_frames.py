"""Watch events whose objects are turned into rows of Tables or into their metadata alone.

A Framer each, as the store takes them; what they do not change (errors) the ordinary framer of
the resource writes. Mirrors watchEmbeddedEncoder of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.endpoints.tables import TableOf, metadata_alone
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.media_types import MediaType
from kapiserver.storage.entry import Entry
from kapiserver.storage.kv import Revision
from kapiserver.storage.list_encoder import event_frame
from kapiserver.storage.query import EventType, Framer

INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


class MetadataFramer:
    """Objects as PartialObjectMetadata."""

    def __init__(
        self, codecs: CodecFactory, media: MediaType, plain: Framer, version: GroupVersion
    ) -> None:
        self._codecs = codecs
        self._media = media
        self._plain = plain
        self._version = version

    @property
    def identity(self) -> Hashable:
        """Watches of the same medium and version share their frames."""
        return (self._media.name, self._version, "PartialObjectMetadata")

    def event(self, kind: EventType, entry: Entry) -> bytes:
        """One change."""
        return self._frame(kind, metadata_alone(entry.tree(), self._version))

    def bookmark(self, revision: Revision, *, initial_events_end: bool) -> bytes:
        """How far the watch has come."""
        metadata = bookmark_metadata(revision, initial_events_end=initial_events_end)
        return self._frame("BOOKMARK", metadata_alone({"metadata": metadata}, self._version))

    def error(self, error: Exception) -> bytes:
        """The end of the stream."""
        return self._plain.error(error)

    def _frame(self, kind: str, obj: Tree) -> bytes:
        body = self._codecs.serializer_for(self._media).encode(obj)
        return event_frame(self._media.extension, kind, body)


class TableFramer:
    """Objects as Tables of one row; the columns stand in the first alone, so that no two watches
    share their frames."""

    def __init__(
        self,
        codecs: CodecFactory,
        media: MediaType,
        plain: Framer,
        table: TableOf,
        empty: Callable[[Tree], Tree],
        now: Callable[[], datetime],
    ) -> None:
        self._codecs = codecs
        self._media = media
        self._plain = plain
        self._table = table
        self._empty = empty
        self._now = now
        self._has_columns = False

    @property
    def identity(self) -> Hashable:
        """Nobody else's."""
        return (id(self), "Table")

    def event(self, kind: EventType, entry: Entry) -> bytes:
        """One change."""
        return self._frame(kind, entry.tree())

    def bookmark(self, revision: Revision, *, initial_events_end: bool) -> bytes:
        """How far the watch has come: the row of an object that is nothing but its version."""
        metadata = bookmark_metadata(revision, initial_events_end=initial_events_end)
        return self._frame("BOOKMARK", self._empty(metadata))

    def error(self, error: Exception) -> bytes:
        """The end of the stream."""
        return self._plain.error(error)

    def _frame(self, kind: str, obj: Tree) -> bytes:
        table = self._table.head({"resourceVersion": obj["metadata"]["resourceVersion"]})
        if self._has_columns:
            table["columnDefinitions"] = None
        self._has_columns = True
        table["rows"].append(self._table.row(obj, self._now()))
        body = self._codecs.serializer_for(self._media).encode(table)
        return event_frame(self._media.extension, kind, body)


def bookmark_metadata(revision: Revision, *, initial_events_end: bool) -> Tree:
    """The metadata of a bookmark's object."""
    metadata: Tree = {"resourceVersion": str(revision)}
    if initial_events_end:
        metadata["annotations"] = dict(INITIAL_EVENTS_END)
    return metadata
