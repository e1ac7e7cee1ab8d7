"""Register the group-versions that this server serves as local APIServices.

Those of built-in groups are created once, shortly after the start; those of custom kinds are
created and deleted with their definitions. APIServices that others manage (of aggregated servers)
stay as they are. Mirrors the autoregister controller of k8s.io/kube-aggregator and the
crdregistration controller of Kubernetes, with the priorities of its aggregator.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kapiserver.api.accessors import labels_of, uid_of
from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import ResourceClient
from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.api_services import REGISTRATION
from kapiserver.controllers.defaults.bootstrap import canonical_tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import create_missing, delete_object, update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.object_store import ResourceStore

START_DELAY_SECONDS = 5.0
"""The delay after the start; a short-lived server does not need the APIServices."""
_ALL = "*"
MANAGED = "kube-aggregator.kubernetes.io/automanaged"
ONSTART, AUTOMANAGED = "onstart", "true"
_CUSTOM_PRIORITY = (1000, 100)

PRIORITIES: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "": (18000, {"v1": 1}),
    "apps": (17800, {"v1": 15}),
    "events.k8s.io": (17750, {"v1": 15, "v1beta1": 5}),
    "authentication.k8s.io": (17700, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "authorization.k8s.io": (17600, {"v1": 15}),
    "autoscaling": (17500, {"v1": 15, "v2": 30}),
    "batch": (17400, {"v1": 15, "v1beta1": 9}),
    "certificates.k8s.io": (17300, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "networking.k8s.io": (17200, {"v1": 15, "v1beta1": 9}),
    "policy": (17100, {"v1": 15, "v1beta1": 9}),
    "rbac.authorization.k8s.io": (17000, {"v1": 15}),
    "storage.k8s.io": (16800, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "apiextensions.k8s.io": (16700, {"v1": 15}),
    "admissionregistration.k8s.io": (16700, {"v1": 15, "v1beta1": 12, "v1alpha1": 9}),
    "scheduling.k8s.io": (16600, {"v1": 15, "v1beta1": 9, "v1alpha3": 1}),
    "coordination.k8s.io": (16500, {"v1": 15, "v1beta1": 13, "v1alpha2": 12}),
    "node.k8s.io": (16300, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "discovery.k8s.io": (16200, {"v1": 15, "v1beta1": 12}),
    "resource.k8s.io": (16200, {"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha3": 1}),
    "flowcontrol.apiserver.k8s.io": (16100, {"v1": 21, "v1beta3": 18}),
    "internal.apiserver.k8s.io": (16000, {"v1alpha1": 9}),
    "storagemigration.k8s.io": (15800, {"v1": 15, "v1beta1": 9}),
    "lifecycle.k8s.io": (15700, {"v1alpha1": 9}),
}
"""The priority of each group, and of its versions; other groups are not registered."""


class APIServiceRegistration(Controller[str]):
    """The control loop; its queue holds names of APIServices, and `_ALL` once after the start."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._custom = context.server.custom_resources
        self._served_versions: dict[str, frozenset[GroupVersion]] = {}
        """The group-versions of each definition."""
        self._definition_counts: Counter[GroupVersion] = Counter()
        """How many definitions serve a group-version."""
        self._present_at_start: frozenset[str] | None = None
        """The names of APIServices; None until all are queued for the first time."""
        self._reconciled: set[str] = set()

    @property
    def _objects(self) -> ResourceClient:
        return self.context.resource(str(REGISTRATION), "apiservices")

    @property
    def _store(self) -> ResourceStore:
        return self.server.stores.by_name(REGISTRATION, "apiservices")

    def set_up(self) -> None:
        """React to definitions that change from now on; queue all APIServices after a delay."""
        if self.server.scheme.is_served(REGISTRATION):
            self._update_served(list(self._custom.summaries))
            self.add_subscription(self._custom.subscribe(self._on_definitions_changed))
            self.queue.add_after(_ALL, START_DELAY_SECONDS)

    async def _add_all(self) -> None:
        informer = self.watch(REGISTRATION, "apiservices", self._for_api_service)
        await self._custom.store.cache.wait_ready()
        await self.wait_synced()
        self._present_at_start = frozenset(entry.key.name for entry in informer.lister.list())
        names = map(name_of, (*self._built_in, *self._definition_counts))
        for name in sorted({*names, *self._present_at_start}):
            self.queue.add(name)

    # Changes.

    def _on_definitions_changed(self, names: Sequence[str]) -> None:
        for version in sorted(self._update_served(names)):
            self.queue.add(name_of(version))

    def _update_served(self, names: Sequence[str]) -> frozenset[GroupVersion]:
        """Update the versions that definitions serve. Return the group-versions that changed."""
        about: frozenset[GroupVersion] = frozenset()
        for name in names:
            head = self._custom.summaries.get(name)
            before = self._served_versions.pop(name, frozenset())
            now = frozenset(_served_versions(head)) if head is not None else frozenset()
            if now:
                self._served_versions[name] = now
            if now != before:
                self._definition_counts.update(now - before)
                self._definition_counts.subtract(before - now)
                about |= before ^ now
        return about

    def _for_api_service(self, change: ObjectChange) -> Iterable[str]:
        return () if self._present_at_start is None else (change.last.key.name,)

    # Reconciling.

    @functools.cached_property
    def _built_in(self) -> frozenset[GroupVersion]:
        groups = (group for group in self.server.scheme.groups if group.name in PRIORITIES)
        return frozenset(
            GroupVersion(group.name, version)
            for group in groups
            for version in group.versions
            if version in PRIORITIES[group.name][1]
        )

    def _desired(self, name: str) -> Tree | None:
        version, _, group = name.partition(".")
        desired = GroupVersion(group, version)
        if desired in self._built_in:
            first, versions = PRIORITIES[group]
            return api_service(desired, (first, versions[version]), ONSTART)
        if self._definition_counts[desired] > 0:
            return api_service(desired, _CUSTOM_PRIORITY, AUTOMANAGED)
        return None

    async def reconcile(self, name: str) -> None:
        """Create, restore or delete an APIService; or begin with all of them."""
        if name == _ALL:
            await self._add_all()
            return
        desired, first = self._desired(name), name not in self._reconciled
        try:
            current = (await self._store.get(ObjectKey("", name))).tree()
        except NotFound:
            current = None
        if first or desired is None or _management(desired) == AUTOMANAGED:
            await self._write(name, desired, current, first=first)
        self._reconciled.add(name)

    async def _write(
        self, name: str, desired: Tree | None, current: Tree | None, *, first: bool
    ) -> None:
        if current is None:
            if desired is not None:
                await create_missing(self._objects, desired)
            return
        management = _management(current)
        if management == ONSTART and not (first and name in (self._present_at_start or ())):
            return
        if management not in (ONSTART, AUTOMANAGED):
            return
        if desired is None:
            await delete_object(self._objects, name, uid=uid_of(current))
        elif current["spec"] != (spec := canonical_tree(self.server.codecs, desired)["spec"]):
            await update_object(self._objects, name, lambda current: current | {"spec": spec})


def name_of(version: GroupVersion) -> str:
    """Return the name of the APIService of a group-version."""
    return f"{version.version}.{version.group}"


def api_service(version: GroupVersion, priority: tuple[int, int], management: str) -> Tree:
    """Return the APIService of a group-version that this server serves."""
    return {
        "kind": "APIService",
        "apiVersion": str(REGISTRATION),
        "metadata": {"name": name_of(version), "labels": {MANAGED: management}},
        "spec": {
            "group": version.group,
            "version": version.version,
            "groupPriorityMinimum": priority[0],
            "versionPriority": priority[1],
        },
    }


def _served_versions(head: Tree) -> list[GroupVersion]:
    spec = head["spec"]
    return [
        GroupVersion(spec["group"], version["name"])
        for version in spec["versions"]
        if version["served"]
    ]


def _management(obj: Tree) -> str:
    return labels_of(obj).get(MANAGED) or ""
