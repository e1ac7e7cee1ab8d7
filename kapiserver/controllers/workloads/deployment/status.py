"""The status of a Deployment: its numbers, and the conditions Available, Progressing and
ReplicaFailure.

| Progressing | reason | when |
| --- | --- | --- |
| True | NewReplicaSetCreated, FoundNewReplicaSet | a rollout begins |
| True | ReplicaSetUpdated | pods were added, became ready or available, or old ones went |
| True | NewReplicaSetAvailable | the rollout is complete; later changes are not a rollout |
| False | ProgressDeadlineExceeded | no progress for `progressDeadlineSeconds` |
| False | ReplicaSetCreateError | the new ReplicaSet was refused |
| Unknown | DeploymentPaused, DeploymentResumed | the user paused or resumed it |

Mirrors pkg/controller/deployment/progress.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import generation_of, is_terminating, name_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import (
    find_condition,
    set_condition,
    without_condition,
)
from kapiserver.controllers.workloads.deployment.replica_sets import PlannedReplicaSet
from kapiserver.controllers.workloads.deployment.strategy import max_unavailable
from kapiserver.controllers.workloads.pods import seconds_of
from kapiserver.controllers.workloads.replicas import REPLICA_FAILURE, replicas_of
from kapiserver.storage.objects.lifecycle import timestamp

PROGRESSING = "Progressing"
_NO_DEADLINE = 2**31 - 1


class DeploymentStatus:
    """Computes the next status of a Deployment from its present one."""

    def __init__(self, deployment: Tree, now: float) -> None:
        self._deployment = deployment
        self._now = now
        self._replicas = replicas_of(deployment)
        self._before: Tree = deployment.get("status") or {}
        self._conditions: list[Tree] = list(self._before.get("conditions") or ())

    def observe(self, new: PlannedReplicaSet | None, old: Sequence[PlannedReplicaSet]) -> Tree:
        """Return the status for the new and the old ReplicaSets, without progress."""
        everything = [*old, *([new] if new is not None else [])]
        sets = [replica_set for replica_set in everything if replica_set.tree.get("status")]
        available = sum(replica_set.count("availableReplicas") for replica_set in sets)
        total = sum(replica_set.replicas for replica_set in everything)
        counts = {
            "replicas": sum(replica_set.count("replicas") for replica_set in sets),
            "updatedReplicas": new.count("replicas") if new is not None else 0,
            "readyReplicas": sum(replica_set.count("readyReplicas") for replica_set in sets),
            "availableReplicas": available,
            "unavailableReplicas": max(total - available, 0),
        }
        status: Tree = {"observedGeneration": generation_of(self._deployment)}
        status |= {name: count for name, count in counts.items() if count}
        terminating = [
            value_at(replica_set.tree, "status", "terminatingReplicas") for replica_set in sets
        ]
        if None not in terminating:
            status["terminatingReplicas"] = sum(terminating)
        if (collisions := self._before.get("collisionCount")) is not None:
            status["collisionCount"] = collisions
        self._set_available(available)
        status["conditions"] = self._conditions
        return status

    def _set_available(self, available: int) -> None:
        if available >= self._replicas - max_unavailable(self._deployment):
            reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
            status = "True"
        else:
            reason = "MinimumReplicasUnavailable"
            message = "Deployment does not have minimum availability."
            status = "False"
        self._set_condition("Available", status, reason, message)

    def _set_condition(self, type_: str, status: str, reason: str, message: str) -> None:
        now = timestamp(self._now)
        condition: Tree = {
            "type": type_,
            "status": status,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        self._conditions = set_condition(self._conditions, condition)

    def _set_progressing(self, status: str, reason: str, message: str) -> None:
        self._set_condition(PROGRESSING, status, reason, message)

    def note_found(self, name: str) -> None:
        """Note the new ReplicaSet of a Deployment that has no progress yet."""
        if self._has_deadline and find_condition(self._conditions, PROGRESSING) is None:
            message = f'Found new replica set "{name}"'
            self._set_progressing("True", "FoundNewReplicaSet", message)

    def note_created(self, name: str) -> None:
        """Note that the new ReplicaSet is created."""
        if self._has_deadline:
            message = f'Created new replica set "{name}"'
            self._set_progressing("True", "NewReplicaSetCreated", message)

    def note_not_created(self, message: str) -> Tree:
        """Return the present status with the reason why there is no new ReplicaSet."""
        if self._has_deadline:
            self._set_progressing("False", "ReplicaSetCreateError", message)
        return self._before | {"conditions": self._conditions}

    @property
    def _has_deadline(self) -> bool:
        deadline = value_at(self._deployment, "spec", "progressDeadlineSeconds")
        return deadline is not None and deadline != _NO_DEADLINE

    def note_pause(self) -> None:
        """Note in the conditions that the Deployment was paused or resumed, so that the time of the
        pause does not count as lack of progress."""
        present = find_condition(self._conditions, PROGRESSING)
        reason = present.get("reason") if present is not None else ""
        if is_terminating(self._deployment) or not self._has_deadline:
            return
        if reason == "ProgressDeadlineExceeded":
            return
        paused = bool(value_at(self._deployment, "spec", "paused"))
        if paused and reason != "DeploymentPaused":
            self._set_progressing("Unknown", "DeploymentPaused", "Deployment is paused")
        elif not paused and reason == "DeploymentPaused":
            self._set_progressing("Unknown", "DeploymentResumed", "Deployment is resumed")

    def is_complete(self, status: Tree) -> bool:
        """Report whether a status shows a finished rollout."""
        names = ("updatedReplicas", "replicas", "availableReplicas")
        observed = status.get("observedGeneration") or 0
        return all(
            (status.get(name) or 0) == self._replicas for name in names
        ) and observed >= generation_of(self._deployment)

    def follow_rollout(
        self, new: PlannedReplicaSet | None, old: Sequence[PlannedReplicaSet]
    ) -> Tree:
        """Return the status during a rollout, with its progress and its failures."""
        status = self.observe(new, old)
        if not self._has_deadline:
            self._conditions = without_condition(self._conditions, PROGRESSING)
        else:
            self._estimate_progress(status, new)
        self._take_over_failure([new, *old] if new is not None else old)
        status["conditions"] = self._conditions
        return status

    def _estimate_progress(self, status: Tree, new: PlannedReplicaSet | None) -> None:
        present = find_condition(self._conditions, PROGRESSING)
        reason = present.get("reason") if present is not None else ""
        same = status.get("replicas", 0) == status.get("updatedReplicas", 0)
        if same and reason == "NewReplicaSetAvailable":
            return
        kind, name = "Deployment", name_of(self._deployment)
        if new is not None:
            kind, name = "ReplicaSet", new.name
        target = f'{kind} "{name}"'
        if self.is_complete(status):
            message = f"{target} has successfully progressed."
            self._set_progressing("True", "NewReplicaSetAvailable", message)
        elif self._has_progressed(status):
            self._renew_progressing(present, f"{target} is progressing.")
        elif self._has_timed_out(present):
            message = f"{target} has timed out progressing."
            self._set_progressing("False", "ProgressDeadlineExceeded", message)

    def _renew_progressing(self, present: Tree | None, message: str) -> None:
        """Set the condition even if its reason stays the same: its lastUpdateTime is the time of
        the last progress."""
        self._conditions = without_condition(self._conditions, PROGRESSING)
        self._set_progressing("True", "ReplicaSetUpdated", message)
        if present is not None and present.get("status") == "True":
            self._conditions[-1]["lastTransitionTime"] = present.get("lastTransitionTime")

    def _has_progressed(self, status: Tree) -> bool:
        def count(of: Tree, name: str) -> int:
            return of.get(name) or 0

        before = self._before
        old_before = count(before, "replicas") - count(before, "updatedReplicas")
        old_now = count(status, "replicas") - count(status, "updatedReplicas")
        return old_now < old_before or any(
            count(status, name) > count(before, name)
            for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
        )

    def _has_timed_out(self, present: Tree | None) -> bool:
        reason = present.get("reason") if present is not None else None
        if present is None or reason == "NewReplicaSetAvailable":
            return False
        deadline = self._deadline(present)
        return reason == "ProgressDeadlineExceeded" or (
            deadline is not None and deadline < self._now
        )

    def _deadline(self, progressing: Tree) -> float | None:
        updated = seconds_of(progressing.get("lastUpdateTime"))
        seconds = value_at(self._deployment, "spec", "progressDeadlineSeconds")
        return updated + seconds if updated is not None else None

    def seconds_to_check(self, status: Tree) -> float | None:
        """Return after how many seconds the progress is to be checked again, or None."""
        progressing = find_condition(self._conditions, PROGRESSING)
        if not self._has_deadline or progressing is None or self.is_complete(status):
            return None
        if progressing.get("reason") == "ProgressDeadlineExceeded":
            return None
        deadline = self._deadline(progressing)
        # A second more, because times of the API have whole seconds.
        return max(deadline - self._now, 0) + 1 if deadline is not None else None

    def _take_over_failure(self, sets: Sequence[PlannedReplicaSet]) -> None:
        """Show the ReplicaFailure of the first ReplicaSet that has one."""
        for replica_set in sets:
            failure = find_condition(
                value_at(replica_set.tree, "status", "conditions") or (), REPLICA_FAILURE
            )
            if failure is not None:
                failure = failure | {"lastUpdateTime": failure.get("lastTransitionTime")}
                self._conditions = set_condition(self._conditions, failure)
                return
        self._conditions = without_condition(self._conditions, REPLICA_FAILURE)
