"""Create and complete RBAC's bootstrap policy at the start of a server.

Objects whose annotation `rbac.authorization.kubernetes.io/autoupdate` is not "true" stay as they
are; in the others missing rules, subjects and labels are added and nothing is removed. Mirrors
plugin/pkg/auth/authorizer/rbac/bootstrappolicy and component-helpers/auth/rbac/reconciliation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kapiserver.api.accessors import copy_tree, metadata_of, name_of
from kapiserver.api.resource_client import ResourceClient
from kapiserver.api.types import Tree, Value
from kapiserver.apiserver.admission.role_escalation import missing_rules
from kapiserver.apiserver.authorization.rbac_index import RBAC
from kapiserver.controllers.context import ControllerContext
from kapiserver.controllers.rbac_policy import AUTOUPDATE, PolicyObject, bootstrap_policy
from kapiserver.controllers.writing import create_missing, delete_object, update_object
from kapiserver.storage.entry import ObjectKey

CONCURRENT_WRITES = 16


async def reconcile_policy(context: ControllerContext) -> None:
    """Create the missing roles and bindings, and add missing rules and subjects. Raises
    StorageError, StatusError."""
    slots = asyncio.Semaphore(CONCURRENT_WRITES)

    async def reconcile_within_bounds(desired: PolicyObject) -> None:
        async with slots:
            await _reconcile(context, desired)

    async with asyncio.TaskGroup() as group:
        for desired in bootstrap_policy():
            group.create_task(reconcile_within_bounds(desired))


async def _reconcile(context: ControllerContext, desired: PolicyObject) -> None:
    namespace = metadata_of(desired.tree).get("namespace") or ""
    name = name_of(desired.tree)
    informer = context.server.stores.by_name(RBAC, desired.resource).informer
    present = informer.lister.get(ObjectKey(namespace, name))
    objects = context.resource(str(RBAC), desired.resource, namespace=namespace)
    if present is None:
        await create_missing(objects, desired.tree)
    elif completed(present.tree(), desired.tree) != present.tree():
        await _complete(objects, name, desired.tree)


async def _complete(objects: ResourceClient, name: str, desired: Tree) -> None:
    current = await objects.get(name)
    if current.get("roleRef") != desired.get("roleRef"):  # immutable
        await delete_object(objects, name, uid=metadata_of(current)["uid"])
        await create_missing(objects, desired)
        return
    await update_object(objects, name, lambda tree: completed(tree, desired))


def completed(current: Tree, desired: Tree) -> Tree:
    """Return a role or binding with the missing parts of the desired one added; unchanged if its
    annotation forbids updates."""
    annotations = metadata_of(current).get("annotations") or {}
    if annotations.get(AUTOUPDATE, "true") != "true":
        return current
    tree: Tree = copy_tree(current)
    for name in ("labels", "annotations"):
        values = metadata_of(desired).get(name) or {}
        metadata_of(tree)[name] = {**values, **(metadata_of(current).get(name) or {})}
    if "roleRef" in desired:
        tree["roleRef"] = desired["roleRef"]
        _add_missing(tree, "subjects", desired.get("subjects") or ())
    elif "aggregationRule" in desired:
        rule = tree.setdefault("aggregationRule", {})
        _add_missing(
            rule, "clusterRoleSelectors", desired["aggregationRule"]["clusterRoleSelectors"]
        )
    elif missing := missing_rules(tree.get("rules") or (), desired["rules"]):
        tree["rules"] = [*(tree.get("rules") or ()), *missing]
    return tree


def _add_missing(tree: Tree, field: str, values: Sequence[Value]) -> None:
    present = tree.get(field) or []
    missing = [value for value in values if value not in present]
    if missing:
        tree[field] = [*present, *missing]
