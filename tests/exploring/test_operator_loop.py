"""The loop of an operator in this process says when it waits, and skips the time of its waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from kapiserver.exploring.running.operators.operator_loop import OperatorLoop

HOUR = 3600.0
LIMIT = 30.0


@pytest.fixture
def loop() -> Iterator[OperatorLoop]:
    """A loop that runs in a thread."""
    loop = OperatorLoop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def rest(loop: OperatorLoop, seconds: float) -> float:
    """Return by how much the time of an idle loop was moved."""
    wakes = loop.rest(0.0).result(LIMIT).wakes
    return loop.rest(seconds, wakes).result(LIMIT).skipped


def test_time_is_moved_to_the_next_timer(loop: OperatorLoop) -> None:
    """A sleep of an hour ends at once, and not before an hour has been skipped."""
    sleeping = asyncio.run_coroutine_threadsafe(asyncio.sleep(HOUR), loop)
    assert rest(loop, HOUR / 2) == HOUR / 2
    assert not sleeping.done()
    assert HOUR / 2 - LIMIT < rest(loop, HOUR) <= HOUR / 2
    sleeping.result(LIMIT)


def test_time_does_not_move_while_a_function_runs_in_an_executor(loop: OperatorLoop) -> None:
    """Nobody knows what the function does."""
    go_on = threading.Event()

    async def work() -> None:
        await asyncio.get_running_loop().run_in_executor(None, go_on.wait, LIMIT)

    working = asyncio.run_coroutine_threadsafe(work(), loop)
    while not loop.rest(0.0).result(LIMIT).executes:
        time.sleep(0.001)
    assert rest(loop, HOUR) == 0.0
    go_on.set()
    working.result(LIMIT)
    assert rest(loop, HOUR) == HOUR


def test_the_loop_is_not_idle_while_a_callback_is_ready(loop: OperatorLoop) -> None:
    """The answer comes when the work is done."""
    done = []

    async def work() -> None:
        for number in range(1000):
            await asyncio.sleep(0)
            done.append(number)

    asyncio.run_coroutine_threadsafe(work(), loop)
    loop.rest(0.0).result(LIMIT)
    assert len(done) == 1000


def test_a_waiting_loop_says_what_woke_it(loop: OperatorLoop) -> None:
    """Timers wake the loop, requests to rest do not; while it works it says nothing."""

    async def look() -> int | None:
        return loop.wakes_of_wait

    def wakes_of_wait() -> int:
        while (wakes := loop.wakes_of_wait) is None:
            time.sleep(0.001)
        return wakes

    assert asyncio.run_coroutine_threadsafe(look(), loop).result(LIMIT) is None
    before = wakes_of_wait()
    assert rest(loop, HOUR) == HOUR
    assert wakes_of_wait() == before
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.001), loop).result(LIMIT)
    assert wakes_of_wait() > before
