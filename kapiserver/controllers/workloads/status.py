"""The status of objects that own others."""

from __future__ import annotations

from kapiserver.api.accessors import copy_tree, name_of, resource_version_of, uid_of
from kapiserver.api.resource_client import ResourceClient
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.informer import Informer


async def write_status(
    owners: ResourceClient, informer: Informer, owner: Tree, status: Tree
) -> None:
    """Replace the status of an owner unless it is equal, and wait for it in the informer, so that
    the next reconcile reads it. Raises StatusError."""
    if status == (owner.get("status") or {}):
        return
    new_status = copy_tree(status)
    updated = await update_object(
        owners,
        name_of(owner),
        lambda current: current | {"status": new_status},
        subresource="status",
        uid=uid_of(owner),
    )
    if updated is not None:
        await informer.wait_for(Revision(int(resource_version_of(updated))))
