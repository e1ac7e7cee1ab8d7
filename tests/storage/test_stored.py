"""The stored form of objects, and the memory of their encodings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kapiserver.storage.cache import watch_cache
from kapiserver.storage.cache.query import DeleteQuery, ListQuery, Write
from tests.storage.objectkit import (
    CBOR,
    JSON,
    PROTOBUF,
    StorageHarness,
    config_map,
    joined,
    key,
    pod,
    put,
    run,
)


def test_stored_values_are_those_of_kubernetes(tmp_path: Path) -> None:
    """Keys and values are kube-apiserver's, without a resourceVersion, and the next server reads
    what the first one wrote."""
    spec = f"sqlite:{tmp_path / 'objects.db'}"

    async def write(harness: StorageHarness) -> dict[str, bytes]:
        await harness.of("pods").create(pod("a", labels={"x": "y"}))
        node = {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": "n"},
            "spec": {},
            "status": {},
        }
        await harness.of("nodes").create(node)
        entry = await harness.of("pods").get(key("a"))
        for prefix in ("/registry/pods/default/a", "/registry/minions/n"):
            item = (await harness.kv.get(prefix)).item
            assert item is not None
            assert item.value.startswith(b"k8s\0")
            assert b"resourceVersion" not in item.value
        return {
            encoding.media: harness.of("pods").encoder.encode_object(entry, encoding)
            for encoding in (JSON, PROTOBUF, CBOR)
        }

    async def read(harness: StorageHarness) -> dict[str, bytes]:
        entry = await harness.of("pods").get(key("a"))
        assert entry.cached_tree is None
        assert entry.labels == {"x": "y"}
        assert entry.fields["metadata.name"] == "a"
        assert entry.cached_tree is None
        return {
            encoding.media: harness.of("pods").encoder.encode_object(entry, encoding)
            for encoding in (JSON, PROTOBUF, CBOR)
        }

    revision = run(write, spec)
    assert json.loads(revision["json"])["metadata"]["resourceVersion"]
    assert run(read, spec) == revision


def test_encodings_stay_within_the_budget() -> None:
    """Trees and encodings that are not used are dropped, and made again on demand."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        for number in range(50):
            await store.create(config_map(f"c{number:02d}", data={"k": "v" * 500}))
        entries = (await store.list(ListQuery())).entries
        assert sum(entry.cached_tree is not None for entry in entries) < 20
        first = store.encoder.encode_object(entries[0], JSON)
        for entry in entries:
            entry.encode(JSON)
        assert store.encoder.encode_object(entries[0], JSON) == first
        budget = harness.stores.encoding_cache
        assert 0 < budget.trees.size <= 8_000  # the last entry is never dropped
        assert 0 < budget.encodings.size <= budget.encodings.limit <= 32_000

    run(test, encoding_cache_bytes=32_000)


def test_list_larger_than_the_budget() -> None:
    """A list beyond the budget keeps most encodings that fit for the next list."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        for number in range(200):
            await store.create(config_map(f"c{number:03d}", data={"k": "v" * 500}))
        listing = await store.list(ListQuery())
        bodies, cached = [], []
        for _ in range(3):
            bodies.append(await joined(store.encoder.encode_list(listing, JSON)))
            cached.append({entry.path for entry in listing.entries if entry.cached_encoding(JSON)})
        assert bodies[0] == bodies[1] == bodies[2]
        assert len(cached[1] & cached[2]) > 35

    run(test, encoding_cache_bytes=64_000)


def test_used_encodings_stay() -> None:
    """An encoding that is used again and again is not dropped for newer ones."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        for number in range(200):
            await store.create(config_map(f"c{number:03d}", data={"k": "v" * 500}))
        first, *other_entries = (await store.list(ListQuery())).entries
        encoded = first.encode(JSON)
        for entry in other_entries:
            entry.encode(JSON)
            assert first.encode(JSON) is encoded

    run(test, encoding_cache_bytes=64_000)


def test_superseded_revisions_are_forgotten() -> None:
    """The encodings of a revision are dropped soon after the next revision."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", data={"n": "0"}))
        old = await store.get(key("a"))
        store.encoder.encode_object(old, JSON)
        for number in range(1, 4):
            await put(store, "a", "data", to={"n": f"{number}"})
        assert old.cached_tree is None
        assert old.cached_encoding(JSON) is None
        cached = harness.stores.encoding_cache.size
        for number in range(100):
            await put(store, "a", "data", to={"n": f"{number % 10}"})
            store.encoder.encode_object(await store.get(key("a")), JSON)
        assert harness.stores.encoding_cache.size < 2 * cached

    run(test)


def test_nothing_stays_of_entries_that_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run and a deleted object leave nothing in the caches, whatever was made of them."""
    monkeypatch.setattr(watch_cache, "MIN_RECENT_EVENTS", 0)
    monkeypatch.setattr(watch_cache, "RECENT_SECONDS", -1.0)

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")

        async def replace_and_measure(text: str) -> int:
            await put(store, "stays", "data", to={"n": text})
            store.encoder.encode_object(await store.get(key("stays")), JSON)
            await store.wait_delivered()
            return harness.stores.encoding_cache.size

        await store.create(config_map("stays"))
        await replace_and_measure("1")
        before = await replace_and_measure("2")
        for number in range(10):
            dry_run = await store.create(config_map(f"dry{number}"), Write(dry_run=True))
            await store.create(config_map(f"c{number}"))
            entry = await store.get(key(f"c{number}"))
            deleted = await store.delete(key(f"c{number}"), DeleteQuery())
            for each in (dry_run.entry, entry, deleted.entry):
                store.encoder.encode_object(each, JSON)
        assert harness.stores.encoding_cache.size > before
        del dry_run, entry, deleted, each
        assert await replace_and_measure("3") < before + 10  # the revision has more digits

    run(test)


def test_trees_of_new_entries_are_counted() -> None:
    """The cache limits the trees of entries that no store has yet, too."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        dry_runs = [
            await store.create(config_map(f"c{n}", data={"k": "v" * 500}), Write(dry_run=True))
            for n in range(100)
        ]
        assert sum(result.entry.cached_tree is not None for result in dry_runs) < 20
        assert all(result.entry.tree()["data"] == {"k": "v" * 500} for result in dry_runs)
        harness.stores.encoding_cache.clear()
        assert harness.stores.encoding_cache.size == 0
        assert all(result.entry.cached_tree is None for result in dry_runs)

    run(test, encoding_cache_bytes=64_000)


def test_encodings_do_not_depend_on_how_they_are_made() -> None:
    """JSON from stored bytes, from a tree and from the cache is the same; so is Protobuf of an
    object and of a list item."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("pods")
        await store.create(pod("a", labels={"x": "y"}, annotations={"n": "<&> 1.0"}))
        entry = (await store.list(ListQuery())).entries[0]
        json_bytes = entry.encode(JSON)
        assert entry.encode(JSON) is json_bytes
        assert json.loads(b"{" + json_bytes) | {"kind": "Pod", "apiVersion": "v1"} == entry.tree()
        listing = await store.list(ListQuery())
        list_bytes = await joined(store.encoder.encode_list(listing, PROTOBUF))
        assert entry.encode(PROTOBUF) in list_bytes
        assert list_bytes == await joined(store.encoder.encode_list(listing, PROTOBUF))
        json_list = await joined(store.encoder.encode_list(listing, JSON))
        assert json_list.endswith(json_bytes + b"]}\n")

    run(test)
