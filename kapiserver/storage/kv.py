"""The whole storage contract: revisions of bytes under keys.

A store is one ordered map key -> value with one counter, the revision, which every write moves by
at least one. Every backend in `storage/backends.py` keeps this contract, and one conformance
suite and one state machine (tests/storage) hold them to it. Keys and values are opaque here: this
module knows no object, no kind and no encryption. Mirrors etcd v3 (Range, Txn on mod_revision,
Watch, Compact) as kube-apiserver uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType, Protocol

Revision = NewType("Revision", int)
"""A state of the whole store; 1 is the empty store."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key's value and the revision that wrote it; `stale`: the same value would be stored in
    other bytes today, so it is worth a write."""

    key: str
    value: bytes
    revision: Revision
    stale: bool = False


@dataclass(frozen=True, slots=True)
class RangeResult:
    """Part of a range, all of one revision.

    items       in key order
    revision    of the snapshot that was read
    remaining   how many keys of the prefix follow the last item
    """

    items: Sequence[KeyValue]
    revision: Revision
    remaining: int


@dataclass(frozen=True, slots=True)
class GetResult:
    """The answer to one get: the pair (None where there is no such key) and the revision read."""

    item: KeyValue | None
    revision: Revision


@dataclass(frozen=True, slots=True)
class KVEvent:
    """One change of one key.

    value       None: the key was deleted
    previous    the value before; None: the key was created
    """

    key: str
    revision: Revision
    value: bytes | None
    previous: bytes | None


class EventSink(Protocol):
    """Takes what a watch sees. Called on the event loop; must not block and must not raise."""

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Changes in revision order; all changes of one revision come in one batch."""

    def on_progress(self, revision: Revision) -> None:
        """Nothing else happened below the prefix up to and including `revision`."""

    def on_closed(self, error: Exception | None) -> None:
        """The watch is over: None after `cancel`, else Compacted or Unavailable."""


class Watch(Protocol):
    """A running watch."""

    def cancel(self) -> None:
        """End it; `closed(None)` follows before this returns, and nothing after that."""

    def request_progress(self) -> None:
        """Ask for a `progress` call soon."""


class KV(Protocol):
    """A store. Every method raises Unavailable when the backend cannot answer in time.

    A write is acknowledged when its coroutine returns. Watches of an embedded store have received
    the event by then; watches of etcd may receive it later.

    shared      several servers may use the store at the same time
    durable     an acknowledged write survives the end of the process
    """

    shared: bool
    durable: bool

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        """Read one key, now or at a revision. Raises Compacted, FutureRevision."""

    async def range(
        self,
        prefix: str,
        *,
        start: str = "",
        limit: int = 0,
        revision: Revision | None = None,
    ) -> RangeResult:
        """Read the keys that begin with `prefix`, from the key `start` on (inclusive; "" means
        the first), at most `limit` (0: all), now or at a revision. Raises Compacted,
        FutureRevision."""

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        """Write a key that is absent; with `ttl` it is deleted that many seconds later.
        Raises KeyExists."""

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        """Write a key that was last written at `expected`. Raises Conflict, also when absent."""

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        """Delete a key that was last written at `expected`. Raises Conflict, also when absent."""

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        """Show `sink` every change below `prefix` with a revision greater than `after`, past ones
        first, each once and in order. `closed(Compacted)` when `after` was compacted away."""

    async def current_revision(self) -> Revision:
        """The newest revision, linearizable: no write acknowledged before the call is newer."""

    async def writable(self) -> None:
        """Raise what a write would, where the store knows that writes fail though reads do not.
        Raises Refused."""

    async def compact(self, revision: Revision) -> None:
        """Forget what only revisions before `revision` can see. Reading below it then raises
        Compacted; current values stay. Raises FutureRevision."""

    async def close(self) -> None:
        """End all watches and release the store. Idempotent."""
