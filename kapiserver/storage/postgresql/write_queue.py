"""The waiting writes of one server, which share transactions.

One transaction runs at a time. Writes that arrive meanwhile form the next, so that they share one
round trip and one flush to disk (group commit). A busy event loop begins writes one after the
other, and PostgreSQL may be faster than that; so a transaction waits for those that the loop is
about to begin, if the one before began a few milliseconds ago and had many writes. A transaction
has one write of a key at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from kapiserver.api.errors import drop_tracebacks
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.rounds import wait_while_busy
from kapiserver.storage.errors import Conflict, KeyExists, Refused, StorageError, Unavailable
from kapiserver.storage.kv.contract import KVEvent, Revision
from kapiserver.storage.kv.writes import Write
from kapiserver.storage.postgresql.connections import Connections
from kapiserver.storage.postgresql.messages import (
    Row,
    bigint_array,
    bytea_array,
    double_array,
)
from kapiserver.storage.postgresql.rows import checksum, encoded_key

MAX_BATCH = 256
"""Maximum number of writes in one transaction."""
MAX_BATCH_BYTES = 8 << 20
"""Maximum number of bytes of their values, except of a single write."""
INTERVAL_SECONDS = 0.0005
"""Interval between the begins of two transactions while the event loop is busy, for each write of
the first: as many may come again. A transaction costs PostgreSQL and this process about as much as
twenty writes."""
MAX_INTERVAL_SECONDS = 0.012
"""Limit of this interval."""
MAX_PENDING = 20_000
"""Limit of the waiting writes; beyond it writes raise Unavailable."""
_WRITE = "SELECT * FROM {schema}.write_batch($1, $2, $3, $4, $5)"


class _Waiting(Struct, frozen=True):
    write: Write
    future: asyncio.Future[Revision]


class WriteQueue:
    """The writes of one store that wait for their transaction."""

    def __init__(
        self,
        connections: Connections,
        tasks: BackgroundTasks[None],
        on_events: Callable[[Sequence[KVEvent]], None],
    ) -> None:
        """`on_events` gets the events of each transaction before its writers continue."""
        self._connections = connections
        self._statement = connections.statement(_WRITE)
        self._tasks = tasks
        self._on_events = on_events
        self._waiting: deque[_Waiting] = deque()
        self._running = False
        self._next_begin = 0.0
        """When the next transaction begins at the latest, in the time of the event loop."""
        self.refusal = ""
        """The error of the last transaction if PostgreSQL refused it, else ""."""

    async def apply(self, write: Write) -> Revision:
        """Return the revision of a write. Raises KeyExists, Conflict, Unavailable."""
        if len(self._waiting) >= MAX_PENDING:
            raise Unavailable(f"{MAX_PENDING} writes wait for the store already")
        future: asyncio.Future[Revision] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(write, future))
        if not self._running:
            self._running = True
            self._tasks.start(self._run())
        try:
            return await future
        finally:
            del future  # its error refers to this frame: that would be a cycle

    def end(self, error: StorageError) -> None:
        """Fail all writes that wait."""
        waiting, self._waiting = self._waiting, deque()
        _fail(waiting, error)

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                batch = self._next_batch()
                interval = min(len(batch) * INTERVAL_SECONDS, MAX_INTERVAL_SECONDS)
                self._next_begin = asyncio.get_running_loop().time() + interval
                await self._run_batch(batch)
        finally:
            self._running = False

    async def _gather(self) -> None:
        """Wait for more writes if it is early for another transaction, and the loop is busy."""
        seconds = self._next_begin - asyncio.get_running_loop().time()
        if seconds > 0 and len(self._waiting) < MAX_BATCH:
            await wait_while_busy(seconds)

    def _next_batch(self) -> list[_Waiting]:
        """Take the next writes: up to the first of a key that is among them already."""
        batch: list[_Waiting] = []
        keys: set[str] = set()
        size = 0
        while self._waiting and len(batch) < MAX_BATCH:
            write = self._waiting[0].write
            size += len(write.value or b"")
            if write.key in keys or (batch and size > MAX_BATCH_BYTES):
                break
            keys.add(write.key)
            batch.append(self._waiting.popleft())
        return batch

    async def _run_batch(self, batch: Sequence[_Waiting]) -> None:
        writes = [waiting.write for waiting in batch]
        try:
            rows = await self._connections.write(self._statement, _parameters(writes))
        except StorageError as error:
            self.refusal = str(error) if isinstance(error, Refused) else ""
            drop_tracebacks(error)
            _fail(batch, error)
            return
        except asyncio.CancelledError:
            _fail(batch, Unavailable("the store is closed"))
            raise
        self.refusal = ""
        self._resolve(batch, rows)

    def _resolve(self, batch: Sequence[_Waiting], rows: Sequence[Row]) -> None:
        """Deliver the events of a transaction, and end the wait of its writers."""
        *failures, (_, before, _) = rows
        failed = {_number(place): (current, value) for place, current, value in failures}
        revision = Revision(_number(before))
        outcomes: list[Revision | StorageError] = []
        events: list[KVEvent] = []
        for place, waiting in enumerate(batch, 1):
            write = waiting.write
            if place in failed:
                outcomes.append(_error_of(write, *failed[place]))
            else:
                revision = Revision(revision + 1)
                outcomes.append(revision)
                events.append(KVEvent(write.key, revision, write.value, None))
        if events:
            self._on_events(events)
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if waiting.future.done():  # the caller was cancelled
                continue
            if isinstance(outcome, StorageError):
                waiting.future.set_exception(outcome)
            else:
                waiting.future.set_result(outcome)


def _parameters(writes: Sequence[Write]) -> tuple[bytes, ...]:
    """Return the arguments of `write_batch`."""
    keys = [encoded_key(write.key) for write in writes]
    return (
        bytea_array(keys),
        bytea_array([write.value for write in writes]),
        bigint_array([write.expected for write in writes]),
        double_array([write.expires for write in writes]),
        bigint_array([checksum(key, write.value) for key, write in zip(keys, writes, strict=True)]),
    )


def _number(column: bytes | None) -> int:
    return int.from_bytes(column or b"")


def _error_of(write: Write, current: bytes | None, value: bytes | None) -> StorageError:
    """Return the error of a write whose key has another revision than it expects."""
    if not write.expected:
        return KeyExists(write.key)
    return Conflict(
        write.key, expected=write.expected, current=_number(current) or None, value=value
    )


def _fail(batch: Sequence[_Waiting], error: StorageError) -> None:
    for waiting in batch:
        if not waiting.future.done():
            waiting.future.set_exception(error)
