"""The conformance suite of `storage/kv/contract.py`, which every backend passes. Stores may be
shared and need not begin at revision 1, so each test counts from the current revision."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.storage.encryption.transformers import IDENTITY
from kapiserver.storage.errors import Compacted, Conflict, FutureRevision, KeyExists, Unavailable
from kapiserver.storage.etcd.store import PROGRESS_KEY
from kapiserver.storage.kv.contract import KV, HistoryPage, KeyValue, KVEvent, Revision
from kapiserver.storage.wrappers.encryption_store import EncryptedStore
from tests.clock import ManualClock
from tests.storage.recorder import Recorder

SHARED_AND_DURABLE = {
    "memory": (False, False),
    "file": (False, True),
    "etcd": (True, True),
    "postgresql": (True, True),
}


def after(revision: Revision, count: int = 1) -> Revision:
    return Revision(revision + count)


async def test_shared_and_durable(store: KV, request: pytest.FixtureRequest) -> None:
    """A store states whether servers can share it and whether writes survive the process."""
    backend = request.node.callspec.params["open_fresh"].partition("-")[0]
    assert (store.shared, store.durable) == SHARED_AND_DURABLE[backend]
    encrypted = EncryptedStore(store, IDENTITY)
    assert (encrypted.shared, encrypted.durable) == SHARED_AND_DURABLE[backend]


async def test_create_then_get(store: KV) -> None:
    """A created value is read with the revision of its write."""
    start_revision = await store.current_revision()
    revision = await store.create("/a/x", b"one")
    assert revision > start_revision
    read = await store.get("/a/x")
    assert read.item == KeyValue("/a/x", b"one", revision)
    assert read.revision == revision == await store.current_revision()


async def test_get_of_an_absent_key(store: KV) -> None:
    """An absent key reads as None, with the revision of the read."""
    read = await store.get("/a/x")
    assert read.item is None
    assert read.revision == await store.current_revision() >= 1


async def test_create_of_an_existing_key(store: KV) -> None:
    """A second create raises KeyExists and changes nothing."""
    revision = await store.create("/a/x", b"one")
    with pytest.raises(KeyExists) as caught:
        await store.create("/a/x", b"two")
    assert caught.value.key == "/a/x"
    assert (await store.get("/a/x")).item == KeyValue("/a/x", b"one", revision)
    assert await store.current_revision() == revision


async def test_update(store: KV) -> None:
    """An update with the expected revision replaces the value."""
    first = await store.create("/a/x", b"one")
    second = await store.update("/a/x", b"two", expected=first)
    assert second > first
    assert (await store.get("/a/x")).item == KeyValue("/a/x", b"two", second)


async def test_stale_writes(store: KV) -> None:
    """Update and delete at another revision raise Conflict with both revisions and the value."""
    first = await store.create("/a/x", b"one")
    second = await store.update("/a/x", b"two", expected=first)
    for expected in (first, after(second), Revision(0)):
        for write in (
            store.update("/a/x", b"three", expected=expected),
            store.delete("/a/x", expected=expected),
        ):
            with pytest.raises(Conflict) as caught:
                await write
            assert (caught.value.key, caught.value.expected) == ("/a/x", expected)
            if expected:
                assert (caught.value.current, caught.value.value) == (second, b"two")
    assert (await store.get("/a/x")).item == KeyValue("/a/x", b"two", second)


async def test_writes_of_an_absent_key(store: KV) -> None:
    """Update and delete of an absent key raise Conflict without a current revision."""
    for expected in (Revision(5), Revision(0)):
        with pytest.raises(Conflict) as caught:
            await store.update("/a/x", b"one", expected=expected)
        assert (caught.value.current, caught.value.value) == (None, None)
        with pytest.raises(Conflict) as caught:
            await store.delete("/a/x", expected=expected)
        assert (caught.value.current, caught.value.value) == (None, None)
    assert (await store.get("/a/x")).item is None


async def test_delete(store: KV) -> None:
    """A deleted key is absent, and can be created again."""
    first = await store.create("/a/x", b"one")
    second = await store.delete("/a/x", expected=first)
    assert second > first
    assert (await store.get("/a/x")).item is None
    third = await store.create("/a/x", b"two")
    assert third > second


@pytest.mark.parametrize("value", [b"", b"\0", bytes(range(256)), b"x" * 1_400_000])
async def test_any_bytes_are_a_value(store: KV, value: bytes) -> None:
    """Values are opaque: empty ones, zero bytes and 1.4 MB are read as written."""
    start_revision = await store.current_revision()
    recorder = Recorder()
    store.watch("/a/", after=start_revision, sink=recorder)
    first = await store.create("/a/x", value)
    read = await store.get("/a/x")
    assert read.item is not None
    assert read.item.value == value
    await store.delete("/a/x", expected=first)
    created, deleted = await recorder.count(2)
    assert (created.value, deleted.value) == (value, None)
    current = await store.current_revision()
    history = await store.history("/a/", start_revision, current, 9, previous=True)
    assert [event.previous for event in history.events] == [None, value]


async def test_range_is_ordered_and_bounded_by_its_prefix(store: KV) -> None:
    """A range has only the keys of its prefix, in byte order."""
    keys = ["/a/", "/a/-", "/a/B", "/a/a", "/a/a/b", "/a/ä", "/a/\ud7ff", "/a/\ue000", "/a/😀"]
    for key in ["/a", "/b/x", "/0", *reversed(keys)]:
        await store.create(key, key.encode())
    page = await store.range("/a/")
    assert [item.key for item in page.items] == sorted(keys, key=str.encode)
    assert [item.value for item in page.items] == [key.encode() for key in sorted(keys)]
    assert page.remaining == 0
    assert page.revision == await store.current_revision()
    assert (await store.range("/c/")).items == []
    all_keys = [item.key for item in (await store.range("/")).items if item.key != PROGRESS_KEY]
    assert len(all_keys) == len(keys) + 3


async def test_size(store: KV) -> None:
    """A store knows how many bytes it takes on disk."""
    for number in range(8):
        await store.create(f"/size/{number}", b"x" * 100_000)
    assert await store.size() > 100_000


async def test_pages(store: KV) -> None:
    """A limit cuts a range and returns the number of remaining keys; `start` is inclusive."""
    for number in range(10):
        await store.create(f"/a/{number}", b"")
    await store.create("/b/0", b"")
    page = await store.range("/a/", limit=4)
    assert [item.key for item in page.items] == ["/a/0", "/a/1", "/a/2", "/a/3"]
    assert page.remaining == 6
    page = await store.range("/a/", start="/a/4", limit=6)
    assert page.items[0].key == "/a/4"
    assert (len(page.items), page.remaining) == (6, 0)
    page = await store.range("/a/", start="/a/8\0")
    assert [item.key for item in page.items] == ["/a/9"]
    page = await store.range("/a/", start="/a/99", limit=1)
    assert (list(page.items), page.remaining) == ([], 0)


async def test_reads_at_a_revision(store: KV) -> None:
    """Get and range at a revision show the old state, with keys that were deleted or overwritten
    later."""
    await store.create("/a/w", b"w")
    first = await store.create("/a/x", b"one")
    await store.create("/a/y", b"y")
    old_revision = await store.current_revision()
    items_before = await store.range("/a/")
    second = await store.update("/a/x", b"two", expected=first)
    await store.delete("/a/x", expected=second)
    await store.create("/a/z", b"z")
    assert (await store.get("/a/x", revision=old_revision)).item == KeyValue("/a/x", b"one", first)
    assert (await store.get("/a/x", revision=second)).item == KeyValue("/a/x", b"two", second)
    assert (await store.get("/a/x", revision=after(second))).item is None
    assert (await store.get("/a/z", revision=old_revision)).item is None
    past = await store.range("/a/", revision=old_revision)
    assert list(past.items) == list(items_before.items)
    page = await store.range("/a/", revision=old_revision, limit=1)
    assert (len(page.items), page.remaining) == (1, 2)
    page = await store.range("/a/", revision=old_revision, start="/a/x", limit=1)
    assert ([item.value for item in page.items], page.remaining) == ([b"one"], 1)


async def test_future_revisions(store: KV) -> None:
    """Reading and compacting beyond the newest revision raise FutureRevision."""
    current = await store.create("/a/x", b"")
    for operation in (
        store.get("/a/x", revision=after(current)),
        store.range("/a/", revision=after(current, 50)),
        store.compact(after(current)),
    ):
        with pytest.raises(FutureRevision):
            await operation


async def test_watch(store: KV) -> None:
    """A watch delivers creates, updates and deletes below its prefix."""
    recorder = Recorder()
    store.watch("/a/", after=await store.current_revision(), sink=recorder)
    first = await store.create("/a/x", b"one")
    await store.create("/b/x", b"other")
    second = await store.update("/a/x", b"two", expected=first)
    third = await store.delete("/a/x", expected=second)
    assert await recorder.count(3) == [
        KVEvent("/a/x", first, b"one", None),
        KVEvent("/a/x", second, b"two", None),
        KVEvent("/a/x", third, None, None),
    ]


async def test_history(store: KV) -> None:
    """History is read in pages, with the previous values, until it is compacted."""
    start_revision = await store.current_revision()
    first = await store.create("/a/x", b"one")
    await store.create("/b/x", b"other")
    second = await store.update("/a/x", b"two", expected=first)
    third = await store.delete("/a/x", expected=second)
    events = [
        KVEvent("/a/x", first, b"one", None),
        KVEvent("/a/x", second, b"two", b"one"),
        KVEvent("/a/x", third, None, b"two"),
    ]
    page = await store.history("/a/", start_revision, third, 9, previous=True)
    assert page == HistoryPage(events, third)
    assert await store.history("/a/", second, third, 9, previous=True) == HistoryPage(
        events[2:], third
    )
    page = await store.history("/a/", start_revision, second, 9)
    assert [event.revision for event in page.events] == [first, second]
    seen: list[KVEvent] = []
    until = start_revision
    while until < third:
        page = await store.history("/a/", until, third, 1, previous=True)
        assert until < page.until <= third
        seen += page.events
        until = page.until
    assert seen == events
    await store.compact(third)
    with pytest.raises(Compacted):
        await store.history("/a/", start_revision, third, 9, previous=True)


async def test_watch_from_the_past(store: KV) -> None:
    """A watch from an old revision delivers the history once, in order, and then new events."""
    start_revision = await store.current_revision()
    revisions = [await store.create(f"/a/{number:04}", b"") for number in range(1200)]
    recorder = Recorder()
    store.watch("/a/", after=revisions[99], sink=recorder)
    for number in range(1200, 1250):
        revisions.append(await store.create(f"/a/{number:04}", b""))
    await recorder.count(1150)
    assert [event.revision for event in recorder.seen] == revisions[100:]
    late_recorder = Recorder()
    store.watch("/a/0000", after=start_revision, sink=late_recorder).request_progress()
    await late_recorder.wait_until(lambda: late_recorder.progressed)
    assert late_recorder.keys() == ["/a/0000"]


async def test_watch_from_the_future_waits(store: KV) -> None:
    """A watch from a future revision delivers only what follows it."""
    current = await store.create("/a/0", b"")
    recorder = Recorder()
    store.watch("/a/", after=after(current, 2), sink=recorder)
    for number in range(1, 5):
        await store.create(f"/a/{number}", b"")
    await recorder.count(2)
    assert recorder.keys() == ["/a/3", "/a/4"]


async def test_cancelled_watch_is_silent(store: KV) -> None:
    """A cancelled watch delivers nothing more; a second cancel has no effect."""
    recorder = Recorder()
    start_revision = await store.current_revision()
    watch = store.watch("/a/", after=start_revision, sink=recorder)
    await store.create("/a/x", b"")
    await recorder.count(1)
    watch.cancel()
    assert recorder.ends == [None]
    watch.cancel()
    await store.create("/a/y", b"")
    replaying = Recorder()
    store.watch("/a/", after=start_revision, sink=replaying).cancel()
    await store.create("/a/z", b"")
    assert (recorder.keys(), recorder.ends) == (["/a/x"], [None])
    assert (replaying.keys(), replaying.ends) == ([], [None])


async def test_progress(store: KV) -> None:
    """A requested progress arrives after the events that it covers."""
    recorder = Recorder()
    watch = store.watch("/a/", after=await store.current_revision(), sink=recorder)
    await store.create("/a/x", b"")
    revision = await store.create("/b/x", b"")
    watch.request_progress()
    await recorder.wait_until(lambda: recorder.progressed)
    assert recorder.progressed[0] >= revision
    assert recorder.keys() == ["/a/x"]


async def test_progress_up_to_a_revision(store: KV) -> None:
    """A progress that is requested up to a revision covers it, whatever keys it is of. Up to one
    that does not exist yet, it covers what there is."""
    recorder = Recorder()
    watch = store.watch("/a/", after=await store.current_revision(), sink=recorder)
    await store.create("/a/x", b"")
    for future in (0, 1000):
        revision = await store.create(f"/b/{future}", b"")
        watch.request_progress(after(revision, future))
        await recorder.wait_until(
            lambda revision=revision: recorder.progressed and recorder.progressed[-1] >= revision
        )
    assert recorder.keys() == ["/a/x"]


async def test_compaction(store: KV) -> None:
    """Compaction removes versions that only older revisions show, and keeps the others."""
    first = await store.create("/a/x", b"one")
    await store.create("/a/y", b"y")
    second = await store.update("/a/x", b"two", expected=first)
    third = await store.update("/a/x", b"three", expected=second)
    assert store.compacted < second
    await store.compact(second)
    assert store.compacted == second
    for operation in (
        store.get("/a/x", revision=first),
        store.range("/a/", revision=after(first)),
    ):
        with pytest.raises(Compacted):
            await operation
    assert (await store.get("/a/x", revision=second)).item == KeyValue("/a/x", b"two", second)
    assert len((await store.range("/a/", revision=second)).items) == 2
    await store.compact(first)
    await store.compact(second)
    assert store.compacted == second
    recorder = Recorder()
    store.watch("/a/", after=second, sink=recorder)
    assert await recorder.count(1) == [KVEvent("/a/x", third, b"three", None)]
    history = await store.history("/a/", second, third, 9, previous=True)
    assert history.events == [KVEvent("/a/x", third, b"three", b"two")]
    late_recorder = Recorder()
    store.watch("/a/", after=Revision(first - 1), sink=late_recorder)
    assert isinstance(await late_recorder.end(), Compacted)
    assert not late_recorder.seen


async def test_compaction_of_deleted_keys(store: KV) -> None:
    """Compaction removes deleted keys completely, and never lowers the revision."""
    for number in range(20):
        revision = await store.create(f"/a/{number}", b"")
        last = await store.delete(f"/a/{number}", expected=revision)
    await store.compact(last)
    assert (await store.range("/a/")).items == []
    assert await store.current_revision() == last
    assert await store.create("/a/0", b"again") > last


async def test_values_with_a_time_to_live(store: KV, clock: ManualClock) -> None:
    """A value with a ttl is deleted when it expires, unless it was written again without one."""
    recorder = Recorder()
    store.watch("/a/", after=await store.current_revision(), sink=recorder)
    await store.create("/a/stays", b"", ttl=0)
    revision = await store.create("/a/kept", b"", ttl=1)
    await store.create("/a/goes", b"bye", ttl=1)
    await store.update("/a/kept", b"", expected=revision)
    second = await store.create("/a/twice", b"", ttl=1)
    await store.update("/a/twice", b"", expected=second, ttl=1)
    clock.advance(2)
    await recorder.wait_until(lambda: len([e for e in recorder.seen if e.value is None]) == 2)
    assert {e.key for e in recorder.seen if e.value is None} == {"/a/goes", "/a/twice"}
    assert [item.key for item in (await store.range("/a/")).items] == ["/a/kept", "/a/stays"]


async def test_many_writers_of_one_key(store: KV) -> None:
    """Concurrent compare-and-swap increments lose none."""
    await store.create("/a/count", b"0")

    async def add() -> None:
        while True:
            item = (await store.get("/a/count")).item
            assert item is not None
            value = str(int(item.value) + 1).encode()
            try:
                await store.update("/a/count", value, expected=item.revision)
            except Conflict:
                continue
            return

    await asyncio.gather(*(add() for _ in range(20)))
    item = (await store.get("/a/count")).item
    assert item is not None
    assert item.value == b"20"


async def test_one_of_many_creates_wins(store: KV) -> None:
    """Exactly one of several concurrent creates of a key succeeds."""
    creates = (store.create("/a/x", str(number).encode()) for number in range(50))
    outcomes = await asyncio.gather(*creates, return_exceptions=True)
    assert len([outcome for outcome in outcomes if isinstance(outcome, int)]) == 1
    assert len([outcome for outcome in outcomes if isinstance(outcome, KeyExists)]) == 49


async def test_cancelled_writer(store: KV) -> None:
    """Cancelling the caller of a write affects no other write."""
    tasks = [asyncio.create_task(store.create(f"/a/{number}", b"")) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.create("/a/last", b"")
    keys = {item.key for item in (await store.range("/a/")).items}
    assert {"/a/last", *(f"/a/{number}" for number in range(1, 20, 2))} <= keys


async def test_a_closed_store(open_fresh: object, clock: ManualClock, tmp_path: object) -> None:
    """Close ends watches with Unavailable, and later calls raise it."""
    async with open_fresh(clock, tmp_path) as store:  # type: ignore[operator]
        revision = await store.create("/a/x", b"")
        recorder = Recorder()
        store.watch("/a/", after=revision, sink=recorder)
        writes = [asyncio.create_task(store.create(f"/b/{n}", b"")) for n in range(10)]
        await asyncio.sleep(0)
        await asyncio.gather(store.close(), store.close())
        assert isinstance(await recorder.end(), Unavailable)
        await asyncio.wait(writes, timeout=20)
        assert all(write.done() for write in writes)
        await asyncio.gather(*writes, return_exceptions=True)
        for operation in (
            store.get("/a/x"),
            store.range("/a/"),
            store.create("/a/y", b""),
            store.update("/a/x", b"", expected=revision),
            store.delete("/a/x", expected=revision),
            store.current_revision(),
            store.compact(revision),
        ):
            with pytest.raises(Unavailable):
                await operation
        await store.close()
