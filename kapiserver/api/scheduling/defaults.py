"""What the scheduling group fills in, beside the defaults that its types declare."""

from __future__ import annotations

from kapiserver.api.defaulting import DefaultFunction
from kapiserver.api.scheduling import v1
from kapiserver.api.types import Tree, Type


def _priority_class(found: Tree) -> None:
    if found.get("preemptionPolicy") is None:
        found["preemptionPolicy"] = "PreemptLowerPriority"


DEFAULTS: dict[type[Type], DefaultFunction] = {v1.PriorityClass: _priority_class}
