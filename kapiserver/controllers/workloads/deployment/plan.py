"""The core of Deployments: which ReplicaSets to create, scale and delete.

A Deployment has one *new* ReplicaSet, whose template is that of the Deployment, and *old* ones. One
call of `plan_deployment` does what one sync of Kubernetes does:

| Deployment | plan |
| --- | --- |
| is being deleted | only the status changes |
| is paused, or was scaled | scale the ReplicaSets, in proportion if several have pods |
| has the strategy Recreate | scale the old ones to 0, wait for their pods, scale the new one up |
| has the strategy RollingUpdate | scale the new one up within maxSurge; if that changes nothing, \
scale the old ones down within maxUnavailable |

The functions are pure. Mirrors pkg/controller/deployment of Kubernetes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from kapiserver.api.accessors import (
    annotations_of,
    generation_of,
    is_terminating,
    name_of,
    uid_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.deployment.replica_sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REVISION,
    PlannedReplicaSet,
    age,
    has_template_of,
    new_replica_set,
    number,
    number_or_none,
)
from kapiserver.controllers.workloads.deployment.status import DeploymentStatus
from kapiserver.controllers.workloads.deployment.strategy import (
    is_recreated,
    max_surge,
    max_unavailable,
)
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.controllers.workloads.pods import is_finished
from kapiserver.controllers.workloads.replicas import replicas_of

_UNLIMITED = 2**31 - 1
"""The revisionHistoryLimit that keeps all ReplicaSets."""


class Plan(Struct):
    """The actions for one Deployment, in the order in which they are carried out.

    create         the new ReplicaSet, or None
    update         ReplicaSets with their new replicas and annotations
    delete         old ReplicaSets beyond the history limit
    events         events about these writes
    revision       the Deployment's revision annotation; "" leaves it
    status         the Deployment's new status
    requeue_after  seconds until the progress is to be checked again, or None
    """

    status: Tree
    create: Tree | None = None
    update: list[Tree] = field(default_factory=list)
    delete: list[Tree] = field(default_factory=list)
    events: list[PlannedEvent] = field(default_factory=list)
    revision: str = ""
    requeue_after: float | None = None


def plan_deployment(
    deployment: Tree,
    replica_sets: Sequence[Tree],
    pods: Mapping[str, Iterable[Tree]],
    now: float,
) -> Plan:
    """Return the plan for a Deployment and the ReplicaSets that it owns. `pods` has the pods by the
    uid of their ReplicaSet; only the strategy Recreate needs them."""
    planner = _Planner(deployment, replica_sets, now)
    if is_terminating(deployment):
        planner.observe_only()
    elif value_at(deployment, "spec", "paused") or planner.is_scaling():
        planner.scale_all()
    elif is_recreated(deployment):
        planner.recreate(pods)
    else:
        planner.roll()
    return planner.plan


class _Planner:
    """Computes the plan for one Deployment."""

    def __init__(self, deployment: Tree, replica_sets: Sequence[Tree], now: float) -> None:
        self._deployment = deployment
        self._now = now
        self._replicas = replicas_of(deployment)
        self._before: Tree = deployment.get("status") or {}
        self._status = DeploymentStatus(deployment, now)
        self.plan = Plan(status={})
        sets = sorted(map(PlannedReplicaSet, replica_sets), key=age)
        own = (replica_set for replica_set in sets if has_template_of(deployment, replica_set.tree))
        self._new = next(own, None)
        self._old = [replica_set for replica_set in sets if replica_set is not self._new]
        self._status.note_pause()

    # The four ways through a sync.

    def observe_only(self) -> None:
        """Compute the status and change nothing."""
        self.plan.status = self._status.observe(self._new, self._old)

    def is_scaling(self) -> bool:
        """Report whether the Deployment's replicas changed since its ReplicaSets were scaled."""
        return any(
            desired is not None and desired != self._replicas
            for replica_set in self._active(self._all)
            for desired in [number_or_none(replica_set.annotations.get(DESIRED_REPLICAS))]
        )

    def scale_all(self) -> None:
        """Scale the ReplicaSets of a Deployment that is paused or was scaled."""
        if self._new is not None:
            self._sync_new(self._new)
        self._scale_proportionally()
        if value_at(self._deployment, "spec", "paused"):
            self._delete_old()
        self.plan.status = self._status.observe(self._new, self._old)

    def recreate(self, pods: Mapping[str, Iterable[Tree]]) -> None:
        """Stop all old pods before new ones are created."""
        if self._new is not None:
            self._sync_new(self._new)
        scaled = [self._scale(old, 0) for old in self._active(self._old)]
        if not scaled and not self._old_pods_run(pods):
            if self._new is None:
                self._create_new()
            assert self._new is not None
            self._scale(self._new, self._replicas)
            if self._status.is_complete(self._before):
                self._delete_old()
        self._follow_rollout()

    def roll(self) -> None:
        """Scale the new ReplicaSet up and the old ones down, within maxSurge and
        maxUnavailable."""
        if self._new is None:
            self._create_new()
        else:
            self._sync_new(self._new)
        assert self._new is not None
        replicas = min(self._new_replicas(self._new), self._replicas)
        scaled = self._scale(self._new, replicas) or self._scale_down_old(self._new)
        if not scaled and self._status.is_complete(self._before):
            self._delete_old()
        self._follow_rollout()

    def _follow_rollout(self) -> None:
        status = self.plan.status = self._status.follow_rollout(self._new, self._old)
        self.plan.requeue_after = self._status.seconds_to_check(status)

    # ReplicaSets.

    @property
    def _all(self) -> list[PlannedReplicaSet]:
        return [*self._old, *([self._new] if self._new is not None else [])]

    @staticmethod
    def _active(sets: Iterable[PlannedReplicaSet]) -> list[PlannedReplicaSet]:
        return [replica_set for replica_set in sets if replica_set.replicas > 0]

    @functools.cached_property
    def _max_replicas(self) -> int:
        return self._replicas + max_surge(self._deployment)

    def _sync_new(self, new: PlannedReplicaSet) -> None:
        """Give the new ReplicaSet the Deployment's annotations, minReadySeconds and the highest
        revision, and note the rollout."""
        before = new.planned()
        self._annotate(new)
        new.tree = new.planned()
        min_ready = value_at(self._deployment, "spec", "minReadySeconds") or 0
        if (value_at(new.tree, "spec", "minReadySeconds") or 0) != min_ready:
            new.tree["spec"]["minReadySeconds"] = min_ready
        if new.tree != before:
            self._update(new)
        self._set_revision(new)
        self._status.note_found(new.name)

    def _set_revision(self, new: PlannedReplicaSet) -> None:
        revision = new.annotations.get(REVISION, "")
        if annotations_of(self._deployment).get(REVISION) != revision:
            self.plan.revision = revision

    def _annotate(self, new: PlannedReplicaSet) -> None:
        new.copy_annotations(self._deployment)
        new.raise_revision(max((old.revision for old in self._old), default=0) + 1)

    def _create_new(self) -> None:
        tree = new_replica_set(self._deployment)
        new = PlannedReplicaSet(tree)
        self._annotate(new)
        self._set_revision(new)
        new.replicas = self._replicas
        if not is_recreated(self._deployment):
            new.replicas = 0
            new.replicas = min(self._new_replicas(new), self._replicas)
        self._annotate_replicas(new)
        self._new = new
        self.plan.create = new.planned()
        if new.replicas:
            self._record_scaling(new, 0)
        self._status.note_created(new.name)

    def _new_replicas(self, new: PlannedReplicaSet) -> int:
        """Return how many replicas the new ReplicaSet may have now."""
        if new.replicas > self._replicas:
            return self._replicas
        other_replicas = sum(
            replica_set.replicas for replica_set in self._all if replica_set is not new
        )
        room = self._max_replicas - other_replicas - new.replicas
        return new.replicas + max(min(room, self._replicas - new.replicas), 0)

    def _scale(self, target: PlannedReplicaSet, replicas: int, *, forced: bool = False) -> bool:
        """Plan the replicas of a ReplicaSet, and report whether they change. `forced` also renews
        the annotations of one that keeps its size."""
        before = target.replicas
        if not forced and before == replicas:
            return False
        target.replicas = replicas
        annotated = self._annotate_replicas(target)
        if before != replicas or annotated:
            self._update(target)
        if before != replicas:
            self._record_scaling(target, before)
        return before != replicas

    def _annotate_replicas(self, target: PlannedReplicaSet) -> bool:
        annotations = {DESIRED_REPLICAS: str(self._replicas), MAX_REPLICAS: str(self._max_replicas)}
        changed = not annotations.items() <= target.annotations.items()
        target.annotations |= annotations
        return changed

    def _record_scaling(self, target: PlannedReplicaSet, before: int) -> None:
        direction = "up" if target.replicas > before else "down"
        message = f"Scaled {direction} replica set {target.name} from {before} to {target.replicas}"
        self.plan.events.append(PlannedEvent("ScalingReplicaSet", message))

    def _update(self, target: PlannedReplicaSet) -> None:
        """Plan the update of a ReplicaSet, once however often it changes."""
        if target is self._new and self.plan.create is not None:
            self.plan.create = target.planned()
            return
        self.plan.update = [
            update for update in self.plan.update if name_of(update) != target.name
        ] + [target.planned()]

    def _old_pods_run(self, pods: Mapping[str, Iterable[Tree]]) -> bool:
        if any(old.count("replicas") for old in self._old):
            return True
        new_uid = uid_of(self._new.tree) if self._new is not None else ""
        return any(
            not is_finished(pod) for uid, owned in pods.items() if uid != new_uid for pod in owned
        )

    def _scale_down_old(self, new: PlannedReplicaSet) -> bool:
        """Scale old ReplicaSets down: their unavailable pods first, which makes nothing worse, then
        as many as the available pods allow. Report whether anything changed."""
        old = self._active(self._old)
        min_available = self._replicas - max_unavailable(self._deployment)
        new_unavailable = new.replicas - new.count("availableReplicas")
        total = sum(replica_set.replicas for replica_set in (*old, new))
        budget = total - min_available - new_unavailable
        if not old or budget <= 0:
            return False
        changed = False
        for replica_set in old:
            unavailable = min(
                budget, max(replica_set.replicas - replica_set.count("availableReplicas"), 0)
            )
            changed |= self._scale(replica_set, replica_set.replicas - unavailable)
            budget -= unavailable
        available = sum(replica_set.count("availableReplicas") for replica_set in self._all)
        budget = available - min_available
        for replica_set in old:
            removed = max(min(replica_set.replicas, budget), 0)
            changed |= self._scale(replica_set, replica_set.replicas - removed)
            budget -= removed
        return changed

    def _scale_proportionally(self) -> None:
        """Spread a change of the Deployment's replicas over its active ReplicaSets by their
        sizes."""
        active = self._active(self._all)
        if len(active) <= 1:
            latest = self._new or (max(self._old, key=age) if self._old else None)
            target = active[0] if active else latest
            if target is not None:
                self._scale(target, self._replicas)
        elif self._is_saturated():
            for old in self._active(self._old):
                self._scale(old, 0)
        elif not is_recreated(self._deployment):
            self._spread(active)

    def _spread(self, active: list[PlannedReplicaSet]) -> None:
        allowed = self._max_replicas if self._replicas > 0 else 0
        to_add = allowed - sum(replica_set.replicas for replica_set in active)
        newest_first = to_add > 0
        active.sort(key=age, reverse=newest_first)
        active.sort(key=lambda replica_set: replica_set.replicas, reverse=True)
        added, sizes = 0, []
        for replica_set in active:
            share = self._share(replica_set, to_add, added)
            sizes.append(replica_set.replicas + share)
            added += share
        sizes[0] = max(sizes[0] + to_add - added, 0)
        for replica_set, size in zip(active, sizes, strict=True):
            self._scale(replica_set, size, forced=True)

    def _share(self, target: PlannedReplicaSet, to_add: int, added: int) -> int:
        """Return how many of the replicas to add, or to remove, fall to a ReplicaSet."""
        if to_add in (0, added):
            return 0
        if self._replicas == 0:
            fraction = -target.replicas
        else:
            before = number(target.annotations.get(MAX_REPLICAS)) or self._before.get("replicas")
            if not before:
                return 0
            exact = target.replicas * self._max_replicas / before
            fraction = _round_half_away(exact) - target.replicas
        left = to_add - added
        return min(fraction, left) if to_add > 0 else max(fraction, left)

    def _is_saturated(self) -> bool:
        new = self._new
        return (
            new is not None
            and new.replicas == self._replicas
            and number_or_none(new.annotations.get(DESIRED_REPLICAS)) == self._replicas
            and new.count("availableReplicas") == self._replicas
        )

    def _delete_old(self) -> None:
        """Plan the deletion of empty old ReplicaSets beyond `revisionHistoryLimit`."""
        limit = value_at(self._deployment, "spec", "revisionHistoryLimit")
        if limit is None or limit == _UNLIMITED:
            return
        old = [replica_set for replica_set in self._old if not is_terminating(replica_set.tree)]
        old.sort(key=lambda replica_set: replica_set.revision)
        for replica_set in old[: max(len(old) - limit, 0)]:
            observed = value_at(replica_set.tree, "status", "observedGeneration") or 0
            is_empty = not replica_set.replicas and not replica_set.count("replicas")
            if is_empty and generation_of(replica_set.tree) <= observed:
                self.plan.delete.append(replica_set.tree)


def _round_half_away(value: float) -> int:
    return int(value + 0.5) if value >= 0 else -int(-value + 0.5)
