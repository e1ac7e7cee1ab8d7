"""The history of the revisions of owners of one kind: the shell around `revisions`."""

from __future__ import annotations

from collections.abc import Container, Sequence

from kapiserver.api.accessors import (
    copy_tree,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.writing import delete_object
from kapiserver.controllers.workloads.owned_objects import OwnedObjects
from kapiserver.controllers.workloads.revisions import (
    new_revision,
    newest_equal,
    next_number,
    number_of,
    sorted_revisions,
    surplus_revisions,
    template_of,
)
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.informer import Index, Informer

_APPS = GroupVersion("apps", "v1")


class RevisionHistory:
    """Keeps the revisions of owners of one kind.

    informer    of the ControllerRevisions
    index       has the ControllerRevisions by `controller_keys`
    hash_label  the label of a revision that has its hash
    """

    def __init__(
        self,
        context: ControllerContext,
        informer: Informer,
        index: Index,
        *,
        kind: str,
        hash_label: str,
    ) -> None:
        self._context = context
        self._informer = informer
        self._owned = OwnedObjects(_APPS, kind, index)
        self._hash_label = hash_label

    async def claim(self, owner: Tree, owners: ResourceClient) -> list[Tree]:
        """Return the revisions of `owner` in the order of their numbers, after it has adopted those
        without an owner. Raises StatusError."""
        objects = self._objects(owner)
        return sorted_revisions(await self._owned.claim(owner, owners, objects, _any))

    async def update_revision(self, owner: Tree, revisions: Sequence[Tree]) -> tuple[Tree, int]:
        """Return the revision with the template of `owner`, which is created or gets the highest
        number if necessary, and the count of collisions. Raises StatusError."""
        count = value_at(owner, "status", "collisionCount") or 0
        equal, number = newest_equal(owner, revisions), next_number(revisions)
        if equal is None:
            return await self._create(owner, number, count)
        if number_of(equal) == number - 1:
            return equal, count
        changed = copy_tree(equal) | {"revision": number}
        return await self._shown(await self._objects(owner).update(changed)), count

    async def truncate(self, owner: Tree, revisions: Sequence[Tree], live: Container[str]) -> None:
        """Delete the oldest revisions beyond the limit of the history. Raises StatusError."""
        for revision in surplus_revisions(owner, revisions, live):
            await delete_object(self._objects(owner), name_of(revision), uid=uid_of(revision))

    def _objects(self, owner: Tree) -> ResourceClient:
        namespace = namespace_of(owner)
        return self._context.resource(str(_APPS), "controllerrevisions", namespace=namespace)

    async def _create(self, owner: Tree, number: int, count: int) -> tuple[Tree, int]:
        """Create a revision. After a collision of names, a higher count leads to another name."""
        while True:
            new = new_revision(owner, self._hash_label, number, count)
            try:
                return await self._shown(await self._objects(owner).create(copy_tree(new))), count
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
            existing = await self._objects(owner).get(name_of(new))
            if template_of(existing) == template_of(new):
                return existing, count
            count += 1

    async def _shown(self, revision: Tree) -> Tree:
        """Wait until the informer shows a written revision, and return the revision."""
        await self._informer.wait_for(Revision(int(resource_version_of(revision))))
        return revision


def _any(_revision: Tree) -> bool:
    return True
