"""Responses with stored objects and lists of them.

Compact JSON, Protobuf and CBOR responses are built from cached bytes. Indented JSON, YAML, Tables
and PartialObjectMetadata are encoded from trees. A list is sent in slices of about 256 KB; each is
encoded after the client has read the previous one. Mirrors transformResponseObject of
k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.encoded_items import MetadataEncoder, RowEncoder
from kapiserver.apiserver.endpoints.negotiation import ResponseFormat
from kapiserver.apiserver.endpoints.options import read_options
from kapiserver.apiserver.endpoints.responses import plain_response
from kapiserver.apiserver.endpoints.tables import (
    TableBuilder,
    in_version,
    include_of,
    partial_metadata,
)
from kapiserver.apiserver.errors import ListTooLarge, UnsupportedResponseKind
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.target import Target
from kapiserver.codecs import streaming_lists
from kapiserver.codecs.cbor import CBORSerializer
from kapiserver.codecs.cost import LARGE
from kapiserver.codecs.json import SORT_KEYS
from kapiserver.codecs.media_types import CBOR, JSON, PROTOBUF, YAML
from kapiserver.codecs.protobuf.serializer import (
    ENVELOPE_TAIL,
    envelope_head,
    list_item_head,
    list_item_length,
    read_envelope,
)
from kapiserver.storage.cache.entry import Entry, encoding_of
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import ListResult
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.objects.object_codec import METADATA_JSON

SLICE = 256 * 1024
"""The size in bytes at which a slice of a list is sent."""
SLICE_PARTS = 512
"""The parts of a Protobuf list of metadata in a slice: two for each object, of about 1 KB."""
OFFLOAD_COUNT = 32
"""Lists of at least this many objects are encoded in a thread."""
MAX_YAML_BYTES = 8 << 20
"""Stored bytes of the objects of a list in YAML: about 5,000 pods, in ten seconds."""
MAX_TREE_BYTES = 128 << 20
"""Stored bytes of the objects of an indented list, or of a list of PartialObjectMetadata."""
MAX_TABLE_BYTES = 256 << 20
"""Stored bytes of the objects of a Table: about 150,000 pods."""
STORED_MEDIA_TYPES = (JSON, PROTOBUF, CBOR)
"""Media types in which the store caches the bytes of objects."""


async def entry_response(
    server: Server,
    request: Request,
    response_format: ResponseFormat,
    target: Target,
    entry: Entry,
    status: int = 200,
) -> Response:
    """Return a response with one object, in the requested format; a large object is encoded in a
    thread. Raises UnsupportedResponseKind, BadRequest, TooMuchWork."""
    with request.trace.detail("SerializeObject"):
        offloader = server.offloader
        if (
            target.view is None
            and response_format.convert is None
            and not response_format.pretty
            and (response_format.media in STORED_MEDIA_TYPES or response_format.media is YAML)
        ):
            encoding = encoding_of(target.version, response_format.media.extension)
            if entry.is_slow_to_encode(encoding):
                await offloader.prepare_encoding(entry, encoding)
            body = target.store.encoder.encode_object(entry, encoding)
            return Response(status=status, media_type=response_format.media.name, body=body)
        obj = await offloader.tree(entry)

        def encode() -> Response:
            tree = _response_tree(server, request, response_format, target, entry, obj)
            return plain_response(server, response_format, tree, status)

        return await offloader.run_for_entry(entry, encode)


def _response_tree(
    server: Server,
    request: Request,
    response_format: ResponseFormat,
    target: Target,
    entry: Entry,
    obj: Tree,
) -> Tree:
    """Return the tree of a response with an object. Raises UnsupportedResponseKind, BadRequest."""
    convert = response_format.convert
    if response_format.is_table:
        table = table_builder(server, request, response_format, target)
        tree = table.head(_version_of(entry))
        row_object = target.view.read(obj) if target.view else obj
        tree["rows"].append(table.row(row_object, current_time(server)))
        return tree
    if convert is not None:
        if convert.kind != "PartialObjectMetadata":
            raise UnsupportedResponseKind(
                "you requested PartialObjectMetadataList, but the requested object is not a list "
                f"({_go_type(target)})"
            )
        return partial_metadata(obj, convert.group_version)
    if target.view is not None:
        return target.view.read(obj)
    return in_version(server.scheme, obj, target.version)


async def list_response(
    server: Server,
    request: Request,
    response_format: ResponseFormat,
    target: Target,
    listing: ListResult,
) -> Response:
    """Return a response with a list, in the requested format. Raises UnsupportedResponseKind and
    BadRequest."""
    metadata = list_metadata(listing)
    _check_size(response_format, listing)
    if response_format.convert is None:
        if not response_format.pretty and response_format.media in STORED_MEDIA_TYPES:
            encoding = encoding_of(target.version, response_format.media.extension)
            return await _sliced_response(
                response_format, target.store.encoder.encode_list(listing, encoding)
            )
        head = list_head(target, listing)
        items = ListItems("items", listing.entries, lambda obj: _list_item(server, obj, target))
        return await _list_document(server, response_format, head, items)
    if response_format.is_table:
        table = table_builder(server, request, response_format, target)
        head = table.head(metadata)
        if not listing.entries:
            head["rows"] = None if table.columns.has_null_rows else []
            return plain_response(server, response_format, head)
        if order := table.columns.order:
            entries = sorted(listing.entries, key=lambda entry: order(entry.tree()))
            listing = replace(listing, entries=entries)
        if response_format.is_compact_json:
            row = RowEncoder(table, server.clock.now()).row
            return await _json_document(server, response_format, head, "rows", listing, row)
        now = current_time(server)
        rows = ListItems("rows", listing.entries, lambda obj: table.row(obj, now))
        return await _list_document(server, response_format, head, rows)
    if response_format.convert.kind != "PartialObjectMetadataList":
        raise UnsupportedResponseKind(
            "you requested PartialObjectMetadata, but the requested object is a list "
            f"({_go_type(target)}List)"
        )
    version = response_format.convert.group_version
    head = _list_head(response_format.convert.kind, version, metadata)
    if not listing.entries:
        return plain_response(server, response_format, head | {"items": None})
    encoder = MetadataEncoder(version)
    if response_format.is_compact_json:
        return await _json_document(server, response_format, head, "items", listing, encoder.json)
    if response_format.media is PROTOBUF and version.version == "v1":  # v1beta1 has other tags
        slices = _protobuf_metadata(server, head, listing, encoder)
        return await _sliced_response(response_format, slices)
    partial = ListItems("items", listing.entries, lambda obj: partial_metadata(obj, version))
    return await _list_document(server, response_format, head, partial)


def _check_size(response_format: ResponseFormat, listing: ListResult) -> None:
    """Raise ListTooLarge if encoding the list would take more than about ten seconds."""
    media = response_format.media
    if response_format.is_table:
        form, limit = "a Table", MAX_TABLE_BYTES
    elif media is YAML:
        form, limit = media.name, MAX_YAML_BYTES
    elif response_format.pretty or response_format.convert is not None:
        form, limit = "indented or partial objects", MAX_TREE_BYTES
    else:
        return
    size = sum(entry.size for entry in listing.entries)
    if size > limit:
        raise ListTooLarge(form, size, limit)


async def prepare_listing(
    offloader: Offloader, response_format: ResponseFormat, target: Target, listing: ListResult
) -> None:
    """Do in a thread what an encoder of the list needs first: the decoder of the kind, or the
    length of a protobuf list."""
    convert = response_format.convert
    if (
        convert is None
        and not response_format.pretty
        and response_format.media in STORED_MEDIA_TYPES
    ):
        encoding = encoding_of(target.version, response_format.media.extension)
        await target.store.encoder.prepare(listing.entries, encoding)
        return
    if convert is not None and response_format.is_compact_json and listing.entries:
        encoding = encoding_of(convert.group_version, METADATA_JSON)
        await offloader.prepare_encoding(listing.entries[0], encoding)
        if not response_format.is_table:
            return
    if not target.store.codec.is_tree_loaded:
        undecoded = (entry for entry in listing.entries if entry.is_slow_to_decode())
        if (entry := next(undecoded, None)) is not None:
            await offloader.tree(entry)


def list_head(target: Target, listing: ListResult) -> Tree:
    """Return the list object of a page, without its items."""
    metadata = list_metadata(listing)
    if not target.is_typed:
        metadata = {"continue": "", **metadata}
    return _list_head(target.resource.list_kind_name, target.version, metadata)


def list_metadata(listing: ListResult) -> Tree:
    """Return the ListMeta of a page."""
    metadata: Tree = {"resourceVersion": str(listing.revision)}
    if listing.continue_token:
        metadata["continue"] = listing.continue_token
        if listing.remaining is not None:
            metadata["remainingItemCount"] = listing.remaining
    return metadata


def table_builder(
    server: Server, request: Request, response_format: ResponseFormat, target: Target
) -> TableBuilder:
    """Return the TableBuilder for this request. Raises BadRequest."""
    return kind_table_builder(server, request, response_format, target.kind)


def kind_table_builder(
    server: Server, request: Request, response_format: ResponseFormat, kind: GroupVersionKind
) -> TableBuilder:
    """Return the TableBuilder for a request for objects of a kind. Raises BadRequest."""
    assert response_format.convert is not None
    return TableBuilder(
        scheme=server.scheme,
        columns=server.scheme.columns(kind.group, kind.kind, kind.version),
        table_version=response_format.convert.group_version,
        version=kind.group_version,
        include=include_of(read_options(server, request, "TableOptions")),
    )


def current_time(server: Server) -> datetime:
    """Return the time of the server's clock."""
    return datetime.fromtimestamp(server.clock.now(), UTC)


