"""The work queue of controllers."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.controllers.loop.workqueue import WorkQueue
from kapiserver.spans import Trace, span
from tests.clock import ManualClock


@pytest.mark.parametrize("turns", range(8))
def test_no_added_item_is_lost(turns):
    """An item added while the last worker ends is reconciled, at whichever turn of the loop."""

    async def reconciled_items():
        reconciled = []

        async def reconcile(item):
            reconciled.append(item)

        queue = WorkQueue(reconcile, ManualClock(), workers=1, name="test")
        queue.add("first")
        for _ in range(turns):
            await asyncio.sleep(0)
        queue.add("second")
        for _ in range(8):
            await asyncio.sleep(0)
        await queue.stop()
        return reconciled

    assert asyncio.run(reconciled_items()) == ["first", "second"]


def test_stop_cancels():
    """After a stop nothing is reconciled: neither items in progress nor items added later."""

    async def items_reconciled():
        reconciled = []

        async def reconcile(item):
            reconciled.append(item)
            await asyncio.Event().wait()

        queue = WorkQueue(reconcile, ManualClock(), workers=1, name="test")
        queue.add("first")
        queue.add("second")
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await queue.stop()
        queue.add("third")
        await asyncio.sleep(0)
        return reconciled, len(asyncio.all_tasks())

    assert asyncio.run(items_reconciled()) == (["first"], 1)


def test_workers_have_contexts_of_their_own() -> None:
    """The work of a worker does not count towards the request that added the item."""
    trace = Trace()

    async def reconcile(_item: str) -> None:
        with span("reconcile"):
            pass

    async def run() -> None:
        trace.begin()
        queue = WorkQueue(reconcile, ManualClock(), workers=1, name="test")
        queue.add("item")
        await asyncio.sleep(0)
        await queue.stop()

    asyncio.run(run())
    assert not trace.spans


def live_timers(clock: ManualClock) -> list[float]:
    """The seconds until each timer is due."""
    return [timer.at - clock.now() for timer in clock.timers if not timer.cancelled]


def test_one_delay_for_each_item() -> None:
    """Of several delays of an item the one that ends first counts, and an item without a delay is
    queued at once. A delay ends when the item is taken for another reason."""

    async def run() -> list[str]:
        reconciled: list[str] = []

        async def reconcile(item: str) -> None:
            reconciled.append(item)

        clock = ManualClock()
        queue = WorkQueue(reconcile, clock, workers=1, name="test")
        for seconds in (30.0, 10.0, 20.0):
            queue.add_after("a", seconds)
        assert live_timers(clock) == [10]
        assert queue.is_idle
        clock.advance(10)
        await queue.wait_idle()
        queue.add_after("b", 60)
        queue.add_after("b", 0)
        await queue.wait_idle()
        assert live_timers(clock) == []
        queue.add_after("c", 60)
        await queue.stop()
        queue.add_after("d", 60)
        assert live_timers(clock) == []
        return reconciled

    assert asyncio.run(run()) == ["a", "b"]


def test_batches_end_early() -> None:
    """`end_batches` queues what waits only to cover a burst, once, and no other delay."""

    async def run() -> list[str]:
        reconciled: list[str] = []

        async def reconcile(item: str) -> None:
            reconciled.append(item)

        clock = ManualClock()
        queue = WorkQueue(reconcile, clock, workers=1, name="test")
        queue.add_batched("burst", 1)
        queue.add_batched("burst", 1)
        queue.add_after("later", 60)
        assert queue.is_idle
        assert queue.end_batches()
        await queue.wait_idle()
        assert not queue.end_batches()
        assert live_timers(clock) == [60]
        await queue.stop()
        queue.add_batched("late", 1)
        assert not queue.end_batches()
        return reconciled

    assert asyncio.run(run()) == ["burst"]


def test_next_due() -> None:
    """The next work is that of the first delayed item; regular items do not count, and come due all
    the same."""

    async def run() -> list[str]:
        reconciled: list[str] = []

        async def reconcile(item: str) -> None:
            reconciled.append(item)

        clock = ManualClock()
        queue = WorkQueue(reconcile, clock, workers=1, name="test")
        queue.add_after("heartbeat", 10, is_regular=True)
        assert queue.next_due is None
        queue.add_after("late", 90)
        queue.add_after("soon", 60)
        assert queue.next_due == clock.now() + 60
        clock.advance(60)
        await queue.wait_idle()
        assert queue.next_due == clock.now() + 30
        await queue.stop()
        return reconciled

    assert asyncio.run(run()) == ["heartbeat", "soon"]


def test_many_failures() -> None:
    """An item that has failed thousands of times waits for the longest time."""

    async def run() -> None:
        async def reconcile(_item: str) -> None:
            raise ValueError("the test wants it so")

        clock = ManualClock()
        queue = WorkQueue(reconcile, clock, workers=1, name="test", max_retry_seconds=60.0)
        for _ in range(2000):
            queue.add("item")
            await queue.wait_idle()
        assert live_timers(clock) == [60]
        await queue.stop()

    asyncio.run(run())
