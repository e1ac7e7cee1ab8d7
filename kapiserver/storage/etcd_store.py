"""etcd as a `KV`: keys, transactions and one watch of everything.

All watches of a store are fed by one stream of every change below its prefix. A change's revision
is thereby the proof that everything before it was seen, on any version of etcd, and the stream
goes on behind that revision on another member when the connection breaks. Where other users of
the same etcd move the revision, a small write below our prefix (`MARK`) gives the proof instead.
History for a watch that begins in the past comes from a stream of its own.

Knows no HTTP (`storage/etcd.py` does) and no object. Mirrors storage/etcd3 of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
)
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from kapiserver.storage.errors import (
    Compacted,
    Conflict,
    FutureRevision,
    KeyExists,
    Refused,
    StorageError,
    Unavailable,
    ValueTooLarge,
)
from kapiserver.storage.etcd import EtcdClient, EtcdError, Messages
from kapiserver.storage.etcd_config import EtcdConfig
from kapiserver.storage.etcd_responses import (
    NO_REVISION,
    RangeResponse,
    ResponseParser,
    TxnResponse,
    WatchResponse,
    base64_text,
)
from kapiserver.storage.kv import (
    KV,
    EventSink,
    GetResult,
    KeyValue,
    KVEvent,
    RangeResult,
    Revision,
    Watch,
)
from kapiserver.storage.kv_watch import HistoryPage, KVWatch, RecentEvents, WatchIndex
from kapiserver.storage.prefix import prefix_end

BELOW = "/"
"""Every key of a store begins with its root and this."""
MARK = f"{BELOW}.kapiserver"
"""Right before all keys, so that one stream has both, and where a user who may do no more than
read and write what is below the root may write it. No resource is called so."""
PAGE = 1000
"""Keys read in one call, so that parsing an answer does not hold the loop."""
PATIENCE = 5.0
"""Seconds after which a stream that shows nothing of what is known to have happened is given up."""
GRACE_SECONDS = 0.05
"""For the stream to show a revision, before a mark is written."""
BEAT_SECONDS = 10.0
"""Between two looks at whether the stream still tells everything."""
RETRY_SECONDS = 0.2
"""After the stream broke off; doubled each time that nothing comes of it, up to ..."""
RETRY_AT_MOST = 1.0
HISTORY_SECONDS = 30.0
LEASE_OBJECTS = 1000
"""Keys on one lease, at most."""
LEASE_KINDS = 100
"""Times to live for which a lease is kept at hand."""
TOO_LARGE = ("request is too large", "message larger than max")
"""What etcd and its gateway say of a value beyond --max-request-bytes."""

Request: TypeAlias = Mapping[str, Any]
Call: TypeAlias = Callable[[str, Request], Awaitable[Any]]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Lease:
    """A lease that keys of about the same end share."""

    id: str
    until: float
    left: int


class EtcdStore(KV):
    """A store in etcd. Made by `open_etcd`; runs on the loop it was opened on."""

    shared = True
    durable = True

    def __init__(self, config: EtcdConfig) -> None:
        self._etcd = EtcdClient(config)
        self._prefix = config.prefix
        self._mark_key = self._key(config.root + MARK)
        self._last = self._end(config.root + BELOW)
        self._parser = ResponseParser(config.prefix)
        self._loop = asyncio.get_running_loop()
        self._revision = Revision(0)
        self._moved = asyncio.Event()
        self._watches = WatchIndex()
        self._recent = RecentEvents(self._revision)
        self._waiting: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._stream: asyncio.Task[None] | None = None
        self._next_ask: asyncio.Task[Revision] | None = None
        self._ask = asyncio.Lock()
        self._catching = False
        self._leases: dict[int, _Lease] = {}
        self._closed = False

    async def open(self) -> None:
        """Find out where the store stands, and begin to watch it. Raises Unavailable, EtcdError."""
        try:
            # Not by a write: an etcd without space is still good to read.
            self._revision = await self.current_revision()
        except BaseException:
            await self._etcd.close()
            raise
        self._recent = RecentEvents(self._revision)
        self._stream = self._loop.create_task(self._follow())
        self._spawn(self._beat())

    # What a KV does.

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        found = await self._range({"key": self._key(key)}, revision)
        read = found.store_revision if revision is None else revision
        return GetResult(found.items[0] if found.items else None, read)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> RangeResult:
        items: list[KeyValue] = []
        start = max(prefix, start)
        while True:
            step = min(limit - len(items), PAGE) if limit else PAGE
            request = {"key": self._key(start), "range_end": self._end(prefix), "limit": step}
            found = await self._range(request, revision)
            revision = found.store_revision if revision is None else revision
            items += found.items
            remaining = found.count - len(found.items)
            if not remaining or not found.items or len(items) == limit:
                return RangeResult(items, revision, remaining)
            start = found.items[-1].key + "\0"

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        done = await self._transact(key, 0, await self._put(key, value, ttl))
        if not done.succeeded:
            raise KeyExists(key)
        return done.revision

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        return await self._change(key, expected, await self._put(key, value, ttl))

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        gone = {"request_delete_range": {"key": self._key(key)}}
        return await self._change(key, expected, gone)

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        self._check_open()
        watch = KVWatch(self, prefix, after, sink)
        self._watches.add(watch)
        if not watch.live:
            self._spawn(watch.replay())
        return watch

    async def current_revision(self) -> Revision:
        # One quorum read for all who ask while the one before is on its way.
        self._check_open()
        if self._next_ask is None:
            self._next_ask = self._loop.create_task(self._ask_revision())
            self._next_ask.add_done_callback(_forgive)
        try:
            return await asyncio.shield(self._next_ask)
        except asyncio.CancelledError:
            self._check_open()  # closed meanwhile: the read was cancelled, not the caller
            raise

    async def writable(self) -> None:
        pass  # etcd looks after its own disk

    async def compact(self, revision: Revision) -> None:
        self._check_open()
        with suppress(Compacted):  # already
            request = {"revision": str(revision)}
            await self._call(self._etcd.write, "/kv/compaction", request, revision)
        self._recent = RecentEvents(self._revision)  # forgotten here as there

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        tasks: list[asyncio.Task[Any]] = [*self._tasks]
        tasks += [task for task in (self._stream, self._next_ask) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for watch in self._watches:
            watch.end(Unavailable("the store is closed"))
        await self._etcd.close()

    # What a watch of this store asks of it.

    @property
    def revision(self) -> Revision:
        """The newest revision that the watches have been shown."""
        return self._revision

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int
    ) -> HistoryPage:
        """Part of the history. Raises Compacted, Unavailable."""
        if recent := self._recent.history(prefix, after, until):
            return recent
        # All keys are read, not the prefix alone: the change that made `until` is the proof that
        # nothing is missing, and it may be anyone's. One message has whole revisions.
        events: list[KVEvent] = []
        try:
            async with asyncio.timeout(HISTORY_SECONDS), self._watching(after) as notices:
                async for notice in notices:
                    mine = (e for e in notice.events if e.key.startswith(prefix))
                    events += (e for e in mine if e.revision <= until)
                    seen = notice.events[-1].revision if notice.events else after
                    if seen >= until or len(events) >= limit:
                        return HistoryPage(events, min(seen, until))
        except TimeoutError as error:
            raise Unavailable("etcd: the history did not come in time") from error
        raise Unavailable("etcd: the history broke off")

    def remove_watch(self, watch: KVWatch) -> None:
        """Show the watch nothing any more."""
        self._watches.discard(watch)

    def call_when_current(self, callback: Callable[[], None]) -> None:
        """Call back once the stream has shown what is acknowledged now."""
        self._waiting.append(callback)
        if not self._catching:
            self._catching = True
            self._spawn(self._catch_up())

    # The one stream.

    @asynccontextmanager
    async def _watching(self, after: Revision) -> AsyncGenerator[AsyncIterator[WatchResponse]]:
        """Every change after a revision, as etcd tells it. Raises Compacted, Unavailable."""
        create = {
            "key": self._mark_key,
            "range_end": self._last,
            "start_revision": str(after + 1),
            "prev_kv": True,
        }
        try:
            async with self._etcd.stream("/watch", {"create_request": create}) as messages:
                yield self._notices(messages, after)
        except EtcdError as error:
            raise self._translated(error, after) from error

    async def _notices(self, messages: Messages, after: Revision) -> AsyncIterator[WatchResponse]:
        async for message in messages:
            notice = self._parser.watch_response(message)
            if notice.compacted:
                raise Compacted(after, oldest=notice.compacted)
            if notice.cancelled:
                self._etcd.drop_token()
                raise Unavailable(f"etcd: the watch was ended: {notice.cancelled}")
            yield notice

    async def _follow(self) -> None:
        """Show all watches what happens, across broken connections, for ever."""
        pause = RETRY_SECONDS
        while True:
            try:
                async with self._watching(self._revision) as notices:
                    async for notice in notices:
                        if notice.events:
                            self._show(notice)
                            pause = RETRY_SECONDS
            except Compacted as error:
                # Away for longer than history is kept: nobody can be told what was missed. In one
                # turn, so that no watch begins before what the next stream will leave out.
                with suppress(StorageError):
                    self._revision = await self.current_revision()
                    self._recent = RecentEvents(self._revision)
                    for watch in self._watches:
                        watch.end(error)
            except StorageError as error:
                _log.warning(
                    "the watch of etcd broke off at revision %d: %s", self._revision, error
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_AT_MOST)

    def _show(self, notice: WatchResponse) -> None:
        self._revision = notice.events[-1].revision
        self._recent.add(notice.events)
        self._watches.dispatch(notice.events)
        self._moved.set()
        self._moved = asyncio.Event()

    async def _beat(self) -> None:
        """Notice a stream that has fallen silent, even when nobody reads."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.call_when_current(lambda: None)

    async def _catch_up(self) -> None:
        """Let the stream reach what is acknowledged, then call those who wait for that."""
        try:
            while self._waiting:
                callbacks, self._waiting = self._waiting, []
                with suppress(Unavailable):
                    await self._prove()
                for callback in callbacks:
                    callback()
        finally:
            self._catching = False

    async def _prove(self) -> None:
        """Wait until the stream has shown everything up to now; replace it if it does not."""
        if await self._reach(await self.current_revision(), GRACE_SECONDS):
            return
        # What moved the revision may not be ours to see.
        if not await self._reach(await self._mark(), PATIENCE) and self._stream is not None:
            _log.warning("the watch of etcd has fallen silent, starting another")
            self._stream.cancel()
            self._stream = self._loop.create_task(self._follow())

    async def _reach(self, revision: Revision, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while self._revision < revision:
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def _mark(self) -> Revision:
        answer = await self._call(self._etcd.write, "/kv/put", {"key": self._mark_key})
        return self._parser.range_response(answer).store_revision

    # Calls.

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")

    def _key(self, key: str) -> str:
        return base64_text((self._prefix + key).encode(errors="surrogateescape"))

    def _end(self, prefix: str) -> str:
        return base64_text(prefix_end(self._prefix + prefix).encode())

    async def _range(self, request: Request, revision: Revision | None) -> RangeResponse:
        asked = request if revision is None else {**request, "revision": str(revision)}
        answer = await self._call(self._etcd.read, "/kv/range", asked, revision or NO_REVISION)
        return self._parser.range_response(answer)

    async def _ask_revision(self) -> Revision:
        async with self._ask:
            self._next_ask = None  # who comes now has come too late for this read
            request = {"key": self._mark_key, "count_only": True}
            return (await self._range(request, None)).store_revision

    async def _transact(self, key: str, expected: int, operation: Request) -> TxnResponse:
        name = self._key(key)
        compare = {"key": name, "target": "MOD", "result": "EQUAL", "mod_revision": str(expected)}
        request = {
            "compare": [compare],
            "success": [operation],
            "failure": [{"request_range": {"key": name}}],
        }
        return self._parser.txn_response(await self._call(self._etcd.write, "/kv/txn", request))

    async def _change(self, key: str, expected: Revision, operation: Request) -> Revision:
        if expected < 1:  # etcd takes 0 for absence
            raise Conflict(key, expected=expected, current=None)
        done = await self._transact(key, expected, operation)
        if not done.succeeded:
            raise Conflict(key, expected=expected, current=done.current_revision or None)
        return done.revision

    async def _put(self, key: str, value: bytes, ttl: int) -> Request:
        put = {"key": self._key(key), "value": base64_text(value)}
        return {"request_put": {**put, "lease": await self._lease(ttl)} if ttl else put}

    async def _lease(self, ttl: int) -> str:
        """A lease for a value that lives `ttl` seconds. Values that end within a twentieth of
        that share one, as etcd pays for each."""
        lease, now = self._leases.get(ttl), self._loop.time()
        if lease is None or now >= lease.until or not lease.left:
            shared = min(ttl // 20, 60)
            answer = await self._call(self._etcd.write, "/lease/grant", {"TTL": str(ttl + shared)})
            lease = self._leases[ttl] = _Lease(answer["ID"], now + shared, LEASE_OBJECTS)
            if len(self._leases) > LEASE_KINDS:
                del self._leases[next(iter(self._leases))]
        lease.left -= 1
        return lease.id

    async def _call(
        self, how: Call, method: str, request: Request, revision: Revision = NO_REVISION
    ) -> Any:
        self._check_open()
        try:
            return await how(method, request)
        except EtcdError as error:
            raise self._translated(error, revision) from error

    def _translated(self, error: EtcdError, revision: Revision) -> StorageError:
        if "has been compacted" in error.message:
            return Compacted(revision, oldest=Revision(revision + 1))
        if "is a future revision" in error.message:
            return FutureRevision(revision, current=self._revision)
        if any(words in error.message for words in TOO_LARGE):
            return ValueTooLarge(error.message)
        return Refused(error.message)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _forgive(task: asyncio.Task[Any]) -> None:
    """Take note of an error that all who waited for it have stopped waiting for."""
    if not task.cancelled():
        task.exception()


async def open_etcd(config: EtcdConfig) -> EtcdStore:
    """Open the store of a cluster. Raises Unavailable when no endpoint answers, OSError for
    certificate files that are no good."""
    store = EtcdStore(config)
    await store.open()
    return store
