"""Stored objects and lists of them as answers: bytes out of the cache where there are any.

A list goes out in slices of about 256 KB, each encoded when the client has taken the one before;
what is indented, YAML, a Table or metadata alone is made from trees, in slices too. Mirrors
transformResponseObject of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import Wanted
from kapiserver.apiserver.endpoints.options import read_options
from kapiserver.apiserver.endpoints.tables import TableOf, in_version, include_of, metadata_alone
from kapiserver.apiserver.errors import NoSuchForm
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.target import Target
from kapiserver.codecs import streaming_lists
from kapiserver.codecs.cbor import CBORSerializer
from kapiserver.codecs.json import SORT_KEYS
from kapiserver.codecs.media_types import CBOR, JSON, PROTOBUF, YAML
from kapiserver.storage.entry import Entry, form_of
from kapiserver.storage.query import ListResult
from kapiserver.storage.time_slice import TimeSlice

SLICE = 256 * 1024
"""Bytes of a list written at once, at most."""
SEVERAL = 32
"""Objects of a list that is made in parts."""
SPLICED = (JSON, PROTOBUF, CBOR)
"""Media types in which the store keeps the bytes of objects."""


def entry_response(
    server: Server,
    request: Request,
    wanted: Wanted,
    target: Target,
    entry: Entry,
    status: int = 200,
) -> Response:
    """Answer with one object, or with what the target or the client makes of it."""
    if target.view is not None and wanted.convert is None:
        return plain_response(server, wanted, target.view.read(entry.tree()), status)
    if wanted.convert is None and not wanted.pretty and wanted.media in SPLICED:
        form = form_of(target.version, wanted.media.extension)
        body = target.store.encoder.encode_object(entry, form)
        return Response(status=status, media_type=wanted.media.name, body=body)
    if wanted.is_table:
        table = table_of(server, request, wanted, target)
        tree = table.head(_version_of(entry))
        shown = target.view.read(entry.tree()) if target.view else entry.tree()
        tree["rows"].append(table.row(shown, now(server)))
    elif wanted.convert is not None:
        if wanted.convert.kind != "PartialObjectMetadata":
            raise NoSuchForm(
                "you requested PartialObjectMetadataList, but the requested object is not a list "
                f"({_go_type(target)})"
            )
        tree = metadata_alone(entry.tree(), wanted.convert.group_version)
    else:
        tree = in_version(server.scheme, entry.tree(), target.version)
    return plain_response(server, wanted, tree, status)


def plain_response(server: Server, wanted: Wanted, tree: Tree, status: int = 200) -> Response:
    """Answer with a tree as it is."""
    codecs = server.codecs
    make = codecs.pretty_serializer_for if wanted.pretty else codecs.serializer_for
    body = make(wanted.media).encode(tree)
    return Response(status=status, media_type=wanted.media.name, body=body)


async def list_response(
    server: Server, request: Request, wanted: Wanted, target: Target, listing: ListResult
) -> Response:
    """Answer with a list, or with what the client makes of it."""
    metadata, count = list_metadata(listing), len(listing.entries)
    if wanted.convert is None:
        if not wanted.pretty and wanted.media in SPLICED:
            form = form_of(target.version, wanted.media.extension)
            return await _sliced(wanted, target.store.encoder.encode_list(listing, form))
        head = list_head(target, listing)
        items = (_item(server, entry, target) for entry in listing.entries)
        return await _members(server, wanted, head, "items", items, count)
    if wanted.is_table:
        table = table_of(server, request, wanted, target)
        head = table.head(metadata)
        moment = now(server)
        rows = (table.row(entry.tree(), moment) for entry in listing.entries)
        return await _members(server, wanted, head, "rows", rows, count)
    if wanted.convert.kind != "PartialObjectMetadataList":
        raise NoSuchForm(
            "you requested PartialObjectMetadata, but the requested object is a list "
            f"({_go_type(target)}List)"
        )
    version = wanted.convert.group_version
    head = _list_head(wanted.convert.kind, version, metadata)
    partial = (metadata_alone(entry.tree(), version) for entry in listing.entries)
    return await _members(server, wanted, head, "items", partial, count)


async def prepare_listing(wanted: Wanted, target: Target, listing: ListResult) -> None:
    """Do aside of the event loop what the first long list of a kind needs."""
    if wanted.convert is None and not wanted.pretty and wanted.media in SPLICED:
        form = form_of(target.version, wanted.media.extension)
        await target.store.encoder.prepare(listing, form)
    elif len(listing.entries) > SEVERAL:
        await asyncio.to_thread(target.store.codec.tree, listing.entries[0])


def list_head(target: Target, listing: ListResult) -> Tree:
    """Return the list of a page, without its items."""
    metadata = list_metadata(listing)
    if not target.is_typed:
        metadata = {"continue": "", **metadata}
    return _list_head(target.resource.list_kind_name, target.version, metadata)


def list_metadata(listing: ListResult) -> Tree:
    """The ListMeta of a page."""
    metadata: Tree = {"resourceVersion": str(listing.revision)}
    if listing.continue_token:
        metadata["continue"] = listing.continue_token
        if listing.remaining is not None:
            metadata["remainingItemCount"] = listing.remaining
    return metadata


def table_of(server: Server, request: Request, wanted: Wanted, target: Target) -> TableOf:
    """How this request's objects become a Table. Raises BadRequest."""
    assert wanted.convert is not None
    return TableOf(
        scheme=server.scheme,
        columns=server.scheme.columns(target.kind.group, target.kind.kind, target.kind.version),
        table_version=wanted.convert.group_version,
        version=target.kind.group_version,
        include=include_of(read_options(server, request, "TableOptions")),
    )


