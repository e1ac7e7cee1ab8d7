"""Snapshots of a test server's state: take one, restore it, reset to the state at the start.

Restoring writes what differs, in one transaction: watches see it as any other change, so that
informers are right afterwards, in the server and in its clients. The revision goes on upwards.
"""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.storage.errors import Corrupt
from kapiserver.storage.kv.contract import KeyValue
from kapiserver.storage.kv.writes import Write
from kapiserver.testing.state.memory_store import MemoryStore, Snapshot

_LEFT_TO_CONTROLLERS = (
    b"kube-aggregator.kubernetes.io/automanaged",
    b"apf.kubernetes.io/autoupdate-spec",
)
"""Annotations of the objects that a server creates some seconds after its start: APIServices, flow
schemas and priority levels."""
_LEFT_KEYS = "/masterleases/"
"""A part of the keys of servers' addresses, which expire unless the servers renew them."""


def restore(server: Server, store: MemoryStore, snapshot: Snapshot) -> None:
    """Write what has changed since a snapshot."""
    current = {item.key: item for item in store.snapshot().items}
    replaced, writes = [], []
    for item in snapshot.items:
        before = current.pop(item.key, None)
        if before is not None and (before.value == item.value or _LEFT_KEYS in item.key):
            continue
        expires = snapshot.expiries.get(item.key, 0)
        expected = 0 if before is None else before.revision
        if before is not None and not _is_same_object(server, before, item):
            replaced.append(Write(item.key, None, before.revision))
            expected = 0
        writes.append(Write(item.key, item.value, expected, expires))
    deleted = [
        Write(item.key, None, item.revision)
        for item in current.values()
        if not is_left_to_controllers(item)
    ]
    store.write_at_once([*replaced, *writes, *deleted])


def is_left_to_controllers(item: KeyValue) -> bool:
    """Whether a key that is not in the snapshot stays: its controller creates and deletes it."""
    return _LEFT_KEYS in item.key or any(mark in item.value for mark in _LEFT_TO_CONTROLLERS)


def _is_same_object(server: Server, before: KeyValue, after: KeyValue) -> bool:
    """Report whether two values of a key have the same uid. If not, clients must see a deletion and
    a creation."""
    return uid_of_item(server, before) == uid_of_item(server, after)


def uid_of_item(server: Server, item: KeyValue) -> str:
    """Return the uid of the object under a key, "" for a key without an object."""
    resource = server.scheme.resource_at(item.key[len(server.config.store.key_root) + 1 :])
    if resource is None:
        return ""
    try:
        metadata = server.stores.get(resource).codec.ownership_metadata(item.key, item.value)
    except Corrupt:
        return ""
    return str(metadata.get("uid") or "")
