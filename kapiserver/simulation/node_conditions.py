"""The conditions that a simulated kubelet reports about its node.

Mirrors pkg/kubelet/nodestatus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.controllers.workloads.pods import seconds_of
from kapiserver.simulation.annotations import UNHEALTHY
from kapiserver.storage.objects.lifecycle import timestamp

REPORT_SECONDS = 300.0
"""The time after which a kubelet reports the status of its node although nothing has changed."""

_HEALTHY = {
    "MemoryPressure": (
        "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available",
    ),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}  # fmt: skip
"""Status, reason and message of each condition."""
_UNHEALTHY: Mapping[str, tuple[str, str, str]] = {
    "MemoryPressure": (
        "True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available",
    ),
    "DiskPressure": ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
    "PIDPressure": ("True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    "Ready": ("False", "KubeletNotReady", "the simulated kubelet is not ready"),
}  # fmt: skip
CONDITIONS = tuple(_HEALTHY)
"""The types of the conditions."""


def unhealthy_conditions(node: Tree) -> Sequence[str]:
    """Return the types of the conditions that are to be unhealthy; unknown ones are left out."""
    types = (annotations_of(node).get(UNHEALTHY) or "").split()
    return [type_ for type_ in CONDITIONS if type_ in types]


def reported_conditions(node: Tree, now: float) -> Sequence[Tree]:
    """Return the conditions of a node with those that its kubelet reports. Their times change if
    one of them has changed, and when the next report is due."""
    present: Sequence[Tree] = value_at(node, "status", "conditions") or ()
    unhealthy = unhealthy_conditions(node)
    reported = [
        _condition(present, name, (_UNHEALTHY if name in unhealthy else _HEALTHY)[name], now)
        for name in CONDITIONS
    ]
    if seconds_to_report(present, now) > 0 and all(
        find_condition(present, condition["type"]) == condition | _heartbeat(present)
        for condition in reported
    ):
        return present
    others = [condition for condition in present if condition.get("type") not in CONDITIONS]
    return [*others, *reported]


def _condition(
    present: Sequence[Tree], name: str, content: tuple[str, str, str], now: float
) -> Tree:
    status, reason, message = content
    time, old = timestamp(now), find_condition(present, name) or {}
    changed = time if old.get("status") != status else old.get("lastTransitionTime") or time
    times = {"lastHeartbeatTime": time, "lastTransitionTime": changed}
    return {"type": name, "status": status, **times, "reason": reason, "message": message}


def _heartbeat(conditions: Sequence[Tree]) -> Tree:
    """Return the time of the last report, as a field of each condition."""
    ready = find_condition(conditions, "Ready") or {}
    return {"lastHeartbeatTime": ready.get("lastHeartbeatTime")}


def seconds_to_report(conditions: Sequence[Tree], now: float) -> float:
    """Return the seconds until a kubelet reports these conditions of its node again."""
    last = seconds_of(_heartbeat(conditions)["lastHeartbeatTime"])
    return last + REPORT_SECONDS - now if last is not None else 0.0
