"""What takes long is done in a thread, with the same outcome."""

import asyncio
import threading

import pytest

from kapiserver.api.strategy import Strategy, ValidationTakesLong
from kapiserver.storage.offload import LARGE, Aside


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
        aside = Aside()
        name, strategy, thread = await aside.by(Hurried(), work, "a")
        assert (name, strategy) == ("a", slow_strategy)
        assert thread != threading.get_ident()
        assert await aside.by(slow_strategy, thread_of) == threading.get_ident()

    asyncio.run(run())


def test_large_things_are_handled_aside():
    """By their size; errors come back as they are."""

    def fail():
        raise KeyError("x")

    async def run():
        aside = Aside()
        assert await aside.sized(LARGE - 1, thread_of, 1) == threading.get_ident()
        assert await aside.sized(LARGE, thread_of, 1) != threading.get_ident()
        for size in (0, LARGE):
            with pytest.raises(KeyError):
                await aside.sized(size, fail)

    asyncio.run(run())


def test_one_piece_of_work_at_a_time():
    """Whoever comes meanwhile waits for its turn."""
    at_work = threading.Semaphore(1)

    def work():
        assert at_work.acquire(blocking=False)
        at_work.release()

    async def run():
        aside = Aside()
        await asyncio.gather(*(aside.do(work) for _ in range(20)))

    asyncio.run(run())
