"""Write the status of ResourceQuotas: the limits and their current usage.

Admission charges a quota for each create. This controller calculates the usage of new quotas, after
deletions, and shortly after a charge, in case the create failed after it. Mirrors
pkg/controller/resourcequota.
"""

from __future__ import annotations

import contextlib

from kapiserver.api.accessors import is_terminating, value_at
from kapiserver.api.core.pods.requests import Amounts, add_amounts, amounts_of
from kapiserver.api.core.quota_usage import (
    ZERO,
    is_in_scopes,
    is_object_count_only,
    matching_names,
    scope_requirements,
    usage_of,
)
from kapiserver.api.group import CORE, GroupVersion, Resource
from kapiserver.api.quantity import Amount
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.aggregation.aggregated_resources import aggregated_resources
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.query import ListQuery
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.metadata_informer import DeletedObject, ObjectMetadata

BATCH_SECONDS = 2.0
"""The wait after a change, so that one calculation covers a burst of changes."""
SYNC_SECONDS = 300.0
"""The default of --resource-quota-sync-period of kube-controller-manager."""
_MAY_SHRINK = ("persistentvolumeclaims", "pods", "services")


class ResourceQuotaController(Controller[ObjectKey | str]):
    """The control loop; its queue holds keys of quotas, and namespaces whose objects changed."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._quotas: dict[str, set[ObjectKey]] = {}
        """The quotas of each namespace."""
        self._dirty: set[ObjectKey] = set()
        """Quotas whose usage must be calculated again."""

    def set_up(self) -> None:
        """Subscribe to the metadata of quotas, and of objects that may use less of one."""
        resources = frozenset(("resourcequotas", *_MAY_SHRINK))
        self.add_subscription(self.context.metadata.subscribe(self, resources))

    def on_reset(self) -> None:
        """Forget everything: all present objects follow."""
        self.queue.clear()
        for part in (self._quotas, self._dirty):
            part.clear()

    def on_upsert(self, observed: ObjectMetadata) -> None:
        """An object was created or changed."""
        namespace = observed.key.namespace
        if _is_quota(observed.resource):
            quota_keys = self._quotas.setdefault(namespace, set())
            if observed.key not in quota_keys:
                quota_keys.add(observed.key)
                self._dirty.add(observed.key)
            self.queue.add(observed.key)
            self.queue.add_batched(namespace, BATCH_SECONDS)
        elif namespace in self._quotas:
            self.queue.add_batched(namespace, BATCH_SECONDS)

    def on_delete(self, deleted: DeletedObject) -> None:
        """An object was deleted: the quotas of its namespace are queued."""
        namespace = deleted.key.namespace
        if namespace not in self._quotas:
            return
        if _is_quota(deleted.resource):
            self._quotas[namespace].discard(deleted.key)
            self._dirty.discard(deleted.key)
            if not self._quotas[namespace]:
                del self._quotas[namespace]
        self._add_quotas(namespace)

    def _add_quotas(self, namespace: str) -> None:
        for key in sorted(self._quotas.get(namespace, ())):
            self._dirty.add(key)
            self.queue.add(key)

    async def reconcile(self, item: ObjectKey | str) -> None:
        """Calculate the usage of a quota if it may have changed, or of all quotas of a
        namespace."""
        if isinstance(item, ObjectKey):
            await self._reconcile_quota(item)
        else:
            self._add_quotas(item)

    async def _reconcile_quota(self, key: ObjectKey) -> None:
        store = self.server.stores.by_name(CORE, "resourcequotas")
        with contextlib.suppress(NotFound):
            quota = (await store.get(key)).tree()
            hard = value_at(quota, "spec", "hard") or {}
            spec_changed = value_at(quota, "status", "hard") != hard
            if is_terminating(quota) or not (spec_changed or key in self._dirty):
                return
            self._dirty.discard(key)
            usage = _used_status(quota) | await self._calculate_usage(key.namespace, quota)
            usage = {name: amount for name, amount in usage.items() if name in hard}
            if not spec_changed and _equal_amounts(usage, _used_status(quota)):
                return

            status: Tree = {"hard": hard} if hard else {}
            if usage:
                status["used"] = {name: str(usage[name]) for name in sorted(usage)}
            await self._write(key, quota | {"status": status})

    async def _write(self, key: ObjectKey, quota: Tree) -> None:
        quotas = self.context.resource("v1", "resourcequotas", namespace=key.namespace)
        try:
            await quotas.update(quota, subresource="status")
        except StatusError as error:
            if error.reason == "Conflict":  # charged meanwhile
                self._dirty.add(key)
                self.queue.add(key)
            elif error.reason != "NotFound":
                raise

    async def _calculate_usage(self, namespace: str, quota: Tree) -> Amounts:
        hard = value_at(quota, "spec", "hard") or {}
        total: Amounts = {}
        for resource in self.server.scheme.stored_resources():
            if resource.namespaced:
                names = matching_names(resource, hard)
                if names:
                    usage_found = await self._usage_of_resource(resource, namespace, names, quota)
                    total = add_amounts(total, usage_found)
        return total | await self._count_aggregated(namespace, hard)

    async def _count_aggregated(self, namespace: str, hard: Tree) -> Amounts:
        """Return the numbers of objects that extension API servers have in a namespace, which they
        do not charge. They send no events: the quotas are calculated again later."""
        counts: Amounts = {}
        for resource in aggregated_resources(self.server.api_services).resources:
            name = f"count/{resource.qualified_name}"
            if resource.namespaced and "list" in resource.verbs and name in hard:
                version = str(GroupVersion(resource.group, resource.storage_version))
                objects = self.context.resource(version, resource.name, namespace=namespace)
                items = (await objects.list())["items"]
                counts[name] = Amount(len(items), 0, "DecimalSI")
        if counts:
            self.queue.add_after(namespace, SYNC_SECONDS, is_regular=True)
        return counts

    async def _usage_of_resource(
        self, resource: Resource, namespace: str, names: frozenset[str], quota: Tree
    ) -> Amounts:
        store = self.server.stores.get(resource)
        entries = (await store.list(ListQuery(namespace=namespace))).entries
        if is_object_count_only(resource, names) and not scope_requirements(quota):
            return dict.fromkeys(names, Amount(len(entries), 0, "DecimalSI"))
        now = self.clock.now()
        total: Amounts = dict.fromkeys(names, ZERO)
        for entry in entries:
            obj = entry.tree()
            if is_in_scopes(resource, obj, quota):
                usage = usage_of(resource, obj, now)
                total = add_amounts(total, {name: usage[name] for name in names if name in usage})
        return total


def _is_quota(resource: Resource) -> bool:
    return resource.name == "resourcequotas" and not resource.group


def _used_status(quota: Tree) -> Amounts:
    return amounts_of(value_at(quota, "status", "used"))


def _equal_amounts(item: Amounts, other: Amounts) -> bool:
    return item.keys() == other.keys() and all(
        item[name].decimal == other[name].decimal for name in item
    )
