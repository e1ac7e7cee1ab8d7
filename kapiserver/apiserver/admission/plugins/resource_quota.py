"""ResourceQuota: what is created, or grows, must fit into the quotas of its namespace.

Charges the quotas before the object is stored; the controller of that name counts anew when
objects go, or when a write failed after it was charged. Mirrors
k8s.io/apiserver/pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kapiserver.api.accessors import name_of, namespace_of, uid_of, value_at
from kapiserver.api.core.pod_requests import Amounts, add_amounts, amounts_of
from kapiserver.api.core.quota_usage import (
    added_usage,
    is_in_scopes,
    matching_names,
    missing_requirements,
    usage_of,
)
from kapiserver.api.group import CORE, Resource
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.query import ListQuery, Preconditions


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raises Forbidden."""
    target = attributes.target
    resource, namespace = target.resource, target.key.namespace
    below = target.subresource and (resource.name, target.subresource) != ("pods", "resize")
    if new is None or below or not namespace or not resource.stored or resource.name == "events":
        return
    store = server.stores.by_name(CORE, "resourcequotas")
    query = ListQuery(namespace=namespace, resource_version="0")
    entries = (await store.list(query)).entries
    if not entries:
        return
    quotas = [
        quota
        for quota in (entry.tree() for entry in entries)
        if _names(resource, quota) and is_in_scopes(resource, new, quota)
    ]
    now = server.clock.now()
    wanted = usage_of(resource, new, now)
    wanted = added_usage(wanted, usage_of(resource, old, now) if old is not None else {})
    for quota in quotas:
        _check_known(attributes, new, quota)
    for quota in quotas:
        _fitting(attributes, wanted, quota)
    if not attributes.dry_run:
        await _charge(server, attributes, wanted, quotas)


async def _charge(
    server: Server, attributes: Attributes, wanted: Amounts, quotas: Sequence[Tree]
) -> None:
    store = server.stores.by_name(CORE, "resourcequotas")
    for quota in quotas:
        if not _asked(wanted, quota):
            continue
        key = ObjectKey(namespace_of(quota), name_of(quota))
        try:
            await store.update(
                key,
                partial(_charged, attributes, wanted),
                subresource="status",
                preconditions=Preconditions(uid=uid_of(quota)),
            )
        except NotFound:  # a quota that is gone limits nothing
            continue


def _charged(attributes: Attributes, wanted: Amounts, quota: Tree | None) -> Tree:
    assert quota is not None
    total = _fitting(attributes, wanted, quota)
    quota["status"]["used"] = {name: str(total[name]) for name in sorted(total)}
    return quota


def _hard(quota: Tree) -> Tree:
    return value_at(quota, "status", "hard") or {}


def _names(resource: Resource, quota: Tree) -> frozenset[str]:
    return matching_names(resource, _hard(quota))


def _asked(wanted: Amounts, quota: Tree) -> Amounts:
    hard = _hard(quota)
    return {name: amount for name, amount in wanted.items() if name in hard}


def _check_known(attributes: Attributes, new: Tree, quota: Tree) -> None:
    """The object says how much it takes, and the quota how much is taken. Raises Forbidden."""
    resource = attributes.target.resource
    names = _names(resource, quota)
    if resource.qualified_name == "pods":
        silent = missing_requirements(new, names)
        if silent:
            raise attributes.forbidden(f"failed quota: {name_of(quota)}: {silent}")
    used = value_at(quota, "status", "used") or {}
    if any(name not in used for name in names):
        listed = ",".join(sorted(names))
        raise attributes.forbidden(
            f"status unknown for quota: {name_of(quota)}, resources: {listed}"
        )


def _fitting(attributes: Attributes, wanted: Amounts, quota: Tree) -> Amounts:
    """What is used with the object. Raises Forbidden where that is too much."""
    asked, hard = _asked(wanted, quota), amounts_of(_hard(quota))
    used = amounts_of(value_at(quota, "status", "used"))
    total = add_amounts(used, asked)
    over = [name for name in sorted(asked) if total[name].decimal > hard[name].decimal]
    if over:
        requested, before, limited = (
            ",".join(f"{name}={amounts[name]}" for name in over if name in amounts)
            for amounts in (asked, used, hard)
        )
        raise attributes.forbidden(
            f"exceeded quota: {name_of(quota)}, requested: {requested}, used: {before}, "
            f"limited: {limited}"
        )
    return total
