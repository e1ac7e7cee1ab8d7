"""The PostgreSQL store: `KV` over tables in a schema, for any number of servers.

Writes go through a queue and share transactions. The events of a server's own writes reach its
watches as soon as the transaction is committed; those of other servers are read from the log when
PostgreSQL notifies this server. Events are delivered in the order of their revisions, which have no
gap: a write whose revision is not the next makes the server read the log first.

After a failover to a server that lacks an acknowledged write, the last event that this server saw
is not in the log. Then all watches end, so that their clients list again. Each new connection is
checked for that before it is used: the first one may write over the missing revisions.

Knows no SQL (`reader.py`, `write_queue.py` and `layout.py` do) and no object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

import asyncpg
from msgspec import Struct

from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock, SystemClock
from kapiserver.storage.errors import (
    Compacted,
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
from kapiserver.storage.kv.delivery import Delivery
from kapiserver.storage.kv.delivery_waits import DeliveryWaits
from kapiserver.storage.kv.expiry import Expiry
from kapiserver.storage.kv.revision_reads import RevisionReads
from kapiserver.storage.kv.watch import HISTORY_PAGE, KVWatch
from kapiserver.storage.kv.writes import Write, check_expected
from kapiserver.storage.postgresql.connections import Connections
from kapiserver.storage.postgresql.listener import Listener
from kapiserver.storage.postgresql.loading import BEGIN_LOAD, LOAD, loaded_columns
from kapiserver.storage.postgresql.reader import Reader
from kapiserver.storage.postgresql.rows import Version, version
from kapiserver.storage.postgresql.write_queue import WriteQueue

COMPACTION_STEP = 1000
"""Revisions compacted in one transaction, so that none runs for long."""
RETRY_SECONDS = 0.2
"""Pause before events are read again; doubled after each failure up to the maximum."""
MAX_RETRY_SECONDS = 1.0
EXPIRY_CHECK_SECONDS = 60.0
"""Seconds after which expired keys are looked for at the latest: other servers may have written
them and then died."""
_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS size
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind = 'r'
"""
"""The bytes of the tables of a schema, with their indexes."""

_log = logging.getLogger(__name__)


class PostgresqlConfig(Struct, frozen=True, kw_only=True):
    """The configuration of one store in PostgreSQL.

    address          postgresql://USER@HOST:PORT/DATABASE?PARAMETERS
    schema           the schema of the tables
    max_connections  the maximum number of connections
    """

    address: str
    schema: str = "kapiserver"
    max_connections: int = 8


