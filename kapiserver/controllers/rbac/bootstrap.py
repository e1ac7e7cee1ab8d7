"""Create and complete RBAC's bootstrap policy at the start of a server.

Objects whose annotation `rbac.authorization.kubernetes.io/autoupdate` is not "true" stay as they
are; in the others missing rules, subjects and labels are added and nothing is removed. Mirrors
plugin/pkg/auth/authorizer/rbac/bootstrappolicy and component-helpers/auth/rbac/reconciliation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kapiserver.api.accessors import copy_tree, metadata_of, name_of
from kapiserver.api.resource_client import ResourceClient
from kapiserver.api.types import Tree, Value
from kapiserver.apiserver.admission.role_escalation import missing_rules
from kapiserver.apiserver.authorization.rbac.index import RBAC
from kapiserver.controllers.defaults.bootstrap import create_directly
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.writing import create_missing, delete_object, update_object
from kapiserver.controllers.rbac import role_aggregation
from kapiserver.controllers.rbac.cluster_roles import AGGREGATED_ROLES
from kapiserver.controllers.rbac.policy import AUTOUPDATE, PolicyObject, bootstrap_policy
from kapiserver.storage.cache.entry import ObjectKey

CONCURRENT_WRITES = 16


_AGGREGATION: Mapping[str, Tree] = {role_aggregation.MANAGER: {"f:rules": {}}}


async def reconcile_policy(context: ControllerContext, *, aggregate: bool = True) -> None:
    """Create the missing roles and bindings, and add missing rules and subjects. Raises
    StorageError, StatusError.

    aggregate   create aggregated roles with the rules that the controller of role_aggregation.py
                would add, so that it need not
    """
    slots = asyncio.Semaphore(CONCURRENT_WRITES)
    rules = _rules_to_aggregate() if aggregate else {}

    async def reconcile_within_bounds(desired: PolicyObject) -> None:
        async with slots:
            await _reconcile(context, desired, rules)

    compiled: set[str] = set()
    async with asyncio.TaskGroup() as group:
        for desired in bootstrap_policy():
            if desired.resource in compiled:
                group.create_task(reconcile_within_bounds(desired))
            else:  # it compiles what the others need; together, each would go to a thread for that
                compiled.add(desired.resource)
                await reconcile_within_bounds(desired)


async def _reconcile(
    context: ControllerContext, desired: PolicyObject, aggregated: Mapping[str, list[Tree]]
) -> None:
    server = context.server
    namespace = metadata_of(desired.tree).get("namespace") or ""
    name = name_of(desired.tree)
    store = server.stores.by_name(RBAC, desired.resource)
    present = store.informer.lister.get(ObjectKey(namespace, name))
    if present is None:
        tree, managed = desired.tree, managed_fields(desired.tree)
        if "aggregationRule" in tree and name in aggregated:
            tree = {**tree, "rules": aggregated[name]}
            await create_directly(server, store, tree, managed=managed, applied=_AGGREGATION)
        else:
            await create_directly(server, store, tree, managed=managed)
    elif completed(present.tree(), desired.tree) != present.tree():
        objects = context.resource(str(RBAC), desired.resource, namespace=namespace)
        await _complete(objects, name, desired.tree)


def _rules_to_aggregate() -> dict[str, list[Tree]]:
    """Return the rules of the policy's aggregated cluster roles, by name."""
    policy = [desired.tree for desired in bootstrap_policy()]
    cluster_roles = [tree for tree in policy if tree["kind"] == "ClusterRole"]
    roles = {name_of(tree): tree for tree in sorted(cluster_roles, key=name_of)}
    for name in reversed(AGGREGATED_ROLES):  # each after the one that it selects
        rules = role_aggregation.aggregated_rules(roles[name], list(roles.values()))
        roles[name] = {**roles[name], "rules": rules}
    return {name: roles[name]["rules"] for name in AGGREGATED_ROLES}


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
    atomic = ("roleRef", "rules", "subjects")
    fields |= {f"f:{name}": {} for name in atomic if tree.get(name) is not None}
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
    elif tree.get("rules") == desired["rules"]:
        return tree  # comparing is faster than looking for missing parts
    elif missing := missing_rules(tree.get("rules") or (), desired["rules"]):
        tree["rules"] = [*(tree.get("rules") or ()), *missing]
    return tree


def _add_missing(tree: Tree, field: str, values: Sequence[Value]) -> None:
    present = tree.get(field) or []
    missing = [value for value in values if value not in present]
    if missing:
        tree[field] = [*present, *missing]
