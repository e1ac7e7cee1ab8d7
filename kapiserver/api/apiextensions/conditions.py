"""The conditions of a CustomResourceDefinition: reading them, and a status with one changed.

Mirrors helpers.go of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree


def condition(obj: Tree, type_: str) -> Tree | None:
    """The condition of that type."""
    for one in value_at(obj, "status", "conditions") or ():
        if one["type"] == type_:
            found: Tree = one
            return found
    return None


def is_true(obj: Tree, type_: str) -> bool:
    """Whether a condition holds."""
    found = condition(obj, type_)
    return found is not None and found["status"] == "True"


def set_condition(
    status: Tree, type_: str, value: str, reason: str, message: str, *, now: str
) -> Tree:
    """A status with a condition as given, which began now unless it was so before."""
    before = list(status.get("conditions") or ())
    stated = {
        "type": type_,
        "status": value,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    for index, one in enumerate(before):
        if one["type"] == type_:
            if one["status"] == value:
                stated["lastTransitionTime"] = one.get("lastTransitionTime") or now
            before[index] = stated
            break
    else:
        before.append(stated)
    return {**status, "conditions": before}


def without_condition(status: Tree, type_: str) -> Tree:
    """A status without a condition."""
    left = [one for one in status.get("conditions") or () if one["type"] != type_]
    return {**status, "conditions": left}
