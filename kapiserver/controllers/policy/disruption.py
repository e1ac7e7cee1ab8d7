"""Writes the status of PodDisruptionBudgets: how many of their pods may be disrupted now.

A percentage, or maxUnavailable, refers to the replicas of the controllers of the pods: of a
Deployment or another kind that is watched, or of any resource with the subresource scale. If these
are not known, no disruption is allowed (SyncFailed).

Pods are watched from the first budget on. From then on, too, a pod that was to be disrupted and is
not being deleted two minutes later loses the condition DisruptionTarget. What is written is decided
by `disruption_status`. Mirrors pkg/controller/disruption.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from kapiserver.api.accessors import (
    controller_of,
    is_terminating,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.errors import BadObject, NotRegistered
from kapiserver.api.group import CORE, GroupVersion, GroupVersionKind
from kapiserver.api.label_selectors import go_label_selector, selection_of
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import suppress_reason, update_object
from kapiserver.controllers.policy.disruption_status import (
    Expectation,
    expectation,
    failed_evictions,
    failed_status,
    needs_scale,
    new_status,
    seconds_to_recheck,
    seconds_to_stale,
    unmanaged,
    without_disruption,
)
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

BATCH_SECONDS = 0.2
"""The wait after a change of a pod, so that one reconcile covers a burst of changes."""
_POLICY = GroupVersion("policy", "v1")
_APPS = GroupVersion("apps", "v1")
_WATCHED_OWNERS = {
    ("ReplicationController", ""): (CORE, "replicationcontrollers"),
    ("ReplicaSet", "apps"): (_APPS, "replicasets"),
    ("StatefulSet", "apps"): (_APPS, "statefulsets"),
    ("Deployment", "apps"): (_APPS, "deployments"),
}
_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a "
    "result, the status of the PDB cannot be calculated correctly, which may result in undefined "
    'behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an '
    "integer value."
)


class DisruptionItem(NamedTuple):
    """What the queue holds: a budget, a namespace whose pods have changed, or a pod whose condition
    DisruptionTarget may be stale."""

    what: Literal["budget", "namespace", "pod"]
    key: ObjectKey


class UnknownScale(Exception):
    """The replicas of the controller of a pod are not known; the message says why."""


class DisruptionController(Controller[DisruptionItem]):
    """The control loop."""

    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, "controllermanager")

    def set_up(self) -> None:
        """Watch budgets; the first one watches pods and their controllers."""
        self._budgets = self.watch(_POLICY, "poddisruptionbudgets", _budget)

    def _watch_pods(self) -> None:
        self._pods = self.watch(CORE, "pods", self._on_pod, delay=BATCH_SECONDS)
        for version, resource in _WATCHED_OWNERS.values():
            self.watch(version, resource, self._namespace_with_budgets, delay=BATCH_SECONDS)

    def _on_pod(self, change: ObjectChange) -> Iterator[DisruptionItem]:
        if change.new is not None:
            wait = seconds_to_stale(change.new.tree(), self.clock.now())
            if wait is not None:
                self.queue.add_after(DisruptionItem("pod", change.new.key), wait)
        yield from self._namespace_with_budgets(change)

    def _namespace_with_budgets(self, change: ObjectChange) -> Iterator[DisruptionItem]:
        namespace = change.last.key.namespace
        if self._budgets.lister.list(namespace):
            yield DisruptionItem("namespace", ObjectKey(namespace, ""))

    async def reconcile(self, item: DisruptionItem) -> None:
        """Write the status of a budget or of a pod, or queue the budgets of a namespace."""
        if item.what == "budget":
            entry = self._budgets.lister.get(item.key)
            if entry is not None and not is_terminating(entry.tree()):
                await self._reconcile_budget(item, entry.tree())
        elif item.what == "namespace":
            for budget in self._budgets.lister.list(item.key.namespace):
                self.queue.add(DisruptionItem("budget", budget.key))
        else:
            await self._reconcile_pod(item)

    # Budgets.

    async def _reconcile_budget(self, item: DisruptionItem, budget: Tree) -> None:
        self._watch_pods()
        await self.wait_synced()
        pods, now = self._selected_pods(budget), self.clock.now()
        await self._report(budget, pods)
        status_of: Callable[[Tree], Tree]
        try:
            expected = await self._expectation(budget, pods)
        except UnknownScale as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            await self._events.warn(budget, "CalculateExpectedPodCountFailed", message)
            status_of = functools.partial(failed_status, message=str(error), now=now)
        else:
            status_of = functools.partial(new_status, pods=pods, expected=expected, now=now)
        budgets = self.context.resource(
            str(_POLICY), "poddisruptionbudgets", namespace=item.key.namespace
        )
        updated = await update_object(
            budgets, item.key.name, lambda current: current | {"status": status_of(current)},
            subresource="status",
        )  # fmt: skip
        wait = seconds_to_recheck(updated.get("status") or {}, now) if updated is not None else None
        if wait is not None:
            self.queue.add_after(item, wait)

    async def _report(self, budget: Tree, pods: Sequence[Tree]) -> None:
        """Record events about pods that are missing, unmanaged or not deleted."""
        if not pods:
            await self._events.note(budget, "NoPods", "No matching pods found")
        if needs_scale(budget) and unmanaged(pods):
            selector = go_label_selector(value_at(budget, "spec", "selector"))
            await self._events.warn(budget, "UnmanagedPods", _UNMANAGED.format(selector))
        failed = failed_evictions(budget, pods, self.clock.now())
        for pod in pods:
            if name_of(pod) in failed:
                # Kubernetes names the namespace twice, and not the budget.
                name = f"{namespace_of(pod)}/{namespace_of(pod)}"
                message = f"Pod was expected by PDB {name} to be deleted but it wasn't"
                await self._events.warn(pod, "NotDeleted", message)

    def _selected_pods(self, budget: Tree) -> list[Tree]:
        try:
            selection = selection_of(value_at(budget, "spec", "selector"))
        except BadObject:  # such a selector selects nothing
            return []
        if selection is None:
            return []
        selected = self._pods.lister.select(selection, namespace_of(budget))
        return [pod.tree() for pod in selected]

    # The replicas of the pods' controllers.

    async def _expectation(self, budget: Tree, pods: Sequence[Tree]) -> Expectation:
        """Return what a budget expects. Raises UnknownScale."""
        scales: dict[str, int] = {}
        for pod in pods if needs_scale(budget) else ():
            owner = controller_of(pod)
            if owner is not None and owner.get("uid") not in scales:
                uid, replicas = await self._scale_of(pod, owner)
                scales[uid] = replicas
        return expectation(budget, len(pods), scales.values())

    async def _scale_of(self, pod: Tree, owner: Tree) -> tuple[str, int]:
        """Return the uid and the replicas of the controller of a pod; for a ReplicaSet those of its
        Deployment. Raises UnknownScale."""
        namespace = namespace_of(pod)
        scaled = self._watched_owner(namespace, owner)
        if scaled is None:
            scaled = await self._read_scale(namespace, owner)
        elif (above := controller_of(scaled)) is not None and above.get("kind") == "Deployment":
            scaled = self._watched_owner(namespace, above) or scaled
        if scaled is None:
            raise UnknownScale(f'found no controllers for pod "{name_of(pod)}"')
        return uid_of(scaled), value_at(scaled, "spec", "replicas") or 0

    def _watched_owner(self, namespace: str, owner: Tree) -> Tree | None:
        group = (owner.get("apiVersion") or "").rpartition("/")[0]
        resource = _WATCHED_OWNERS.get((owner.get("kind") or "", group))
        if resource is None:
            return None
        key = ObjectKey(namespace, owner.get("name") or "")
        entry = self.server.stores.by_name(*resource).informer.lister.get(key)
        if entry is not None and uid_of(entry.tree()) == owner.get("uid"):
            return entry.tree()
        return None

    async def _read_scale(self, namespace: str, owner: Tree) -> Tree | None:
        """Return the Scale of an owner of any kind; None if it is gone. Raises UnknownScale."""
        kind = GroupVersionKind.from_reference(owner.get("apiVersion") or "", owner["kind"])
        try:
            resource = self.server.scheme.resource_of(kind)
        except NotRegistered as error:
            raise UnknownScale(str(error)) from error
        if not any(subresource.name == "scale" for subresource in resource.subresources):
            name = resource.qualified_name
            raise UnknownScale(f"{name} does not implement the scale subresource")
        objects = self.context.resource(kind.api_version, resource.name, namespace=namespace)
        try:
            scale = await objects.get(owner.get("name") or "", subresource="scale")
        except StatusError as error:
            if error.reason == "NotFound":
                return None
            raise UnknownScale(str(error)) from error
        return scale if uid_of(scale) == owner.get("uid") else None

    # Pods.

    async def _reconcile_pod(self, item: DisruptionItem) -> None:
        """Reset the condition DisruptionTarget of a pod if it is stale."""
        entry, now = self._pods.lister.get(item.key), self.clock.now()
        wait = seconds_to_stale(entry.tree(), now) if entry is not None else None
        if entry is None or wait is None:
            return
        if wait > 0:
            self.queue.add_after(item, wait)
            return
        pods = self.context.resource("v1", "pods", namespace=item.key.namespace)
        # After a Conflict the change of the other writer is delivered and reconciled.
        with suppress_reason("NotFound", "Conflict"):
            await pods.update(without_disruption(entry.tree(), now), subresource="status")


def _budget(change: ObjectChange) -> Iterator[DisruptionItem]:
    yield DisruptionItem("budget", change.last.key)