class PostgresqlStore(KV):
    """A store in PostgreSQL. Made by `open_postgresql`; runs on the event loop it was opened on."""

    shared = True
    durable = True

    def __init__(self, config: PostgresqlConfig, clock: Clock) -> None:
        self._clock = clock
        self._schema = config.schema
        self._connections = Connections(
            config.address,
            schema=config.schema,
            limit=config.max_connections,
            check=self._check_history,
        )
        self._reader = Reader(self._connections)
        self._tasks = BackgroundTasks[None]()
        self._writes = WriteQueue(self._connections, self._tasks, self._on_own_events)
        self._expiry = Expiry[Write](
            clock,
            self._tasks,
            expired=self._reader.expired_writes,
            delete=self._write,
            next_expiry=self._next_expiry,
            longest_wait=EXPIRY_CHECK_SECONDS,
        )
        self._delivery = Delivery()
        self._starts = 0
        """How often the delivery has begun again."""
        self._last_event: KVEvent | None = None
        """The last event that the watches received, None if they received none."""
        self._start_version: Version | None = None
        """What was written at the revision where the delivery began."""
        self._compacted = Revision(0)
        self._compact_statement = self._connections.statement(
            "SELECT {schema}.compact($1, $2) AS done"
        )
        self._begin_load_statement = self._connections.statement(BEGIN_LOAD)
        self._load_statement = self._connections.statement(LOAD)
        self._waits = DeliveryWaits(self._tasks, self._make_current)
        self._newest_known = Revision(0)
        """The newest revision that any message told of; greater than `revision` while events are
        to be read from the log."""
        self._wake_reader = asyncio.Event()
        self._listener = Listener(
            self._connections,
            learn_of=self._learn_of,
            check=self._check_events,
        )
        self._revision_reads = RevisionReads(self._reader.revision, self._tasks)
        self._closed = False

    async def open(self) -> None:
        """Connect, create missing tables, read the revision and start to listen. Raises Refused,
        Unavailable, OSError, ValueError."""
        try:
            await self._connections.open()
            await self._listener.start()
            self._begin(*await self._reader.newest())
            next_expiry = await self._next_expiry()
        except BaseException:
            self._listener.close()
            await self._connections.close()
            raise
        self._tasks.start(self._listener.run())
        self._tasks.start(self._run_reading())
        self._expiry.schedule(next_expiry)

    # KV.

    @property
    def compacted(self) -> Revision:
        return self._compacted

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        self._check_open()
        return await self._reader.get(key, revision)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> RangeResult:
        self._check_open()
        return await self._reader.range(prefix, start, limit, revision)

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        return await self._write(Write(key, value, 0, self._expiry.time_of(ttl)))

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        check_expected(key, expected)
        return await self._write(Write(key, value, expected, self._expiry.time_of(ttl)))

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        check_expected(key, expected)
        return await self._write(Write(key, None, expected))

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        self._check_open()
        watch = KVWatch(self, prefix, after, sink)
        self._delivery.add(watch, self._tasks)
        return watch

    async def current_revision(self) -> Revision:
        self._check_open()
        return await self._revision_reads.newest()

    async def writable(self) -> None:
        if self._writes.refusal:
            raise Refused(self._writes.refusal)

    async def size(self) -> int:
        (row,) = await self._connections.read(_SIZE, self._schema)
        return int(row["size"])

    async def compact(self, revision: Revision) -> None:
        self._check_open()
        current = await self.current_revision()
        if revision > current:
            raise FutureRevision(revision, current=current)
        while self._compacted < revision:
            (row,) = await self._connections.maintain(
                self._compact_statement, revision, COMPACTION_STEP
            )
            self._compacted = max(self._compacted, min(row["done"], revision))
        self._delivery.forget_recent()

    async def begin_load(self, revision: Revision) -> bool:
        """Make an empty store begin at a revision (`storage/kv/copying.py`)."""
        (row,) = await self._connections.maintain(self._begin_load_statement, revision)
        if row["is_begun"]:
            self._begin(*await self._reader.newest())
            self._compacted = revision
        return bool(row["is_begun"])

    async def load(self, items: Sequence[KeyValue], expires: Sequence[float]) -> None:
        """Add pairs at their revisions, without events."""
        await self._connections.maintain(self._load_statement, *loaded_columns(items, expires))
        self._expiry.add(min(filter(None, expires), default=0.0))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._listener.close()
        self._expiry.stop()
        self._waits.stop()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        error = Unavailable("the store is closed")
        self._writes.end(error)
        self._revision_reads.end(error)
        self._delivery.end_all(error)
        await self._connections.close()

    # WatchSource.

    @property
    def revision(self) -> Revision:
        """The revision up to which the watches have received all events."""
        return self._delivery.revision

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int, *, previous: bool = False
    ) -> HistoryPage:
        if not previous and (recent := self._delivery.recent(prefix, after, until)):
            return recent
        self._check_open()
        return await self._reader.history(prefix, after, until, limit, previous=previous)

    def remove_watch(self, watch: KVWatch) -> None:
        """Stop delivering events to the watch."""
        self._delivery.remove(watch)

    def call_when_delivered(
        self, callback: Callable[[], None], revision: Revision | None = None
    ) -> None:
        """Call back when the events up to a revision were delivered, or do not come; None: those of
        all acknowledged writes, of any server."""
        if revision is None:
            self._tasks.start(self._call_when_current(callback))
        else:
            self._waits.add(revision, callback)

    async def _call_when_current(self, callback: Callable[[], None]) -> None:
        with suppress(StorageError):
            await self._make_current()
            callback()

    async def _make_current(self) -> None:
        """Wait until the events of all acknowledged writes were delivered."""
        revision = await self.current_revision()
        self._learn_of(revision)
        await self._delivery.wait_for(revision)

    # Events.

    def _on_own_events(self, events: Sequence[KVEvent]) -> None:
        """Deliver the events of a transaction of this server, if no other is missing before."""
        if events[0].revision == self.revision + 1:
            self._deliver(events)
        else:
            self._learn_of(events[-1].revision)

    def _learn_of(self, revision: int) -> None:
        """Read the log if a revision is newer than the delivered events."""
        if revision > self.revision:
            self._newest_known = max(self._newest_known, Revision(revision))
            self._wake_reader.set()

    def _deliver(self, events: Sequence[KVEvent]) -> None:
        self._last_event = events[-1]
        self._delivery.deliver(events)
        self._waits.delivered(self.revision)

    async def _run_reading(self) -> None:
        """Read the events of other servers from the log, until the store is closed."""
        pause = RETRY_SECONDS
        while not self._closed:
            await self._wake_reader.wait()
            self._wake_reader.clear()
            try:
                while self.revision < self._newest_known:
                    await self._read_events()
                pause = RETRY_SECONDS
            except Compacted as error:
                await self._start_over(error)
            except StorageError as error:
                if pause == RETRY_SECONDS:
                    _log.warning("events after revision %d: %s", self.revision, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_RETRY_SECONDS)
                self._wake_reader.set()

    async def _read_events(self) -> None:
        """Read and deliver one page of events."""
        after = self.revision
        page = await self._reader.history(
            "", after, self._newest_known, HISTORY_PAGE, previous=False
        )
        # This server's own writes may have been delivered meanwhile.
        events = [event for event in page.events if event.revision > self.revision]
        if events:
            self._deliver(events)
        elif self.revision == after:
            self._newest_known = after  # nothing is there: the message was of a lost history

    async def _start_over(self, error: Compacted) -> None:
        """End all watches, and continue at the newest revision."""
        try:
            newest, newest_version = await self._reader.newest()
        except StorageError:
            self._wake_reader.set()
            return
        self._begin(newest, newest_version)
        self._delivery.end_all(error)  # in this turn, so that no new watch starts in the gap

    def _begin(self, newest: Revision, newest_version: Version | None) -> None:
        """Deliver events from a revision on."""
        self._starts += 1
        self._newest_known = newest
        self._start_version = newest_version
        self._last_event = None
        self._delivery.begin(newest)

    async def _check_events(self) -> None:
        """Look for events of which no message told."""
        self._learn_of(await self.current_revision())

    async def _check_history(self, connection: asyncpg.Connection) -> None:
        """Start over if a new connection leads to a server that lacks the last delivered event.
        Raises the errors of asyncpg."""
        if not self._starts:
            return  # the store is being opened
        revision, event, starts = self.revision, self._last_event, self._starts
        expected = version(event) if event else self._start_version
        newest, newest_version, stored = await self._reader.seen_by(connection, revision)
        if starts != self._starts or (newest >= revision and stored == expected):
            return
        _log.error(
            "PostgreSQL has lost writes up to revision %d: it failed over to a server that had not "
            "received them",
            revision,
        )
        self._begin(newest, newest_version)
        self._delivery.end_all(Compacted(revision, oldest=newest))

    # Calls.

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")

    async def _write(self, write: Write) -> Revision:
        self._check_open()
        revision = await self._writes.apply(write)
        self._expiry.add(write.expires)
        return revision

    async def _next_expiry(self) -> float:
        return min(await self._reader.next_expiry(), self._clock.now() + EXPIRY_CHECK_SECONDS)


async def open_postgresql(
    config: PostgresqlConfig, *, clock: Clock | None = None
) -> PostgresqlStore:
    """Open a store in PostgreSQL. Raises Refused, Unavailable if no server responds, OSError for
    certificate files that cannot be read, ValueError for an invalid address or schema."""
    store = PostgresqlStore(config, clock or SystemClock())
    await store.open()
    return store
