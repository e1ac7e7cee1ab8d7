"""Objects go with their owners: background, foreground and orphan deletion.

Fed with what every object says of its owners; remembers those that have any, and owners that wait
for their dependents. What it decides, it decides on the object as the store has it at that moment.
Mirrors pkg/controller/garbagecollector of Kubernetes.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kapiserver.api.errors import APIError, NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.objects import finalizers_of, is_terminating, metadata_of, uid_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.controllers.event_recorder import Recorder
from kapiserver.controllers.workqueue import Work
from kapiserver.storage.entry import Entry, ObjectKey
from kapiserver.storage.errors import NotFound, ObjectConflict
from kapiserver.storage.kv import Revision
from kapiserver.storage.lifecycle import FOREGROUND, ORPHAN
from kapiserver.storage.metadata_informer import Seen
from kapiserver.storage.object_store import ResourceStore
from kapiserver.storage.query import Change, DeleteQuery, ListQuery, Preconditions

NAME = "garbage-collector-controller"
WORKERS = 20
REMEMBERED = 10_000
"""Uids of owners known to be gone."""

_ChangeOwners: TypeAlias = Callable[[list[Tree]], list[Tree]]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Owners:
    """The owners of one object, told apart."""

    solid: list[str]
    absent: list[str]
    waiting: list[str]


class GarbageCollector:
    """The loop: a reader of the feed, and workers while there is something to do."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._recorder = Recorder(server, "garbage-collector-controller")
        self._unknown: dict[str, None] = {}
        """Paths of objects with an owner of a kind that was not known when they were looked at."""
        server.custom_resources.followers.append(self._defined)
        self._seen: dict[str, Seen] = {}
        """Objects with owners, or about to go in the foreground or as orphans' owners; by path."""
        self._dependents: dict[str, dict[str, None]] = {}
        """Paths by their owner's uid."""
        self._waiting: dict[str, str] = {}
        """Owners that wait for their dependents: uid to path."""
        self._asked: set[str] = set()
        """Those of them whose dependents have all been put to work."""
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._work: Work[str] = Work(self._look, server.clock, workers=WORKERS, name=NAME)

    async def stop(self) -> None:
        """End; what is being looked at is broken off."""
        self._server.custom_resources.followers.remove(self._defined)
        await self._work.stop()

    def _defined(self, _names: Sequence[str]) -> None:
        """Kinds were defined: owners may be of one of them."""
        unknown, self._unknown = self._unknown, {}
        for path in unknown:
            self._work.put(path)

    # What the feed says.

    def begin(self) -> None:
        """Forget everything."""
        self._work.clear()
        self._unknown.clear()
        for part in (self._seen, self._dependents, self._waiting, self._asked, self._gone):
            part.clear()

    def put(self, seen: Seen) -> None:
        """An object is there, or changed."""
        before = self._seen.get(seen.path)
        deletes_dependents = seen.terminating and (
            FOREGROUND in seen.finalizers or ORPHAN in seen.finalizers
        )
        if before is None and not seen.owners and not deletes_dependents:
            return
        self._forget(seen.path)
        if seen.owners or deletes_dependents:
            self._seen[seen.path] = seen
        for owner in seen.owners:
            self._dependents.setdefault(owner.get("uid") or "", {})[seen.path] = None
        if deletes_dependents:
            self._waiting[seen.uid] = seen.path
        if deletes_dependents or (seen.owners and (before is None or before.owners != seen.owners)):
            self._work.put(seen.path)
        if before is not None:
            self._ask_owners(before)

    def gone(self, seen: Seen) -> None:
        """An object is there no more: its dependents and its owners want looking at."""
        before = self._seen.get(seen.path)
        self._forget(seen.path)
        self._gone[seen.uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)
        for path in self._dependents.get(seen.uid, ()):
            self._work.put(path)
        if before is not None:
            self._ask_owners(before)

    def _forget(self, path: str) -> None:
        before = self._seen.pop(path, None)
        if before is None:
            return
        if self._waiting.get(before.uid) == path:
            del self._waiting[before.uid]
            self._asked.discard(before.uid)
        for owner in before.owners:
            uid = owner.get("uid") or ""
            paths = self._dependents.get(uid)
            if paths is not None:
                paths.pop(path, None)
                if not paths:
                    del self._dependents[uid]

    def _ask_owners(self, before: Seen) -> None:
        """What an object's owners wait for may have come."""
        for owner in before.owners:
            path = self._waiting.get(owner.get("uid") or "")
            if path is not None:
                self._work.put(path)

    # Looking at one object.

    async def _look(self, path: str) -> None:
        seen = self._seen.get(path)
        if seen is None:
            return
        store = self._server.stores.of(seen.resource)
        try:
            entry = await store.get(seen.key)
        except NotFound:
            return
        obj = _said(store, entry)
        if uid_of(obj) != seen.uid:
            return
        if is_terminating(obj):
            await self._end(store, seen, obj)
        elif metadata_of(obj).get("ownerReferences"):
            await self._judge(store, seen, obj, entry.revision)

    async def _end(self, store: ResourceStore, seen: Seen, obj: Tree) -> None:
        """Do for the dependents of a terminating object what it was asked to."""
        finalizers = finalizers_of(obj)
        if ORPHAN in finalizers:
            for path in list(self._dependents.get(seen.uid, ())):
                await self._release(path, [seen.uid])
            await self._drop_finalizer(store, seen, ORPHAN)
        elif FOREGROUND in finalizers:
            if not any(self._blocks(path, seen.uid) for path in self._dependents.get(seen.uid, ())):
                await self._drop_finalizer(store, seen, FOREGROUND)
            elif seen.uid not in self._asked:
                self._asked.add(seen.uid)
                for path in self._dependents[seen.uid]:
                    if self._blocks(path, seen.uid) and self._seen[path].uid not in self._waiting:
                        self._work.put(path)

    def _blocks(self, path: str, uid: str) -> bool:
        """Whether the deletion of an owner in the foreground waits for that dependent."""
        return any(
            one.get("uid") == uid and one.get("blockOwnerDeletion") is True
            for one in self._seen[path].owners
        )

    async def _judge(self, store: ResourceStore, seen: Seen, obj: Tree, revision: Revision) -> None:
        """Keep the object, take owners from it that are gone, or delete it."""
        owners = await self._told_apart(seen, obj)
        if owners is None:
            return
        if owners.solid:
            if owners.absent or owners.waiting:
                await self._release(seen.path, [*owners.absent, *owners.waiting])
            return
        policy: Literal["Orphan", "Background", "Foreground"]
        if owners.waiting and self._dependents.get(seen.uid):
            await self._break_circle(seen)
            policy = "Foreground"
        elif ORPHAN in finalizers_of(obj):
            policy = "Orphan"
        else:
            policy = "Foreground" if FOREGROUND in finalizers_of(obj) else "Background"
        held = Preconditions(uid=seen.uid, resource_version=str(revision))
        query = DeleteQuery(propagation_policy=policy, preconditions=held)
        try:
            await store.delete(seen.key, query)
        except NotFound:
            pass
        except ObjectConflict:
            self._work.put(seen.path)

    async def _break_circle(self, seen: Seen) -> None:
        """An owner that is deleted in the foreground by way of its own dependents waits for none
        of its owners to wait for it."""
        dependents = self._dependents.get(seen.uid, ())
        if any(self._seen[path].uid in self._waiting for path in dependents):
            await self._change_owners(
                seen.path, lambda owners: [{**one, "blockOwnerDeletion": False} for one in owners]
            )

    async def _told_apart(self, seen: Seen, obj: Tree) -> _Owners | None:
        """The owners by what became of them; None: there is one that nobody can look up."""
        found = _Owners([], [], [])
        for reference in metadata_of(obj).get("ownerReferences") or ():
            uid = reference.get("uid") or ""
            try:
                owner = await self._owner(seen, reference)
            except _NoSuchPlace as error:
                await self._warn(seen, str(error))
                return None
            except (NotRegistered, ValueError) as error:
                _log.info("an owner of %s cannot be looked up: %s", seen.path, error)
                self._unknown[seen.path] = None
                return None
            if owner is None:
                found.absent.append(uid)
            elif is_terminating(owner) and FOREGROUND in finalizers_of(owner):
                found.waiting.append(uid)
            else:
                found.solid.append(uid)
        return found

    async def _owner(self, seen: Seen, reference: Tree) -> Tree | None:
        """The owner a reference names; None when it is gone. Raises NotRegistered, ValueError."""
        uid = reference.get("uid") or ""
        version = GroupVersion.parse(reference.get("apiVersion") or "")
        resource = self._server.scheme.resource_of(version.with_kind(reference.get("kind") or ""))
        if resource.namespaced and not seen.resource.namespaced:
            raise _NoSuchPlace(
                f"ownerRef {_shown(reference, '')} of a cluster-scoped object names a namespaced "
                "kind"
            )
        if uid in self._gone:
            return None
        store = self._server.stores.of(resource)
        key = ObjectKey(
            seen.key.namespace if resource.namespaced else "", reference.get("name") or ""
        )
        for version_asked in ("0", ""):  # the cache may be behind another server
            try:
                owner = _said(store, await store.get(key, resource_version=version_asked))
            except NotFound:
                continue
            if uid_of(owner) == uid:
                return owner
        await self._tell_of_another_place(store, seen, reference)
        return None

    async def _tell_of_another_place(
        self, store: ResourceStore, seen: Seen, reference: Tree
    ) -> None:
        """Note an owner that lies in another namespace, where it counts as gone."""
        if not store.resource.namespaced:
            return
        name = reference.get("name") or ""
        everywhere = await store.list(ListQuery(resource_version="0"))
        for entry in everywhere.entries:
            if entry.key.name == name and uid_of(_said(store, entry)) == reference.get("uid"):
                await self._warn(
                    seen,
                    f"ownerRef {_shown(reference, entry.key.namespace)} does not exist in "
                    f'namespace "{seen.key.namespace}"',
                )
                return

    async def _warn(self, seen: Seen, message: str) -> None:
        dependent = await self._server.stores.of(seen.resource).get(seen.key)
        await self._recorder.warn(dependent.tree(), "OwnerRefInvalidNamespace", message)

    # Changing one object.

    async def _release(self, path: str, uids: Sequence[str]) -> None:
        """Take owners from a dependent."""
        await self._change_owners(
            path, lambda owners: [one for one in owners if one.get("uid") not in uids]
        )

    async def _change_owners(self, path: str, change: _ChangeOwners) -> None:
        seen = self._seen.get(path)
        if seen is None:
            return

        def changed(current: Tree | None) -> Tree:
            assert current is not None
            metadata = metadata_of(current)
            owners = change(metadata.pop("ownerReferences", None) or [])
            if owners:
                metadata["ownerReferences"] = owners
            return current

        await self._update(self._server.stores.of(seen.resource), seen, changed)

    async def _drop_finalizer(self, store: ResourceStore, seen: Seen, name: str) -> None:
        def changed(current: Tree | None) -> Tree:
            assert current is not None
            left = [one for one in finalizers_of(current) if one != name]
            metadata = metadata_of(current)
            metadata.pop("finalizers", None)
            if left:
                metadata["finalizers"] = left
            return current

        await self._update(store, seen, changed)

    async def _update(self, store: ResourceStore, seen: Seen, changed: Change) -> None:
        try:
            await store.update(seen.key, changed, preconditions=Preconditions(uid=seen.uid))
        except NotFound:
            pass
        except (ObjectConflict, APIError) as error:
            _log.info("%s was not changed: %s", seen.path, error)


def _said(store: ResourceStore, entry: Entry) -> Tree:
    """The object as far as it matters here: its metadata, without reading the rest."""
    return {"metadata": store.codec.metadata(entry.path, entry.value)}


class _NoSuchPlace(Exception):
    """A reference from outside of all namespaces into one."""


def _shown(reference: Tree, namespace: str) -> str:
    return (
        f"[{reference.get('apiVersion')}/{reference.get('kind')}, namespace: {namespace}, "
        f"name: {reference.get('name')}, uid: {reference.get('uid')}]"
    )
