"""Rounds of writes: a user with few writes does not wait for those of a user with many."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import pytest

from kapiserver.apiserver.flowcontrol.write_rounds import CONTENTION_SECONDS, WriteRounds
from kapiserver.storage.concurrency.manual_clock import ManualClock
from kapiserver.storage.concurrency.turns import next_turn
from tests.apiserver.serving.crowd import JANE, JOE, open_crowd, request_of

FLOODER, LIGHT, OTHER = "flooder", "light", "other"


class _Loop:
    """Writes on an event loop whose rounds are counted.

    begun   the users whose writes have begun, by the number of the round
    """

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.has_long_work = True
        self.rounds = WriteRounds(self.clock.now, lambda: self.has_long_work)
        self.begun: list[list[str]] = [[]]

    async def _write(self, user: str) -> None:
        await self.rounds.join(user)
        self.begun[-1].append(user)

    def send(self, *users: str) -> Sequence[asyncio.Task[None]]:
        """Start a write of each user; it begins in the next round at the earliest."""
        return [asyncio.create_task(self._write(user)) for user in users]

    async def contend(self) -> None:
        """Let two users write."""
        await self.finish(self.send(FLOODER, LIGHT))
        self.begun = [[]]

    async def finish(self, tasks: Sequence[asyncio.Task[None]]) -> list[list[str]]:
        """Run rounds until all writes have begun or are cancelled; return who began in each."""
        self.begun = []
        while not all(task.done() for task in tasks):
            self.begun.append([])
            await asyncio.sleep(0)
        return [users for users in self.begun if users]


def _run(test: Callable[[_Loop], Awaitable[None]]) -> None:
    async def run() -> None:
        await test(_Loop())

    asyncio.run(run())


def test_a_single_user_is_never_delayed() -> None:
    """All writes of a user begin together, in the round after they came, at any time."""

    async def test(loop: _Loop) -> None:
        for _ in range(3):
            assert await loop.finish(loop.send(*[FLOODER] * 16)) == [[FLOODER] * 16]
            loop.clock.advance(CONTENTION_SECONDS / 3)

    _run(test)


def test_a_light_user_begins_at_once() -> None:
    """While several users write, one write of each begins in a round: that of a user with few
    writes begins before those of another that wait already."""

    async def test(loop: _Loop) -> None:
        await loop.contend()
        flood = loop.send(*[FLOODER] * 6)
        await asyncio.sleep(0)
        assert loop.begun[-1] == [FLOODER]
        light = loop.send(LIGHT, OTHER)
        assert await loop.finish([*flood, *light]) == [[LIGHT, OTHER], *[[FLOODER]] * 5]

    _run(test)


@pytest.mark.parametrize("users", [2, 5])
def test_bound_of_a_round(users: int) -> None:
    """No round begins two writes of a user, however they arrive."""

    async def test(loop: _Loop) -> None:
        await loop.contend()
        tasks: list[asyncio.Task[None]] = []
        for _ in range(4):
            tasks += loop.send(*[f"user {number % users}" for number in range(4 * users)])
            loop.begun.append([])
            await asyncio.sleep(0)
        begun = [*loop.begun, *await loop.finish(tasks)]
        assert all(set(Counter(users).values()) <= {1} for users in begun)
        assert sum(map(len, begun)) == len(tasks)

    _run(test)


def test_cancelled_writes_take_no_turn() -> None:
    """The next write begins in place of one that is cancelled while it waits."""

    async def test(loop: _Loop) -> None:
        await loop.contend()
        tasks = loop.send(*[FLOODER] * 6)
        await asyncio.sleep(0)
        for task in tasks[1:5]:
            task.cancel()
        assert await loop.finish(tasks) == [[FLOODER]]
        assert await loop.finish(loop.send(LIGHT, FLOODER)) == [[LIGHT, FLOODER]]

    _run(test)


def test_the_end_of_contention() -> None:
    """A user who writes alone for CONTENTION_SECONDS writes as before, and so does one who comes
    after another has not written for so long."""

    async def test(loop: _Loop) -> None:
        await loop.contend()
        loop.clock.advance(CONTENTION_SECONDS * 0.75)
        assert len(await loop.finish(loop.send(*[FLOODER] * 3))) == 3
        for user in (FLOODER, LIGHT):
            loop.clock.advance(CONTENTION_SECONDS)
            assert await loop.finish(loop.send(*[user] * 3)) == [[user] * 3]

    _run(test)


def test_without_long_work() -> None:
    """If the loop has no long work, a user's writes begin together, whoever else writes."""

    async def test(loop: _Loop) -> None:
        await loop.contend()
        loop.has_long_work = False
        assert await loop.finish(loop.send(*[FLOODER] * 3, LIGHT)) == [[FLOODER] * 3 + [LIGHT]]

    _run(test)


def test_requests_join_rounds() -> None:
    """Through the filters, too, a user's write begins before those of another that came earlier."""

    async def long_work() -> None:
        while True:
            await next_turn()

    async def run() -> list[str]:
        async with open_crowd() as crowd:
            working = asyncio.create_task(long_work())
            for users in ((JANE, JOE, JANE), (JANE, JANE, JANE, JOE)):
                await crowd.begin(*(request_of(user, method="PUT") for user in users))
            working.cancel()
            return [request.user.name for request in crowd.ends][3:]

    assert asyncio.run(run()) == ["jane", "joe", "jane", "jane"]
