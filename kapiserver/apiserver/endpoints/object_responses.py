"""Responses with stored objects and lists of them.

Compact JSON, Protobuf and CBOR responses are built from cached bytes. Indented JSON, YAML, Tables
and PartialObjectMetadata are encoded from trees. A list is sent in slices of about 256 KB; each is
encoded after the client has read the one before. Mirrors transformResponseObject of
k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import ResponseFormat
from kapiserver.apiserver.endpoints.options import read_options
from kapiserver.apiserver.endpoints.tables import (
    TableBuilder,
    in_version,
    include_of,
    partial_metadata,
)
from kapiserver.apiserver.errors import UnsupportedResponseKind
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.target import Target
from kapiserver.codecs import streaming_lists
from kapiserver.codecs.cbor import CBORSerializer
from kapiserver.codecs.json import SORT_KEYS
from kapiserver.codecs.media_types import CBOR, JSON, PROTOBUF, YAML
from kapiserver.storage.entry import Entry, encoding_of
from kapiserver.storage.query import ListResult
from kapiserver.storage.time_slice import TimeSlice

SLICE = 256 * 1024
"""The size in bytes at which a slice of a list is sent."""
OFFLOAD_COUNT = 32
"""Lists of at least so many objects are encoded in a thread."""
STORED_MEDIA_TYPES = (JSON, PROTOBUF, CBOR)
"""Media types in which the store caches the bytes of objects."""


def entry_response(
    server: Server,
    request: Request,
    response_format: ResponseFormat,
    target: Target,
    entry: Entry,
    status: int = 200,
) -> Response:
    """Return a response with one object, in the requested format. Raises UnsupportedResponseKind
    and BadRequest."""
    if target.view is not None and response_format.convert is None:
        return plain_response(server, response_format, target.view.read(entry.tree()), status)
    if (
        response_format.convert is None
        and not response_format.pretty
        and response_format.media in STORED_MEDIA_TYPES
    ):
        encoding = encoding_of(target.version, response_format.media.extension)
        body = target.store.encoder.encode_object(entry, encoding)
        return Response(status=status, media_type=response_format.media.name, body=body)
    if response_format.is_table:
        table = table_builder(server, request, response_format, target)
        tree = table.head(_version_of(entry))
        shown = target.view.read(entry.tree()) if target.view else entry.tree()
        tree["rows"].append(table.row(shown, current_time(server)))
    elif response_format.convert is not None:
        if response_format.convert.kind != "PartialObjectMetadata":
            raise UnsupportedResponseKind(
                "you requested PartialObjectMetadataList, but the requested object is not a list "
                f"({_go_type(target)})"
            )
        tree = partial_metadata(entry.tree(), response_format.convert.group_version)
    else:
        tree = in_version(server.scheme, entry.tree(), target.version)
    return plain_response(server, response_format, tree, status)


def plain_response(
    server: Server, response_format: ResponseFormat, tree: Tree, status: int = 200
) -> Response:
    """Return a response with a tree, without conversion."""
    codecs = server.codecs
    make = codecs.pretty_serializer_for if response_format.pretty else codecs.serializer_for
    body = make(response_format.media).encode(tree)
    return Response(status=status, media_type=response_format.media.name, body=body)


async def list_response(
    server: Server,
    request: Request,
    response_format: ResponseFormat,
    target: Target,
    listing: ListResult,
) -> Response:
    """Return a response with a list, in the requested format. Raises UnsupportedResponseKind and
    BadRequest."""
    metadata, count = list_metadata(listing), len(listing.entries)
    if response_format.convert is None:
        if not response_format.pretty and response_format.media in STORED_MEDIA_TYPES:
            encoding = encoding_of(target.version, response_format.media.extension)
            return await _sliced_response(
                response_format, target.store.encoder.encode_list(listing, encoding)
            )
        head = list_head(target, listing)
        items = (_list_item(server, entry, target) for entry in listing.entries)
        return await _list_document(server, response_format, head, "items", items, count)
    if response_format.is_table:
        table = table_builder(server, request, response_format, target)
        head = table.head(metadata)
        now = current_time(server)
        rows = (table.row(entry.tree(), now) for entry in listing.entries)
        return await _list_document(server, response_format, head, "rows", rows, count)
    if response_format.convert.kind != "PartialObjectMetadataList":
        raise UnsupportedResponseKind(
            "you requested PartialObjectMetadata, but the requested object is a list "
            f"({_go_type(target)}List)"
        )
    version = response_format.convert.group_version
    head = _list_head(response_format.convert.kind, version, metadata)
    partial = (partial_metadata(entry.tree(), version) for entry in listing.entries)
    return await _list_document(server, response_format, head, "items", partial, count)


async def prepare_listing(
    response_format: ResponseFormat, target: Target, listing: ListResult
) -> None:
    """Compile the codecs of a kind in a thread before its first long list is encoded."""
    if (
        response_format.convert is None
        and not response_format.pretty
        and response_format.media in STORED_MEDIA_TYPES
    ):
        encoding = encoding_of(target.version, response_format.media.extension)
        await target.store.encoder.prepare(listing, encoding)
    elif len(listing.entries) > OFFLOAD_COUNT:
        await asyncio.to_thread(target.store.codec.tree, listing.entries[0])


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
    assert response_format.convert is not None
    return TableBuilder(
        scheme=server.scheme,
        columns=server.scheme.columns(target.kind.group, target.kind.kind, target.kind.version),
        table_version=response_format.convert.group_version,
        version=target.kind.group_version,
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


def _list_item(server: Server, entry: Entry, target: Target) -> Tree:
    # Items of a typed list have no kind and apiVersion.
    tree = in_version(server.scheme, entry.tree(), target.version)
    if not target.is_typed:
        return tree
    return {key: value for key, value in tree.items() if key not in ("kind", "apiVersion")}


async def _list_document(
    server: Server,
    response_format: ResponseFormat,
    head: Tree,
    member: str,
    items: Iterator[Tree],
    count: int,
) -> Response:
    """Return a response with `head` whose `member` holds `count` items. It is encoded in slices,
    except in Protobuf: a Protobuf message begins with its length."""
    if response_format.media is JSON:
        layout = streaming_lists.INDENTED if response_format.pretty else streaming_lists.COMPACT
        order = 0 if server.scheme.is_typed(head) else SORT_KEYS
        pieces = streaming_lists.stream_json_list(head, member, items, layout, sort_option=order)
        return await _sliced_response(response_format, _join_slices(pieces))
    if response_format.media is YAML:
        return await _sliced_response(
            response_format, _join_slices(streaming_lists.stream_yaml_list(head, member, items))
        )
    if response_format.media is CBOR:
        packed = CBORSerializer(server.scheme).stream_list(head, member, items, count)
        return await _sliced_response(response_format, _join_slices(packed))
    return await _whole_document(server, response_format, head, member, items)


async def _whole_document(
    server: Server, response_format: ResponseFormat, head: Tree, member: str, items: Iterator[Tree]
) -> Response:
    """Encode the document at once, in a thread if it has many items."""
    time_slice = TimeSlice()
    members = head[member] = []
    for item in items:
        members.append(item)
        await time_slice.yield_if_expired()
    if len(members) < OFFLOAD_COUNT:
        return plain_response(server, response_format, head)
    return await asyncio.to_thread(plain_response, server, response_format, head)


async def _sliced_response(response_format: ResponseFormat, slices: Iterator[bytes]) -> Response:
    """Return a response of bytes, with Content-Length, if the body fits one slice; else stream
    it."""
    first: list[bytes] = []
    size = 0
    for piece in slices:
        first.append(piece)
        size += len(piece)
        if size > SLICE:
            body: bytes | Iterator[bytes] = itertools.chain(first, slices)
            break
        await asyncio.sleep(0)
    else:
        body = b"".join(first)
    return Response(media_type=response_format.media.name, body=body)


def _join_slices(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join the encoded objects to slices. A slice ends after about SLICE bytes, or when the time
    slice expires."""
    pending: list[bytes] = []
    size, time_slice = 0, TimeSlice()
    for piece in pieces:
        pending.append(piece)
        size += len(piece)
        if size >= SLICE or time_slice.expired:
            yield b"".join(pending)
            pending, size = [], 0
            time_slice.restart()
    if pending:
        yield b"".join(pending)
