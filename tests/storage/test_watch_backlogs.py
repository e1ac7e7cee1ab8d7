"""Backlogs of slow watchers: the limit of one watcher and of all together."""

from __future__ import annotations

import asyncio

from kapiserver.storage.cache.entry import LARGE_OBJECT_BYTES
from kapiserver.storage.cache.offload import QUEUED_PER_USER, REQUESTER, Requester
from kapiserver.storage.cache.query import DeleteQuery
from kapiserver.storage.cache.watch_backlogs import LAGGING_BYTES, MAX_BACKLOG_BYTES, WatchBacklogs
from kapiserver.storage.cache.watch_fanout import CATCH_UP_BYTES, LAGGING_SECONDS
from kapiserver.storage.concurrency.time_slice import unlimited_slices
from tests.storage.objectkit import Client, StorageHarness, config_map, key, put, run, watch


class _Watcher:
    def __init__(self, backlogs: WatchBacklogs) -> None:
        self.sink = Client()
        self.backlogs = backlogs

    def end(self) -> None:
        self.backlogs.discard(self)
        self.sink.close()

    def abort(self) -> None:
        self.backlogs.discard(self)
        self.sink.abort()


def test_slowest_are_aborted_first() -> None:
    """Over the limit the largest backlogs are dropped, until three quarters are left."""
    unit = LAGGING_BYTES + 1
    backlogs = WatchBacklogs(limit=14 * unit)
    watchers = [_Watcher(backlogs) for _ in range(6)]
    for number, watcher in enumerate(watchers):  # 0 to 5 units: 15 in all, one too many at the last
        watcher.sink.stuck = number * unit
        backlogs.write(watcher, b"frame\n")
    assert [watcher.sink.aborted for watcher in watchers] == [False] * 5 + [True]
    assert backlogs.size == 10 * unit
    backlogs.halve()
    assert [watcher.sink.aborted for watcher in watchers] == [False] * 3 + [True] * 3
    watchers[2].sink.stuck = 0
    backlogs.write(watchers[2], b"frame\n")
    backlogs.discard(watchers[1])
    assert backlogs.size == 0


def test_drained_watchers_stay() -> None:
    """Backlogs are measured again before a watch is aborted for them."""
    backlogs = WatchBacklogs(limit=MAX_BACKLOG_BYTES)
    fast, slow = _Watcher(backlogs), _Watcher(backlogs)
    fast.sink.stuck = MAX_BACKLOG_BYTES
    backlogs.write(fast, b"f")
    assert fast.sink.aborted  # alone over the limit
    fast = _Watcher(backlogs)
    fast.sink.stuck = MAX_BACKLOG_BYTES - 10
    backlogs.write(fast, b"f")
    fast.sink.stuck = 0
    slow.sink.stuck = MAX_BACKLOG_BYTES // 2
    backlogs.write(slow, b"f")
    assert not fast.sink.aborted
    assert not slow.sink.aborted


def test_one_batch_counts() -> None:
    """A large batch of events that goes to very many watchers, none of which lags, is within the
    limit of all backlogs, too."""
    batch, limit = b"x" * (1 << 20), 16 << 20
    backlogs = WatchBacklogs(limit)
    watchers = [_Watcher(backlogs) for _ in range(100)]
    for watcher in watchers:
        backlogs.write(watcher, batch)
        watcher.sink.stuck = 0 if watcher.sink.aborted else len(batch)
        assert sum(each.sink.stuck for each in watchers) <= limit + len(batch)
    assert not watchers[-1].sink.aborted
    for watcher in watchers:
        watcher.sink.stuck = 0  # the clients read
        if not watcher.sink.aborted:
            backlogs.write(watcher, b"frame\n")
    assert backlogs.size == 0


def test_watchers_of_all_resources_share_the_limit() -> None:
    """A watcher that does not read ends others that are slower, whatever they watch, and nothing
    is counted for watches that have ended."""

    async def test(harness: StorageHarness) -> None:
        configmaps, secrets = harness.of("configmaps"), harness.of("secrets")
        slow, slower, healthy = Client(), Client(), Client()
        await watch(configmaps, slow)
        await watch(secrets, slower)
        await watch(configmaps, healthy)
        harness.stores.watch_backlogs._limit = MAX_BACKLOG_BYTES
        await configmaps.create(config_map("a"))
        await slow.count(1)
        await healthy.count(1)
        slower.stuck = MAX_BACKLOG_BYTES * 3 // 4
        secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}}
        await secrets.create(secret | {"metadata": {"name": "s", "namespace": "default"}})
        await slower.count(1)
        slow.stuck = MAX_BACKLOG_BYTES // 2
        await put(configmaps, "a", "data", to={"n": "1"})
        await healthy.count(2)
        await configmaps.wait_delivered()
        assert (slow.aborted, slower.aborted, healthy.aborted) == (False, True, False)
        slow.stuck = 0
        await configmaps.delete(key("a"), DeleteQuery())
        await healthy.count(3)
        await configmaps.wait_delivered()
        assert harness.stores.watch_backlogs.size == 0

    run(test)


def test_watchers_that_catch_up_count() -> None:
    """A watcher that does not read its initial objects for a second counts, until it reads or
    ends."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        clients = [Client() for _ in range(3)]
        watchers = []
        for client in clients:
            client.stuck = MAX_BACKLOG_BYTES
            client.reads = False
            watchers.append(await watch(store, client))
            await client.count(1)
        assert harness.stores.watch_backlogs.size == 0
        harness.clock.advance(LAGGING_SECONDS)
        assert harness.stores.watch_backlogs.size == 3 * MAX_BACKLOG_BYTES
        watchers[0].cancel()
        assert harness.stores.watch_backlogs.size == 2 * MAX_BACKLOG_BYTES
        harness.stores.free_memory()
        assert [client.aborted for client in clients] == [False, True, False]

    run(test)


def test_watchers_that_catch_up_share_frames() -> None:
    """Clients that do not read their initial objects hold the same bytes of a large object."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        await store.create(config_map("b", data={"text": "x" * CATCH_UP_BYTES}))
        clients = [Client() for _ in range(3)]
        for client in clients:
            client.reads = False
            await watch(store, client)
        for client in clients:
            await client.count(2)
        _, large_frame = clients[0].frames
        assert all(client.frames[1] is large_frame for client in clients)

    with unlimited_slices():  # a slice that expires between the objects waits for the client
        run(test)


def test_many_watchers_start_with_a_large_object() -> None:
    """More watchers than a user may have pieces of work queued start with an object that is encoded
    in a thread."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", data={"text": "x" * LARGE_OBJECT_BYTES}))
        REQUESTER.set(Requester("jane"))
        clients = [Client() for _ in range(QUEUED_PER_USER + 8)]
        await asyncio.gather(*(watch(store, client) for client in clients))
        for client in clients:
            await client.count(1)
        assert [client.summary for client in clients] == [clients[0].summary] * len(clients)
        assert clients[0].summary[0][0] == "ADDED"

    run(test)
