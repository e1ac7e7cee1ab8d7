"""The etcd store: `KV` over etcd's keys, transactions and one watch stream.

One stream of all events below the prefix feeds all watches of a store. An event of a revision
proves that all earlier events were received, on any version of etcd; after a broken connection the
stream resumes after that revision on another member. If other users of the etcd cluster increase
the revision, a small write below our prefix (`PROGRESS_KEY`) provides the proof. History for a
watch that starts in the past comes from a stream of its own.

Knows no connection (`client.py` does) and no object. Mirrors storage/etcd3 of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from msgspec import Struct

from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.errors import (
    Compacted,
    Conflict,
    FutureRevision,
    KeyExists,
    OutcomeUnknown,
    Refused,
    StorageError,
    Unavailable,
    ValueTooLarge,
)
from kapiserver.storage.etcd.client import EtcdClient
from kapiserver.storage.etcd.config import EtcdConfig
from kapiserver.storage.etcd.messages import (
    NO_REVISION,
    TxnResponse,
    WatchResponse,
)
from kapiserver.storage.etcd.transport import Call, EtcdError
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
from kapiserver.storage.kv.delivery_waits import GRACE_SECONDS, DeliveryWaits
from kapiserver.storage.kv.prefix import prefix_end
from kapiserver.storage.kv.revision_reads import RevisionReads
from kapiserver.storage.kv.watch import KVWatch
from kapiserver.storage.kv.writes import check_expected

KEY_SEPARATOR = "/"
"""Every key of a store begins with its root and this separator."""
PROGRESS_KEY = f"{KEY_SEPARATOR}.kapiserver"
"""This key sorts directly before all others, so that one stream covers all. It is below the root,
so that a user with access to the root alone may write it. No resource has this name."""
PAGE = 1000
"""Keys per call, so that parsing a response does not block the event loop."""
SILENT_STREAM_SECONDS = 5.0
"""Seconds after which a stream that misses a known revision is replaced."""
STREAM_CHECK_SECONDS = 10.0
"""Interval of checks that the stream still delivers all events."""
RETRY_SECONDS = 0.2
"""Pause before a broken stream is reopened; doubled after each failure up to the maximum."""
MAX_RETRY_SECONDS = 1.0
HISTORY_SECONDS = 30.0
MAX_LEASE_KEYS = 1000
"""Maximum number of keys on one lease."""
MAX_CACHED_LEASES = 100
"""Number of cached leases, one per time to live."""
TOO_LARGE = ("request is too large", "message larger than max")
"""Errors of etcd and its gateway for a value beyond --max-request-bytes."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class _Lease(Struct):
    """A lease that keys with similar expiry share."""

    id: int
    until: float
    keys_left: int


