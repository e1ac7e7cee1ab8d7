"""Conditions that the API server sets on pods. Mirrors UpdatePodCondition of pkg/api/pod."""

from __future__ import annotations

from kapiserver.api.core import v1
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree


def set_condition(pod: Tree, now: str, *, kind: str, reason: str = "", message: str = "") -> None:
    """Set a condition of the pod to True. If it was True before, its lastTransitionTime stays. The
    pod is changed in place."""
    condition: Tree = {
        "type": kind,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    condition = {name: value for name, value in condition.items() if value != ""}
    status = pod.setdefault("status", {})
    conditions = list(status.get("conditions") or ())
    for index, existing in enumerate(conditions):
        if existing.get("type") == kind:
            if existing.get("status") == "True":
                condition["lastTransitionTime"] = existing.get("lastTransitionTime")
            conditions[index] = condition
            break
    else:
        conditions.append(condition)
    status["conditions"] = conditions
    reorder_keys(status, v1.PodStatus)
