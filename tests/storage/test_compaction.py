"""Scheduled compaction, with a clock that the test moves."""

from __future__ import annotations

import asyncio

from kapiserver.storage.compaction import Compactor
from kapiserver.storage.embedded_store import open_embedded
from kapiserver.storage.errors import Compacted
from kapiserver.storage.kv import KV, Revision
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
    """Compaction removes versions that were replaced more than one interval ago, and keeps newer
    ones."""
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
        [False, True, True],
        [False, False, True, True],
        [False, False, False, True, True],
    ]
    compaction.stop()
    clock.advance(300)
    assert not clock.timers
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
