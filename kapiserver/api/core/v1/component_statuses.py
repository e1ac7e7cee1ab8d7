"""ComponentStatus: health of the control plane, computed and never stored."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field


class ComponentStatus(Kind):
    """Health of a part of the control plane (deprecated)."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    conditions: list[ComponentCondition] = field(
        2, keys=("type",), merge="type", doc="What was found out about it."
    )


class ComponentCondition(Type):
    """One finding about a component's health."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    message: str = field(3, doc="Why, for people.")
    error: str = field(4, doc="What went wrong.")
