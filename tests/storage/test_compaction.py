"""Scheduled compaction, with a clock that the test moves."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.storage.errors import Compacted, Refused
from kapiserver.storage.kv.compaction import COMPACTION_KEY, Compactor
from kapiserver.storage.kv.contract import KV, Revision
from kapiserver.storage.sqlite.embedded_store import open_embedded
from tests.clock import ManualClock


async def wait_for_turn(compaction: Compactor) -> None:
    """Wait until the compaction that has started ends."""
    assert compaction._task is not None
    await asyncio.gather(compaction._task)


async def readable(store: KV, revision: Revision) -> bool:
    try:
        await store.get("/a", revision=revision)
    except Compacted:
        return False
    return True


async def test_history_reaches_back_one_interval() -> None:
    """Compaction removes the revisions from before the previous run, and keeps newer ones."""
    clock = ManualClock()
    store = await open_embedded(None, clock=clock)
    compaction = Compactor(store, clock, 300)
    revisions = [await store.create("/a", b"")]
    compaction.start()
    await wait_for_turn(compaction)
    readable_counts = []
    for _ in range(4):
        revisions.append(await store.update("/a", b"", expected=revisions[-1]))
        clock.advance(300)
        await wait_for_turn(compaction)
        readable_counts.append([await readable(store, revision) for revision in revisions])
    assert readable_counts == [
        [True, True],
        [False, False, True],
        [False, False, False, True],
        [False, False, False, False, True],
    ]
    compaction.stop()
    clock.advance(300)
    assert not clock.timers
    await store.close()


async def test_idle_store(store: KV, clock: ManualClock) -> None:
    """The revision of a store without writes moves once per interval, so that old revisions are
    compacted."""
    idle = await store.create("/a", b"")
    compactor = Compactor(store, clock, 300, root="/root")
    compactor.start()
    await wait_for_turn(compactor)
    assert await store.current_revision() == idle
    for runs in (1, 2):
        clock.advance(300)
        await wait_for_turn(compactor)
        assert await store.current_revision() > idle
        assert await readable(store, idle) == (runs == 1)
    item = (await store.get("/root" + COMPACTION_KEY)).item
    assert item is not None
    assert int(item.value) == store.compacted > idle
    compactor.stop()


async def test_servers_that_share_a_store(store: KV, clock: ManualClock) -> None:
    """One server writes per interval, and all of them know what it compacted; another one takes
    over when it stops."""
    await store.create("/a", b"")
    servers = [Compactor(store, clock, 300) for _ in range(3)]
    for server in servers:
        server.start()
        await wait_for_turn(server)
    before = await store.current_revision()
    for _ in range(4):
        clock.advance(300)
        for server in servers:
            await wait_for_turn(server)
        item = (await store.get(COMPACTION_KEY)).item
        assert item is not None
        assert int(item.value) == store.compacted
    written = await store.current_revision()
    assert written - before <= 5  # etcd's store may write its progress key
    servers[0].stop()
    for _ in range(2):
        clock.advance(300)
        for server in servers[1:]:
            await wait_for_turn(server)
    assert store.compacted > written - 2
    for server in servers[1:]:
        server.stop()


async def test_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that refuses writes is compacted all the same, which may free space."""
    clock = ManualClock()
    store = await open_embedded(None, clock=clock)
    first = await store.create("/a", b"")
    compactor = Compactor(store, clock, 300)
    compactor.start()
    await wait_for_turn(compactor)
    second = await store.update("/a", b"", expected=first)

    async def refuse(key: str, value: bytes, *, ttl: int = 0) -> Revision:
        raise Refused("database or disk is full")

    monkeypatch.setattr(store, "create", refuse)
    for _ in range(2):
        clock.advance(300)
        await wait_for_turn(compactor)
    assert not await readable(store, first)
    assert store.compacted == second
    compactor.stop()
    await store.close()


async def test_failed_compaction_is_retried() -> None:
    """Compaction runs again at the next interval after the store did not answer."""
    clock = ManualClock()
    store = await open_embedded(None, clock=clock)
    await store.close()
    compaction = Compactor(store, clock, 300)
    compaction.start()
    await wait_for_turn(compaction)
    assert len(clock.timers) == 1
    compaction.stop()


async def test_interval_of_zero() -> None:
    """With an interval of 0 no compaction is scheduled."""
    clock = ManualClock()
    store = await open_embedded(None, clock=clock)
    compaction = Compactor(store, clock, 0)
    compaction.start()
    assert not clock.timers
    compaction.stop()
    await store.close()
