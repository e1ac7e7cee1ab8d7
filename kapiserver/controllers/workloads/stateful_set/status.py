"""The status of a StatefulSet."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kapiserver.api.accessors import is_terminating, metadata_of, name_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pods import is_available, is_ready, phase_of
from kapiserver.controllers.workloads.stateful_set.identity import ordinals_of, revision_of


class Revisions(Struct, frozen=True):
    """The revision from which a StatefulSet updates, the one to which it updates, and the count of
    collisions of their names. When an update is complete, both revisions are the same."""

    current: Tree
    update: Tree
    collision_count: int = 0


def is_running_and_ready(pod: Tree) -> bool:
    """Report whether the pod runs and is ready."""
    return phase_of(pod) == "Running" and is_ready(pod)


def min_ready_of(owner: Tree) -> int:
    """Return `spec.minReadySeconds`."""
    return value_at(owner, "spec", "minReadySeconds") or 0


def stateful_set_status(
    owner: Tree, pods: Sequence[Tree], revisions: Revisions, deleted: int, now: float
) -> Tree:
    """Return the status; `deleted` pods of the current revision are about to be deleted for an
    update."""
    current, update = name_of(revisions.current), name_of(revisions.update)
    ready = [pod for pod in pods if is_running_and_ready(pod)]
    available = sum(is_available(pod, min_ready_of(owner), now) for pod in ready)
    versions = [revision_of(pod) for pod in pods if not is_terminating(pod)]
    updated, replicas = versions.count(update), len(ordinals_of(owner))
    in_current = versions.count(current) - deleted
    if updated == len(ready) == len(pods) == replicas:
        current, in_current = update, updated
    status: Tree = {
        "observedGeneration": metadata_of(owner).get("generation") or 0,
        "readyReplicas": len(ready),
        "currentReplicas": in_current,
        "updatedReplicas": updated,
        "conditions": value_at(owner, "status", "conditions"),
    }
    return {name: value for name, value in status.items() if value} | {
        "replicas": len(pods),
        "availableReplicas": available,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": revisions.collision_count,
    }
