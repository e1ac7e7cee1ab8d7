"""Lists and objects as response bodies, in each encoding."""

from __future__ import annotations

import json

import pytest

from kapiserver.api.types import Tree
from kapiserver.codecs import cbor
from kapiserver.storage.cache.entry import Encoding
from kapiserver.storage.cache.query import ListQuery
from kapiserver.storage.objects.list_encoder import LONG_LIST
from tests.storage.objectkit import (
    CBOR,
    JSON,
    PROTOBUF,
    StorageHarness,
    config_map,
    fill,
    joined,
    pod,
    run,
)


def test_lists_are_joined_from_items() -> None:
    """The joined JSON, Protobuf and CBOR of a list equal the serializer's output for the list's
    tree."""

    async def test(harness: StorageHarness) -> None:
        store = await fill(harness)
        for limit in (0, 1, 4):
            listing = await store.list(ListQuery(limit=limit))
            items = [
                {name: value for name, value in entry.tree().items() if name not in _TYPE_META}
                for entry in listing.entries
            ]
            meta: Tree = {"resourceVersion": str(listing.revision)}
            if limit:
                meta |= {
                    "continue": listing.continue_token,
                    "remainingItemCount": listing.remaining,
                }
            names = {"kind": "ConfigMapList", "apiVersion": "v1"}
            tree = {**names, "metadata": meta, "items": items}
            for encoding in (JSON, PROTOBUF, CBOR):
                body = await joined(store.encoder.encode_list(listing, encoding))
                if encoding is PROTOBUF:  # resourceVersion is inserted at another place
                    assert harness.codecs.universal_deserializer.decode(body).object == tree
                else:
                    assert body == store.encoder.encode_tree(encoding.media, tree), encoding

    run(test)


_TYPE_META = ("kind", "apiVersion")


def test_empty_lists() -> None:
    """An empty list is encoded as a list without items."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        listing = await store.list(ListQuery())
        tree = {
            "kind": "ConfigMapList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(listing.revision)},
            "items": [],
        }
        for encoding in (JSON, PROTOBUF, CBOR):
            body = await joined(store.encoder.encode_list(listing, encoding))
            assert body == store.encoder.encode_tree(encoding.media, tree)

    run(test)


def test_single_objects_in_each_encoding() -> None:
    """The encoding of an object equals the serializer's output for its tree."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("pods")
        entry = (await store.create(pod("a", annotations={"x": "<&>"}))).entry
        for encoding in (JSON, PROTOBUF, CBOR):
            expected = store.encoder.encode_tree(encoding.media, entry.tree())
            result = store.encoder.encode_object(entry, encoding)
            if encoding is PROTOBUF:  # resourceVersion is inserted at another place: same object
                decode = harness.codecs.universal_deserializer.decode
                assert decode(result).object == decode(expected).object
                assert len(result) > len(expected)
            else:
                assert result == expected
        assert json.loads(store.encoder.encode_object(entry, JSON)) == entry.tree()

    run(test)


@pytest.mark.parametrize("encoding", [JSON, CBOR], ids=["json", "cbor"])
def test_large_lists_are_chunked(encoding: Encoding) -> None:
    """A list of several megabytes is encoded in chunks of about 256 KB, on demand."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        for number in range(20):
            await store.create(config_map(f"c{number}", data={"k": "v" * 100_000}))
        listing = await store.list(ListQuery())
        chunks = [chunk async for chunk in store.encoder.encode_list(listing, encoding)]
        assert all(len(chunk) < 450_000 for chunk in chunks)
        read = json.loads if encoding is JSON else cbor.decode_value
        assert len(read(b"".join(chunks))["items"]) == 20

    run(test)


def test_long_protobuf_list() -> None:
    """A long Protobuf list may have an object that is stored in another form."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        for number in range(LONG_LIST):
            await store.create(config_map(f"c{number}"))
        as_json = json.dumps(config_map("as-json")).encode()
        await harness.kv.create("/registry/configmaps/default/as-json", as_json)
        listing = await store.list(ListQuery())
        await store.encoder.prepare(listing.entries, PROTOBUF)
        body = await joined(store.encoder.encode_list(listing, PROTOBUF))
        items = harness.codecs.universal_deserializer.decode(body).object["items"]
        assert len(items) == LONG_LIST + 1

    run(test)
