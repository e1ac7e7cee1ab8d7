"""What the watch cache promises, over every backend: the same answers whatever lies below."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kapiserver.api.selectors import parse
from kapiserver.storage import watch_fanout
from kapiserver.storage.entry import Entry
from kapiserver.storage.errors import Expired, ResourceVersionTooLarge
from kapiserver.storage.kv import KV, Revision
from kapiserver.storage.query import DeleteQuery, ListQuery
from kapiserver.storage.watch_cache import MIN_RECENT_EVENTS, RECENT_SECONDS
from kapiserver.storage.watch_fanout import BOOKMARK_SECONDS, MAX_BACKLOG_BYTES
from tests.storage.objectkit import (
    JSON,
    Client,
    House,
    config_map,
    key,
    named,
    put,
    watch,
)


@pytest.fixture
def house(store: KV, runner: asyncio.Runner) -> Iterator[House]:
    """A server's storage over each backend."""
    made = House(store)
    yield made

    async def stop() -> None:
        made.stores.stop()

    runner.run(stop())


async def test_reads_see_every_acknowledged_write(house: House, store: KV) -> None:
    """A list or get that begins after another server's write was acknowledged shows it."""
    mine, others = house.of("configmaps"), House(store).of("configmaps")
    for number in range(10):
        await others.create(config_map(f"c{number}"))
        assert (await mine.get(key(f"c{number}"))).key.name == f"c{number}"
        assert len((await mine.list(ListQuery())).entries) == number + 1
        await put(others, f"c{number}", "data", to={"n": "1"})
        assert (await mine.get(key(f"c{number}"))).tree()["data"] == {"n": "1"}
    others.stop()


async def test_a_write_has_one_entry(house: House) -> None:
    """What a write answers with is what the cache holds, whether the answer of the store comes
    before the event or after it."""
    store = house.of("configmaps")
    for number in range(20):
        written = await store.create(config_map(f"c{number}"))
        assert await store.get(key(f"c{number}")) is written.entry
        changed = await put(store, f"c{number}", "data", to={"n": "1"})
        assert await store.get(key(f"c{number}")) is changed.entry
    first = await store.get(key("c0"))
    path = first.path.replace("c0", "first")
    early = Entry(store.codec, path, first.value, Revision(0))
    store.cache.expect_write(early)
    early.set_revision(Revision(await house.kv.current_revision() + 1))
    store.cache.end_write(early)
    assert await house.kv.create(path, first.value) == early.revision
    assert await store.get(key("first")) is early


async def test_versions_not_written_yet_are_waited_for(house: House) -> None:
    """A read at a version waits for it; one that does not come is too large."""
    store = house.of("configmaps")
    await store.create(config_map("a"))
    ahead = await house.kv.current_revision() + 1
    reading = asyncio.create_task(store.list(ListQuery(resource_version=f"{ahead}")))
    await asyncio.sleep(0)
    await store.create(config_map("b"))
    assert named((await reading).entries) == ["a", "b"]
    exactly = ListQuery(resource_version=f"{ahead + 1000}", match="Exact")
    with pytest.raises(ResourceVersionTooLarge):
        await store.list(exactly)


async def test_pages_show_one_state_while_others_write(house: House) -> None:
    """All pages of a list are of the version of its first."""
    store = house.of("configmaps")
    for number in range(9):
        await store.create(config_map(f"c{number}"))
    found: list[str] = []
    page = await store.list(ListQuery(limit=2))
    first = page.revision
    for turn in range(10):
        assert page.revision == first
        found += named(page.entries)
        assert all(entry.revision <= first for entry in page.entries)
        if not page.continue_token:
            break
        await store.create(config_map(f"c0-{turn}"))
        await store.delete(key(f"c{8 - turn}"), DeleteQuery())
        page = await store.list(ListQuery(limit=2, continue_token=page.continue_token))
    assert found == [f"c{number}" for number in range(9)]


