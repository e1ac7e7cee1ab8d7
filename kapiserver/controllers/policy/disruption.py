"""Write the status of PodDisruptionBudgets: how many of their pods may be disrupted now.

Mirrors pkg/controller/disruption, without the scales of custom resources.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from kapiserver.api.accessors import (
    controller_of,
    generation_of,
    has_condition,
    is_terminating,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.errors import BadObject
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

BATCH_SECONDS = 0.2
"""The wait after a change of a pod, so that one reconcile covers a burst of changes."""
EVICTION_TIMEOUT_SECONDS = 120.0
"""An evicted pod that still exists after this time counts again."""
_POLICY = GroupVersion("policy", "v1")
_APPS = GroupVersion("apps", "v1")
_SCALED_OWNERS = {
    ("ReplicationController", ""): (CORE, "replicationcontrollers"),
    ("ReplicaSet", "apps"): (_APPS, "replicasets"),
    ("StatefulSet", "apps"): (_APPS, "statefulsets"),
    ("Deployment", "apps"): (_APPS, "deployments"),
}
_PODS = (CORE, "pods")


class DisruptionController(Controller[ObjectKey | str]):
    """The control loop; its queue holds keys of budgets, and namespaces whose pods changed."""

    workers = 4

    def set_up(self) -> None:
        """Watch budgets; the first one watches pods and their controllers."""
        self._budgets = self.watch(_POLICY, "poddisruptionbudgets", for_object)

    def _namespace_with_budgets(self, change: ObjectChange) -> Iterable[str]:
        namespace = change.last.key.namespace
        return (namespace,) if self._budgets.lister.list(namespace) else ()

    async def reconcile(self, item: ObjectKey | str) -> None:
        """Write the status of a budget, or queue the budgets of a namespace."""
        if isinstance(item, ObjectKey):
            entry = self._budgets.lister.get(item)
            if entry is not None and not is_terminating(entry.tree()):
                await self._reconcile_budget(item, entry.tree())
        else:
            for budget in self._budgets.lister.list(item):
                self.queue.add(budget.key)

    async def _reconcile_budget(self, key: ObjectKey, budget: Tree) -> None:
        for version, resource in (_PODS, *_SCALED_OWNERS.values()):
            self.watch(version, resource, self._namespace_with_budgets, delay=BATCH_SECONDS)
        await self.wait_synced()
        pods = self._selected_pods(budget)
        expected, desired = self._expected_and_desired(budget, pods)
        now = self.clock.now()

        def change(current: Tree) -> Tree:
            return current | {"status": _status(current, pods, expected, desired, now)}

        budgets = self.context.resource(
            str(_POLICY), "poddisruptionbudgets", namespace=key.namespace
        )
        updated = await update_object(budgets, key.name, change, subresource="status")
        if updated is not None and value_at(updated, "status", "disruptedPods"):
            self.queue.add_after(key, EVICTION_TIMEOUT_SECONDS)

    def _selected_pods(self, budget: Tree) -> list[Tree]:
        try:
            selection = selection_of(value_at(budget, "spec", "selector"))
        except BadObject:  # such a selector selects nothing
            return []
        if selection is None:
            return []
        pods = self.server.stores.by_name(*_PODS).informer.lister
        return [pod.tree() for pod in pods.select(selection, namespace_of(budget))]

    def _expected_and_desired(self, budget: Tree, pods: Sequence[Tree]) -> tuple[int, int]:
        """Return how many pods are expected, and how many of them should be healthy."""
        spec = budget.get("spec") or {}
        max_unavailable, min_available = spec.get("maxUnavailable"), spec.get("minAvailable")
        if max_unavailable is None and not isinstance(min_available, str):
            return len(pods), min_available or 0
        expected = self._expected_pods(pods)
        if max_unavailable is not None:
            return expected, max(expected - _scaled_value(max_unavailable, expected), 0)
        return expected, _scaled_value(min_available, expected)

    def _expected_pods(self, pods: Sequence[Tree]) -> int:
        """Return the sum of the replicas that the pods' controllers ask for."""
        owners: dict[str, tuple[str, Tree]] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is not None:
                owners[owner.get("uid") or ""] = (namespace_of(pod), owner)
        total, counted = 0, set()
        for namespace, owner in owners.values():
            scaled = self._owner(namespace, owner)
            if scaled is None:
                continue
            above = controller_of(scaled)
            if above is not None and above.get("kind") == "Deployment":
                scaled = self._owner(namespace, above) or scaled
            if (uid := uid_of(scaled)) not in counted:
                counted.add(uid)
                total += value_at(scaled, "spec", "replicas") or 0
        return total

    def _owner(self, namespace: str, owner: Tree) -> Tree | None:
        group = (owner.get("apiVersion") or "").rpartition("/")[0]
        resource = _SCALED_OWNERS.get((owner.get("kind") or "", group))
        if resource is None:
            return None
        key = ObjectKey(namespace, owner.get("name") or "")
        entry = self.server.stores.by_name(*resource).informer.lister.get(key)
        if entry is not None and uid_of(entry.tree()) == owner.get("uid"):
            return entry.tree()
        return None


def _scaled_value(value: int | str | None, total: int) -> int:
    if isinstance(value, str):
        percent = value.removesuffix("%").lstrip("0")  # validated: at most 100, with any zeros
        return math.ceil(int(percent or "0") * total / 100)
    return value or 0


def _status(budget: Tree, pods: Sequence[Tree], expected: int, desired: int, now: float) -> Tree:
    from kapiserver.api.policy.v1 import PodDisruptionBudgetStatus  # with the first budget

    before = budget.get("status") or {}
    present = {name_of(pod) for pod in pods if not is_terminating(pod)}
    recently_evicted = {
        name: moment
        for name, moment in (before.get("disruptedPods") or {}).items()
        if name in present
        and datetime.fromisoformat(moment).timestamp() + EVICTION_TIMEOUT_SECONDS > now
    }
    healthy = sum(
        has_condition(pod, "Ready")
        for pod in pods
        if not is_terminating(pod) and name_of(pod) not in recently_evicted
    )
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    status: Tree = {
        "observedGeneration": generation_of(budget),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": _conditions(before, generation_of(budget), timestamp(now), allowed),
    }
    if recently_evicted:
        status["disruptedPods"] = recently_evicted
    reorder_keys(status, PodDisruptionBudgetStatus)
    return status


def _conditions(before: Tree, generation: int, now: str, allowed: int) -> list[Tree]:
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": generation,
        "lastTransitionTime": now,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    conditions = []
    for item in before.get("conditions") or ():
        if item.get("type") != condition["type"]:
            conditions.append(item)
        elif item.get("status") == condition["status"]:
            condition["lastTransitionTime"] = item.get("lastTransitionTime")
    return [*conditions, condition]
