"""The embedded store: a `KV` over one `Database`, for one event loop.

One thread writes. It is handed what one turn of the loop asks for in one piece, and all that waits
when it comes back is one transaction (group commit), so the disk's flush is shared by all. Two
threads read, each on its own connection; a store in memory has one connection, and the writer
reads too. The loop hears of a batch in one call: it shows the events to the watches, then resolves
the writers' futures, so a watch is never behind a write.

Knows no SQL (`storage/sqlite.py` does) and no object. Mirrors what etcd does for kube-apiserver.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from kapiserver.storage.clock import Clock, SystemClock, Timer
from kapiserver.storage.errors import Conflict, Corrupt, FutureRevision, StorageError, Unavailable
from kapiserver.storage.kv import KV, EventSink, GetResult, KVEvent, RangeResult, Revision, Watch
from kapiserver.storage.kv_watch import HistoryPage, KVWatch, WatchIndex
from kapiserver.storage.remaining_count import RemainingCounts
from kapiserver.storage.sqlite import Database, FileLock, Write, lock_file

T = TypeVar("T")
Answer = TypeVar("Answer", GetResult, RangeResult)

BATCH = 256
"""Writes in one transaction, at most."""
PENDING = 20_000
"""Writes and reads that may wait; more are refused."""
COMPACTION_STEP = 100
"""Revisions forgotten in one transaction, so that no write waits long behind it."""
VACUUM_STEP = 100
"""Pages given back to the file system between two batches of writes."""
EXPIRY_STEP = 500
EXPIRY_AGAIN = 10.0
"""Seconds from a failure to delete what has run out to the next attempt."""
LONGEST_TIMER = 3600.0
"""Seconds: a timer far ahead is set again on the way, in case the wall clock was moved."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Job:
    """Something for the writer's thread to do: a write, or any question to its database."""

    work: Write | Callable[[Database], Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Done:
    """What became of a job: a value, or the error to raise."""

    job: _Job
    outcome: Any


class EmbeddedStore(KV):
    """A store in this process. Made by `open_embedded`; every method runs on the loop it was opened
    on."""

    shared = False

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self.durable = path is not None
        self._path = path
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._gathered: list[_Job] = []
        self._pending = 0
        self._closed = False
        self._revision = Revision(0)
        self._watches = WatchIndex()
        self._timer: Timer | None = None
        self._timer_at = float("inf")
        self._tasks: set[asyncio.Task[None]] = set()
        self._compacting = asyncio.Lock()
        self._problem = ""
        """Why the last writes failed; the writer's thread says so."""
        self._readers = _Readers(path) if path is not None else None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._writer = threading.Thread(target=self._write_forever, name="store", daemon=True)

    async def open(self) -> None:
        """Open the file and read where it stands. Raises StoreLocked, Unavailable, Corrupt."""
        opened: asyncio.Future[Any] = self._loop.create_future()
        self._opened = _Job(lambda _: None, opened)
        self._writer.start()
        self._revision, self._timer_at = await opened
        self._arm(self._timer_at)

    # What a KV does.

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        return await self._shown(await self._read(lambda database: database.get(key, revision)))

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> RangeResult:
        return await self._shown(
            await self._read(lambda database: database.range(prefix, start, limit, revision))
        )

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        return await self._write(Write(key, value, 0, self._expires(ttl)))

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        _check_expected(key, expected)
        return await self._write(Write(key, value, expected, self._expires(ttl)))

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        _check_expected(key, expected)
        return await self._write(Write(key, None, expected))

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        self._check_open()
        watch = KVWatch(self, prefix, after, sink)
        self._watches.add(watch)
        if not watch.live:
            self._spawn(watch.replay())
        return watch

    async def current_revision(self) -> Revision:
        # A write is acknowledged on this loop after the revision moved here, so this is the newest.
        self._check_open()
        return self._revision

    async def writable(self) -> None:
        if self._problem:
            await self._submit(Database.probe_write)

    async def compact(self, revision: Revision) -> None:
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(revision, current=self._revision)
        async with self._compacting:
            while await self._submit(lambda db: db.compact(revision, COMPACTION_STEP)) < revision:
                pass
            while await self._submit(lambda db: db.shrink(VACUUM_STEP)):
                pass
            await self._submit(Database.truncate_wal)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            for task in tuple(self._tasks):
                task.cancel()
            for watch in self._watches:
                watch.end(Unavailable("the store is closed"))
            self._hand_over()
            self._jobs.put(None)
        await asyncio.shield(self._ended)

    # What a watch of this store asks of it.

    @property
    def revision(self) -> Revision:
        """The newest revision that the watches have been shown."""
        return self._revision

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int
    ) -> HistoryPage:
        """Part of the history. Raises Compacted, Unavailable."""
        return await self._read(lambda database: database.history(prefix, after, until, limit))

    def remove_watch(self, watch: KVWatch) -> None:
        """Show the watch nothing any more."""
        self._watches.discard(watch)

    def call_when_current(self, callback: Callable[[], None]) -> None:
        """Call back in a later turn: what is acknowledged has been shown already."""
        self._loop.call_soon(callback)

    # On the loop.

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")

    def _expires(self, ttl: int) -> float:
        return self._clock.now() + ttl if ttl else 0

    async def _write(self, write: Write) -> Revision:
        event: KVEvent = await self._submit(write)
        return event.revision

    async def _read(self, question: Callable[[Database], T]) -> T:
        if self._readers is None:
            answer: T = await self._submit(question)
            return answer
        self._admit()
        try:
            return await self._loop.run_in_executor(self._readers.pool, self._readers.ask, question)
        finally:
            self._pending -= 1

    async def _shown(self, answer: Answer) -> Answer:
        """What a reader found, once the watches have been shown it too: the file may be ahead of
        this loop, and who was told of a change may not be shown an older state after that."""
        if answer.revision > self._revision:
            await self._submit(lambda _: None)  # reported behind all that is in the file by now
        return answer

    async def _submit(self, work: Write | Callable[[Database], Any]) -> Any:
        self._admit()
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(_Job(work, future))
        try:
            return await future
        finally:
            self._pending -= 1

    def _hand_over(self) -> None:
        """Give the writer what this turn has gathered: waking it for each would cost the loop more
        than the work."""
        if self._gathered:
            self._jobs.put(self._gathered)
            self._gathered = []

    def _admit(self) -> None:
        self._check_open()
        if self._pending >= PENDING:
            raise Unavailable(f"{PENDING} requests wait for the store already")
        self._pending += 1

    def _settle(self, done: Sequence[_Done]) -> None:
        """A batch is durable: show it to the watches, then tell those who wait."""
        events = [each.outcome for each in done if isinstance(each.outcome, KVEvent)]
        if events:
            self._revision = events[-1].revision
            self._watches.dispatch(events)
        for each in done:
            work, future = each.job.work, each.job.future
            if isinstance(work, Write) and work.expires and work.expires < self._timer_at:
                self._arm(work.expires)
            if future.done():  # the caller has gone
                continue
            if isinstance(each.outcome, Exception):
                future.set_exception(each.outcome)
            else:
                future.set_result(each.outcome)

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _arm(self, at: float) -> None:
        """Look at what runs out at that time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at != float("inf") and not self._closed:
            wait = min(at - self._clock.now(), LONGEST_TIMER)
            if wait > 0:
                self._timer = self._clock.call_later(wait, lambda: self._spawn(self._expire()))
            else:
                self._spawn(self._expire())

    async def _expire(self) -> None:
        """Delete what has run out, then wait for the next; where that fails, for a while."""
        now = self._clock.now()
        try:
            due = await self._submit(lambda database: database.expired_writes(now, EXPIRY_STEP))
            for outcome in await asyncio.gather(*map(self._submit, due), return_exceptions=True):
                # A Conflict says that the key was written again meanwhile.
                if isinstance(outcome, BaseException) and not isinstance(outcome, Conflict):
                    raise outcome
            at = await self._submit(Database.next_expiry)
        except StorageError as error:
            _log.info("what has run out cannot be deleted: %s", error)
            at = self._clock.now() + EXPIRY_AGAIN
        self._arm(at)

    # On the writer's thread.

    def _write_forever(self) -> None:
        held: FileLock | None = None
        database: Database | None = None
        try:
            held = lock_file(self._path) if self._path is not None else None
            database = Database(self._path)
            self._report([_Done(self._opened, (database.revision(), database.next_expiry()))])
            for jobs in self._batches():
                done = _work(database, jobs)
                self._problem = _noted(self._problem, done, database)
                self._report(done)
        except StorageError as error:
            self._report([_Done(self._opened, error)])
        finally:
            if self._readers is not None:
                self._readers.close()
            if database is not None:
                database.close()
            if held is not None:
                held.release()
            self._call(self._end)

    def _batches(self) -> Iterator[list[_Job]]:
        """What is to be done, as it comes, all that waits in one; ends when the store closes."""
        while (jobs := self._jobs.get()) is not None:
            closing = False
            while len(jobs) < BATCH and not closing:
                try:
                    more = self._jobs.get_nowait()
                except Empty:
                    break
                closing = more is None
                jobs += more or ()
            for at in range(0, len(jobs), BATCH):
                yield jobs[at : at + BATCH]
            if closing:
                return

    def _report(self, done: Sequence[_Done]) -> None:
        self._call(lambda: self._settle(done))

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            self._jobs.put(None)  # the loop is gone without a close: stop

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


class _Readers:
    """Threads that read, each on a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._own = threading.local()
        self._counts = RemainingCounts()
        self._databases: list[Database] = []
        self.pool = ThreadPoolExecutor(2, "store-reader")

    def ask(self, question: Callable[[Database], T]) -> T:
        """Answer on this thread's connection."""
        database: Database | None = getattr(self._own, "database", None)
        if database is None:
            database = self._own.database = Database(self._path, self._counts)
            self._databases.append(database)
        return question(database)

    def close(self) -> None:
        """Wait for the readers, and close what they have opened."""
        self.pool.shutdown()
        for database in self._databases:
            database.close()


