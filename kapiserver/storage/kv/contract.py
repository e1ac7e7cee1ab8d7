"""The storage contract: a revisioned key-value store.

A store is one ordered map from keys to values, with one counter: the revision. Every write
increases the revision by at least one. Every backend in `storage/backends.py` implements this
contract; a conformance suite and a state machine in tests/storage run over each of them. Keys and
values are opaque: this module knows no object, no kind and no encryption. Mirrors etcd v3 (Range,
Txn on mod_revision, Watch, Compact) as kube-apiserver uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NewType, Protocol

from msgspec import Struct

Revision = NewType("Revision", int)
"""Identifies a state of the whole store; an empty store is at revision 1."""


class KeyValue(Struct, frozen=True):
    """One key, its value and the revision of the write (etcd's mod_revision).

    stale       whether the stored bytes should be rewritten, for example with the current
                encryption key
    """

    key: str
    value: bytes
    revision: Revision
    stale: bool = False


class RangeResult(Struct, frozen=True):
    """One page of a range read, all of one revision.

    items       the keys and values, in the order of the keys
    revision    the revision that was read
    remaining   number of keys of the prefix after the last item
    """

    items: Sequence[KeyValue]
    revision: Revision
    remaining: int


class GetResult(Struct, frozen=True):
    """The result of a get: the key-value pair, None for an absent key, and the revision read."""

    item: KeyValue | None
    revision: Revision


class KVEvent(Struct, frozen=True):
    """One change of one key.

    value       the new value; None if the key was deleted
    previous    the old value; None if the key was created, and perhaps in the events of a watch
    """

    key: str
    revision: Revision
    value: bytes | None
    previous: bytes | None


class HistoryPage(Struct, frozen=True):
    """Events of one page of history: all of them up to and including `until`."""

    events: Sequence[KVEvent]
    until: Revision


class EventSink(Protocol):
    """Receives the events of a watch, on the event loop. Must not block and must not raise."""

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Receive events in revision order; all events of one revision come in one batch."""

    def on_progress(self, revision: Revision) -> None:
        """All events below the prefix up to and including `revision` were delivered."""

    def on_closed(self, error: Exception | None) -> None:
        """The watch has ended: `error` is None after `cancel`, else Compacted or Unavailable."""


class Watch(Protocol):
    """A running watch."""

    def cancel(self) -> None:
        """End the watch. Calls `on_closed(None)` before it returns, and nothing afterwards."""

    def request_progress(self, revision: Revision | None = None) -> None:
        """Request a call of `on_progress` when the events up to a revision were delivered, or do
        not come; None: those of all writes acknowledged before this call. If they were delivered
        already, it may be called before this method returns."""


class KV(Protocol):
    """A store. Every method raises Unavailable when the backend cannot answer in time.

    A write is acknowledged when its coroutine returns. Watches of an embedded store have received
    the event by then; watches of etcd may receive it later.

    shared      whether several servers may use the store at the same time
    durable     whether an acknowledged write survives the end of the process
    compacted   the newest revision that this server has compacted to since its start, or 0; another
                server may have compacted further
    """

    shared: bool
    durable: bool

    @property
    def compacted(self) -> Revision: ...

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        """Return one key at a revision, or the current one. Raises Compacted, FutureRevision."""

    async def range(
        self,
        prefix: str,
        *,
        start: str = "",
        limit: int = 0,
        revision: Revision | None = None,
    ) -> RangeResult:
        """Return the keys that begin with `prefix`, at a revision or the current one.

        start   first key, inclusive; "" for the first key of the prefix
        limit   maximum number of keys; 0 for no limit

        Raises Compacted, FutureRevision.
        """

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        """Create a key and return the revision; with `ttl` the key is deleted after that many
        seconds. Raises KeyExists."""

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        """Update a key whose last write was at revision `expected`, and return the new revision.
        Raises Conflict with the current revision and value, also if the key is absent."""

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        """Delete a key whose last write was at revision `expected`, and return the new revision.
        Raises Conflict with the current revision and value, also if the key is absent."""

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        """Deliver every event below `prefix` with a revision greater than `after` to `sink`: past
        events first, each once and in order. The sink gets `on_closed(Compacted)` if history
        after `after` was compacted."""

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int, *, previous: bool = False
    ) -> HistoryPage:
        """Return past events below `prefix` in (after, until], about `limit` of them.

        previous    whether the events must have the old values

        Raises Compacted.
        """

    async def current_revision(self) -> Revision:
        """Return the newest revision, linearizably: it includes every acknowledged write."""

    async def writable(self) -> None:
        """Raise Refused if the store knows that writes fail, for example for lack of space."""

    async def size(self) -> int:
        """Return the bytes of the database file, or of the store's tables. Free pages count, as in
        etcd, and so do other users of the same etcd."""

    async def compact(self, revision: Revision) -> None:
        """Discard the history before `revision`. Reading an older revision raises Compacted from
        then on; current values stay. Raises FutureRevision."""

    async def close(self) -> None:
        """End all watches and close the store. Idempotent."""
