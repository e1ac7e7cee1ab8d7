"""Keeps the StorageVersions: how each server of a store encodes, decodes and serves its resources.

Each server writes its own report of every stored resource, and removes the reports of servers that
have no identity Lease any more. A server reports when its Lease exists, because others would remove
a report without a Lease. Mirrors pkg/storageversion of k8s.io/apiserver, and
pkg/controller/storageversiongc of Kubernetes, which is a controller of its own there; without the
barrier that holds back writes until the reports are written.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from kapiserver.api.accessors import labels_of, uid_of, value_at
from kapiserver.api.conditions import set_condition, without_condition
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.resource_client import StatusError
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.identity import COMPONENT, IDENTITY_LABEL, LEASE_NAMESPACE
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.writing import create_missing, delete_object, update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

INTERNAL = GroupVersion("internal.apiserver.k8s.io", "v1alpha1")
_LEASES = GroupVersion("coordination.k8s.io", "v1")
_CONDITION = "AllEncodingVersionsEqual"


class StorageVersionReports(Controller[ObjectKey]):
    """The control loop; its queue holds the keys of StorageVersions, such as `core.pods`.

    own_id  the name of the server's identity Lease
    """

    def __init__(self, context: ControllerContext, own_id: str) -> None:
        super().__init__(context)
        self._own_id = own_id
        self._objects = context.resource(str(INTERNAL), "storageversions")
        self._lease_objects = context.resource(str(_LEASES), "leases", namespace=LEASE_NAMESPACE)
        self._reports = self._current_reports()

    def set_up(self) -> None:
        """Follow the reports, the Leases of servers, and custom resources."""
        self._leases = self.watch(_LEASES, "leases", self._on_lease)
        self._versions = self.watch(INTERNAL, "storageversions", for_object)
        self.add_subscription(self.server.custom_resources.subscribe(self._on_definitions))

    async def reconcile(self, key: ObjectKey) -> None:
        """Bring the report of this server up to date, and remove those of servers that are gone."""
        if not self._is_server(self._own_id):
            return  # its Lease queues every report
        report = self._reports.get(key.name)
        entry = self._versions.lister.get(key)
        current: Tree = {} if entry is None else entry.tree()
        servers = {report["apiServerID"] for report in _reports_in(current)} - {self._own_id}
        stale = {server for server in servers if await self._is_gone(server)}
        reports = self._new_reports(current, report, stale)
        if entry is None and reports:
            await create_missing(self._objects, {"metadata": {"name": key.name}, "spec": {}})
        if reports:
            await self._write(key.name, report, stale)
        elif entry is not None:
            await delete_object(self._objects, key.name, uid=uid_of(current))

    async def _write(self, name: str, report: Tree | None, stale: set[str]) -> None:
        now = timestamp(self.clock.now())

        def with_report(tree: Tree) -> Tree:
            status = _with_reports(tree, self._new_reports(tree, report, stale), now)
            return tree if status == tree.get("status") else {**tree, "status": status}

        await update_object(self._objects, name, with_report, subresource="status")

    def _new_reports(self, tree: Tree, report: Tree | None, stale: set[str]) -> Sequence[Tree]:
        """Return the reports of the other servers that run, with that of this one in its place."""
        reports = {report["apiServerID"]: report for report in _reports_in(tree)}
        if report is not None:
            reports[self._own_id] = {"apiServerID": self._own_id, **report}
        else:
            reports.pop(self._own_id, None)
        return [report for name, report in reports.items() if name not in stale]

    def _is_server(self, name: str) -> bool:
        entry = self._leases.lister.get(ObjectKey(LEASE_NAMESPACE, name))
        return entry is not None and _is_identity(entry.tree())

    async def _is_gone(self, name: str) -> bool:
        """Whether a server has no Lease. The store is asked, because the informer of the Leases may
        be behind that of the reports."""
        if self._is_server(name):
            return False
        try:
            return not _is_identity(await self._lease_objects.get(name))
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            return True

    # Changes.

    def _on_lease(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Queue all reports when a server comes or goes, not when it renews its Lease."""
        has_changed = change.old is None or change.new is None
        if not has_changed or not _is_identity(change.last.tree()):
            return ()
        return self._keys()

    def _on_definitions(self, _names: Iterable[str]) -> None:
        before = self._reports
        self._reports = self._current_reports()
        for name in before.keys() | self._reports.keys():
            if before.get(name) != self._reports.get(name):
                self.queue.add(ObjectKey("", name))

    def _current_reports(self) -> Mapping[str, Tree]:
        return storage_reports(self.server.scheme, self.server.custom_resources.summaries)

    def _keys(self) -> Iterable[ObjectKey]:
        names = {entry.key.name for entry in self._versions.lister.list()}
        return [ObjectKey("", name) for name in sorted(names | self._reports.keys())]


def storage_reports(scheme: Scheme, definitions: Container[str] = ()) -> Mapping[str, Tree]:
    """Return what this server reports of each stored resource that it serves, by the names of
    StorageVersions. A resource in two groups is reported for the one whose key it has.

    definitions  the names of the CustomResourceDefinitions; the scheme has a deleted one until its
                 watches have ended
    """
    reports: dict[str, Tree] = {}
    for group in scheme.groups:
        for resource in scheme.resources(group.name):
            if not resource.stored or scheme.storage_resource(resource) is not resource:
                continue
            if resource.definition and resource.definition not in definitions:
                continue
            stored_version = GroupVersion(resource.group, resource.storage_version)
            declared = scheme.declared_resource(stored_version, resource.name)
            served_versions, encoding = _api_versions(resource), str(stored_version)
            report = reports.setdefault(
                f"{resource.group or 'core'}.{resource.name}",
                {"encodingVersion": encoding, "decodableVersions": [], "servedVersions": []},
            )
            _extend(report["servedVersions"], served_versions)
            decodable_versions = [*_api_versions(declared), *served_versions, encoding]
            _extend(report["decodableVersions"], decodable_versions)
    return reports


def _api_versions(resource: Resource) -> list[str]:
    return [str(GroupVersion(resource.group, version)) for version in resource.versions]


def _extend(versions: list[str], more: Iterable[str]) -> None:
    versions.extend(version for version in more if version not in versions)


def _is_identity(lease: Tree) -> bool:
    return labels_of(lease).get(IDENTITY_LABEL) == COMPONENT


def _reports_in(tree: Tree) -> Sequence[Tree]:
    return value_at(tree, "status", "storageVersions") or ()


def _with_reports(tree: Tree, reports: Sequence[Tree], now: str) -> Tree:
    """Return the status with reports: their common encoding version, and the condition that says
    whether there is one."""
    old: Tree = tree.get("status") or {}
    encodings = {report["encodingVersion"] for report in reports}
    common = encodings.pop() if len(encodings) == 1 else None
    status: dict[str, Any] = {"storageVersions": list(reports)}
    if common is not None:
        status["commonEncodingVersion"] = common
    old_common = old.get("commonEncodingVersion")
    if old_common and common and old_common != common:
        old = without_condition(old, _CONDITION)  # another common version is a transition, too
    status["conditions"] = old.get("conditions") or []
    value, text = ("False", "unset") if common is None else ("True", "set")
    reason, message = f"CommonEncodingVersion{text.title()}", f"Common encoding version {text}"
    return set_condition(status, _CONDITION, value, reason, message, now=now)
