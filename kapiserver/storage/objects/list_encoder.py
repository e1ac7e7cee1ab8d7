"""Encodes entries into response bodies: single objects, chunked lists and watch frames.

No object is decoded: list heads are encoded, and the encoded items are joined. Other media types
(YAML, indented JSON) and kinds (Table) are encoded from trees elsewhere. Mirrors the streaming list
encoders and watch encoders of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Sequence

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.codecs.cbor import SELF_DESCRIBED_TAG, array_head
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.framing import LENGTH_PREFIXED
from kapiserver.codecs.json import SORT_KEYS, encode_value
from kapiserver.codecs.protobuf import serializer as protobuf
from kapiserver.codecs.tree_decoder import decode_tree
from kapiserver.storage.cache.entry import Encoding, Entry
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import EventType, ListResult
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.object_codec import CBOR_ITEM, ObjectCodec

CHUNK_BYTES = 256 << 10
"""Approximate size of one chunk of a list; chunks are smaller if encoding takes long."""

LONG_LIST = 50
"""A protobuf list of at least this many objects is measured in time slices."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_ENTRIES_PER_CHECK = 256
"""Entries of a list whose lengths are added up between two looks at the time."""
_EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")


class ListEncoder:
    """Encodes the objects and lists of one resource in JSON, protobuf and CBOR."""

    def __init__(self, codec: ObjectCodec, codecs: CodecFactory, offloader: Offloader) -> None:
        self._codec = codec
        self._offloader = offloader
        self._serializers = {
            media_type.extension: codecs.serializer_for(media_type)
            for media_type in codecs.media_types
            if media_type.extension in ("json", "protobuf", "cbor")
        }
        self._scheme = codecs.scheme
        self._is_typed = codec.is_typed
        self._list_kind = codec.resource.list_kind_name

    async def prepare(self, entries: Sequence[Entry], encoding: Encoding) -> None:
        """Measure the items of a long protobuf list, which begins with its length, without blocking
        the event loop."""
        if encoding.media != "protobuf" or len(entries) < LONG_LIST:
            return
        splices = encoding.version == self._codec.stored_version
        unmeasured = (
            [entry for entry in entries if entry.list_splice is None] if splices else entries
        )
        time_slice = TimeSlice()
        for entry in unmeasured:
            if not splices or self._codec.list_splice(entry) is None:
                await self._offloader.prepare_encoding(entry, encoding)
                entry.encode(encoding)
            await time_slice.yield_if_expired()

    async def prepare_object(self, entry: Entry, encoding: Encoding) -> None:
        """Encode an object of a stream in a thread if that takes long, so that `encode_object` has
        its encoding."""
        await self._offloader.prepare_encoding(entry, encoding, limited=False)

    def encode_object(self, entry: Entry, encoding: Encoding) -> bytes:
        """Return the response body of one object."""
        version, media = encoding
        body = entry.encode(encoding)
        if media == "json":
            return b"%b%b\n" % (self._codec.json_prefix(version), body)
        if media == "protobuf":
            return protobuf.write_envelope(self._codec.kind_in(version), body)
        if media == "cbor":
            return SELF_DESCRIBED_TAG + body
        return body

    def encode_list(self, listing: ListResult, encoding: Encoding) -> AsyncIterator[bytes]:
        """Yield the response body of a list in chunks, encoded on demand; large objects and the
        first one are encoded in a thread."""
        if encoding.media == "json":
            return self._json_list(listing, encoding)
        if encoding.media == "protobuf":
            return self._protobuf_list(listing, encoding)
        return self._cbor_list(listing, encoding)

    async def _encode_item(self, entry: Entry, encoding: Encoding) -> bytes:
        if not entry.is_slow_to_encode(encoding):
            return entry.encode_for_list(encoding)
        if not entry.is_large:
            await self._offloader.prepare_encoding(entry, encoding, limited=False)
        if entry.is_encoded(encoding):
            return entry.encode(encoding)
        # Not cached: a few large objects would evict all others.
        return await self._offloader.run_in_thread(
            self._codec.encode, entry, encoding, limited=False
        )

    def encode_tree(self, media: str, tree: Tree) -> bytes:
        """Return the encoding of any tree by the serializer of the media type."""
        return self._serializers[media].encode(tree)

    def bookmark_object(self, version: GroupVersion, metadata: Tree) -> Tree:
        """Return an object of the kind with nothing but metadata, for a bookmark."""
        kind = self._codec.kind_in(version)
        names = {"kind": kind.kind, "apiVersion": str(version)}
        if not self._is_typed:
            return {**names, "metadata": metadata}
        tree = decode_tree(self._scheme.type_of(kind), {**names, "metadata": metadata}, [])
        return {**names, **tree}

    def _list_meta(self, listing: ListResult) -> Tree:
        meta: Tree = {"resourceVersion": str(listing.revision)}
        if listing.continue_token or not self._is_typed:
            meta["continue"] = listing.continue_token
        if listing.remaining is not None:
            meta["remainingItemCount"] = listing.remaining
        return meta

    async def _json_list(self, listing: ListResult, encoding: Encoding) -> AsyncIterator[bytes]:
        head = encode_value(
            {
                "kind": self._list_kind,
                "apiVersion": str(encoding.version),
                "metadata": self._list_meta(listing),
                "items": [],
            },
            option=0 if self._is_typed else SORT_KEYS,
        )
        before, _, after = head.partition(b'"items":[]')
        # Encoded items lack the opening brace, because the bytes up to their metadata are cut off.
        # Custom objects are whole.
        brace = b"{" if self._is_typed else b""
        parts, between = [before, b'"items":['], brace
        size, time_slice = len(head), TimeSlice()
        for entry in listing.entries:
            body = entry.cached_encoding(encoding)
            if body is None:
                body = await self._encode_item(entry, encoding)
            parts.append(between)
            parts.append(body)
            between = b"," + brace
            size += len(body)
            if size >= CHUNK_BYTES or time_slice.expired:
                yield b"".join(parts)
                parts, size = [], 0
                time_slice.restart()
        parts.append(b"]%b\n" % after)
        yield b"".join(parts)

    async def _protobuf_list(self, listing: ListResult, encoding: Encoding) -> AsyncIterator[bytes]:
        kind = encoding.version.with_kind(self._list_kind)
        head = {"kind": kind.kind, "apiVersion": str(encoding.version)}
        meta = {**head, "metadata": self._list_meta(listing), "items": []}
        first = protobuf.read_envelope(self.encode_tree("protobuf", meta)).raw
        splices = encoding.version == self._codec.stored_version
        length, time_slice = len(first), TimeSlice()
        for number, entry in enumerate(listing.entries):
            if not number % _ENTRIES_PER_CHECK:
                await time_slice.yield_if_expired()
            spliced = entry.list_splice or self._codec.list_splice(entry)
            if splices and spliced is not None:
                length += spliced.size
            else:
                await self._offloader.prepare_encoding(entry, encoding)
                length += protobuf.list_item_length(len(entry.encode(encoding)))
        parts = [protobuf.envelope_head(kind, length), first]
        size = len(first)
        for entry in listing.entries:
            spliced = entry.list_splice
            if splices and spliced is not None:
                before, after, start, end, added = spliced
                parts += (before, entry.value[start:end], after)
                size += added
            else:
                body = entry.encode(encoding)
                parts += (protobuf.list_item_head(len(body)), body)
                size += len(body)
            if size >= CHUNK_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
        parts.append(protobuf.ENVELOPE_TAIL)
        yield b"".join(parts)

    async def _cbor_list(self, listing: ListResult, encoding: Encoding) -> AsyncIterator[bytes]:
        item_encoding = Encoding(encoding.version, CBOR_ITEM)
        head = self.encode_tree(
            "cbor",
            {
                "kind": self._list_kind,
                "apiVersion": str(encoding.version),
                "metadata": self._list_meta(listing),
                "items": [],
            },
        )
        # No text in the head contains the CBOR of an empty array after this key.
        before, empty, after = head.partition(b"\x45items\x80")
        assert empty, "a list has an empty array of items"
        parts = [before, empty[:-1], array_head(len(listing.entries))]
        size, time_slice = 0, TimeSlice()
        for entry in listing.entries:
            body = entry.cached_encoding(item_encoding)
            if body is None:
                body = await self._encode_item(entry, item_encoding)
            parts.append(body)
            size += len(body)
            if size >= CHUNK_BYTES or time_slice.expired:
                yield b"".join(parts)
                parts, size = [], 0
                time_slice.restart()
        parts.append(after)
        yield b"".join(parts)


