"""The time limit that requests, calls of webhooks and RPCs share."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.apiserver.time_limit import TimeLimit


def test_each_task_has_its_own_end() -> None:
    """Tasks that exceed the limit get TimeoutError, each after its own time; others do not."""

    async def run() -> None:
        limit = TimeLimit()

        async def wait() -> None:
            with limit.within(0.05):
                await asyncio.Event().wait()

        async def end_at_once() -> str:
            with limit.within(0.05):
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
        limit = TimeLimit()
        release = asyncio.Event()

        async def wait() -> str:
            with limit.within(1000):
                await release.wait()
            return "done"

        tasks = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        release.set()
        assert await asyncio.gather(*tasks) == ["done"] * 3

    asyncio.run(run())


def test_a_cancelled_task_is_cancelled() -> None:
    async def run() -> None:
        limit = TimeLimit()

        async def wait() -> None:
            with limit.within(1000):
                await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_errors_pass() -> None:
    async def run() -> None:
        limit = TimeLimit()
        with pytest.raises(KeyError), limit.within(1000):
            raise KeyError

    asyncio.run(run())


def test_a_shorter_time_ends_first() -> None:
    """The timer of a long block does not delay the end of a shorter one, which raises the error of
    the limit."""

    async def run() -> None:
        limit = TimeLimit(KeyError)

        async def wait(seconds: float) -> None:
            with limit.within(seconds):
                await asyncio.Event().wait()

        long = asyncio.create_task(wait(1000))
        await asyncio.sleep(0)
        with pytest.raises(KeyError):
            await wait(0.01)
        assert not long.done()
        long.cancel()

    asyncio.run(run())


def test_only_the_block_whose_time_is_over_raises() -> None:
    """A task in two blocks leaves the one that is over and goes on in the other."""

    async def run() -> None:
        limit = TimeLimit()
        with limit.within(1000):
            with pytest.raises(TimeoutError), limit.within(0.01):
                await asyncio.Event().wait()
            await asyncio.sleep(0)

    asyncio.run(run())


def test_a_cancelled_task_keeps_its_cancellation() -> None:
    """A block that is over raises no error of its own in a task that was cancelled before."""

    async def run() -> None:
        limit = TimeLimit()

        async def clean_up() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                with pytest.raises(TimeoutError), limit.within(0.01):
                    await asyncio.Event().wait()
                raise

        task = asyncio.create_task(clean_up())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
