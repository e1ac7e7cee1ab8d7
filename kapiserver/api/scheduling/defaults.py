"""Defaulting of the scheduling group, besides the defaults that its types declare."""

from __future__ import annotations

from kapiserver.api.defaulting import DefaultFunction
from kapiserver.api.scheduling import v1
from kapiserver.api.types import Tree, Type


def _default_priority_class(priority_class: Tree) -> None:
    if priority_class.get("preemptionPolicy") is None:
        priority_class["preemptionPolicy"] = "PreemptLowerPriority"


DEFAULTS: dict[type[Type], DefaultFunction] = {v1.PriorityClass: _default_priority_class}
