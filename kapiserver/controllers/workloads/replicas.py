"""The core of ReplicaSets and ReplicationControllers: how many pods to create, which to delete, and
the status.

Mirrors manageReplicas and calculateStatus of pkg/controller/replicaset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from kapiserver.api.accessors import generation_of, labels_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition, without_condition
from kapiserver.controllers.workloads.pods import is_available, is_ready, pods_to_delete
from kapiserver.storage.objects.lifecycle import timestamp

BURST_REPLICAS = 500
"""The pods that one reconcile creates or deletes at most."""
REPLICA_FAILURE = "ReplicaFailure"


class ReplicaChange(Struct, frozen=True):
    """The number of pods to create, and the pods to delete."""

    create: int = 0
    delete: Sequence[Tree] = ()


def replicas_of(owner: Tree) -> int:
    """Return `spec.replicas`, which the API defaults to 1."""
    replicas = value_at(owner, "spec", "replicas")
    return 1 if replicas is None else replicas


def replica_change(
    owner: Tree, active: Sequence[Tree], related: Iterable[Tree], now: float
) -> ReplicaChange:
    """Return what brings the active pods of `owner` to its replicas. `related` has the pods of all
    ReplicaSets with the same owner, for the order of deletion."""
    missing = replicas_of(owner) - len(active)
    if missing >= 0:
        return ReplicaChange(create=min(missing, BURST_REPLICAS))
    count = min(-missing, BURST_REPLICAS)
    return ReplicaChange(delete=pods_to_delete(active, related, count, now))


def replica_status(
    owner: Tree,
    active: Sequence[Tree],
    terminating: Sequence[Tree] | None,
    error: str,
    now: float,
) -> Tree:
    """Return the status of `owner`.

    active       its pods when the reconcile began
    terminating  its pods that are being deleted; None leaves `terminatingReplicas` out
    error        the message of a pod that could not be created or deleted, or ""
    """
    template_labels = value_at(owner, "spec", "template", "metadata", "labels") or {}
    min_ready_seconds = value_at(owner, "spec", "minReadySeconds") or 0
    counts = {
        "fullyLabeledReplicas": sum(
            template_labels.items() <= labels_of(pod).items() for pod in active
        ),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, min_ready_seconds, now) for pod in active),
    }
    status: Tree = {"replicas": len(active)}
    status |= {name: count for name, count in counts.items() if count}
    if terminating is not None:
        status["terminatingReplicas"] = len(terminating)
    status["observedGeneration"] = generation_of(owner)
    conditions = _conditions(owner, len(active), error, now)
    if conditions:
        status["conditions"] = conditions
    return status


def _conditions(owner: Tree, active: int, error: str, now: float) -> list[Tree]:
    conditions = value_at(owner, "status", "conditions") or []
    if not error:
        return without_condition(conditions, REPLICA_FAILURE)
    if find_condition(conditions, REPLICA_FAILURE) is not None:
        return conditions
    failure: Tree = {
        "type": REPLICA_FAILURE,
        "status": "True",
        "lastTransitionTime": timestamp(now),
        "reason": "FailedCreate" if active < replicas_of(owner) else "FailedDelete",
        "message": error,
    }
    return [*conditions, failure]
