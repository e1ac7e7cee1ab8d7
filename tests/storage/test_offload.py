"""Long work runs in threads, with the same result, in turns between users."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kapiserver.api.strategy import Strategy, ValidationTakesLong
from kapiserver.codecs.cost import LARGE
from kapiserver.storage.cache.offload import (
    QUEUED,
    QUEUED_PER_USER,
    REQUESTER,
    WORKERS,
    Offloader,
    Requester,
)
from kapiserver.storage.concurrency.switch_interval import SWITCH_SECONDS
from kapiserver.storage.errors import TooMuchWork

SECONDS = 30
"""The limit of what a test waits for."""


class ImpatientStrategy(Strategy):
    """A strategy whose validation raises ValidationTakesLong on the event loop."""


def thread_of(*_: Any) -> int:
    return threading.get_ident()


class Gate:
    """Work that waits until the gate opens; records the names of the work that ran."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.ran: list[str] = []

    def work(self, name: str) -> Callable[[], str]:
        def work() -> str:
            assert self.opened.wait(SECONDS)
            self.ran.append(name)
            return name

        return work


async def start(offloader: Offloader, user: str, work: Callable[[], Any]) -> asyncio.Task[Any]:
    """Start work for a user; it is running or queued when this returns."""

    async def run() -> Any:
        REQUESTER.set(Requester(user))
        return await offloader.run_in_thread(work)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    return task


def test_strategy_is_offloaded() -> None:
    """Work that exceeds its budget on the event loop is repeated in a thread."""
    slow_strategy = Strategy()

    def work(name: str, strategy: Strategy) -> tuple[str, Strategy, int]:
        if isinstance(strategy, ImpatientStrategy):
            raise ValidationTakesLong(slow_strategy)
        return name, strategy, threading.get_ident()

    async def run() -> None:
        offloader = Offloader()
        name, strategy, thread = await offloader.run_with_strategy(
            0, ImpatientStrategy(), work, "a"
        )
        assert (name, strategy) == ("a", slow_strategy)
        assert thread != threading.get_ident()
        run = offloader.run_with_strategy
        assert await run(0, slow_strategy, thread_of) == threading.get_ident()
        assert await run(LARGE, slow_strategy, thread_of) != threading.get_ident()

    asyncio.run(run())


def test_costly_work_is_offloaded() -> None:
    """Work of a large cost runs in a thread at once, and its errors are raised unchanged."""

    def fail() -> None:
        raise KeyError("x")

    async def run() -> None:
        offloader = Offloader()
        assert await offloader.run(LARGE - 1, thread_of, 1) == threading.get_ident()
        assert await offloader.run(LARGE, thread_of, 1) != threading.get_ident()
        for cost in (0, LARGE):
            with pytest.raises(KeyError):
                await offloader.run(cost, fail)

    asyncio.run(run())


def test_one_piece_of_work_of_a_user_at_a_time() -> None:
    """A user never has two pieces of work running."""
    at_work = threading.Semaphore(1)

    def work() -> None:
        assert at_work.acquire(blocking=False)
        at_work.release()

    async def run() -> None:
        offloader = Offloader()
        await asyncio.gather(*(offloader.run_in_thread(work) for _ in range(20)))

    asyncio.run(run())


def test_users_take_turns() -> None:
    """The work of a user who sends ten pieces does not delay that of the others by ten."""

    async def run() -> None:
        offloader, gate = Offloader(), Gate()
        tasks = [await start(offloader, "busy", gate.work(f"busy-{n}")) for n in range(WORKERS)]
        blockers = [
            await start(offloader, f"other-{n}", gate.work(f"other-{n}"))
            for n in range(WORKERS - 1)
        ]
        tasks += [await start(offloader, "busy", gate.work(f"later-{n}")) for n in range(10)]
        tasks += blockers
        tasks.append(await start(offloader, "patient", gate.work("patient")))
        gate.opened.set()
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*tasks)
        assert gate.ran.index("patient") < gate.ran.index("later-0")
        assert [name for name in gate.ran if name.startswith("later")] == [
            f"later-{n}" for n in range(10)
        ]

    asyncio.run(run())


