"""Long work runs in a thread, with the same result."""

import asyncio
import threading

import pytest

from kapiserver.api.strategy import Strategy, ValidationTakesLong
from kapiserver.storage.offload import LARGE_OBJECT_BYTES, Offloader


class ImpatientStrategy(Strategy):
    """A strategy whose validation raises ValidationTakesLong on the event loop."""


def thread_of(*_):
    return threading.get_ident()


def test_strategy_is_offloaded():
    """Work that exceeds its budget on the event loop is repeated in a thread."""
    slow_strategy = Strategy()

    def work(name, strategy):
        if isinstance(strategy, ImpatientStrategy):
            raise ValidationTakesLong(slow_strategy)
        return name, strategy, threading.get_ident()

    async def run():
        offload = Offloader()
        name, strategy, thread = await offload.run_with_strategy(ImpatientStrategy(), work, "a")
        assert (name, strategy) == ("a", slow_strategy)
        assert thread != threading.get_ident()
        assert await offload.run_with_strategy(slow_strategy, thread_of) == threading.get_ident()

    asyncio.run(run())


def test_large_objects_are_offloaded():
    """Work on large objects runs in a thread at once, and its errors are raised unchanged."""

    def fail():
        raise KeyError("x")

    async def run():
        offload = Offloader()
        assert (
            await offload.run_sized(LARGE_OBJECT_BYTES - 1, thread_of, 1) == threading.get_ident()
        )
        assert await offload.run_sized(LARGE_OBJECT_BYTES, thread_of, 1) != threading.get_ident()
        for size in (0, LARGE_OBJECT_BYTES):
            with pytest.raises(KeyError):
                await offload.run_sized(size, fail)

    asyncio.run(run())


def test_one_piece_of_work_at_a_time():
    """The thread runs one piece of work at a time."""
    at_work = threading.Semaphore(1)

    def work():
        assert at_work.acquire(blocking=False)
        at_work.release()

    async def run():
        offload = Offloader()
        await asyncio.gather(*(offload.run_in_thread(work) for _ in range(20)))

    asyncio.run(run())
