"""LimitRange."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Kind, Type, field


class LimitRange(Kind):
    """Limits and defaults for single objects of a namespace."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: LimitRangeSpec = field(2, doc="The desired state.")


class LimitRangeSpec(Type):
    """The limits."""

    limits: list[LimitRangeItem] = field(1, always=True, required=True, doc="The bounds.")


class LimitRangeItem(Type):
    """Limits and defaults for one type of object."""

    type: str = field(1, always=True, required=True, doc="Pod, Container or PersistentVolumeClaim.")
    max: dict[str, Quantity] = field(2, doc="The largest that may be.")
    min: dict[str, Quantity] = field(3, doc="The smallest that may be.")
    default: dict[str, Quantity] = field(4, doc="Limits of who names none.")
    defaultRequest: dict[str, Quantity] = field(5, doc="Requests of who names none.")
    maxLimitRequestRatio: dict[str, Quantity] = field(
        6, doc="How much larger a limit may be than the request."
    )
