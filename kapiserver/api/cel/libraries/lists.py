"""CEL functions of lists: slice, flatten, sort, distinct, reverse and ranges.

Mirrors version 3 of github.com/google/cel-go/ext/lists.go.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from kapiserver.api.cel import functions as f
from kapiserver.api.cel import values as v
from kapiserver.api.cel.functions import Table
from kapiserver.api.cel.values import Charge, EvaluationError

COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_MAX_RANGE = 10_000_000
_CHARACTERS = 10
"""Characters that are compared in one step."""


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{call}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{call}, start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"{call}, list is length {len(items)}")
    return items[start:end]


def _flatten(charge: Charge, items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    return list(_flattened(charge, items, depth))


def _flattened(charge: Charge, items: list[Any], depth: int) -> Iterator[Any]:
    charge(len(items))
    for item in items:
        if depth and isinstance(item, list):
            yield from _flattened(charge, item, depth - 1)
        else:
            yield item


def _range(charge: Charge, size: int) -> list[int]:
    if size < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {size}")
    if size > _MAX_RANGE:
        raise EvaluationError(f"lists.range: size {size} exceeds maximum allowed ({_MAX_RANGE})")
    charge(size)
    return list(range(size))


def _distinct(charge: Charge, items: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    for item in items:
        charge(1 + len(distinct))
        if not any(v.equal(item, other, charge) for other in distinct):
            distinct.append(item)
    return distinct


def sort_by(items: Sequence[Any], keys: Sequence[Any], charge: Charge) -> list[Any]:
    """Return the items in the order of their keys. Raises EvaluationError if the keys have no
    order, or several types."""
    charge(self_comparison_cost(keys))
    if keys and v.type_name(keys[0]) not in _COMPARABLE_NAMES:
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = functools.cmp_to_key(v.compare)
    indices = sorted(range(len(items)), key=lambda index: order(keys[index]))
    return [items[index] for index in indices]


_COMPARABLE_NAMES = (
    "int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp",
    "string", "bytes",
)  # fmt: skip


def self_comparison_cost(items: Sequence[Any]) -> int:
    """Return the cost of comparing all items of a list with each other."""
    longest = max((len(item) for item in items if isinstance(item, str | bytes)), default=0)
    return len(items) * max(1, len(items).bit_length()) * (2 + longest // _CHARACTERS)


FUNCTIONS: Table = {
    "slice": [("list(A).(int, int) list(A)", _slice, f.cost_constant, f.size_first)],
    "flatten": [
        ("list(list(A)).() list(A)", v.metered(_flatten), f.cost_items, f.size_first),
        ("list(dyn).(int) list(dyn)", v.metered(_flatten), f.cost_items, f.size_first),
    ],
    "lists.range": [("(int) list(int)", v.metered(_range))],
    "reverse": [("list(A).() list(A)", lambda items: items[::-1], f.cost_items, f.size_first)],
    "distinct": [("list(A).() list(A)", v.metered(_distinct), f.cost_items, f.size_first)],
    "sort": [
        (
            f"list({kind}).() list({kind})",
            v.metered(lambda charge, items: sort_by(items, items, charge)),
            f.cost_items,
            f.size_first,
        )
        for kind in COMPARABLE
    ],
}