def _go_type(target: Target) -> str:
    package = target.kind.group.partition(".")[0] or "core"
    return f"*{package}.{target.kind.kind}"


def _version_of(entry: Entry) -> Tree:
    return {"resourceVersion": str(entry.revision)} if entry.revision else {}


def _list_head(kind: str, version: GroupVersion, metadata: Tree) -> Tree:
    return {"kind": kind, "apiVersion": str(version), "metadata": metadata, "items": []}


def _list_item(server: Server, obj: Tree, target: Target) -> Tree:
    # Items of a typed list have no kind and apiVersion.
    tree = in_version(server.scheme, obj, target.version)
    if not target.is_typed:
        return tree
    return {key: value for key, value in tree.items() if key not in ("kind", "apiVersion")}


class ListItems(Struct, frozen=True):
    """The items of a list document: the member that holds them, and how each is made of an
    object."""

    member: str
    entries: Sequence[Entry]
    make: Callable[[Tree], Tree]

    def __iter__(self) -> Iterator[Tree]:
        for entry in self.entries:
            # A thread makes the tree of a large object: it must not change the cache.
            large = entry.is_large
            tree = (entry.cached_tree or entry.codec.tree(entry)) if large else entry.tree()
            yield self.make(tree)


async def _list_document(
    server: Server, response_format: ResponseFormat, head: Tree, items: ListItems
) -> Response:
    """Return a response with `head` and the items. It is encoded in slices, except in Protobuf: a
    Protobuf message begins with its length."""
    pieces: Iterator[bytes]
    if response_format.media is JSON:
        layout = streaming_lists.INDENTED if response_format.pretty else streaming_lists.COMPACT
        order = 0 if server.scheme.is_typed(head) else SORT_KEYS
        pieces = streaming_lists.stream_json_list(
            head, items.member, items, layout, sort_option=order
        )
    elif response_format.media is YAML:
        pieces = streaming_lists.stream_yaml_list(head, items.member, items)
    elif response_format.media is CBOR:
        serializer = CBORSerializer(server.scheme)
        pieces = serializer.stream_list(head, items.member, items, len(items.entries))
    else:
        return await _whole_document(server, response_format, head, items)
    offloader = server.offloader
    return await _sliced_response(
        response_format, _join_slices(_stream_pieces(offloader, items.entries, pieces))
    )


