"""LimitRange: bounds and defaults for the resources of single objects."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Kind, Type, field


class LimitRange(Kind):
    """Bounds and defaults for the resources of single objects in a namespace."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. The limits apply to the namespace of this object."
    )
    spec: LimitRangeSpec = field(
        2, doc="Bounds and defaults of the limit range, enforced when objects are created."
    )


class LimitRangeSpec(Type):
    """The bounds and defaults of a limit range."""

    limits: list[LimitRangeItem] = field(
        1, always=True, required=True, doc="Bounds and defaults, one entry per type of object."
    )


class LimitRangeItem(Type):
    """Bounds and defaults for one type of object."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Type of object that the limits apply to: Container, Pod (all containers together), "
            "PersistentVolumeClaim, or a name with a domain."
        ),
    )
    max: dict[str, Quantity] = field(
        2,
        doc=(
            "Maximum limit of an object per resource, for example memory: 1Gi. An object without "
            "this limit is rejected."
        ),
    )
    min: dict[str, Quantity] = field(
        3,
        doc=(
            "Minimum request of an object per resource, for example cpu: 100m. Claims need "
            "storage here or in max."
        ),
    )
    default: dict[str, Quantity] = field(
        4,
        doc=(
            "Limit per resource for containers that set none. Default for containers: max. Not "
            "allowed for type Pod."
        ),
    )
    defaultRequest: dict[str, Quantity] = field(
        5,
        doc=(
            "Request per resource for containers that set none. Default for containers: default, "
            "or else min. Not allowed for type Pod."
        ),
    )
    maxLimitRequestRatio: dict[str, Quantity] = field(
        6,
        doc=(
            "Maximum ratio of limit to request per resource, at least 1. Both must then be set on "
            "the object."
        ),
    )
