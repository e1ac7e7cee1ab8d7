"""The watch cache over every backend."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kapiserver.api.selectors import parse
from kapiserver.storage.cache import watch_fanout
from kapiserver.storage.cache.encoding_cache import TREE_COST
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.query import DeleteQuery, ListQuery
from kapiserver.storage.cache.watch_backlogs import MAX_BACKLOG_BYTES
from kapiserver.storage.cache.watch_cache import MIN_RECENT_EVENTS, RECENT_SECONDS
from kapiserver.storage.cache.watch_fanout import BOOKMARK_SECONDS
from kapiserver.storage.errors import Expired, ResourceVersionTooLarge
from kapiserver.storage.kv.contract import KV, Revision
from tests.storage.objectkit import (
    JSON,
    Client,
    StorageHarness,
    config_map,
    joined,
    key,
    named,
    put,
    watch,
)


@pytest.fixture
def harness(store: KV, runner: asyncio.Runner) -> Iterator[StorageHarness]:
    """A server's storage over each backend."""
    harness = StorageHarness(store)
    yield harness

    async def stop() -> None:
        harness.stores.stop()

    runner.run(stop())


async def test_reads_see_every_acknowledged_write(harness: StorageHarness, store: KV) -> None:
    """A list or get that begins after another server's write was acknowledged shows it."""
    first_store, other_store = harness.of("configmaps"), StorageHarness(store).of("configmaps")
    for number in range(10):
        await other_store.create(config_map(f"c{number}"))
        assert (await first_store.get(key(f"c{number}"))).key.name == f"c{number}"
        assert len((await first_store.list(ListQuery())).entries) == number + 1
        await put(other_store, f"c{number}", "data", to={"n": "1"})
        assert (await first_store.get(key(f"c{number}"))).tree()["data"] == {"n": "1"}
    other_store.stop()


async def test_a_write_has_one_entry(harness: StorageHarness) -> None:
    """A write returns the entry that the cache has, whether the store's response comes before the
    event or after it."""
    store = harness.of("configmaps")
    for number in range(20):
        create_result = await store.create(config_map(f"c{number}"))
        assert await store.get(key(f"c{number}")) is create_result.entry
        changed = await put(store, f"c{number}", "data", to={"n": "1"})
        assert await store.get(key(f"c{number}")) is changed.entry
    first = await store.get(key("c0"))
    path = first.path.replace("c0", "first")
    stale_entry = Entry(store.codec, path, first.value, Revision(0))
    store.cache.expect_write(stale_entry)
    stale_entry.set_revision(Revision(await harness.kv.current_revision() + 1))
    store.cache.end_write(stale_entry)
    assert await harness.kv.create(path, first.value) == stale_entry.revision
    assert await store.get(key("first")) is stale_entry


async def test_future_versions(harness: StorageHarness) -> None:
    """A read at a version waits for it; a version that does not come is too large."""
    store = harness.of("configmaps")
    await store.create(config_map("a"))
    future_version = await harness.kv.current_revision() + 1
    reading = asyncio.create_task(store.list(ListQuery(resource_version=f"{future_version}")))
    await asyncio.sleep(0)
    await store.create(config_map("b"))
    assert named((await reading).entries) == ["a", "b"]
    exactly = ListQuery(resource_version=f"{future_version + 1000}", match="Exact")
    with pytest.raises(ResourceVersionTooLarge):
        await store.list(exactly)


async def test_pages_show_one_state_while_others_write(harness: StorageHarness) -> None:
    """All pages of a list show the version of the first."""
    store = harness.of("configmaps")
    for number in range(9):
        await store.create(config_map(f"c{number}"))
    names_listed: list[str] = []
    page = await store.list(ListQuery(limit=2))
    first = page.revision
    for round_number in range(10):
        assert page.revision == first
        names_listed += named(page.entries)
        assert all(entry.revision <= first for entry in page.entries)
        if not page.continue_token:
            break
        await store.create(config_map(f"c0-{round_number}"))
        await store.delete(key(f"c{8 - round_number}"), DeleteQuery())
        page = await store.list(ListQuery(limit=2, continue_token=page.continue_token))
    assert names_listed == [f"c{number}" for number in range(9)]


