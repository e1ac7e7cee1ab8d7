"""How large values can be, and what is known of a part of an expression before it is evaluated.

Mirrors SizeEstimate of github.com/google/cel-go/checker and the estimator of sizes of
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.
"""

from __future__ import annotations

from dataclasses import dataclass

from kapiserver.api.cel.cel_types import CelType

MOST = 2**64 - 1
"""No estimate is higher, as with an unsigned integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class Size:
    """The fewest and the most characters, items or entries of a value."""

    least: int
    most: int

    def __or__(self, other: Size) -> Size:
        return Size(min(self.least, other.least), max(self.most, other.most))

    def __add__(self, other: Size) -> Size:
        return Size(self.least + other.least, min(self.most + other.most, MOST))

    def __mul__(self, other: Size) -> Size:
        return Size(self.least * other.least, min(self.most * other.most, MOST))


UNKNOWN = Size(0, MOST)
ONE = Size(1, 1)
NOWHERE = CelType("nowhere")
"""Where a path of names leads that the schema does not have."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is known of a node.

    cost     the most it can cost
    place    the kind in the schema that names and fields lead to; None without such
    entries  the sizes of keys and values, of lists and maps that the expression itself makes
    """

    cost: int
    size: Size
    place: CelType | None = None
    entries: tuple[Size, Size] | None = None


def part(place: CelType, name: str) -> CelType:
    """Where a field leads, or `@items`, `@keys` or `@values`."""
    if name == "@keys":
        return place.params[0] if place.name == "map" else NOWHERE
    if name in ("@items", "@values"):
        return place.params[-1] if place.name in ("list", "map") else NOWHERE
    return place.fields.get(name, NOWHERE)


def size_of(place: CelType) -> Size:
    """The size of what is at a place."""
    return UNKNOWN if place is NOWHERE else Size(0, place.size)
