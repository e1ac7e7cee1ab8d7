"""ResourceQuota: refuses objects that exceed a quota of their namespace.

Adds the object's usage to the quotas before the object is stored. The resource quota controller
recounts when objects are deleted, or when a write fails after it was charged. Mirrors
k8s.io/apiserver/pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.core.pod_requests import Amounts, add_amounts, amounts_of
from kapiserver.api.core.quota_usage import (
    added_usage,
    is_in_scopes,
    matching_names,
    missing_requirements,
    usage_of,
)
from kapiserver.api.group import CORE, Resource
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.authentication.user import APISERVER
from kapiserver.apiserver.context import Server
from kapiserver.storage.query import ListQuery


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Charge the quotas of the namespace. Raises Forbidden if one would be exceeded."""
    target = attributes.target
    resource, namespace = target.resource, target.key.namespace
    if new is None or not namespace or not resource.stored or resource.name == "events":
        return
    if target.subresource and (resource.name, target.subresource) != ("pods", "resize"):
        return
    store = server.stores.by_name(CORE, "resourcequotas")
    query = ListQuery(namespace=namespace, resource_version="0")
    entries = (await store.list(query)).entries
    if not entries:
        return
    quotas = [
        quota
        for quota in (entry.tree() for entry in entries)
        if _limited_names(resource, quota) and is_in_scopes(resource, new, quota)
    ]
    now = server.clock.now()
    usage = usage_of(resource, new, now)
    usage = added_usage(usage, usage_of(resource, old, now) if old is not None else {})
    for quota in quotas:
        _check_quota_status(attributes, new, quota)
    for quota in quotas:
        _check_fits(attributes, usage, quota)
    if not attributes.dry_run:
        await _charge(server, attributes, usage, quotas)


async def _charge(
    server: Server, attributes: Attributes, usage: Amounts, quotas: Sequence[Tree]
) -> None:
    client = server.client(APISERVER, user_agent="kube-apiserver", authorize=False)
    objects = client.resource("v1", "resourcequotas", namespace=attributes.target.key.namespace)
    for quota in quotas:
        if not _limited_usage(usage, quota):
            continue
        try:
            await objects.update_with_retry(
                name_of(quota), partial(_charge_quota, attributes, usage), subresource="status"
            )
        except StatusError as error:
            if error.reason != "NotFound":  # the quota was deleted meanwhile
                raise


def _charge_quota(attributes: Attributes, usage: Amounts, quota: Tree) -> Tree:
    total = _check_fits(attributes, usage, quota)
    quota["status"]["used"] = {name: str(total[name]) for name in sorted(total)}
    return quota


def _hard(quota: Tree) -> Tree:
    return value_at(quota, "status", "hard") or {}


def _limited_names(resource: Resource, quota: Tree) -> frozenset[str]:
    return matching_names(resource, _hard(quota))


def _limited_usage(usage: Amounts, quota: Tree) -> Amounts:
    hard = _hard(quota)
    return {name: amount for name, amount in usage.items() if name in hard}


def _check_quota_status(attributes: Attributes, new: Tree, quota: Tree) -> None:
    """Raise Forbidden if the object does not state its usage, or the quota's usage is not known
    yet."""
    resource = attributes.target.resource
    names = _limited_names(resource, quota)
    if resource.qualified_name == "pods":
        missing = missing_requirements(new, names)
        if missing:
            raise attributes.forbidden(f"failed quota: {name_of(quota)}: {missing}")
    used = value_at(quota, "status", "used") or {}
    if any(name not in used for name in names):
        names_text = ",".join(sorted(names))
        raise attributes.forbidden(
            f"status unknown for quota: {name_of(quota)}, resources: {names_text}"
        )


def _check_fits(attributes: Attributes, usage: Amounts, quota: Tree) -> Amounts:
    """Return the quota's usage including the object. Raises Forbidden if that is too much."""
    requested_usage, hard = _limited_usage(usage, quota), amounts_of(_hard(quota))
    used = amounts_of(value_at(quota, "status", "used"))
    total = add_amounts(used, requested_usage)
    exceeded = [
        name for name in sorted(requested_usage) if total[name].decimal > hard[name].decimal
    ]
    if exceeded:
        requested, used_text, limited = (
            ",".join(f"{name}={amounts[name]}" for name in exceeded if name in amounts)
            for amounts in (requested_usage, used, hard)
        )
        raise attributes.forbidden(
            f"exceeded quota: {name_of(quota)}, requested: {requested}, used: {used_text}, "
            f"limited: {limited}"
        )
    return total