async def _json_document(
    server: Server,
    response_format: ResponseFormat,
    head: Tree,
    member: str,
    listing: ListResult,
    encode: Callable[[Entry], bytes],
) -> Response:
    """Return a response with `head` and the encoded objects of a list."""
    texts = map(encode, listing.entries)
    pieces = streaming_lists.join_json_list(head, member, texts, streaming_lists.COMPACT)
    slices = _join_slices(_stream_pieces(server.offloader, listing.entries, pieces))
    return await _sliced_response(response_format, slices)


async def _protobuf_metadata(
    server: Server, head: Tree, listing: ListResult, encoder: MetadataEncoder
) -> AsyncIterator[bytes]:
    """Yield a PartialObjectMetadataList in Protobuf, which begins with its length."""
    body = read_envelope(server.codecs.serializer_for(PROTOBUF).encode(head)).raw
    parts, size, time_slice = [body], len(body), TimeSlice()
    for entry in listing.entries:
        item = await server.offloader.run_for_entry(entry, encoder.protobuf, entry, limited=False)
        parts += (list_item_head(len(item)), item)
        size += list_item_length(len(item))
        await time_slice.yield_if_expired()
    kind = GroupVersion.parse(head["apiVersion"]).with_kind(head["kind"])
    yield envelope_head(kind, size)
    for start in range(0, len(parts), SLICE_PARTS):
        yield b"".join(parts[start : start + SLICE_PARTS])
    yield ENVELOPE_TAIL


