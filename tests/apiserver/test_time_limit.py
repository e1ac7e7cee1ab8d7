"""The time limit that calls share."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.apiserver.time_limit import TimeLimit


def test_each_task_has_its_own_end() -> None:
    """Tasks that exceed the limit get TimeoutError, each after its own time; others do not."""

    async def run() -> None:
        limit = TimeLimit(0.05)

        async def wait() -> None:
            with limit:
                await asyncio.Event().wait()

        async def end_at_once() -> str:
            with limit:
                return "done"

        late = [asyncio.create_task(wait()) for _ in range(3)]
        assert await end_at_once() == "done"
        for task in late:
            with pytest.raises(TimeoutError):
                await task
        assert await end_at_once() == "done"

    asyncio.run(run())


def test_a_task_in_time_goes_on() -> None:
    """A task that waits for less than the limit returns what it waited for."""

    async def run() -> None:
        limit = TimeLimit(1000)
        release = asyncio.Event()

        async def wait() -> str:
            with limit:
                await release.wait()
            return "done"

        tasks = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        release.set()
        assert await asyncio.gather(*tasks) == ["done"] * 3

    asyncio.run(run())


def test_a_cancelled_task_is_cancelled() -> None:
    async def run() -> None:
        limit = TimeLimit(1000)

        async def wait() -> None:
            with limit:
                await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_errors_pass() -> None:
    async def run() -> None:
        limit = TimeLimit(1000)
        with pytest.raises(KeyError), limit:
            raise KeyError

    asyncio.run(run())