async def test_watches_resume_within_the_window_and_not_beyond(house: House) -> None:
    """What the ring has forgotten comes from the store's history, and is gone with it."""
    store = house.of("configmaps")
    begin = (await store.create(config_map("a"))).entry.revision
    for number in range(MIN_RECENT_EVENTS // 8):
        await put(store, "a", "data", to={"n": f"{number}"})
    house.clock.advance(RECENT_SECONDS + 1)
    last = (await put(store, "a", "data", to={"n": "last"})).entry.revision
    client = Client()
    await watch(store, client, resource_version=f"{begin}")
    await client.count(MIN_RECENT_EVENTS // 8 + 1)
    assert [event["type"] for event in client.events] == ["MODIFIED"] * (MIN_RECENT_EVENTS // 8 + 1)
    assert client.events[-1]["object"]["metadata"]["resourceVersion"] == f"{last}"
    await house.kv.compact(last)
    late, fresh = Client(), House(house.kv).of("configmaps")
    await fresh.list(ListQuery())
    await watch(fresh, late, resource_version=f"{begin}")
    await late.until(lambda: late.closed)
    assert late.story == [("ERROR", "Expired")]
    fresh.stop()


async def test_exact_versions_that_were_compacted_are_expired(house: House) -> None:
    """A list of a state that is neither in the cache nor in the store says so."""
    store = house.of("configmaps")
    begin = (await store.create(config_map("a"))).entry.revision
    for number in range(3):
        await put(store, "a", "data", to={"n": f"{number}"})
    last = (await store.get(key("a"))).revision
    exactly = ListQuery(resource_version=f"{begin}", match="Exact")
    assert (await store.list(exactly)).entries[0].revision == begin
    await house.kv.compact(last)
    with pytest.raises(Expired):
        await store.list(exactly)


async def test_initial_events_end_with_their_bookmark(house: House) -> None:
    """sendInitialEvents: the objects, the annotated bookmark at their version, then changes."""
    store = house.of("configmaps")
    await store.create(config_map("a"))
    revision = (await store.create(config_map("b"))).entry.revision
    client = Client()
    query: dict[str, Any] = {"match": "NotOlderThan", "bookmarks": True, "initial_events": True}
    await watch(store, client, **query)
    story = await client.count(3)
    assert story[:2] == [("ADDED", "a"), ("ADDED", "b")]
    metadata = client.events[2]["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(metadata["resourceVersion"]) >= revision
    await store.create(config_map("c"))
    assert (await client.count(4))[-1] == ("ADDED", "c")


async def test_bookmarks_follow_the_whole_store(house: House) -> None:
    """Every minute a watch is told how far the store is, whoever moved it."""
    store = house.of("configmaps")
    await store.create(config_map("a"))
    told, silent = Client(), Client()
    await watch(store, told, bookmarks=True)
    await watch(store, silent)
    await told.count(1)
    await silent.count(1)
    moved = (await house.of("secrets").create(config_map("s") | {"kind": "Secret"})).entry.revision
    for _ in range(50):
        house.clock.advance(BOOKMARK_SECONDS)
        await told.count(len(told.events) + 1)
        if int(told.story[-1][1]) >= moved:
            break
        await house.kv.current_revision()
    assert told.story[-1][0] == "BOOKMARK"
    assert int(told.story[-1][1]) >= moved
    assert silent.story == [("ADDED", "a")]


async def test_slow_watchers_are_ended_alone(house: House) -> None:
    """Who does not take what it is sent loses its stream, and can resume where it was."""
    store = house.of("configmaps")
    await store.create(config_map("a"))
    slow, fast = Client(), Client()
    for client in (slow, fast):
        await watch(store, client)
        await client.count(1)
    seen = slow.events[-1]["object"]["metadata"]["resourceVersion"]
    slow.stuck = MAX_BACKLOG_BYTES + 1
    for name in "bc":
        await store.create(config_map(name))
    await slow.until(lambda: slow.closed)
    assert slow.story == [("ADDED", "a")]
    assert (await fast.count(3))[1:] == [("ADDED", "b"), ("ADDED", "c")]
    again = Client()
    await watch(store, again, resource_version=seen)
    assert await again.count(2) == [("ADDED", "b"), ("ADDED", "c")]


async def test_encodings_are_bounded_by_bytes(store: KV) -> None:
    """Lists and watches of more than the budget holds are whole all the same."""
    house = House(store, encoding_cache_bytes=16_000)
    objects, client = house.of("configmaps"), Client()
    for number in range(60):
        await objects.create(config_map(f"c{number:02d}", data={"k": "v" * 500}))
        assert house.stores.encoding_cache.size <= 20_000
    listing = await objects.list(ListQuery())
    first = b"".join(objects.encoder.encode_list(listing, JSON))
    assert first == b"".join(objects.encoder.encode_list(listing, JSON))
    await watch(objects, client, selection=parse("", "metadata.name!=c00"))
    assert len(await client.count(59)) == 59
    assert house.stores.encoding_cache.size <= 20_000
    house.stores.stop()


async def test_changes_that_come_while_many_are_served_go_out_together(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long round the pump rests: each watcher is written fewer times than there are
    changes, and misses none."""
    monkeypatch.setattr(watch_fanout, "MAX_PAUSE_SECONDS", 0.2)

    class Slow(Client):
        def write(self, frames: bytes) -> None:
            house.clock.advance(0.1)
            super().write(frames)

    store, clients = house.of("configmaps"), [Slow() for _ in range(3)]
    revision = (await store.create(config_map("a"))).entry.revision
    for client in clients:
        await watch(store, client, resource_version=f"{revision}")
    await asyncio.sleep(0)
    for number in range(8):
        await store.create(config_map(f"c{number}"))
    for client in clients:
        assert await client.count(8) == [("ADDED", f"c{number}") for number in range(8)]
        assert len(client.frames) < 8
