"""Conditions of a workload's status: find, set and remove them by type.

A condition whose status and reason stay the same is kept as it is, with its message and times. The
time of the last transition changes only with the status. Mirrors SetDeploymentCondition of
pkg/controller/deployment/util.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.types import Tree


def find_condition(conditions: Sequence[Tree], type_: str) -> Tree | None:
    """Return the condition of a type, or None."""
    return next((item for item in conditions if item.get("type") == type_), None)


def without_condition(conditions: Sequence[Tree], type_: str) -> list[Tree]:
    """Return the conditions except those of a type."""
    return [item for item in conditions if item.get("type") != type_]


def set_condition(conditions: Sequence[Tree], condition: Tree) -> list[Tree]:
    """Return the conditions with one added or replaced. A present condition of the same status and
    reason stays as it is; one of the same status keeps its lastTransitionTime."""
    present = find_condition(conditions, condition["type"])
    if present is not None and present.get("status") == condition.get("status"):
        if present.get("reason") == condition.get("reason"):
            return list(conditions)
        if "lastTransitionTime" in condition and present.get("lastTransitionTime"):
            condition = condition | {"lastTransitionTime": present["lastTransitionTime"]}
    return [*without_condition(conditions, condition["type"]), condition]
