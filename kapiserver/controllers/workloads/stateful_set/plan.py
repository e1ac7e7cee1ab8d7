"""The core of StatefulSets: the steps that bring the pods to the specification, and the status.

With the pod management OrderedReady, one pod changes at a time, and the first one that is not
available blocks the later ones:

1. The pods of the ordinals are created in ascending order. A pod that has ended is deleted.
2. The condemned pods, whose ordinals are not wanted any more, are deleted in descending order.
3. The pods of another revision are deleted in descending order, down to the partition, and step 1
   creates them again.

With Parallel, the pods do not wait for each other. Mirrors
pkg/controller/statefulset/stateful_set_control.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from kapiserver.api.accessors import is_terminating, name_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pods import (
    is_available,
    is_finished,
    phase_of,
    seconds_to_next_available,
)
from kapiserver.controllers.workloads.rounding import scaled_value
from kapiserver.controllers.workloads.stateful_set.identity import (
    has_identity,
    new_pod,
    ordinal_of,
    ordinals_of,
    revision_of,
    with_identity,
)
from kapiserver.controllers.workloads.stateful_set.status import (
    Revisions,
    is_running_and_ready,
    min_ready_of,
    stateful_set_status,
)
from kapiserver.controllers.workloads.stateful_set.volume_claims import (
    claim_name,
    claim_templates,
    has_conflicting_controller,
    has_volumes,
    is_stale,
    new_claims,
    with_owners,
    with_volumes,
)


class Step(Struct, frozen=True):
    """One change: first the claims are created, then the pod is written, then the owners of claims
    are updated.

    verb            what happens to the pod; "" if only its claims change
    new_claims      claims to create
    changed_claims  claims with other owners
    leaving_claims  the names of claims that are being deleted, so that the step fails
    conflicts       the names of claims that other objects control
    """

    verb: Literal["create", "update", "delete", ""]
    pod: Tree
    new_claims: Sequence[Tree] = ()
    changed_claims: Sequence[Tree] = ()
    leaving_claims: Sequence[str] = ()
    conflicts: Sequence[str] = ()


class StatefulSetPlan(Struct, frozen=True):
    """The steps in their order, the status, and the seconds until the next reconcile or None. A
    step that fails ends the plan."""

    steps: Sequence[Step]
    status: Tree
    requeue_after: float | None = None


def plan_stateful_set(
    owner: Tree,
    pods: Sequence[Tree],
    claims: Mapping[str, Tree],
    revisions: Revisions,
    now: float,
) -> StatefulSetPlan:
    """Return the next steps.

    pods    the members that the StatefulSet controls
    claims  the present PersistentVolumeClaims of its pods by name
    """
    steps, deleted = [], 0
    if not is_terminating(owner):
        planner = _Planner(owner, pods, claims, revisions, now)
        steps = list(planner.steps())
        deleted = planner.deleted_for_update
    status = stateful_set_status(owner, pods, revisions, deleted, now)
    wait = seconds_to_next_available(pods, min_ready_of(owner), now)
    return StatefulSetPlan(steps, status, wait)


def max_unavailable(owner: Tree) -> int:
    """Return how many pods an update may make unavailable; at least 1."""
    value = value_at(owner, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
    total = len(ordinals_of(owner))
    return max(1, scaled_value(1 if value is None else value, total, round_up=False))


class _Planner:
    """Plans the steps for one state of a StatefulSet.

    pods       the present pods by ordinal
    condemned  the pods whose ordinals are not wanted any more, in descending order
    blocked    whether no further steps are possible before something changes
    """

    def __init__(
        self,
        owner: Tree,
        pods: Sequence[Tree],
        claims: Mapping[str, Tree],
        revisions: Revisions,
        now: float,
    ) -> None:
        self._owner, self._claims, self._revisions, self._now = owner, claims, revisions, now
        self._ordinals = ordinals_of(owner)
        self._pods = {ordinal_of(pod): pod for pod in pods}
        surplus = sorted(self._pods.keys() - set(self._ordinals), reverse=True)
        self._condemned = [self._pods[ordinal] for ordinal in surplus]
        self._is_ordered = value_at(owner, "spec", "podManagementPolicy") != "Parallel"
        self._partition = (
            value_at(owner, "spec", "updateStrategy", "rollingUpdate", "partition") or 0
        )
        self._blocked = False
        self.deleted_for_update = 0

    def steps(self) -> Iterator[Step]:
        """Return the steps of the three phases; a phase that blocks is the last one."""
        for ordinal in self._ordinals:
            yield from self._replica_steps(ordinal)
            if self._blocked:
                return
        yield from self._condemned_steps()
        if self._blocked:
            return
        strategy = value_at(self._owner, "spec", "updateStrategy", "type") or "RollingUpdate"
        if strategy == "RollingUpdate":
            for pod in self._outdated_pods():
                self.deleted_for_update += 1
                yield Step("delete", pod)

    # The phases.

    def _replica_steps(self, ordinal: int) -> Iterator[Step]:
        """Create the pod of an ordinal, or repair it; block the next ones while the pod is not
        available."""
        pod = self._pods.get(ordinal)
        if pod is None:
            yield from self._creation(ordinal)
            return
        if is_finished(pod):
            if not is_terminating(pod):
                yield Step("delete", pod)
            self._block()
            return
        if phase_of(pod) == "Pending":
            step = self._claims_step("", pod, ordinal)
            if step.new_claims or step.changed_claims or step.leaving_claims:
                yield step
        if self._is_ordered and (not is_running_and_ready(pod) or self._is_unavailable(pod)):
            self._block()
            return
        yield from self._repair(pod, ordinal)

    def _creation(self, ordinal: int) -> Iterator[Step]:
        is_current = ordinal - self._ordinals.start < self._partition
        revision = self._revisions.current if is_current else self._revisions.update
        pod = new_pod(self._owner, revision, ordinal)
        if not is_stale(self._owner, name_of(pod), self._claims, ordinal):
            yield self._claims_step("create", pod, ordinal)
        self._block()

    def _repair(self, pod: Tree, ordinal: int) -> Iterator[Step]:
        """Give the pod its labels and volumes again, and the claims their owners."""
        step = self._claims_step("update", pod, ordinal)
        if not has_volumes(self._owner, pod, ordinal):
            changed = with_volumes(self._owner, with_identity(pod), ordinal)
            yield Step("update", changed, step.new_claims, step.changed_claims, step.leaving_claims)
        elif not has_identity(pod) or step.changed_claims:
            changed = pod if has_identity(pod) else with_identity(pod)
            yield Step("update", changed, (), step.changed_claims, (), step.conflicts)

    def _condemned_steps(self) -> Iterator[Step]:
        """Delete surplus pods; in order, one by one, and none that is not available unless it is
        the first such pod."""
        for pod in self._condemned:
            changed, conflicts = self._changed_claims(pod, ordinal_of(pod))
            if changed:
                yield Step("", pod, changed_claims=changed, conflicts=conflicts)
        for pod in self._condemned:
            if not is_terminating(pod) and (not self._is_ordered or self._may_be_condemned(pod)):
                yield Step("delete", pod)
            self._block()
            if self._blocked:
                return

    def _may_be_condemned(self, pod: Tree) -> bool:
        is_healthy = is_running_and_ready(pod) and not self._is_unavailable(pod)
        return is_healthy or pod is self._first_unavailable()

    def _outdated_pods(self) -> Iterable[Tree]:
        """Return the pods to delete so that the update revision takes their place."""
        pods = [self._pods.get(ordinal) for ordinal in self._ordinals]
        unavailable = sum(pod is None or self._is_unavailable(pod) for pod in pods)
        budget = max_unavailable(self._owner) - unavailable
        outdated = [
            pod
            for pod in reversed(pods[self._partition :])
            if pod is not None
            and revision_of(pod) != name_of(self._revisions.update)
            and not is_terminating(pod)
        ]
        if self._is_ordered:
            return outdated[: max(0, budget)]
        # An unavailable pod costs nothing, and an update may be its cure.
        broken = [pod for pod in outdated if self._is_unavailable(pod)]
        working = [pod for pod in outdated if not self._is_unavailable(pod)]
        return broken + working[: max(0, budget)]

    # What the phases ask.

    def _block(self) -> None:
        self._blocked = self._is_ordered

    def _is_unavailable(self, pod: Tree) -> bool:
        is_ready_long = is_available(pod, min_ready_of(self._owner), self._now)
        return is_terminating(pod) or not is_ready_long

    def _first_unavailable(self) -> Tree | None:
        """Return the unavailable pod that blocks: that of the first wanted ordinal, or else the
        condemned one of the lowest ordinal."""
        members = [self._pods[ordinal] for ordinal in self._ordinals if ordinal in self._pods]
        candidates = (*members, *reversed(self._condemned))
        return next((pod for pod in candidates if self._is_unavailable(pod)), None)

    def _claims_step(self, verb: Literal["create", "update", ""], pod: Tree, ordinal: int) -> Step:
        """Return a step that creates the missing claims of a pod and updates the present ones."""
        new, leaving = [], []
        for claim in new_claims(self._owner, ordinal):
            present = self._claims.get(name_of(claim))
            if present is None:
                new.append(with_owners(claim, self._owner, pod, in_use=True))
            elif is_terminating(present):
                leaving.append(name_of(claim))
        changed, conflicts = self._changed_claims(pod, ordinal)
        return Step(verb, pod, new, changed, leaving, conflicts)

    def _changed_claims(self, pod: Tree, ordinal: int) -> tuple[list[Tree], list[str]]:
        """Return the claims that get other owners, and the names of those that other objects
        control."""
        changed, conflicts = [], []
        for template in claim_templates(self._owner):
            claim = self._claims.get(claim_name(self._owner, template, ordinal))
            if claim is None:
                continue
            in_use = ordinal in self._ordinals
            updated = with_owners(claim, self._owner, pod, in_use=in_use)
            if updated is not claim:
                changed.append(updated)
            if has_conflicting_controller(claim, self._owner, pod):
                conflicts.append(name_of(claim))
        return changed, conflicts
