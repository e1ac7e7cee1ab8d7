"""The graph of owners and dependents that the garbage collector keeps. Pure: no store, no task.

The vertices are objects as the metadata informer observed them, the edges their owner references.
The graph holds only what deletions need: objects that have owners, and owners whose deletion waits
until their dependents are deleted or orphaned. Each change returns the paths of the objects that
must be reconciled because of it. Mirrors graph_builder.go of pkg/controller/garbagecollector.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from kapiserver.storage.objects.lifecycle import FOREGROUND, ORPHAN
from kapiserver.storage.objects.metadata_informer import DeletedObject, ObjectMetadata

MAX_DELETED_UIDS = 10_000
"""How many uids of deleted objects are remembered."""


class OwnerGraph:
    """Objects by path, and their dependents by uid. A path is the key of an object in the store."""

    def __init__(self, max_deleted_uids: int = MAX_DELETED_UIDS) -> None:
        self._max_deleted_uids = max_deleted_uids
        self._objects: dict[str, ObjectMetadata] = {}
        """Objects with owners, and owners that wait for their dependents, by path."""
        self._dependents: dict[str, dict[str, None]] = {}
        """The paths of dependents, by the uid of their owner."""
        self._waiting: dict[str, str] = {}
        """The paths of the owners that wait for their dependents, by uid."""
        self._taken: set[str] = set()
        """Uids of the waiting owners whose dependents have been taken for deletion."""
        self._deleted_uids: OrderedDict[str, None] = OrderedDict()

    def clear(self) -> None:
        """Forget everything."""
        self._objects.clear()
        self._dependents.clear()
        self._waiting.clear()
        self._taken.clear()
        self._deleted_uids.clear()

    # Changes.

    def upsert(self, observed: ObjectMetadata) -> Sequence[str]:
        """Add or update an object. Return the paths to reconcile: the object itself if it waits for
        its dependents or has other owners than before, and waiting owners that it had before."""
        if self._deleted_uids:
            self._deleted_uids.pop(observed.uid, None)  # a snapshot of a test server was restored
        before = self._objects.get(observed.path)
        waits = _waits_for_dependents(observed)
        if before is None and not observed.owners and not waits:
            return ()
        self._forget(observed.path)
        if observed.owners or waits:
            self._objects[observed.path] = observed
        for uid in _owner_uids(observed):
            self._dependents.setdefault(uid, {})[observed.path] = None
        if waits:
            self._waiting[observed.uid] = observed.path
        has_new_owners = observed.owners and (before is None or before.owners != observed.owners)
        paths = [observed.path] if waits or has_new_owners else []
        if before is not None:
            paths += self._waiting_owners(before)
        return paths

    def delete(self, deleted: DeletedObject) -> Sequence[str]:
        """Remove an object. Return the paths to reconcile: its dependents, and its owners that wait
        for their dependents."""
        before = self._objects.get(deleted.path)
        self._forget(deleted.path)
        uid = deleted.uid if before is None else before.uid
        paths: list[str] = []
        if uid:
            self._deleted_uids[uid] = None
            if len(self._deleted_uids) > self._max_deleted_uids:
                self._deleted_uids.popitem(last=False)
            paths += self._dependents.get(uid, ())
        if before is not None:
            paths += self._waiting_owners(before)
        return paths

    def forget(self, path: str) -> None:
        """Remove an object of which nobody knows any more whether it exists."""
        self._forget(path)

    def take_blocking_dependents(self, uid: str) -> Sequence[str]:
        """Return the paths of the dependents that block the deletion of a waiting owner, without
        those that wait for dependents of their own. A second call for the same deletion returns
        none: each change of a dependent returns the path of its waiting owner."""
        if uid not in self._waiting or uid in self._taken:
            return ()
        self._taken.add(uid)
        return [
            dependent.path
            for dependent in self._blocking_dependents(uid)
            if dependent.uid not in self._waiting
        ]

    # Queries.

    def get(self, path: str) -> ObjectMetadata | None:
        """Return the object at a path if it has owners or waits for its dependents."""
        return self._objects.get(path)

    def dependents(self, uid: str) -> Sequence[str]:
        """Return the paths of the dependents of an object."""
        return list(self._dependents.get(uid, ()))

    def has_dependents(self, uid: str) -> bool:
        """Return whether an object has dependents."""
        return uid in self._dependents

    def has_blocking_dependents(self, uid: str) -> bool:
        """Return whether the foreground deletion of an owner has to wait for a dependent."""
        return next(self._blocking_dependents(uid), None) is not None

    def has_waiting_dependents(self, uid: str) -> bool:
        """Return whether a dependent of an object waits for dependents of its own."""
        paths = self._dependents.get(uid, ())
        return any(self._objects[path].uid in self._waiting for path in paths)

    def is_waiting(self, uid: str) -> bool:
        """Return whether an object is being deleted and waits for its dependents."""
        return uid in self._waiting

    def is_deleted(self, uid: str) -> bool:
        """Return whether an object was deleted recently."""
        return uid in self._deleted_uids

    def _blocking_dependents(self, uid: str) -> Iterator[ObjectMetadata]:
        for path in self._dependents.get(uid, ()):
            dependent = self._objects[path]
            if any(
                owner.get("uid") == uid and owner.get("blockOwnerDeletion") is True
                for owner in dependent.owners
            ):
                yield dependent

    def _waiting_owners(self, dependent: ObjectMetadata) -> Iterator[str]:
        for uid in _owner_uids(dependent):
            path = self._waiting.get(uid)
            if path is not None:
                yield path

    def _forget(self, path: str) -> None:
        before = self._objects.pop(path, None)
        if before is None:
            return
        if self._waiting.get(before.uid) == path:
            del self._waiting[before.uid]
            self._taken.discard(before.uid)
        for uid in _owner_uids(before):
            paths = self._dependents.get(uid)
            if paths is not None:
                paths.pop(path, None)
                if not paths:
                    del self._dependents[uid]


def _waits_for_dependents(observed: ObjectMetadata) -> bool:
    return observed.terminating and (
        FOREGROUND in observed.finalizers or ORPHAN in observed.finalizers
    )


def _owner_uids(dependent: ObjectMetadata) -> list[str]:
    return [owner.get("uid") or "" for owner in dependent.owners]
