"""The embedded store: a `KV` over a SQLite database, for one event loop.

One thread writes. It receives the jobs of one iteration of the event loop at once, and commits all
waiting writes in one transaction (group commit), so that they share one flush to disk. Two threads
read, each on its own connection; a store in memory has one connection, and the writer thread reads
too. The event loop handles the results of a batch in one call: it dispatches the events to the
watches, then resolves the futures, so a watch is never behind an acknowledged write.

Knows no SQL (`storage/sqlite/database.py` does) and no object. Mirrors what etcd does for
kube-apiserver.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock, SystemClock
from kapiserver.storage.errors import (
    Damaged,
    FutureRevision,
    Refused,
    StorageError,
    Unavailable,
)
from kapiserver.storage.kv.contract import (
    KV,
    EventSink,
    GetResult,
    HistoryPage,
    KeyValue,
    KVEvent,
    RangeResult,
    Revision,
    Watch,
)
from kapiserver.storage.kv.expiry import Expiry
from kapiserver.storage.kv.watch import KVWatch, WatchIndex
from kapiserver.storage.kv.writes import Write, check_expected
from kapiserver.storage.sqlite.database import Database
from kapiserver.storage.sqlite.jobs import MAX_BATCH, Job, JobResult, run_batch, updated_write_error
from kapiserver.storage.sqlite.lock import FileLock, lock_file
from kapiserver.storage.sqlite.readers import Readers

T = TypeVar("T")
ReadResult = TypeVar("ReadResult", GetResult, RangeResult)

FIRST_REVISION = Revision(1)
"""The revision of an empty store."""
MAX_PENDING = 20_000
"""Limit of the waiting writes and reads; beyond it calls raise Unavailable."""
COMPACTION_STEP = 100
"""Revisions compacted in one transaction, so that no write waits long."""
VACUUM_STEP = 100
"""Pages returned to the file system between two batches of writes."""
LARGE_FILE = 512 << 20
"""A file of more bytes is checked for damage while it is served: the check takes seconds."""
MAX_TIMER_SECONDS = 3600.0
"""Seconds after which the expiring keys are read again, because the wall clock may change."""

_log = logging.getLogger(__name__)


class EmbeddedStore(KV):
    """A store in this process. Made by `open_embedded`; every method runs on the event loop it was
    opened on."""

    shared = False

    def __init__(self, path: Path | None, clock: Clock, *, fsync: bool = True) -> None:
        self.durable = path is not None
        self._path = path
        self._fsync = fsync
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._new_jobs: list[Job] = []
        self._pending = 0
        self._closed = False
        self._revision = Revision(0)
        self._compacted = Revision(0)
        self._watches = WatchIndex()
        self._tasks = BackgroundTasks[None]()
        self._expiry = Expiry[Write](
            clock,
            self._tasks,
            expired=lambda now, limit: self._submit(lambda db: db.expired_writes(now, limit)),
            delete=self._submit,
            next_expiry=lambda: self._submit(Database.next_expiry),
            longest_wait=MAX_TIMER_SECONDS,
        )
        self._compaction_lock = asyncio.Lock()
        self._write_error = ""
        """The error of the last writes, "" if they succeeded; set by the writer thread."""
        self._checking: Database | None = None
        """The connection that checks a large file."""
        self._damage: Damaged | None = None
        """The first damage that a read or write met."""
        self._readers = Readers(path) if path is not None else None
        self._writer_ended: asyncio.Future[None] = self._loop.create_future()
        self._writer = threading.Thread(target=self._run_writer, name="store", daemon=True)

    async def open(self) -> None:
        """Open the file and read its revision. Raises StoreLocked, Unavailable, Corrupt."""
        opened: asyncio.Future[Any] = self._loop.create_future()
        self._open_job = Job(lambda _: None, opened)
        self._writer.start()
        self._revision, next_expiry = await opened
        self._expiry.schedule(next_expiry)
        if self._is_large():
            self._tasks.start(self._check_large_file())

    async def _check_large_file(self) -> None:
        def check(database: Database) -> None:
            self._checking = database
            try:
                database.check()
            finally:
                self._checking = None

        with suppress(StorageError):  # `_read` refuses writes after damage
            await self._read(check)

    # KV.

    @property
    def compacted(self) -> Revision:
        return self._compacted

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        return await self._wait_for_watches(
            await self._read(lambda database: database.get(key, revision))
        )

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> RangeResult:
        return await self._wait_for_watches(
            await self._read(lambda database: database.range(prefix, start, limit, revision))
        )

    def create(self, key: str, value: bytes, *, ttl: int = 0) -> Coroutine[Any, Any, Revision]:
        return self._write(Write(key, value, 0, self._expiry.time_of(ttl)))

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        check_expected(key, expected)
        return await self._write(Write(key, value, expected, self._expiry.time_of(ttl)))

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        check_expected(key, expected)
        return await self._write(Write(key, None, expected))

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        self._check_open()
        watch = KVWatch(self, prefix, after, sink)
        self._watches.start(watch, self._tasks)
        return watch

    async def current_revision(self) -> Revision:
        # Writes are acknowledged after the revision was updated here, so this is the newest.
        self._check_open()
        return self._revision

    async def writable(self) -> None:
        if self._damage is not None:
            raise self._damage.with_traceback(None)  # without the frames of earlier writes
        if self._write_error:
            await self._submit(Database.probe_write)

    async def size(self) -> int:
        return await self._read(Database.size)

    async def compact(self, revision: Revision) -> None:
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(revision, current=self._revision)
        async with self._compaction_lock:
            while self._compacted < revision:
                self._compacted = await self._submit(
                    lambda db: db.compact(revision, COMPACTION_STEP)
                )
            while await self._submit(lambda db: db.shrink(VACUUM_STEP)):
                pass
            await self._submit(Database.truncate_wal)

    async def skip_to(self, revision: Revision) -> None:
        """Skip all revisions of an empty store up to this one; earlier ones count as compacted."""
        await self._submit(lambda database: database.skip_to(revision))
        self._compacted = await self._submit(lambda database: database.compact(revision, revision))
        self._revision = revision

    async def begin_load(self, revision: Revision) -> bool:
        """Make an empty store begin at a revision (`storage/kv/copying.py`)."""
        is_begun: bool = await self._submit(lambda database: database.begin_load(revision))
        if is_begun:
            self._compacted = self._revision = revision
        return is_begun

    async def load(self, items: Sequence[KeyValue], expires: Sequence[float]) -> None:
        """Add pairs at their revisions, without events."""
        await self._submit(lambda database: database.load(items, expires))
        self._expiry.add(min(filter(None, expires), default=0.0))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._checking is not None:
                self._checking.interrupt()
            self._expiry.stop()
            for task in tuple(self._tasks):
                task.cancel()
            for watch in self._watches:
                watch.end(Unavailable("the store is closed"))
            self._submit_jobs()
            self._jobs.put(None)
        await asyncio.shield(self._writer_ended)

    # WatchSource.

    @property
    def revision(self) -> Revision:
        """The revision up to which the watches have received all events."""
        return self._revision

    async def history(
        self,
        prefix: str,
        after: Revision,
        until: Revision,
        limit: int,
        *,
        previous: bool = False,  # noqa: ARG002 - the log always has the old values
    ) -> HistoryPage:
        return await self._read(lambda database: database.history(prefix, after, until, limit))

    def remove_watch(self, watch: KVWatch) -> None:
        """Stop delivering events to the watch."""
        self._watches.discard(watch)

    def call_when_delivered(
        self,
        callback: Callable[[], None],
        revision: Revision | None = None,  # noqa: ARG002 - a future one is the caller's to wait for
    ) -> None:
        """Call back in the next iteration: events of acknowledged writes were delivered already."""
        self._loop.call_soon(callback)

    # On the event loop.

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")

    async def _write(self, write: Write) -> Revision:
        if self._damage is not None:
            raise self._damage.with_traceback(None)  # without the frames of earlier writes
        event: KVEvent = await self._submit(write)
        return event.revision

    async def _read(self, query: Callable[[Database], T]) -> T:
        if self._readers is None:
            result: T = await self._submit(query)
            return result
        self._count_pending()
        try:
            return await self._loop.run_in_executor(self._readers.pool, self._readers.run, query)
        except Damaged as error:
            self._on_damage(error)
            raise
        finally:
            self._pending -= 1

    def _on_damage(self, error: Damaged) -> None:
        """Refuse all writes from now on."""
        if self._damage is None:
            _log.error("%s", error)
            self._damage = error

    async def _wait_for_watches(self, result: ReadResult) -> ReadResult:
        """Return the result of a read after the watches have received its revision. A reader
        thread may see a commit before the event loop does; without waiting, a watch could deliver
        an older state after the read."""
        if result.revision > self._revision:
            # The result arrives after those of all earlier commits.
            await self._submit(lambda _: None)
        return result

    async def _submit(self, work: Write | Callable[[Database], Any]) -> Any:
        self._count_pending()
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._new_jobs:
            self._loop.call_soon(self._submit_jobs)
        self._new_jobs.append(Job(work, future))
        try:
            return await future
        except Damaged as error:
            self._on_damage(error)
            raise
        finally:
            self._pending -= 1
            del future  # its error refers to this frame: that would be a cycle

    def _submit_jobs(self) -> None:
        """Pass the jobs of this iteration to the writer thread at once: waking it for each job
        costs more than the job."""
        if self._new_jobs:
            self._jobs.put(self._new_jobs)
            self._new_jobs = []

    def _count_pending(self) -> None:
        self._check_open()
        if self._pending >= MAX_PENDING:
            raise Unavailable(f"{MAX_PENDING} requests wait for the store already")
        self._pending += 1

    def _handle_results(self, results: Sequence[JobResult]) -> None:
        """Dispatch the events of a committed batch to the watches, then resolve the futures."""
        events = [result.outcome for result in results if isinstance(result.outcome, KVEvent)]
        if events:
            self._revision = events[-1].revision
            self._watches.dispatch(events)
        for result in results:
            work, future = result.job.work, result.job.future
            if isinstance(work, Write) and work.expires:
                self._expiry.add(work.expires)
            if future.done():  # the caller was cancelled
                continue
            if isinstance(result.outcome, Exception):
                future.set_exception(result.outcome)
            else:
                future.set_result(result.outcome)

    # On the writer thread.

    def _run_writer(self) -> None:
        lock: FileLock | None = None
        database: Database | None = None
        is_open = False
        try:
            lock = lock_file(self._path) if self._path is not None else None
            database = self._open_database()
            if self._path is not None and not self._is_large():
                database.check()
            self._report([JobResult(self._open_job, (database.revision(), database.next_expiry()))])
            is_open = True
            for jobs in self._batches():
                results = run_batch(database, jobs)
                self._write_error = updated_write_error(self._write_error, results, database)
                self._report(results)
        except Exception as error:
            if is_open:
                raise
            self._report([JobResult(self._open_job, error)])
        finally:
            if self._readers is not None:
                self._readers.close()
            if database is not None:
                database.close()
            if lock is not None:
                lock.release()
            self._call_on_loop(self._on_writer_end)

    def _is_large(self) -> bool:
        return self._path is not None and self._path.stat().st_size > LARGE_FILE

    def _open_database(self) -> Database:
        """Open the file. On a full disk, open it without a file for the index of SQLite's
        write-ahead log, and so without reader threads."""
        try:
            return Database(self._path, fsync=self._fsync)
        except Refused as error:
            database = Database(self._path, exclusive=True, fsync=self._fsync)
            self._readers = None
            _log.warning("%s; until the next start one thread reads and writes", error)
            return database

    def _batches(self) -> Iterator[list[Job]]:
        """Yield batches of all waiting jobs, until the store is closed."""
        while (jobs := self._jobs.get()) is not None:
            closing = False
            while len(jobs) < MAX_BATCH and not closing:
                try:
                    more_jobs = self._jobs.get_nowait()
                except Empty:
                    break
                closing = more_jobs is None
                jobs += more_jobs or ()
            for at in range(0, len(jobs), MAX_BATCH):
                yield jobs[at : at + MAX_BATCH]
            if closing:
                return

    def _report(self, results: Sequence[JobResult]) -> None:
        self._call_on_loop(lambda: self._handle_results(results))

    def _call_on_loop(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            self._jobs.put(None)  # the event loop was closed without closing the store: stop

    def _on_writer_end(self) -> None:
        if not self._writer_ended.done():
            self._writer_ended.set_result(None)


async def open_embedded(
    path: Path | None,
    *,
    clock: Clock | None = None,
    fsync: bool = True,
    first_revision: Revision = FIRST_REVISION,
) -> EmbeddedStore:
    """Open the store in a file, created if missing, or a new one in memory (None), whose revisions
    begin at `first_revision`. Without `fsync` a power failure may damage the file. Raises
    StoreLocked, Corrupt, Unavailable."""
    store = EmbeddedStore(path, clock or SystemClock(), fsync=fsync)
    await store.open()
    if path is None and first_revision > FIRST_REVISION:
        await store.skip_to(first_revision)
    return store
