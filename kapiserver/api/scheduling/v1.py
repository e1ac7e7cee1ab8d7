"""scheduling.k8s.io/v1: which pods come first, and which only together."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, field, int32


class PriorityClass(Kind):
    """A name for a priority of pods."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    value: int32 = field(2, always=True, doc="The priority; the larger comes first.")
    globalDefault: bool = field(3, doc="Whether pods without a class have this one.")
    description: str = field(4, doc="When to use it.")
    preemptionPolicy: str | None = field(
        5, enum=("PreemptLowerPriority", "Never"), doc="Whether its pods push others out."
    )
