"""What workload controllers ask of pods: whether they count, since when, and which to delete first.

All functions are pure; times are seconds since 1970. Mirrors pkg/controller/controller_utils.go and
pkg/api/v1/pod of Kubernetes.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Sequence

from kapiserver.api.accessors import (
    annotations_of,
    has_condition,
    is_terminating,
    metadata_of,
    uid_of,
    value_at,
)
from kapiserver.api.columns import parse_time
from kapiserver.api.types import Tree

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}
_NANOSECONDS = 1_000_000_000


def phase_of(pod: Tree) -> str:
    """Return `status.phase`, or ""."""
    return value_at(pod, "status", "phase") or ""


def node_of(pod: Tree) -> str:
    """Return `spec.nodeName`, or ""."""
    return value_at(pod, "spec", "nodeName") or ""


def is_finished(pod: Tree) -> bool:
    """Report whether all containers have ended for good."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Tree) -> bool:
    """Report whether the pod counts as a replica: neither finished nor being deleted."""
    return not is_finished(pod) and not is_terminating(pod)


def is_ready(pod: Tree) -> bool:
    """Report whether the pod's Ready condition is true."""
    return has_condition(pod, "Ready")


def ready_since(pod: Tree) -> float | None:
    """Return when the pod became ready; None if it is not ready, or if the time is unknown."""
    for condition in value_at(pod, "status", "conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return seconds_of(condition.get("lastTransitionTime"))
    return None


def is_available(pod: Tree, min_ready_seconds: int, now: float) -> bool:
    """Report whether the pod has been ready for `min_ready_seconds`."""
    if not is_ready(pod):
        return False
    if min_ready_seconds <= 0:
        return True
    since = ready_since(pod)
    return since is not None and since + min_ready_seconds <= now


def seconds_to_next_available(
    pods: Iterable[Tree], min_ready_seconds: int, now: float
) -> float | None:
    """Return the seconds until the next ready pod becomes available; None if there is none."""
    waits = [
        since + min_ready_seconds - now
        for pod in pods
        if (since := ready_since(pod)) is not None and since + min_ready_seconds > now
    ]
    return min(waits, default=None)


def seconds_of(time_text: str | None) -> float | None:
    """Return the seconds since 1970 of a time of the API; None for a missing or invalid one."""
    moment = parse_time(time_text)
    return moment.timestamp() if moment is not None else None


def pods_to_delete(
    pods: Sequence[Tree], related: Iterable[Tree], count: int, now: float
) -> Sequence[Tree]:
    """Return the `count` pods whose deletion costs least.

    `related` has the pods of all ReplicaSets with the same owner, these pods included: a pod on a
    node with many of them is deleted earlier.
    """
    if count >= len(pods):
        return pods
    neighbours = Counter(node_of(pod) for pod in related if is_active(pod))

    def compare(pod: Tree, other_pod: Tree) -> int:
        key, other_key = _deletion_key(pod, neighbours), _deletion_key(other_pod, neighbours)
        if key != other_key:
            return -1 if key < other_key else 1
        return _compare_ages(pod, other_pod, now)

    return sorted(pods, key=functools.cmp_to_key(compare))[:count]


def _deletion_key(pod: Tree, neighbours: Counter[str]) -> tuple[int, ...]:
    """Return what decides before the times do; pods with smaller keys are deleted first."""
    return (
        bool(node_of(pod)),
        _PHASE_ORDER.get(phase_of(pod), 0),
        is_ready(pod),
        _deletion_cost(pod),
        -neighbours[node_of(pod)],
    )


def _deletion_cost(pod: Tree) -> int:
    try:
        return int(annotations_of(pod).get(DELETION_COST) or 0)
    except ValueError:
        return 0


def _compare_ages(pod: Tree, other_pod: Tree, now: float) -> int:
    """Compare two pods by the time for which they are ready, then by restarts, then by age. A
    negative result means that `pod` is deleted first."""
    if is_ready(pod) and is_ready(other_pod):
        difference = _compare_times(pod, other_pod, ready_since(pod), ready_since(other_pod), now)
        if difference:
            return difference
    restarts, other_restarts = _restarts(pod), _restarts(other_pod)
    if restarts != other_restarts:
        return -1 if restarts > other_restarts else 1
    return _compare_times(pod, other_pod, _created(pod), _created(other_pod), now)


def _compare_times(
    pod: Tree, other_pod: Tree, time: float | None, other_time: float | None, now: float
) -> int:
    """Compare by two times on a logarithmic scale, so that the uid decides between pods of nearly
    the same age."""
    if time == other_time:
        return 0
    if time is None or other_time is None:
        return -1 if time is None else 1
    difference = _logarithm(now - time) - _logarithm(now - other_time)
    if difference:
        return difference
    return -1 if uid_of(pod) < uid_of(other_pod) else 1


def _logarithm(seconds: float) -> int:
    nanoseconds = seconds * _NANOSECONDS
    return int(math.log2(nanoseconds)) if nanoseconds >= 1 else -1


def _created(pod: Tree) -> float | None:
    return seconds_of(metadata_of(pod).get("creationTimestamp"))


def _restarts(pod: Tree) -> tuple[int, int]:
    """Return the highest restart counts of the containers and of the sidecars."""
    sidecars = {
        container.get("name")
        for container in value_at(pod, "spec", "initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    containers = value_at(pod, "status", "containerStatuses") or ()
    init_containers = value_at(pod, "status", "initContainerStatuses") or ()
    return (
        max((status.get("restartCount") or 0 for status in containers), default=0),
        max(
            (
                status.get("restartCount") or 0
                for status in init_containers
                if status.get("name") in sidecars
            ),
            default=0,
        ),
    )
