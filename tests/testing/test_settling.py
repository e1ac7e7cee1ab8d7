"""When a server has settled, its loop has nothing left to run."""

from __future__ import annotations

import asyncio

from kapiserver.testing.history.settling import run_ready_tasks

TURNS = 10


async def work(turns: int, done: list[int]) -> None:
    """Work for so many turns of the loop."""
    for turn in range(turns):
        await asyncio.sleep(0)
        done.append(turn)


def test_ready_tasks_run_until_they_wait() -> None:
    """All turns of a task are waited for, and no more."""

    async def run() -> tuple[bool, int]:
        done: list[int] = []
        task = asyncio.create_task(work(TURNS // 2, done))
        is_idle = await run_ready_tasks(TURNS)
        worked = len(done)
        await task
        return is_idle, worked

    assert asyncio.run(run()) == (True, TURNS // 2)


def test_tasks_that_go_on_are_left_alone() -> None:
    """After the last turn the loop still has something to run."""

    async def run() -> tuple[bool, int]:
        done: list[int] = []
        task = asyncio.create_task(work(10 * TURNS, done))
        is_idle = await run_ready_tasks(TURNS)
        worked = len(done)
        task.cancel()
        return is_idle, worked

    is_idle, worked = asyncio.run(run())
    assert not is_idle
    assert worked <= TURNS