def test_work_of_an_ended_request_is_skipped() -> None:
    """Work whose caller was cancelled while it was queued never runs."""

    async def run() -> None:
        offloader, gate = Offloader(), Gate()
        first = await start(offloader, "a", gate.work("first"))
        second = await start(offloader, "a", gate.work("second"))
        third = await start(offloader, "a", gate.work("third"))
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.opened.set()
        async with asyncio.timeout(SECONDS):
            assert await asyncio.gather(first, third) == ["first", "third"]
        assert gate.ran == ["first", "third"]

    asyncio.run(run())


def test_work_for_a_client_that_has_gone_is_skipped() -> None:
    """Queued work never runs if its client has closed the connection; its request is cancelled."""

    async def run() -> None:
        offloader, gate, clients_gone = Offloader(), Gate(), set[str]()

        async def run_for_client() -> str:
            REQUESTER.set(Requester("a", lambda: "second" in clients_gone))
            return await offloader.run_in_thread(gate.work("second"))

        first = await start(offloader, "a", gate.work("first"))
        second = asyncio.create_task(run_for_client())
        third = await start(offloader, "a", gate.work("third"))
        clients_gone.add("second")
        gate.opened.set()
        async with asyncio.timeout(SECONDS):
            assert await asyncio.gather(first, third) == ["first", "third"]
            with pytest.raises(asyncio.CancelledError):
                await second
        assert gate.ran == ["first", "third"]

    asyncio.run(run())


def test_running_work_of_an_ended_request_frees_its_thread() -> None:
    """A request that ends while its work runs discards the result; the next work runs."""

    async def run() -> None:
        offloader, gate = Offloader(), Gate()
        first = await start(offloader, "a", gate.work("first"))
        second = await start(offloader, "a", gate.work("second"))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        gate.opened.set()
        async with asyncio.timeout(SECONDS):
            assert await second == "second"

    asyncio.run(run())


def test_result_for_nobody_is_freed_in_its_thread() -> None:
    """Arguments and result of work whose request has ended are not freed on the event loop."""
    freed: list[int] = []

    class Value:
        def __del__(self) -> None:
            freed.append(threading.get_ident())

    started, ended = threading.Event(), threading.Event()

    def work(_argument: Value) -> Value:
        started.set()
        ended.wait(60)
        return Value()

    async def run() -> None:
        offloader = Offloader()
        task = asyncio.create_task(offloader.run_in_thread(work, Value()))
        await asyncio.to_thread(started.wait, 60)
        task.cancel()
        await asyncio.wait([task])
        del task
        ended.set()
        assert await offloader.run_in_thread(thread_of, 1) != threading.get_ident()
        assert len(freed) == 2
        assert threading.get_ident() not in freed

    asyncio.run(run())


def test_queued_work_is_limited() -> None:
    """More work than the limits is refused, of one user and of all; the server's own is not."""

    async def refuses(offloader: Offloader, user: str, gate: Gate) -> bool:
        task = await start(offloader, user, gate.work(user))
        if not task.done():
            return False
        with pytest.raises(TooMuchWork):
            await task
        return True

    async def run() -> None:
        offloader, gate = Offloader(), Gate()
        accepted = 0
        while not await refuses(offloader, "a", gate):
            accepted += 1
        assert accepted == QUEUED_PER_USER + 1  # one is running
        users = 0
        while not await refuses(offloader, f"user-{users}", gate):
            users += 1
        assert QUEUED_PER_USER + users == QUEUED + WORKERS - 1
        assert not await refuses(offloader, "", gate)
        gate.opened.set()

    asyncio.run(run())


def test_switch_interval() -> None:
    """The interpreter switches between threads often while work runs, and as usual afterwards."""
    usual = sys.getswitchinterval()
    offloader = Offloader()

    async def check() -> None:
        first, second = (
            offloader.run_in_thread(sys.getswitchinterval),
            offloader.run_in_thread(sys.getswitchinterval),
        )
        assert await asyncio.gather(first, second) == [SWITCH_SECONDS, SWITCH_SECONDS]
        with pytest.raises(ZeroDivisionError):
            await offloader.run_in_thread(lambda: 1 // 0)

    asyncio.run(check())
    assert sys.getswitchinterval() == usual
