"""The revisions of objects: every write with its difference to the one before, and its manager.

The journal keeps the events of the store. Memory is bounded: the oldest events are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from msgspec import Struct

from kapiserver.api.group import Resource
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.tables import in_version
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.errors import Corrupt
from kapiserver.storage.kv.contract import EventSink, KeyValue, KVEvent, Revision
from kapiserver.testing.history.diffs import Change, changes
from kapiserver.testing.state.kinds import find_resource, preferred_version

MAX_EVENTS = 20_000
MAX_BYTES = 32 << 20
"""Bytes of the values of all events."""

_PERIODIC = ("/events/", "/leases/", "/masterleases/")
"""Parts of the keys that an idle server writes again and again."""


class JournalEntry(Struct, frozen=True):
    """One write of the store.

    time    the time by the server's clock
    count   the number of writes of objects up to this one, without Events and Leases
    """

    event: KVEvent
    time: float
    count: int


class Journal(EventSink):
    """The events of the store since the start of the server, the oldest first."""

    def __init__(self, now: Callable[[], float], on_change: Callable[[], None]) -> None:
        self._entries: deque[JournalEntry] = deque()
        self._base: dict[str, KeyValue] = {}
        self._bytes = 0
        self.count = 0
        """The number of writes of objects since the start, without Events and Leases."""
        self._now = now
        self._on_change = on_change

    def __iter__(self) -> Iterator[JournalEntry]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def base(self) -> list[KeyValue]:
        """The items of the store before the first event that is kept."""
        return list(self._base.values())

    def restart(self) -> None:
        """Begin with an empty store."""
        self.clear()
        self._base = {}

    def clear(self) -> None:
        """Forget the events that have come so far."""
        while self._entries:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        event = self._entries.popleft().event
        self._bytes -= _size(event)
        if event.value is None:
            self._base.pop(event.key, None)
        else:
            self._base[event.key] = KeyValue(event.key, event.value, event.revision)

    def of_key(self, key: str) -> list[JournalEntry]:
        """Return the events of one key."""
        return [entry for entry in self._entries if entry.event.key == key]

    def since(self, count: int) -> Iterator[JournalEntry]:
        """Yield the writes of objects after the first `count` writes."""
        for before, entry in pairwise(self._entries):
            if entry.count > max(count, before.count):
                yield entry

    # The sink of a watch of the store.

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Record events."""
        now = self._now()
        for event in batch:
            self.count += not any(part in event.key for part in _PERIODIC)
            self._entries.append(JournalEntry(event, now, self.count))
            self._bytes += _size(event)
        while len(self._entries) > MAX_EVENTS or self._bytes > MAX_BYTES:
            self._forget_oldest()
        self._on_change()

    def on_progress(self, revision: Revision) -> None:
        """Ignore progress."""

    def on_closed(self, error: Exception | None) -> None:
        """Keep the events of a server that has stopped."""


def _size(event: KVEvent) -> int:
    return len(event.key) + len(event.value or b"")


class ObjectRevision(Struct, frozen=True, kw_only=True):
    """One revision of an object.

    revision    its resourceVersion
    time        the time of the write, by the server's clock, in seconds since the epoch
    operation   created, updated or deleted
    object      the object after the write, in the preferred version; None if it was deleted
    diff        the fields that the write changed, managedFields left out
    manager     the field manager of the write, as in managedFields; "" if it is unknown
    subresource `status` or another one that was written, or ""
    """

    revision: int
    time: float
    operation: str
    object: Tree | None
    diff: Sequence[Change]
    manager: str
    subresource: str

    def to_dict(self) -> dict[str, Any]:
        """Return the revision as JSON; `diff` has one line for each field."""
        return {
            "revision": self.revision,
            "time": datetime.fromtimestamp(self.time, UTC).isoformat(),
            "operation": self.operation,
            "manager": self.manager,
            "subresource": self.subresource,
            "diff": [str(change) for change in self.diff],
            "object": self.object,
        }

    def __str__(self) -> str:
        part = f" ({self.subresource})" if self.subresource else ""
        by = f" by {self.manager}{part}" if self.manager else ""
        head = f"revision {self.revision}: {self.operation}{by}"
        lines = self.diff if self.operation == "updated" else ()
        return "\n".join([head, *(f"  {change}" for change in lines)])


def object_history(
    server: Server, journal: Journal, kind: str, name: str, namespace: str
) -> list[ObjectRevision]:
    """Return the revisions of one object, the oldest first. Raises ValueError for an unknown
    kind."""
    resource = find_resource(server.scheme, kind)
    codec = server.stores.get(resource).codec
    path = codec.path(ObjectKey(namespace if resource.namespaced else "", name))
    revisions, previous = [], None
    for entry in journal.of_key(path):
        revisions.append(revision_of(server, resource, entry, previous))
        previous = entry.event.value
    return revisions


def revision_of(
    server: Server, resource: Resource, entry: JournalEntry, previous: bytes | None = None
) -> ObjectRevision:
    """Return the revision that an event of the store is about. `previous` is the value before, if
    the event does not have it."""
    event = entry.event
    new = _tree(server, resource, event.key, event.value, event.revision)
    old = _tree(server, resource, event.key, event.previous or previous, Revision(0))
    operation = "deleted" if new is None else "created" if old is None else "updated"
    diff = changes(old, new)
    manager, subresource = _manager(old, new, diff)
    return ObjectRevision(
        revision=event.revision,
        time=entry.time,
        operation=operation,
        object=new,
        diff=diff,
        manager=manager,
        subresource=subresource,
    )


def _tree(
    server: Server, resource: Resource, path: str, value: bytes | None, revision: Revision
) -> Tree | None:
    if value is None:
        return None
    codec = server.stores.get(resource).codec
    try:
        tree = codec.tree(Entry(codec, path, value, revision))
    except Corrupt:
        return None
    return in_version(server.scheme, tree, preferred_version(resource))


def _manager(old: Tree | None, new: Tree | None, diff: Sequence[Change]) -> tuple[str, str]:
    """Return the manager and subresource of a write: the newest entry of managedFields that has
    gained a field, else one that owns a field that has changed."""
    if new is None:
        return "", ""
    before = {_identity(entry): _fields(entry) for entry in _managed_fields(old)}
    after = _managed_fields(new)
    candidates = [
        entry for entry in after if not _fields(entry) <= before.get(_identity(entry), frozenset())
    ]
    if not candidates:
        changed = {change.path.partition("[")[0] for change in diff}
        candidates = [entry for entry in after if _fields(entry) & changed]
    newest = max(candidates or after, key=lambda entry: str(entry.get("time")), default={})
    return newest.get("manager", ""), newest.get("subresource", "")


def _managed_fields(obj: Tree | None) -> list[Tree]:
    return (obj or {}).get("metadata", {}).get("managedFields") or []


def _identity(entry: Tree) -> tuple[object, ...]:
    return tuple(entry.get(key) for key in ("manager", "operation", "subresource", "apiVersion"))


def _fields(entry: Tree) -> frozenset[str]:
    """Return the paths of the fields that an entry of managedFields owns."""
    return frozenset(_paths("", entry.get("fieldsV1") or {}))


def _paths(path: str, fields: Tree) -> Iterator[str]:
    for key, below in fields.items():
        if key.startswith("f:"):
            inner = f"{path}.{key[2:]}" if path else key[2:]
            yield inner
            yield from _paths(inner, below)
        else:
            yield f"{path}[{key}]"
            yield from _paths(f"{path}[{key}]", below)
