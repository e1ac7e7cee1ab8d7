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
from kapiserver.controllers.bootstrap import create_directly
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
    server = context.server
    namespace = metadata_of(desired.tree).get("namespace") or ""
    name = name_of(desired.tree)
    store = server.stores.by_name(RBAC, desired.resource)
    present = store.informer.lister.get(ObjectKey(namespace, name))
    if present is None:
        await create_directly(server, store, desired.tree, managed=managed_fields(desired.tree))
    elif completed(present.tree(), desired.tree) != present.tree():
        objects = context.resource(str(RBAC), desired.resource, namespace=namespace)
        await _complete(objects, name, desired.tree)


def managed_fields(tree: Tree) -> Tree:
    """Return the fieldsV1 of a role or binding of the policy: its labels and annotations by key,
    and its other fields, whose values are atomic."""
    metadata: Tree = {
        f"f:{name}": {".": {}, **{f"f:{key}": {} for key in sorted(metadata_of(tree)[name])}}
        for name in ("annotations", "labels")
    }
    fields: Tree = {"f:metadata": metadata}
    if "aggregationRule" in tree:
        fields["f:aggregationRule"] = {".": {}, "f:clusterRoleSelectors": {}}
    fields |= {f"f:{name}": {} for name in ("roleRef", "rules", "subjects") if name in tree}
    return dict(sorted(fields.items()))


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
