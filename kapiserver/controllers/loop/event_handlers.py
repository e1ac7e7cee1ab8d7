"""The usual event handlers of controllers, and the usual indexes.

An event handler maps a change of an object to the keys of the objects to reconcile. Mirrors
EnqueueRequestForObject and EnqueueRequestForOwner of controller-runtime, and the indexers of
client-go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kapiserver.api.accessors import controller_of, owners_of, value_at
from kapiserver.api.group import GroupVersion
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

# Event handlers.


def for_object(change: ObjectChange) -> Iterable[ObjectKey]:
    """Queue the object that was created, changed or deleted."""
    return (change.last.key,)


def for_owner(version: GroupVersion, kind: str) -> Callable[[ObjectChange], Iterator[ObjectKey]]:
    """Return a handler that queues the owner that controls an object, if it is of a kind: the owner
    before the change and the one after it. The version of the owner does not matter."""

    def owners(change: ObjectChange) -> Iterator[ObjectKey]:
        for entry in (change.old, change.new):
            owner = controller_of(entry.tree()) if entry is not None else None
            if entry is None or owner is None or owner.get("kind") != kind:
                continue
            if (owner.get("apiVersion") or "").rpartition("/")[0] == version.group:
                yield ObjectKey(entry.key.namespace, owner.get("name") or "")

    return owners


# Functions of indexes: each takes an object and returns the values to find it by.


def owner_uids(entry: Entry) -> Iterable[str]:
    """Return the uids of the owners of an object."""
    return [owner.get("uid") or "" for owner in owners_of(entry.tree())]


def field_value(*path: str) -> Callable[[Entry], Iterable[str]]:
    """Return a function that returns the value of a field, such as `spec`, `nodeName` of a pod."""

    def values(entry: Entry) -> Iterable[str]:
        value = value_at(entry.tree(), *path)
        return (value,) if value else ()

    return values


def label_value(name: str) -> Callable[[Entry], Iterable[str]]:
    """Return a function that returns the namespace and the value of a label, `NAMESPACE/VALUE`."""

    def values(entry: Entry) -> Iterable[str]:
        value = entry.labels.get(name)
        return (f"{entry.key.namespace}/{value}",) if value else ()

    return values
