"""What takes long is done in a thread, with the same outcome."""

import asyncio
import threading

import pytest

from kapiserver.api.strategy import Strategy, ValidationTakesLong
from kapiserver.storage.offload import LARGE_OBJECT_BYTES, Offloader


class Hurried(Strategy):
    """Has no time; the other has."""


def thread_of(*_):
    return threading.get_ident()


def test_a_strategy_that_takes_long_works_aside():
    """What is begun at once is begun again by the strategy that has time, in another thread."""
    slow_strategy = Strategy()

    def work(name, strategy):
        if isinstance(strategy, Hurried):
            raise ValidationTakesLong(slow_strategy)
        return name, strategy, threading.get_ident()

    async def run():
        offload = Offloader()
        name, strategy, thread = await offload.run_with_strategy(Hurried(), work, "a")
        assert (name, strategy) == ("a", slow_strategy)
        assert thread != threading.get_ident()
        assert await offload.run_with_strategy(slow_strategy, thread_of) == threading.get_ident()

    asyncio.run(run())


def test_large_things_are_handled_aside():
    """By their size; errors come back as they are."""

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
    """Whoever comes meanwhile waits for its turn."""
    at_work = threading.Semaphore(1)

    def work():
        assert at_work.acquire(blocking=False)
        at_work.release()

    async def run():
        offload = Offloader()
        await asyncio.gather(*(offload.run_in_thread(work) for _ in range(20)))

    asyncio.run(run())
