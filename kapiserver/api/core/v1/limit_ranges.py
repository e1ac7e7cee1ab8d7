"""LimitRange."""

from __future__ import annotations

from kapiserver.api.leaves import Quantity
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field


class LimitRange(Kind):
    """Limits and defaults for single objects of a namespace."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: LimitRangeSpec = field(2, doc="The desired state.")


class LimitRangeSpec(Type):
    """The limits."""

    limits: list[LimitRangeItem] = field(1, always=True, required=True)


class LimitRangeItem(Type):
    """Limits and defaults for one type of object."""

    type: str = field(1, always=True, required=True)
    max: dict[str, Quantity] = field(2)
    min: dict[str, Quantity] = field(3)
    default: dict[str, Quantity] = field(4)
    defaultRequest: dict[str, Quantity] = field(5)
    maxLimitRequestRatio: dict[str, Quantity] = field(6)