class EtcdStore(KV):
    """A store in etcd. Made by `open_etcd`; runs on the event loop it was opened on."""

    shared = True
    durable = True

    def __init__(self, config: EtcdConfig) -> None:
        self._etcd = EtcdClient(config)
        self._codec = self._etcd.codec
        self._prefix = config.prefix
        self._progress_key = self._key(config.root + PROGRESS_KEY)
        self._revision_call = self._codec.range(self._progress_key, count_only=True)
        self._range_end = self._end(config.root + KEY_SEPARATOR)
        self._loop = asyncio.get_running_loop()
        self._delivery = Delivery()
        self._compacted = Revision(0)
        self._tasks = BackgroundTasks[None]()
        self._waits = DeliveryWaits(self._tasks, self._make_current)
        self._stream: asyncio.Task[None] | None = None
        self._revision_reads = RevisionReads(self._read_revision, self._tasks)
        self._leases: dict[int, _Lease] = {}
        self._closed = False

    async def open(self) -> None:
        """Read the current revision and start the watch stream. Raises Unavailable, EtcdError."""
        try:
            # A read, because an etcd without space still serves reads.
            self._delivery.begin(await self.current_revision())
        except BaseException:
            await self._etcd.close()
            raise
        self._stream = self._tasks.start(self._run_stream())
        self._tasks.start(self._check_stream())

    # KV.

    @property
    def compacted(self) -> Revision:
        return self._compacted

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        call = self._codec.range(self._key(key), revision=revision or 0)
        response = await self._call(self._etcd.read, call, revision or NO_REVISION)
        read = response.store_revision if revision is None else revision
        return GetResult(response.items[0] if response.items else None, read)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> RangeResult:
        items: list[KeyValue] = []
        start = max(prefix, start)
        while True:
            step = min(limit - len(items), PAGE) if limit else PAGE
            call = self._codec.range(
                self._key(start), self._end(prefix), limit=step, revision=revision or 0
            )
            response = await self._call(self._etcd.read, call, revision or NO_REVISION)
            revision = response.store_revision if revision is None else revision
            items += response.items
            remaining = response.count - len(response.items)
            if not remaining or not response.items or len(items) == limit:
                return RangeResult(items, revision, remaining)
            start = response.items[-1].key + "\0"

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        lease = await self._lease(ttl) if ttl else 0
        response = await self._put(key, value, NO_REVISION, lease)
        if not response.succeeded:
            raise KeyExists(key)
        return response.revision

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        check_expected(key, expected)
        lease = await self._lease(ttl) if ttl else 0
        return _written_revision(key, expected, await self._put(key, value, expected, lease))

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        check_expected(key, expected)
        call = self._codec.delete_if(self._key(key), expected=expected)
        return _written_revision(key, expected, await self._call(self._etcd.write, call))

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        self._check_open()
        watch = KVWatch(self, prefix, after, sink)
        self._delivery.add(watch, self._tasks)
        return watch

    async def current_revision(self) -> Revision:
        self._check_open()
        return await self._revision_reads.newest()

    async def writable(self) -> None:
        pass  # etcd reports its own disk errors

    async def size(self) -> int:
        return (await self._call(self._etcd.read, self._codec.status())).size

    async def compact(self, revision: Revision) -> None:
        self._check_open()
        with suppress(Compacted):  # compacted already
            await self._call(self._etcd.write, self._codec.compact(revision), revision)
        self._compacted = max(self._compacted, revision)
        self._delivery.forget_recent()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._waits.stop()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        error = Unavailable("the store is closed")
        self._revision_reads.end(error)
        self._delivery.end_all(error)
        await self._etcd.close()

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
        # Watch all keys and not only the prefix: the event of revision `until` proves that no event
        # is missing, and may be of any key. A message never splits a revision.
        events: list[KVEvent] = []
        try:
            async with (
                asyncio.timeout(HISTORY_SECONDS),
                self._watch_stream(after, previous=previous) as batches,
                self._event_if_idle(),
            ):
                async for batch in batches:
                    matching = (e for e in batch if e.key.startswith(prefix))
                    events += (e for e in matching if e.revision <= until)
                    received = batch[-1].revision if batch else after
                    if received >= until or len(events) >= limit:
                        return HistoryPage(events, min(received, until))
        except TimeoutError as error:
            raise Unavailable("etcd: timeout reading history") from error
        raise Unavailable("etcd: the stream of history ended early")

    def remove_watch(self, watch: KVWatch) -> None:
        """Stop delivering events to the watch."""
        self._delivery.remove(watch)

    def call_when_delivered(
        self, callback: Callable[[], None], revision: Revision | None = None
    ) -> None:
        """Call back when the stream has delivered the events up to a revision, or these do not
        come; None: those of all acknowledged writes."""
        if revision is None:
            self._tasks.start(self._call_when_current(callback))
        else:
            self._waits.add(revision, callback)

    async def _call_when_current(self, callback: Callable[[], None]) -> None:
        with suppress(StorageError):
            revision = await self.current_revision()
            if revision <= self.revision:
                callback()
            else:
                self._waits.add(revision, callback)

    # The watch stream.

    @asynccontextmanager
    async def _watch_stream(
        self, after: Revision, *, previous: bool = False
    ) -> AsyncGenerator[AsyncIterator[Sequence[KVEvent]]]:
        """Stream all events after a revision, those together that arrive together. Raises
        Compacted, Unavailable."""
        call = self._codec.watch(
            self._progress_key, self._range_end, start=after + 1, previous=previous
        )
        try:
            async with self._etcd.stream(call) as responses:
                yield self._batches(responses, after)
        except EtcdError as error:
            raise self._translate_error(error, after) from error

    async def _batches(
        self, batches: AsyncIterator[Sequence[WatchResponse]], after: Revision
    ) -> AsyncIterator[Sequence[KVEvent]]:
        incomplete: list[KVEvent] = []  # events whose revision the next fragment may continue
        async for responses in batches:
            events, incomplete = incomplete, []
            for response in responses:
                if response.compacted:
                    raise Compacted(after, oldest=response.compacted)
                if response.cancelled:
                    self._etcd.drop_token()
                    raise Unavailable(f"etcd: the watch was ended: {response.cancelled}")
                events += response.events
            if responses[-1].fragment and events:
                last = events[-1].revision
                incomplete = [event for event in events if event.revision == last]
                events = events[: -len(incomplete)]
            yield events

    async def _run_stream(self) -> None:
        """Dispatch events to all watches for ever, and reopen the stream when it breaks."""
        pause = RETRY_SECONDS
        while True:
            try:
                async with self._watch_stream(self.revision) as batches:
                    async for events in batches:
                        if events:
                            self._delivery.deliver(events)
                            self._waits.delivered(self.revision)
                            pause = RETRY_SECONDS
            except Compacted as error:
                # Disconnected for longer than history is kept: end all watches, in one iteration of
                # the event loop, so that no new watch starts in the gap.
                with suppress(StorageError):
                    self._delivery.begin(await self.current_revision())
                    self._delivery.end_all(error)
            except StorageError as error:
                _log.warning(
                    "the watch stream of etcd broke at revision %d: %s", self.revision, error
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)

    async def _check_stream(self) -> None:
        """Detect a silent stream even while no caller reads."""
        while True:
            await asyncio.sleep(STREAM_CHECK_SECONDS)
            self.call_when_delivered(lambda: None)

    async def _make_current(self) -> None:
        """Wait until the stream has delivered all events so far; replace it on timeout."""
        if self.revision >= await self.current_revision():
            return
        # The revision may be of a key outside our prefix.
        if (
            not await self._wait_for_revision(
                await self._write_progress_key(), SILENT_STREAM_SECONDS
            )
            and self._stream is not None
        ):
            _log.warning("the watch stream of etcd is silent, opening another")
            self._stream.cancel()
            self._stream = self._tasks.start(self._run_stream())

    async def _wait_for_revision(self, revision: Revision, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._delivery.wait_for(revision)
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def _event_if_idle(self) -> AsyncGenerator[None]:
        """Write PROGRESS_KEY if the block takes longer than GRACE_SECONDS: the revision that a
        stream waits for may be of a key outside our prefix."""

        async def write() -> None:
            await asyncio.sleep(GRACE_SECONDS)
            with suppress(StorageError):
                await self._write_progress_key()

        writing = self._loop.create_task(write())
        try:
            yield
        finally:
            writing.cancel()

    async def _write_progress_key(self) -> Revision:
        return await self._call(self._etcd.write, self._codec.put(self._progress_key))

    # Calls.

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")

    def _key(self, key: str) -> bytes:
        return (self._prefix + key).encode(errors="surrogateescape")

    def _end(self, prefix: str) -> bytes:
        return prefix_end(self._prefix + prefix).encode()

    async def _read_revision(self) -> Revision:
        return (await self._call(self._etcd.read, self._revision_call)).store_revision

    def _put(
        self, key: str, value: bytes, expected: Revision, lease: int
    ) -> Awaitable[TxnResponse]:
        call = self._codec.put_if(self._key(key), value, expected=expected, lease=lease)
        return self._call(self._etcd.write, call)

    async def _lease(self, ttl: int) -> int:
        """Return a lease for a value that lives `ttl` seconds. Values that expire within a
        twentieth of that share one, because leases are expensive for etcd."""
        lease, now = self._leases.get(ttl), self._loop.time()
        if lease is None or now >= lease.until or not lease.keys_left:
            shared = min(ttl // 20, 60)
            try:
                id = await self._call(self._etcd.write, self._codec.grant_lease(ttl + shared))
            except OutcomeUnknown as error:  # etcd ends a lease that no key has
                raise Unavailable("etcd: no answer to the request for a lease") from error
            lease = self._leases[ttl] = _Lease(id, now + shared, MAX_LEASE_KEYS)
            if len(self._leases) > MAX_CACHED_LEASES:
                del self._leases[next(iter(self._leases))]
        lease.keys_left -= 1
        return lease.id

    async def _call(
        self,
        send: Callable[[Call[T]], Awaitable[T]],
        call: Call[T],
        revision: Revision = NO_REVISION,
    ) -> T:
        self._check_open()
        try:
            return await send(call)
        except EtcdError as error:
            raise self._translate_error(error, revision) from error

    def _translate_error(self, error: EtcdError, revision: Revision) -> StorageError:
        if "has been compacted" in error.message:
            return Compacted(revision, oldest=Revision(revision + 1))
        if "is a future revision" in error.message:
            return FutureRevision(revision, current=self.revision)
        if any(words in error.message for words in TOO_LARGE):
            return ValueTooLarge(error.message)
        return Refused(error.message)


def _written_revision(key: str, expected: Revision, response: TxnResponse) -> Revision:
    """Return the revision of a write. Raises Conflict."""
    if response.succeeded:
        return response.revision
    item = response.current
    if item is None:
        raise Conflict(key, expected=expected, current=None, value=None)
    raise Conflict(key, expected=expected, current=item.revision, value=item.value)


async def open_etcd(config: EtcdConfig) -> EtcdStore:
    """Open a store in etcd. Raises Unavailable if no endpoint responds, OSError for certificate
    files that cannot be read."""
    store = EtcdStore(config)
    await store.open()
    return store