async def _stream_pieces(
    offloader: Offloader, entries: Sequence[Entry], pieces: Iterator[bytes]
) -> AsyncIterator[bytes]:
    """Yield the pieces of a document: its head, one piece for each entry, its end. Pieces of large
    objects are made in a thread."""
    yield next(pieces)
    for entry in entries:
        yield await offloader.run_for_entry(entry, next, pieces, limited=False)
    for piece in pieces:
        yield piece


async def _whole_document(
    server: Server, response_format: ResponseFormat, head: Tree, items: ListItems
) -> Response:
    """Encode the document at once, in a thread if it has many items."""
    time_slice, offloader = TimeSlice(), server.offloader
    members: list[Tree] = []
    items_left = iter(items)
    head[items.member] = members
    for entry in items.entries:
        members.append(await offloader.run_for_entry(entry, next, items_left))
        await time_slice.yield_if_expired()
    is_long = len(members) >= OFFLOAD_COUNT or any(entry.is_large for entry in items.entries)
    return await offloader.run(
        LARGE if is_long else 0, plain_response, server, response_format, head
    )


async def _sliced_response(
    response_format: ResponseFormat, slices: AsyncIterator[bytes]
) -> Response:
    """Return a response of bytes, with Content-Length, if the body fits one slice; else stream
    it."""
    first: list[bytes] = []
    size = 0
    async for piece in slices:
        first.append(piece)
        size += len(piece)
        if size > SLICE:
            body: bytes | AsyncIterator[bytes] = _chain(first, slices)
            break
        await asyncio.sleep(0)
    else:
        body = b"".join(first)
    return Response(media_type=response_format.media.name, body=body)


async def _chain(
    first: Iterable[bytes], later_pieces: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    for piece in first:
        yield piece
    async for piece in later_pieces:
        yield piece


async def _join_slices(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join the encoded objects to slices. A slice ends after about SLICE bytes, or when the time
    slice expires."""
    pending: list[bytes] = []
    size, time_slice = 0, TimeSlice()
    async for piece in pieces:
        pending.append(piece)
        size += len(piece)
        if size >= SLICE or time_slice.expired:
            yield b"".join(pending)
            pending, size = [], 0
            time_slice.restart()
    if pending:
        yield b"".join(pending)
