"""The objects of one kind that the owners of another kind control: found, adopted and released.

The shell around `claims`: an index of the objects by their controller, an event handler that finds
the owners of an object, and the patches that adopt and release. Mirrors
pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kapiserver.api.accessors import (
    controller_of,
    finalizers_of,
    is_terminating,
    metadata_of,
    name_of,
    namespace_of,
    owners_of,
    uid_of,
)
from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import EventHandler
from kapiserver.controllers.loop.event_handlers import for_owner
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.controllers.workloads.claims import claims_of, controller_reference, selector_of
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, Informer, ObjectChange


def controller_keys(entry: Entry) -> Iterable[str]:
    """Return what an index finds an object by: the uid of its controller, or, of an object without
    one, its namespace."""
    controller = controller_of(entry.tree())
    return ((controller.get("uid") or "") if controller else _orphans(entry.key.namespace),)


def _orphans(namespace: str) -> str:
    return f"orphans of {namespace}"


def for_possible_owners(
    version: GroupVersion, kind: str, owners: Informer
) -> EventHandler[ObjectKey]:
    """Return a handler that queues the owner that controls an object or did so before, and of an
    object without one, every owner whose selector matches."""
    of_controller = for_owner(version, kind)

    def possible_owners(change: ObjectChange) -> Iterator[ObjectKey]:
        yield from of_controller(change)
        if change.new is not None and controller_of(change.new.tree()) is None:
            for owner in owners.lister.list(change.new.key.namespace):
                selection = selector_of(owner.tree())
                if selection is not None and selection.matches(change.new.labels, {}):
                    yield owner.key

    return possible_owners


class OwnedObjects:
    """The objects that owners of a kind control.

    index      has the objects by `controller_keys`
    finalizer  is added to the objects that an owner adopts, if it is not ""
    """

    def __init__(
        self, version: GroupVersion, kind: str, index: Index, *, finalizer: str = ""
    ) -> None:
        self._version = version
        self._kind = kind
        self._index = index
        self._finalizer = finalizer

    def controlled_by(self, owner: Tree) -> Iterator[Tree]:
        """Yield the objects that name `owner` as their controller. Each is decoded when it is
        yielded, because few callers need all of them."""
        for entry in self._index.get(uid_of(owner)):
            yield entry.tree()

    async def claim(
        self,
        owner: Tree,
        owners: ResourceClient,
        objects: ResourceClient,
        candidates: Callable[[Tree], bool],
    ) -> list[Tree]:
        """Return the objects that `owner` controls, after it has adopted and released some. Raises
        StatusError.

        owners      reads the owner again before it adopts, because it may be deleted by now
        objects     patches the objects
        candidates  tells which objects count
        """
        selection = selector_of(owner)
        if selection is None:
            return []
        entries = (*self._index.get(uid_of(owner)), *self._index.get(_orphans(namespace_of(owner))))
        trees = [tree for entry in entries if candidates(tree := entry.tree())]
        claims = claims_of(owner, selection, trees)
        for released in claims.release:
            await self._release(owner, objects, released)
        owned = claims.owned
        if claims.adopt and await self._may_adopt(owner, owners):
            for adopted in claims.adopt:
                owned += await self._adopt(owner, objects, adopted)
        return owned

    @staticmethod
    async def _may_adopt(owner: Tree, owners: ResourceClient) -> bool:
        try:
            current = await owners.shared.get(name_of(owner))
        except StatusError as error:
            if error.reason == "NotFound":
                return False
            raise
        return uid_of(current) == uid_of(owner) and not is_terminating(current)

    async def _adopt(self, owner: Tree, objects: ResourceClient, obj: Tree) -> list[Tree]:
        reference = controller_reference(owner, str(self._version), self._kind)
        changes: Tree = {"ownerReferences": [*owners_of(obj), reference]}
        finalizers = finalizers_of(obj)
        if self._finalizer and self._finalizer not in finalizers:
            changes["finalizers"] = [*finalizers, self._finalizer]
        return await _patch_metadata(objects, obj, changes)

    async def _release(self, owner: Tree, objects: ResourceClient, obj: Tree) -> None:
        uid = uid_of(owner)
        owners = [owner for owner in owners_of(obj) if owner["uid"] != uid]
        await _patch_metadata(objects, obj, {"ownerReferences": owners or None})


async def _patch_metadata(objects: ResourceClient, obj: Tree, changes: Tree) -> list[Tree]:
    """Patch fields of the metadata; return the object, or nothing if it is gone. Raises
    StatusError, with the reason Conflict if the object has changed."""
    metadata = metadata_of(obj)
    current = {name: metadata[name] for name in ("uid", "resourceVersion")}
    with suppress_reason("NotFound"):
        return [await objects.patch(name_of(obj), {"metadata": current | changes})]
    return []
