"""ResourceQuota: refuses objects that exceed a quota of their namespace.

Adds the object's usage to the quotas before the object is stored. The resource quota controller
recounts when objects are deleted, or when a write fails after it was charged. Mirrors
k8s.io/apiserver/pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.core.pods.requests import Amounts, add_amounts, amounts_of
from kapiserver.api.core.quota_usage import (
    added_usage,
    is_in_scopes,
    matching_names,
    matching_scopes,
    missing_requirements,
    scope_requirements,
    usage_of,
)
from kapiserver.api.errors import FieldError, Path, required
from kapiserver.api.group import CORE, GroupVersionKind, Resource
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Kind, Tree, Type, field
from kapiserver.apiserver.admission.configuration import PluginConfiguration
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.target import Target
from kapiserver.apiserver.user import APISERVER


class LimitedScope(Type):
    """A scope of objects, as in the scopeSelector of a quota."""

    scopeName: str = field(1, always=True)
    operator: str = field(2, always=True)
    values: list[str] = field(3)


class LimitedResource(Type):
    """A resource that may be consumed only where a quota covers it: usage whose name contains one
    of `matchContains`, or objects in one of `matchScopes`."""

    apiGroup: str = field(1)
    resource: str = field(2, always=True)
    matchContains: list[str] = field(3)
    matchScopes: list[LimitedScope] = field(4)


class ResourceQuotaConfiguration(Kind):
    """The configuration of ResourceQuota."""

    limitedResources: list[LimitedResource] = field(1)


_KINDS: dict[GroupVersionKind, type[Kind]] = {
    GroupVersionKind(group, version, kind): ResourceQuotaConfiguration
    for group, version, kind in (
        ("apiserver.config.k8s.io", "v1", "ResourceQuotaConfiguration"),
        ("resourcequota.admission.k8s.io", "v1beta1", "Configuration"),
        ("resourcequota.admission.k8s.io", "v1alpha1", "Configuration"),
    )
}


class ResourceQuota:
    """The quotas of one server. Raises BadAdmissionConfiguration for a bad configuration."""

    def __init__(self, configuration: PluginConfiguration) -> None:
        tree = configuration.decode(_KINDS, _errors)
        self._limited: Sequence[Tree] = tree.get("limitedResources") or ()

    def is_idle(self, server: Server, _attributes: Attributes) -> bool:
        """Whether there is no quota, and no resource that needs one."""
        quotas = server.stores.by_name(CORE, "resourcequotas")
        return not self._limited and quotas.is_cached_empty

    async def validate(
        self, server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
    ) -> None:
        """Charge the quotas of the namespace. Raises Forbidden if one would be exceeded, or if none
        covers a limited resource."""
        if new is None or not _is_counted(attributes.target):
            return
        store = server.stores.by_name(CORE, "resourcequotas")
        entries = await store.cached_entries(attributes.target.key.namespace)
        if not entries and not self._limited:
            return
        resource = attributes.target.resource
        all_quotas = [entry.tree() for entry in entries]
        quotas = [
            quota
            for quota in all_quotas
            if _limited_names(resource, quota) and is_in_scopes(resource, new, quota)
        ]
        for quota in quotas:
            _check_quota_status(attributes, new, quota)
        now = server.clock.now()
        usage = usage_of(resource, new, now)
        usage_growth = added_usage(usage, usage_of(resource, old, now) if old is not None else {})
        charges = [
            (quota, usage_growth if old is None or is_in_scopes(resource, old, quota) else usage)
            for quota in quotas
        ]
        if not usage_growth and not any(charge for _, charge in charges):
            return
        if self._limited:
            self._check_covered(attributes, new, usage, all_quotas, quotas)
        for quota, charge in charges:
            _check_fits(attributes, charge, quota)
        if not attributes.dry_run:
            await _charge(server, attributes, charges)

    def _check_covered(
        self,
        attributes: Attributes,
        new: Tree,
        usage: Amounts,
        all_quotas: Sequence[Tree],
        quotas: Sequence[Tree],
    ) -> None:
        """Raise Forbidden if the object consumes a limited resource that no quota covers."""
        resource = attributes.target.resource
        covered = {name for quota in quotas for name in _limited_names(resource, quota)}
        uncovered = _limited_usage_names(self._limited, resource, usage) - covered
        if uncovered:
            names = ",".join(sorted(uncovered))
            raise attributes.forbidden(f"insufficient quota to consume: {names}")
        scopes = [scope for limited in self._limited for scope in limited.get("matchScopes") or ()]
        covered_scopes = {
            scope["scopeName"]
            for quota in all_quotas
            for scope in matching_scopes(resource, new, scope_requirements(quota))
        }
        missing = [
            scope
            for scope in matching_scopes(resource, new, scopes)
            if scope["scopeName"] not in covered_scopes
        ]
        if missing:
            text = " ".join(map(_scope_text, missing))
            raise attributes.forbidden(f"insufficient quota to match these scopes: [{text}]")


def _is_counted(target: Target) -> bool:
    """Whether quotas count the writes of a target: of objects in namespaces, except Events, and of
    pods/resize."""
    resource = target.resource
    if not target.key.namespace or not resource.stored or resource.name == "events":
        return False
    return not target.subresource or (resource.name, target.subresource) == ("pods", "resize")


def _limited_usage_names(
    limited_resources: Sequence[Tree], resource: Resource, usage: Amounts
) -> set[str]:
    """Return the names of usage that only a quota allows."""
    return {
        name
        for limited in limited_resources
        if (limited.get("apiGroup") or "", limited["resource"]) == (resource.group, resource.name)
        for name, amount in usage.items()
        if amount.mantissa > 0 and any(part in name for part in limited.get("matchContains") or ())
    }


def _scope_text(scope: Tree) -> str:
    values = " ".join(scope.get("values") or ())
    return f"{{{scope['scopeName']} {scope.get('operator') or ''} [{values}]}}"


def _errors(tree: Tree) -> Iterator[FieldError]:
    for index, limited in enumerate(tree.get("limitedResources") or ()):
        if not limited.get("resource"):
            yield required(Path("limitedResources")[index] / "resource")


async def _charge(
    server: Server, attributes: Attributes, charges: Sequence[tuple[Tree, Amounts]]
) -> None:
    """Add the usage to the status of each quota; retry after a conflict."""
    client = server.client(APISERVER, user_agent="kube-apiserver", authorize=False)
    objects = client.resource("v1", "resourcequotas", namespace=attributes.target.key.namespace)
    for quota, usage in charges:
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
    """Raise Forbidden if the object does not state its usage, or if the controller has not counted
    the quota's usage yet."""
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