class ObjectFramer:
    """Encodes events with whole objects into watch frames (json, protobuf or cbor)."""

    def __init__(
        self, encoder: ListEncoder, encoding: Encoding, status: Callable[[Exception], Tree]
    ) -> None:
        self.identity: Hashable = encoding
        self.version = encoding.version
        self._encoder = encoder
        self._encoding = encoding
        self._status = status
        self._frame = _FRAMES[encoding.media]

    def is_slow(self, entry: Entry) -> bool:
        """Whether a thread is to encode the object."""
        return entry.is_slow_to_encode(self._encoding)

    async def prepare(self, entry: Entry) -> None:
        """Encode an object in a thread, so that `event` has its encoding."""
        await self._encoder.prepare_object(entry, self._encoding)

    def event(self, kind: EventType, entry: Entry) -> bytes:
        """Return the frame of one event."""
        return self._frame(kind, self._encoder.encode_object(entry, self._encoding))

    def bookmark(self, revision: Revision, *, initial_events_end: bool) -> bytes:
        """Return the frame of a bookmark."""
        metadata: Tree = {"resourceVersion": str(revision)}
        if initial_events_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        empty = self._encoder.bookmark_object(self._encoding.version, metadata)
        return self._frame("BOOKMARK", self._encoder.encode_tree(self._encoding.media, empty))

    def error(self, error: Exception) -> bytes:
        """Return the frame of an ERROR event."""
        body = self._encoder.encode_tree(self._encoding.media, self._status(error))
        return self._frame("ERROR", body)


_JSON_HEADS = {kind: b'{"type":"%b","object":' % kind.encode() for kind in _EVENTS}


def _json_frame(kind: str, body: bytes) -> bytes:
    return b"%b%b}\n" % (_JSON_HEADS[kind], body[:-1] if body.endswith(b"\n") else body)


def _protobuf_frame(kind: str, body: bytes) -> bytes:
    return LENGTH_PREFIXED.frame(protobuf.write_watch_event(kind, body))


def _cbor_head(kind: str) -> bytes:
    return b"%b\xa2\x44type%c%b\x46object" % (SELF_DESCRIBED_TAG, 0x40 | len(kind), kind.encode())


_CBOR_HEADS = {kind: _cbor_head(kind) for kind in _EVENTS}


def _cbor_frame(kind: str, body: bytes) -> bytes:
    return _CBOR_HEADS[kind] + body


_FRAMES: dict[str, Callable[[str, bytes], bytes]] = {
    "json": _json_frame,
    "protobuf": _protobuf_frame,
    "cbor": _cbor_frame,
}


def event_frame(media: str, kind: str, body: bytes) -> bytes:
    """Return the frame of an event whose object is encoded already (json, protobuf or cbor)."""
    return _FRAMES[media](kind, body)
