"""A store in memory that works on the event loop instead of in a thread.

The order of its results depends on no thread, so that runs are the same; and nothing waits for a
switch of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.kv.contract import KeyValue, KVEvent, Revision
from kapiserver.storage.kv.writes import Write
from kapiserver.storage.sqlite.database import Database
from kapiserver.storage.sqlite.embedded_store import EmbeddedStore
from kapiserver.storage.sqlite.jobs import run_batch


class Snapshot(Struct, frozen=True):
    """The keys of a store at a revision.

    expiries    when keys expire, in seconds since the epoch; other keys do not
    """

    revision: Revision
    items: Sequence[KeyValue]
    expiries: Mapping[str, float]


class MemoryStore(EmbeddedStore):
    """A `KV` in memory; every method runs on the event loop it was opened on."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(None, clock)
        self._database = Database(None)
        self._expiries: dict[str, float] = {}
        """When keys expire, by key. Deleted keys stay until the next snapshot."""
        self._last_snapshot: Snapshot | None = None

    async def open(self) -> None:
        """Open the store, which is empty."""
        self._revision = self._database.revision()

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        revision = await super().create(key, value, ttl=ttl)
        self._record_expiry(key, ttl)
        return revision

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        revision = await super().update(key, value, expected=expected, ttl=ttl)
        self._record_expiry(key, ttl)
        return revision

    def _record_expiry(self, key: str, ttl: int) -> None:
        if ttl:
            self._expiries[key] = self._expiry.time_of(ttl)
            self._last_snapshot = None  # it may have been taken since the write

    def snapshot(self) -> Snapshot:
        """Return all keys, with their values and expiries; the last snapshot if nothing was written
        since."""
        last = self._last_snapshot
        if last is None or last.revision != self._revision:
            current = self._database.range("", "", 0, None)
            keys = {item.key for item in current.items}
            self._expiries = {key: at for key, at in self._expiries.items() if key in keys}
            last = Snapshot(current.revision, current.items, dict(self._expiries))
            self._last_snapshot = last
        return last

    def write_at_once(self, writes: Sequence[Write]) -> None:
        """Apply writes in one transaction, without waiting. Watches receive the event of each;
        a write whose revision does not hold is skipped."""
        events = [event for event in self._database.apply(writes) if isinstance(event, KVEvent)]
        for write in writes:
            if write.expires:
                self._expiries[write.key] = write.expires
        if events:
            self._revision = events[-1].revision
            self._watches.dispatch(events)
            self._expiry.schedule(self._database.next_expiry())

    def write_at(self, write: Write, revision: Revision) -> None:
        """Apply a write that gets this revision, which must be greater than the current one. Raises
        Conflict, KeyExists."""
        if revision > self._revision + 1:
            self._database.skip_to(Revision(revision - 1))
        (outcome,) = self._database.apply([write])
        if isinstance(outcome, Exception):
            raise outcome
        self._revision = outcome.revision

    async def close(self) -> None:
        """End all watches and close the store. Idempotent."""
        self._on_writer_end()  # there is no thread
        await super().close()
        self._database.close()

    def _submit_jobs(self) -> None:
        jobs, self._new_jobs = self._new_jobs, []
        if jobs:
            self._handle_results(run_batch(self._database, jobs))


async def open_memory_store(clock: Clock) -> MemoryStore:
    """Open an empty store in memory, on the running event loop."""
    store = MemoryStore(clock)
    await store.open()
    return store
