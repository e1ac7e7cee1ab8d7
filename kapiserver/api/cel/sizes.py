"""Size and cost estimates of the parts of an expression.

Mirrors SizeEstimate of github.com/google/cel-go/checker and the size estimator of
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.
"""

from __future__ import annotations

from msgspec import Struct

from kapiserver.api.cel.cel_types import CelType

MAX_COST = 2**64 - 1
"""The maximum of all estimates: that of a 64-bit unsigned integer."""


class Size(Struct, frozen=True):
    """The minimum and maximum number of characters, items or entries of a value."""

    minimum: int
    maximum: int

    def __or__(self, other: Size) -> Size:
        return Size(min(self.minimum, other.minimum), max(self.maximum, other.maximum))

    def __add__(self, other: Size) -> Size:
        return Size(self.minimum + other.minimum, min(self.maximum + other.maximum, MAX_COST))

    def __mul__(self, other: Size) -> Size:
        return Size(self.minimum * other.minimum, min(self.maximum * other.maximum, MAX_COST))


UNKNOWN = Size(0, MAX_COST)
ONE = Size(1, 1)
UNDECLARED = CelType("nowhere")
"""The type of a field that the schema does not declare."""


class Estimate(Struct, frozen=True):
    """The estimate of a node.

    cost         the maximum cost
    schema_type  the type in the schema that names and fields refer to; None for other values
    entries      the sizes of keys and values of lists and maps that the expression builds
    """

    cost: int
    size: Size
    schema_type: CelType | None = None
    entries: tuple[Size, Size] | None = None


def part_type(schema_type: CelType, name: str) -> CelType:
    """Return the type of a field, or of `@items`, `@keys` or `@values`."""
    if name == "@keys":
        return schema_type.params[0] if schema_type.name == "map" else UNDECLARED
    if name in ("@items", "@values"):
        return schema_type.params[-1] if schema_type.name in ("list", "map") else UNDECLARED
    return schema_type.fields.get(name, UNDECLARED)


def size_of(schema_type: CelType) -> Size:
    """Return the size of a value of a schema type."""
    return UNKNOWN if schema_type is UNDECLARED else Size(0, schema_type.size)
