"""Runs long CPU-bound work in threads, so that the event loop stays free.

`codecs/cost.py` estimates what work costs. Work of LARGE cost waits in a queue that takes turns
between users, and runs in one of WORKERS threads. So does work of its first kind, which imports
modules and compiles codecs: all work in a `first_use`, and the first object of a resource that is
decoded, or encoded in one encoding. While a thread works, the interpreter switches often between
threads (`switch_interval.py`). The work must only use data that no other code changes at that time.
Work whose request has ended is not started. Knows no request.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from kapiserver.api.accessors import copy_tree
from kapiserver.api.lazy import Lazy, Loaded
from kapiserver.api.selectors import Selection
from kapiserver.api.strategy import Strategy, ValidationTakesLong
from kapiserver.api.types import Tree
from kapiserver.codecs.cost import LARGE, cost_of
from kapiserver.storage.cache.entry import Encoding, Entry
from kapiserver.storage.cache.query import FetchRequired, UpdateFunc
from kapiserver.storage.concurrency.fair_queue import FairQueue
from kapiserver.storage.concurrency.requester import REQUESTER, Requester
from kapiserver.storage.concurrency.switch_interval import SWITCH_OFTEN
from kapiserver.storage.errors import TooMuchWork

Result = TypeVar("Result")

WORKERS = 2
"""More threads would share the same GIL, and each delays the event loop by another switch."""
RUNNING_PER_USER = 1
QUEUED = 128
QUEUED_PER_USER = 32


@contextlib.contextmanager
def first_use() -> Iterator[None]:
    """Run all work of the running task in threads until the block ends, because it imports modules
    and compiles codecs: the first Pod needs 200 ms of that."""
    usual = REQUESTER.get()
    requester = Requester(usual.user, usual.has_gone)
    requester.is_first = True
    token = REQUESTER.set(requester)
    try:
        yield
    finally:
        requester.is_first = False  # tasks that the block has started have this requester, too
        REQUESTER.reset(token)


class _Job:
    """One piece of work, and the future of its result."""

    __slots__ = ("outcome", "requester", "work")

    def __init__(
        self, requester: Requester, work: Callable[[], Any], outcome: asyncio.Future[Any]
    ) -> None:
        self.requester = requester
        self.work = work
        self.outcome = outcome


def _run(job: _Job) -> Any:
    """Do a job in this thread. If no task waits for the result any more, the result and the
    arguments are freed here: freeing a million values on the event loop takes 65 ms."""
    with SWITCH_OFTEN:
        work, job.work = job.work, _no_work
        try:
            result = work()
        except BaseException:
            del job  # its future gets the error, which refers to this frame
            raise
        finally:
            del work
        return None if job.outcome.cancelled() else result


def _is_quick(cost: int) -> bool:
    """Whether work of a cost runs at once: it is neither long nor a first use."""
    return cost < LARGE and not REQUESTER.get().is_first


def _no_work() -> None:
    """Replaces the work of a job that is done."""


class Offloader:
    """Runs the long work of one server."""

    def __init__(self) -> None:
        self._queue: FairQueue[_Job] = FairQueue(
            limit=QUEUED, limit_per_user=QUEUED_PER_USER, running_per_user=RUNNING_PER_USER
        )
        self._running = 0

    @property
    def is_running(self) -> bool:
        """Whether work is queued, or a thread is at work."""
        return self._running > 0 or len(self._queue) > 0

    async def run(self, cost: int, work: Callable[..., Result], *args: Any) -> Result:
        """Return `work(*args)`, run in a thread if the cost is LARGE or it is a first use. Raises
        TooMuchWork."""
        if _is_quick(cost):
            return work(*args)
        return await self.run_in_thread(work, *args, limited=cost >= LARGE)

    async def load(self, reference: Lazy[Loaded]) -> Loaded:
        """Return what a reference refers to, imported in a thread."""
        value = reference.value
        return await self.run_in_thread(reference, limited=False) if value is None else value

    async def run_with_strategy(
        self, cost: int, strategy: Strategy, work: Callable[..., Result], *args: Any
    ) -> Result:
        """Return `work(*args, strategy)`. If the strategy raises ValidationTakesLong, the work
        starts again in a thread. Raises TooMuchWork."""
        try:
            if _is_quick(cost):
                return work(*args, strategy)
            return await self.run(cost, work, *args, strategy)
        except ValidationTakesLong as error:
            slow_strategy = error.slow_strategy
        return await self.run_in_thread(work, *args, slow_strategy)

    async def apply_change(
        self, cost: int, old: Tree, change: UpdateFunc, *, reads_only: bool = False
    ) -> Tree:
        """Return the object that an update function makes of a copy of another, or of the other
        itself if it only reads it; fetches what it requires. Raises TooMuchWork."""

        def work() -> Tree:
            return change(old if reads_only else copy_tree(old))

        while True:
            try:
                return work() if _is_quick(cost) else await self.run(cost, work)
            except FetchRequired as error:
                await error.fetch()

    async def tree(self, entry: Entry, *, limited: bool = True) -> Tree:
        """Return `Entry.tree`, which a thread decodes if that takes long. Raises TooMuchWork if the
        object is large and the work is `limited`."""
        if not entry.is_slow_to_decode():
            return entry.tree()
        tree = await self.run_in_thread(_tree, entry, limited=limited and entry.is_large)
        entry.codec.is_tree_loaded = True
        if entry.cached_tree is None:
            entry.cache_tree(tree)
        return tree

    async def run_for_entry(
        self, entry: Entry, work: Callable[..., Result], *args: Any, limited: bool = True
    ) -> Result:
        """Return `work(*args)`, run in a thread if the stored object is large. Raises TooMuchWork
        if the work is `limited`."""
        if not entry.is_large:
            return work(*args)
        return await self.run_in_thread(work, *args, limited=limited)

    async def prepare_encoding(
        self, entry: Entry, encoding: Encoding, *, limited: bool = True
    ) -> None:
        """Encode an object in a thread if that takes long, so that `Entry.encode` has its encoding.
        Raises TooMuchWork if the object is large and the work is `limited`."""
        if entry.is_slow_to_encode(encoding) and not entry.is_encoded(encoding):
            limited = limited and entry.is_large
            data = await self.run_in_thread(_encode, entry, encoding, limited=limited)
            entry.codec.loaded_encodings.add(encoding)
            if not entry.is_encoded(encoding):
                entry.cache_encoding(encoding, data)

    async def is_selected(self, entry: Entry, selection: Selection) -> bool:
        """Return `Entry.is_selected`; labels and fields of a large object are decoded in a
        thread."""
        if entry.is_large and not (selection.selects_everything or entry.has_selectable):
            run = self.run_in_thread
            entry.cache_selectable(await run(entry.codec.selectable, entry, limited=False))
        return entry.is_selected(selection)

    async def run_in_thread(
        self, work: Callable[..., Result], *args: Any, limited: bool = True
    ) -> Result:
        """Return `work(*args)`, run in a thread. The work is skipped if the caller is cancelled, or
        the client goes, before it starts; in the second case the caller is cancelled.

        Raises TooMuchWork if the work is `limited` and too much is queued: a response that has
        begun takes no error.
        """
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        requester = REQUESTER.get()
        job = _Job(requester, functools.partial(context.run, work, *args), loop.create_future())
        if not self._queue.add(requester.user, job, limited=limited):
            raise TooMuchWork
        self._start_jobs()
        try:
            result: Result = await job.outcome
        except asyncio.CancelledError:
            self._queue.remove(requester.user, job)
            raise
        finally:
            del job  # an error of the future refers to this frame: that would be a cycle
        return result

    def _start_jobs(self) -> None:
        while self._running < WORKERS and (started := self._queue.start_next()) is not None:
            user, job = started
            if job.requester.has_gone():
                self._queue.finish(user)
                job.outcome.cancel()
                continue
            self._running += 1
            future = asyncio.get_running_loop().run_in_executor(None, _run, job)
            future.add_done_callback(functools.partial(self._finish, job))

    def _finish(self, job: _Job, future: asyncio.Future[Any]) -> None:
        self._running -= 1
        self._queue.finish(job.requester.user)
        if future.cancelled():
            job.outcome.cancel()
        elif (error := future.exception()) is None:
            if not job.outcome.done():
                job.outcome.set_result(future.result())
        elif not job.outcome.done():
            job.outcome.set_exception(error)
        # After the caller has cached the result: the next job may be for the same object.
        asyncio.get_running_loop().call_soon(self._start_jobs)


def _tree(entry: Entry) -> Tree:
    """Return the tree of an entry, which an earlier job may have cached. Does not cache it: that
    is for the event loop."""
    return entry.cached_tree or entry.codec.tree(entry)


def _encode(entry: Entry, encoding: Encoding) -> bytes:
    """Return an encoding of an entry, which an earlier job may have cached."""
    return entry.cached_encoding(encoding) or entry.codec.encode(entry, encoding)


def change_cost(cost: int, entry: Entry) -> int:
    """Return the cost of changing an entry by a body or patch of that cost."""
    return cost + cost_of(entry.value)