async def test_watches_resume_within_the_window(harness: StorageHarness) -> None:
    """Events that the cache has dropped are read from the store's history; after compaction they
    are expired."""
    store = harness.of("configmaps")
    start_revision = (await store.create(config_map("a"))).entry.revision
    for number in range(MIN_RECENT_EVENTS // 8):
        await put(store, "a", "data", to={"n": f"{number}"})
    harness.clock.advance(RECENT_SECONDS + 1)
    last = (await put(store, "a", "data", to={"n": "last"})).entry.revision
    client = Client()
    await watch(store, client, resource_version=f"{start_revision}")
    await client.count(MIN_RECENT_EVENTS // 8 + 1)
    assert [event["type"] for event in client.events] == ["MODIFIED"] * (MIN_RECENT_EVENTS // 8 + 1)
    assert client.events[-1]["object"]["metadata"]["resourceVersion"] == f"{last}"
    await harness.kv.compact(last)
    late_client, other_store = Client(), StorageHarness(harness.kv).of("configmaps")
    await other_store.list(ListQuery())
    await watch(other_store, late_client, resource_version=f"{start_revision}")
    await late_client.wait_until(lambda: late_client.closed)
    assert late_client.summary == [("ERROR", "Expired")]
    other_store.stop()


async def test_exact_versions_that_were_compacted_are_expired(harness: StorageHarness) -> None:
    """A list of a state that neither the cache nor the store has is expired."""
    store = harness.of("configmaps")
    start_revision = (await store.create(config_map("a"))).entry.revision
    for number in range(3):
        await put(store, "a", "data", to={"n": f"{number}"})
    last = (await store.get(key("a"))).revision
    exactly = ListQuery(resource_version=f"{start_revision}", match="Exact")
    assert (await store.list(exactly)).entries[0].revision == start_revision
    await harness.kv.compact(last)
    with pytest.raises(Expired):
        await store.list(exactly)


async def test_compacted_versions_of_unchanged_objects_are_expired(harness: StorageHarness) -> None:
    """The cache does not answer for a version that the store has compacted, although its objects
    are the same since."""
    store = harness.of("configmaps")
    revision = (await store.create(config_map("a"))).entry.revision
    exactly = ListQuery(resource_version=f"{revision}", match="Exact")
    assert named((await store.list(exactly)).entries) == ["a"]
    await harness.kv.compact(await harness.kv.create("/other", b""))
    with pytest.raises(Expired):
        await store.list(exactly)
    assert named((await store.list(ListQuery())).entries) == ["a"]


async def test_initial_events_end_with_their_bookmark(harness: StorageHarness) -> None:
    """sendInitialEvents delivers the objects, an annotated bookmark at their version, and then
    changes."""
    store = harness.of("configmaps")
    await store.create(config_map("a"))
    revision = (await store.create(config_map("b"))).entry.revision
    client = Client()
    query: dict[str, Any] = {"match": "NotOlderThan", "bookmarks": True, "initial_events": True}
    await watch(store, client, **query)
    summary = await client.count(3)
    assert summary[:2] == [("ADDED", "a"), ("ADDED", "b")]
    metadata = client.events[2]["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(metadata["resourceVersion"]) >= revision
    await store.create(config_map("c"))
    assert (await client.count(4))[-1] == ("ADDED", "c")


async def test_bookmarks_follow_the_whole_store(harness: StorageHarness) -> None:
    """Every minute a bookmark has the store's newest revision, whichever resource it belongs to."""
    store = harness.of("configmaps")
    await store.create(config_map("a"))
    bookmarked, plain = Client(), Client()
    await watch(store, bookmarked, bookmarks=True)
    await watch(store, plain)
    await bookmarked.count(1)
    await plain.count(1)
    moved = (
        await harness.of("secrets").create(config_map("s") | {"kind": "Secret"})
    ).entry.revision
    for _ in range(50):
        harness.clock.advance(BOOKMARK_SECONDS)
        await bookmarked.count(len(bookmarked.events) + 1)
        if int(bookmarked.summary[-1][1]) >= moved:
            break
        await harness.kv.current_revision()
    assert bookmarked.summary[-1][0] == "BOOKMARK"
    assert int(bookmarked.summary[-1][1]) >= moved
    assert plain.summary == [("ADDED", "a")]


async def test_slow_watchers_are_ended_alone(harness: StorageHarness) -> None:
    """The stream of a client that does not read is closed, others are not, and the client can
    resume."""
    store = harness.of("configmaps")
    await store.create(config_map("a"))
    slow, fast = Client(), Client()
    for client in (slow, fast):
        await watch(store, client)
        await client.count(1)
    last_version = slow.events[-1]["object"]["metadata"]["resourceVersion"]
    slow.stuck = MAX_BACKLOG_BYTES + 1
    for name in "bc":
        await store.create(config_map(name))
    await slow.wait_until(lambda: slow.closed)
    assert slow.summary == [("ADDED", "a"), ("ADDED", "b")]
    assert (await fast.count(3))[1:] == [("ADDED", "b"), ("ADDED", "c")]
    resumed_client = Client()
    await watch(store, resumed_client, resource_version=last_version)
    assert await resumed_client.count(2) == [("ADDED", "b"), ("ADDED", "c")]


async def test_encodings_are_bounded_by_bytes(store: KV) -> None:
    """Lists and watches of more than the budget are complete."""
    harness = StorageHarness(store, encoding_cache_bytes=16_000)
    objects, client = harness.of("configmaps"), Client()
    limit = 16_000 + 600 * TREE_COST  # the last tree is never dropped
    for number in range(60):
        await objects.create(config_map(f"c{number:02d}", data={"k": "v" * 500}))
        assert harness.stores.encoding_cache.size <= limit
    listing = await objects.list(ListQuery())
    first = await joined(objects.encoder.encode_list(listing, JSON))
    assert first == await joined(objects.encoder.encode_list(listing, JSON))
    await watch(objects, client, selection=parse("", "metadata.name!=c00"))
    assert len(await client.count(59)) == 59
    assert harness.stores.encoding_cache.size <= limit
    harness.stores.stop()


async def test_changes_are_batched(
    harness: StorageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long round the pump waits: each watcher gets fewer writes than there are changes, and
    misses none."""
    monkeypatch.setattr(watch_fanout, "MAX_PAUSE_SECONDS", 0.2)

    class Slow(Client):
        def write(self, frames: bytes) -> int:
            harness.clock.advance(0.1)
            return super().write(frames)

    store, clients = harness.of("configmaps"), [Slow() for _ in range(3)]
    revision = (await store.create(config_map("a"))).entry.revision
    for client in clients:
        await watch(store, client, resource_version=f"{revision}")
    await asyncio.sleep(0)
    for number in range(8):
        await store.create(config_map(f"c{number}"))
    for client in clients:
        assert await client.count(8) == [("ADDED", f"c{number}") for number in range(8)]
        assert len(client.frames) < 8
