"""How CEL functions are declared: signature, implementation, cost and result size.

A row of a table is `(signature, function, cost, size)`. The signature is `string.(int) string` for
a method and `(string) int` for a function. Cost and size are functions of the sizes of the
arguments (characters, items; 1 for values without a size): the cost is charged before the call, a
result is charged by its size. `call_costs.py` has the static estimates. Knows no function.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from kapiserver.api.cel.cel_types import CelType, parse_type
from kapiserver.api.cel.values import MeteredFunction

Cost: TypeAlias = Callable[[Sequence[int]], int]
Row: TypeAlias = tuple[Any, ...]
Table: TypeAlias = Mapping[str, Sequence[Row]]
_SIGNATURE = re.compile(r"(?:(?P<target>[a-zA-Z(), ]+)\.)?\((?P<args>.*)\) (?P<result>.+)")
_TRAVERSAL = 10
"""Characters that cost one step (the inverse of StringTraversalCostFactor)."""


class Overload(Struct, frozen=True, eq=False):
    """One overload of a function. `args` begin with the target of a method."""

    args: tuple[CelType, ...]
    result: CelType
    is_method: bool
    run: Callable[..., Any] | MeteredFunction
    cost: Cost
    size: Cost


def traversal_cost(size: int) -> int:
    """Return the cost of traversing a text or bytes of this size."""
    return -(-size // _TRAVERSAL)


def cost_constant(_: Sequence[int]) -> int:
    """Return one step."""
    return 1


def cost_first(sizes: Sequence[int]) -> int:
    """Return the cost of traversing the first argument."""
    return traversal_cost(sizes[0])


def cost_first_twice(sizes: Sequence[int]) -> int:
    """Return the cost of traversing the first argument and building a copy of it."""
    return traversal_cost(2 * sizes[0])


def cost_second(sizes: Sequence[int]) -> int:
    """Return the cost of traversing the second argument."""
    return traversal_cost(sizes[1])


def cost_items(sizes: Sequence[int]) -> int:
    """Return the cost of visiting each item."""
    return sizes[0]


def cost_both(sizes: Sequence[int]) -> int:
    """Return the cost of traversing both arguments."""
    return traversal_cost(sizes[0] + sizes[1])


def cost_smaller(sizes: Sequence[int]) -> int:
    """Return the cost of traversing both arguments up to the length of the shorter."""
    return traversal_cost(min(sizes))


def cost_product(sizes: Sequence[int]) -> int:
    """Return the cost of comparing each item of one argument with each of the other."""
    return sizes[0] * sizes[1]


def cost_pattern(sizes: Sequence[int]) -> int:
    """Return the cost of searching a text for a pattern."""
    return traversal_cost(sizes[0] + 1) * max(1, math.ceil(sizes[1] / 4))


REGEX_STEPS = 100
"""Searching takes one step for this many characters times instructions of the pattern."""
_FREE_STEPS = 200
"""The number of steps beyond kube-apiserver's cost that are free, so that usual calls cost the same
as there."""


def charge_regex(charge: Callable[[int], None], text: str, pattern: str, instructions: int) -> None:
    """Charge what a search takes beyond `cost_pattern`, which looks at the length of the pattern
    alone: `(a?){900}` is short, but has very many instructions."""
    steps = len(text) * instructions // REGEX_STEPS - cost_pattern((len(text), len(pattern)))
    if steps > _FREE_STEPS:
        charge(steps)


def size_one(_: Sequence[int]) -> int:
    """Return the size of a result that has none: 1."""
    return 1


def size_first(sizes: Sequence[int]) -> int:
    """Return the size of a result that is as large as the first argument."""
    return sizes[0]


def size_sum(sizes: Sequence[int]) -> int:
    """Return the size of a result that is as large as all arguments together."""
    return sum(sizes)


def overload(row: Row) -> Overload:
    """Return the overload that a row declares."""
    signature, run, *rest = row
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    args = [parse_type(arg) for arg in _split(match["args"])]
    target = [parse_type(match["target"])] if match["target"] else []
    cost = rest[0] if rest else cost_constant
    size = rest[1] if len(rest) > 1 else size_one
    return Overload((*target, *args), parse_type(match["result"]), bool(target), run, cost, size)


def _split(text: str) -> list[str]:
    # Splits at commas outside of parentheses.
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]
