"""Which taints of a node a pod tolerates."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.types import Tree


def tolerates(tolerations: Sequence[Tree], taint: Tree) -> bool:
    """Report whether one of the tolerations tolerates a taint."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: Tree, taint: Tree) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return operator == "Exists"