def _work(database: Database, jobs: Sequence[_Job]) -> list[_Done]:
    """Do a batch: all writes in one transaction first, then the questions."""
    done: list[_Done] = []
    writes = [job for job in jobs if isinstance(job.work, Write)]
    if writes:
        try:
            outcomes: Sequence[Any] = database.apply(
                [job.work for job in writes if isinstance(job.work, Write)]
            )
            database.truncate_long_wal()
        except StorageError as error:
            outcomes = [error] * len(writes)
        done = [_Done(job, outcome) for job, outcome in zip(writes, outcomes, strict=True)]
    for job in jobs:
        if not isinstance(job.work, Write):
            try:
                done.append(_Done(job, job.work(database)))
            except StorageError as error:
                done.append(_Done(job, error))
    return done


def _noted(problem: str, done: Sequence[_Done], database: Database) -> str:
    """What is wrong with the file, as the writes of a batch have found it; a change is logged."""
    outcomes = [each.outcome for each in done if isinstance(each.job.work, Write)]
    failed = [each for each in outcomes if isinstance(each, Unavailable | Corrupt)]
    if not failed and not (problem and outcomes):
        return problem
    try:
        if failed:
            raise failed[0]
        database.probe_write()  # a small write may find room where others do not
    except StorageError as error:
        if str(error) != problem:
            _log.error("writes fail: %s", error)
        return str(error)
    _log.warning("writes succeed again")
    return ""


def _check_expected(key: str, expected: Revision) -> None:
    """Nothing was ever written at 0, which a `Write` takes for absence."""
    if expected < 1:
        raise Conflict(key, expected=expected, current=None)


async def open_embedded(path: Path | None, *, clock: Clock | None = None) -> EmbeddedStore:
    """Open the store in a file (made where it is missing), or a new one in memory (None). Raises
    StoreLocked, Corrupt, Unavailable."""
    store = EmbeddedStore(path, clock or SystemClock())
    await store.open()
    return store
