"""Conditions in the status of an object: reading and setting them by type.

Mirrors helpers.go of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions, which other kinds
follow, too; those of workloads have rules of their own (`controllers/workloads/conditions.py`).
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree


def condition(obj: Tree, type_: str) -> Tree | None:
    """Return the condition of that type, or None."""
    for candidate in value_at(obj, "status", "conditions") or ():
        if candidate["type"] == type_:
            match: Tree = candidate
            return match
    return None


def is_true(obj: Tree, type_: str) -> bool:
    """Report whether a condition has the status True."""
    current = condition(obj, type_)
    return current is not None and current["status"] == "True"


def set_condition(
    status: Tree, type_: str, value: str, reason: str, message: str, *, now: str
) -> Tree:
    """Return a status with the condition set; lastTransitionTime changes only with the condition's
    status."""
    conditions = list(status.get("conditions") or ())
    updated = {
        "type": type_,
        "status": value,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    for index, current in enumerate(conditions):
        if current["type"] == type_:
            if current["status"] == value:
                updated["lastTransitionTime"] = current.get("lastTransitionTime") or now
            conditions[index] = updated
            break
    else:
        conditions.append(updated)
    return {**status, "conditions": conditions}


def without_condition(status: Tree, type_: str) -> Tree:
    """Return a status without the condition."""
    remaining = [current for current in status.get("conditions") or () if current["type"] != type_]
    return {**status, "conditions": remaining}
