"""Turns of long work on the event loop."""

from __future__ import annotations

import asyncio
import itertools
import sys

import pytest

from kapiserver.storage.concurrency.requester import REQUESTER, Requester
from kapiserver.storage.concurrency.switch_interval import SWITCH_SECONDS
from kapiserver.storage.concurrency.turns import LONG_ROUNDS, next_turn


async def _work(user: str, pieces: int, log: list[str]) -> None:
    REQUESTER.set(Requester(user))
    for _ in range(pieces):
        await next_turn()
        log.append(user)


def test_one_piece_in_each_round() -> None:
    """Between two pieces of long work, every other task gets a round of the loop."""

    async def run() -> None:
        log: list[str] = []
        works = [asyncio.create_task(_work(f"user {number}", 5, log)) for number in range(4)]
        longest = 0
        while not all(work.done() for work in works):
            before = len(log)
            await asyncio.sleep(0)
            longest = max(longest, len(log) - before)
        assert longest == 1
        assert len(log) == 20

    asyncio.run(run())


@pytest.mark.parametrize("rounds", [1, LONG_ROUNDS])
def test_rounds_between_pieces(rounds: int) -> None:
    """From one piece of long work to the next piece, of whatever user, are that many rounds."""

    async def run() -> None:
        pieces: list[int] = []
        present = 0

        async def work(user: str) -> None:
            REQUESTER.set(Requester(user))
            for _ in range(4):
                await next_turn(rounds)
                pieces.append(present)

        works = [asyncio.create_task(work(user)) for user in ("a", "b", "b")]
        while not all(work.done() for work in works):
            await asyncio.sleep(0)
            present += 1
        gaps = {later - earlier for earlier, later in itertools.pairwise(pieces)}
        assert (len(pieces), gaps) == (12, {rounds})

    asyncio.run(run())


def test_users_take_turns() -> None:
    """A user with many pieces of work at a time delays another by one."""

    async def run() -> None:
        log: list[str] = []
        many = [_work("many", 5, log) for _ in range(10)]
        await asyncio.gather(*many, _work("one", 5, log))
        assert log[:10].count("one") >= 4

    asyncio.run(run())


def test_cancelled_work_takes_no_turn() -> None:
    """Work that is cancelled while it waits delays nobody; a new loop begins anew."""

    async def run() -> None:
        log: list[str] = []
        works = [asyncio.create_task(_work("many", 5, log)) for _ in range(3)]
        await asyncio.sleep(0)
        for work in works:
            work.cancel()
        await _work("one", 1, log)
        assert log[-1] == "one"

    for _ in range(2):
        asyncio.run(run())


def test_switch_interval() -> None:
    """The interpreter switches often between threads while pieces run, and as usual after that."""
    usual = sys.getswitchinterval()
    intervals = []

    async def work() -> None:
        for _ in range(3):
            await next_turn()
            intervals.append(sys.getswitchinterval())

    async def run() -> None:
        await work()
        for _ in range(3):
            await asyncio.sleep(0)
        assert sys.getswitchinterval() == usual
        await asyncio.gather(work(), work())

    asyncio.run(run())
    assert intervals == [SWITCH_SECONDS] * 9
    assert sys.getswitchinterval() == usual
