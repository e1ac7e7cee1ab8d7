"""Turns of work on the event loop: long work, and short work that shares a round."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any

import pytest

from kapiserver.storage.concurrency import rounds
from kapiserver.storage.concurrency.requester import REQUESTER, Requester
from kapiserver.storage.concurrency.rounds import join_round
from kapiserver.storage.concurrency.time_slice import unlimited_slices
from kapiserver.storage.concurrency.turns import next_turn


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


async def _write(user: str, log: list[str]) -> None:
    REQUESTER.set(Requester(user))
    await join_round()
    log.append(user)


async def _by_round(*writes: Coroutine[Any, Any, None], log: list[str]) -> list[int]:
    """How many writes had begun after each round of the loop, until all have."""
    tasks = [asyncio.create_task(write) for write in writes]
    begun = []
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        begun.append(len(log))
    return begun


def test_short_work_shares_a_round() -> None:
    """Writes begin at once while the round has time for them."""

    async def run() -> None:
        log: list[str] = []
        with unlimited_slices():
            assert (await _by_round(*(_write("a", log) for _ in range(9)), log=log))[0] == 9

    asyncio.run(run())


def test_short_work_waits_for_later_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time of a round is used up, one write begins in each later round, and users take
    turns. Later rounds have their time again."""
    monkeypatch.setattr(rounds, "ROUND_SECONDS", 0.0)

    async def run() -> None:
        for _ in range(2):
            log: list[str] = []
            many = (_write("many", log) for _ in range(6))
            begun = await _by_round(*many, _write("one", log), log=log)
            assert log.index("one") <= 2
            assert begun[0] == 1
            assert all(0 <= later - earlier <= 1 for earlier, later in itertools.pairwise(begun))
            await asyncio.sleep(0)

    asyncio.run(run())