def now(server: Server) -> datetime:
    """The time by the server's clock."""
    return datetime.fromtimestamp(server.clock.now(), UTC)


def _go_type(target: Target) -> str:
    package = target.kind.group.partition(".")[0] or "core"
    return f"*{package}.{target.kind.kind}"


def _version_of(entry: Entry) -> Tree:
    return {"resourceVersion": str(entry.revision)} if entry.revision else {}


def _list_head(kind: str, version: GroupVersion, metadata: Tree) -> Tree:
    return {"kind": kind, "apiVersion": str(version), "metadata": metadata, "items": []}


def _item(server: Server, entry: Entry, target: Target) -> Tree:
    # Items of a typed list do not repeat what the list says.
    tree = in_version(server.scheme, entry.tree(), target.version)
    if not target.is_typed:
        return tree
    return {key: value for key, value in tree.items() if key not in ("kind", "apiVersion")}


async def _members(
    server: Server, wanted: Wanted, head: Tree, member: str, items: Iterator[Tree], count: int
) -> Response:
    """A document with one long member, of so many items: in slices, but for Protobuf, which begins
    with its length."""
    if wanted.media is JSON:
        layout = streaming_lists.INDENTED if wanted.pretty else streaming_lists.COMPACT
        order = 0 if server.scheme.is_typed(head) else SORT_KEYS
        pieces = streaming_lists.stream_json_list(head, member, items, layout, sort_option=order)
        return await _sliced(wanted, _joined(pieces))
    if wanted.media is YAML:
        return await _sliced(wanted, _joined(streaming_lists.stream_yaml_list(head, member, items)))
    if wanted.media is CBOR:
        packed = CBORSerializer(server.scheme).stream_list(head, member, items, count)
        return await _sliced(wanted, _joined(packed))
    return await _whole(server, wanted, head, member, items)


async def _whole(
    server: Server, wanted: Wanted, head: Tree, member: str, items: Iterator[Tree]
) -> Response:
    """The same as one document, written aside of the event loop where it is long."""
    turn = TimeSlice()
    found = head[member] = []
    for item in items:
        found.append(item)
        await turn.yield_if_expired()
    if len(found) < SEVERAL:
        return plain_response(server, wanted, head)
    return await asyncio.to_thread(plain_response, server, wanted, head)


async def _sliced(wanted: Wanted, slices: Iterator[bytes]) -> Response:
    """An answer whose length is known where that is at most SLICE, however long making it took."""
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
    return Response(media_type=wanted.media.name, body=body)


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces, one an object, joined to slices of SLICE bytes at most, about, and of what was
    made in one turn."""
    pending: list[bytes] = []
    size, turn = 0, TimeSlice()
    for piece in pieces:
        pending.append(piece)
        size += len(piece)
        if size >= SLICE or turn.expired:
            yield b"".join(pending)
            pending, size = [], 0
            turn.restart()
    if pending:
        yield b"".join(pending)
