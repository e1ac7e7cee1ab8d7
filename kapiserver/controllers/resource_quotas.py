"""Says in the status of each ResourceQuota what it limits and how much of that is used.

Admission charges what is created; here is counted what a new quota finds, what goes, and, a moment
after a charge, whether what was charged is really there. Mirrors pkg/controller/resourcequota.
"""

from __future__ import annotations

import contextlib

from kapiserver.api.core.pod_requests import Amounts, added, amounts_of
from kapiserver.api.core.quota_usage import (
    ZERO,
    conditions_of,
    counted_names,
    is_counted_whole,
    is_in_scopes,
    usage_of,
)
from kapiserver.api.group import CORE, Resource
from kapiserver.api.objects import is_terminating, resource_version_of, value_at
from kapiserver.api.quantity import Amount
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.controllers.workqueue import Work
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound, ObjectConflict
from kapiserver.storage.metadata_informer import Seen
from kapiserver.storage.query import ListQuery, Preconditions

NAME = "resourcequota-controller"
WORKERS = 5
SOON_SECONDS = 2.0
"""After changes that may count; many of them are counted once."""
_MAY_SHRINK = ("persistentvolumeclaims", "pods", "services")


class ResourceQuotas:
    """The loop: a reader of the feed, and workers while there is something to count."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._quotas: dict[str, set[ObjectKey]] = {}
        """By namespace."""
        self._stale: set[ObjectKey] = set()
        """To be counted whatever their status says."""
        self._soon: set[str] = set()
        """Namespaces that will be counted in a moment."""
        self._work: Work[ObjectKey] = Work(self._look, server.clock, workers=WORKERS, name=NAME)

    async def stop(self) -> None:
        """End; what is being counted is broken off."""
        await self._work.stop()

    def begin(self) -> None:
        """Forget everything."""
        self._work.clear()
        for part in (self._quotas, self._stale):
            part.clear()

    def put(self, seen: Seen) -> None:
        """An object is there, or changed."""
        namespace = seen.key.namespace
        if _is_quota(seen.resource):
            known = self._quotas.setdefault(namespace, set())
            if seen.key not in known:
                known.add(seen.key)
                self._stale.add(seen.key)
            self._work.put(seen.key)
            self._count_soon(namespace)
        elif namespace in self._quotas and seen.resource.qualified_name in _MAY_SHRINK:
            self._count_soon(namespace)

    def gone(self, seen: Seen) -> None:
        """An object is there no more: what it took is free."""
        namespace = seen.key.namespace
        if namespace not in self._quotas:
            return
        if _is_quota(seen.resource):
            self._quotas[namespace].discard(seen.key)
            self._stale.discard(seen.key)
            if not self._quotas[namespace]:
                del self._quotas[namespace]
        self._count(namespace)

    def _count(self, namespace: str) -> None:
        for key in self._quotas.get(namespace, ()):
            self._stale.add(key)
            self._work.put(key)

    def _count_soon(self, namespace: str) -> None:
        if namespace in self._soon:
            return
        self._soon.add(namespace)

        def count() -> None:
            self._soon.discard(namespace)
            self._count(namespace)

        self._server.clock.call_later(SOON_SECONDS, count)

    async def _look(self, key: ObjectKey) -> None:
        store = self._server.stores.named(CORE, "resourcequotas")
        with contextlib.suppress(NotFound):
            quota = (await store.get(key)).tree()
            hard = value_at(quota, "spec", "hard") or {}
            unsaid = value_at(quota, "status", "hard") != hard
            if is_terminating(quota) or not (unsaid or key in self._stale):
                return
            self._stale.discard(key)
            used = _said(quota) | await self._counted(key.namespace, quota)
            used = {name: amount for name, amount in used.items() if name in hard}
            if not unsaid and _same(used, _said(quota)):
                return

            def change(current: Tree | None) -> Tree:
                assert current is not None
                status: Tree = {"hard": hard} if hard else {}
                if used:
                    status["used"] = {name: str(used[name]) for name in sorted(used)}
                return current | {"status": status}

            version = Preconditions(resource_version=resource_version_of(quota))
            try:
                await store.update(key, change, subresource="status", preconditions=version)
            except ObjectConflict:  # charged meanwhile
                self._stale.add(key)
                self._work.put(key)

    async def _counted(self, namespace: str, quota: Tree) -> Amounts:
        hard = value_at(quota, "spec", "hard") or {}
        total: Amounts = {}
        for resource in self._server.scheme.stored_resources():
            if resource.namespaced:
                names = counted_names(resource, hard)
                if names:
                    found = await self._used_by(resource, namespace, names, quota)
                    total = added(total, found)
        return total

    async def _used_by(
        self, resource: Resource, namespace: str, names: frozenset[str], quota: Tree
    ) -> Amounts:
        store = self._server.stores.of(resource)
        entries = (await store.list(ListQuery(namespace=namespace))).entries
        if is_counted_whole(resource, names) and not conditions_of(quota):
            return dict.fromkeys(names, Amount(len(entries), 0, "DecimalSI"))
        now = self._server.clock.now()
        total: Amounts = dict.fromkeys(names, ZERO)
        for entry in entries:
            obj = entry.tree()
            if is_in_scopes(resource, obj, quota):
                usage = usage_of(resource, obj, now)
                total = added(total, {name: usage[name] for name in names if name in usage})
        return total


def _is_quota(resource: Resource) -> bool:
    return resource.name == "resourcequotas" and not resource.group


def _said(quota: Tree) -> Amounts:
    return amounts_of(value_at(quota, "status", "used"))


def _same(one: Amounts, other: Amounts) -> bool:
    return one.keys() == other.keys() and all(
        one[name].decimal == other[name].decimal for name in one
    )
