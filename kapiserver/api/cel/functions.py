"""How functions are declared: what they take, give, do and cost.

A row of a table is `(signature, function, cost, size)`. The signature is `string.(int) string` for
a method, `(string) int` else. Cost and size are functions of the sizes of the arguments
(characters, items; 1 for what has none): what a call is charged before it is made, and how large
its result can be; what has a size is charged for it. What may be written is for `call_costs.py`
to say. Knows no function.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kapiserver.api.cel.cel_types import CelType, read
from kapiserver.api.cel.values import Metered

Cost: TypeAlias = Callable[[Sequence[int]], int]
Row: TypeAlias = tuple[Any, ...]
Table: TypeAlias = Mapping[str, Sequence[Row]]
_SIGNATURE = re.compile(r"(?:(?P<target>[a-zA-Z(), ]+)\.)?\((?P<args>.*)\) (?P<result>.+)")
_TRAVERSAL = 10
"""Characters that cost as much as one step (StringTraversalCostFactor is its inverse)."""


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One form of a function. `args` begin with the target of a method."""

    args: tuple[CelType, ...]
    result: CelType
    is_method: bool
    run: Callable[..., Any] | Metered
    cost: Cost
    size: Cost


def tenth(size: int) -> int:
    """What it costs to go through a text or bytes of this size."""
    return -(-size // _TRAVERSAL)


def flat(_: Sequence[int]) -> int:
    """One step."""
    return 1


def first(sizes: Sequence[int]) -> int:
    """The first argument is gone through."""
    return tenth(sizes[0])


def twice(sizes: Sequence[int]) -> int:
    """The first argument is gone through, and as much is made."""
    return tenth(2 * sizes[0])


def second(sizes: Sequence[int]) -> int:
    """The second argument is gone through."""
    return tenth(sizes[1])


def items(sizes: Sequence[int]) -> int:
    """Each item is looked at."""
    return sizes[0]


def both(sizes: Sequence[int]) -> int:
    """Both arguments are gone through."""
    return tenth(sizes[0] + sizes[1])


def smaller(sizes: Sequence[int]) -> int:
    """As much as both have is gone through."""
    return tenth(min(sizes))


def product(sizes: Sequence[int]) -> int:
    """Each of one is held against each of the other."""
    return sizes[0] * sizes[1]


def pattern(sizes: Sequence[int]) -> int:
    """A pattern is looked for."""
    return tenth(sizes[0] + 1) * max(1, math.ceil(sizes[1] / 4))


def size_one(_: Sequence[int]) -> int:
    """A result without size."""
    return 1


def size_first(sizes: Sequence[int]) -> int:
    """A result as large as the first argument."""
    return sizes[0]


def size_sum(sizes: Sequence[int]) -> int:
    """A result as large as all arguments."""
    return sum(sizes)


def overload(row: Row) -> Overload:
    """The overload that a row declares."""
    signature, run, *rest = row
    found = _SIGNATURE.fullmatch(signature)
    assert found is not None, signature
    args = [read(one) for one in _split(found["args"])]
    target = [read(found["target"])] if found["target"] else []
    cost = rest[0] if rest else flat
    size = rest[1] if len(rest) > 1 else size_one
    return Overload((*target, *args), read(found["result"]), bool(target), run, cost, size)


def _split(text: str) -> list[str]:
    # At the commas outside of brackets.
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]
