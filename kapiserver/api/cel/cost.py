"""What an expression can cost at most, told from the sizes that its variables can have; and what
its parts are charged when they are evaluated.

An upper bound: both branches of a condition of which the dearer counts, every loop over as many
items as there can be. Mirrors github.com/google/cel-go/checker/cost.go; equal to it where rules are
simple, never far below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kapiserver.api.cel import syntax as s
from kapiserver.api.cel.functions import flat
from kapiserver.api.cel.kinds import UNBOUNDED

_LIST_COST = 10
_MAP_COST = 30
MOST = 2**64 - 1
"""No estimate is higher, as with an unsigned integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The most a node can cost, and the most characters, items or entries of its value."""

    cost: int
    size: int


def estimate(node: s.Node) -> int:
    """The most that an expression can cost."""
    return min(_estimate(node).cost, MOST)


def _estimate(node: s.Node) -> Estimate:
    if isinstance(node, s.Literal):
        return Estimate(0, node.kind.size)
    if isinstance(node, s.Ident):
        return Estimate(1, node.kind.size)
    if isinstance(node, s.Select) and node.operand.kind is None:
        return Estimate(1, 1)  # the name of a type
    if isinstance(node, s.Select):
        inner = _estimate(node.operand)
        return Estimate(inner.cost + (not node.is_test), _bounded(node.kind.size, inner.size))
    if isinstance(node, s.Call):
        return _estimate_call(node)
    if isinstance(node, s.ListNode):
        return Estimate(_LIST_COST + _sum(node.items), len(node.items))
    if isinstance(node, s.MapNode):
        parts = [one for entry in node.entries for one in entry]
        return Estimate(_MAP_COST + _sum(parts), len(node.entries))
    if isinstance(node, s.Loop):
        return _estimate_loop(node)
    assert isinstance(node, s.Bind)
    value, body = _estimate(node.value), _estimate(node.body)
    return Estimate(value.cost + body.cost + 1, body.size)


def _sum(nodes: list[s.Node]) -> int:
    return sum(_estimate(node).cost for node in nodes)


def _bounded(size: int, whole: int) -> int:
    # A part of a text or list is not larger than the whole.
    return size if size < UNBOUNDED else whole


def _estimate_call(node: s.Call) -> Estimate:
    below = [_estimate(one) for one in node.operands]
    if node.function == "_?_:_":
        condition, one, other = below
        cost = condition.cost + max(one.cost, other.cost) + 1
        return Estimate(cost, max(one.size, other.size))
    spent = sum(one.cost for one in below)
    if not node.overloads:
        return Estimate(spent + len(below) - 1, 1)
    sizes = [one.size for one in below]
    if node.function in ("_[_]", "_[?_]"):
        return Estimate(spent + 1, _bounded(node.kind.size, sizes[0]))
    costs = [1 if overload.cost is flat else overload.cost(sizes) for overload in node.overloads]
    size = max(overload.size(sizes) for overload in node.overloads)
    return Estimate(min(spent + max(costs), MOST), min(size, UNBOUNDED))


def _estimate_loop(node: s.Loop) -> Estimate:
    over, body = _estimate(node.range), _estimate(node.body)
    kept = _estimate(node.filter).cost if node.filter is not None else 0
    each = body.cost + kept + (_LIST_COST + 1 if "map" in node.macro.lower() else 2)
    cost = min(over.cost + over.size * each + 1, MOST)
    return Estimate(cost, over.size if node.kind.name in ("list", "map") else 1)


def _children(node: s.Node) -> Iterator[s.Node]:
    # What is evaluated at most once with the node: not the bodies of loops.
    if isinstance(node, s.Select):
        yield node.operand
    elif isinstance(node, s.Call):
        yield from node.operands
    elif isinstance(node, s.ListNode):
        yield from node.items
    elif isinstance(node, s.MapNode):
        yield from (one for entry in node.entries for one in entry)
    elif isinstance(node, s.Loop):
        yield node.range
    elif isinstance(node, s.Bind):
        yield from (node.value, node.body)


_NAMED_STEPS = 10
_SLOW_STEPS = 30
_SLOW = frozenset(
    (
        "timestamp", "duration", "quantity", "isQuantity", "add", "sub", "ip", "isIP", "cidr",
        "isCIDR", "containsIP", "containsCIDR", "masked", "url", "isURL", "getQuery", "semver",
        "isSemver", "validate", "format", "ip.isCanonical", "getFullYear", "getMonth", "getDate",
        "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds",
        "findAll", "find", "matches",
    )
)  # fmt: skip


def steps_of(node: s.Node) -> int:
    """What a node costs each time it is evaluated, but for loops and long texts in it."""
    return _own_steps(node) + sum(map(steps_of, _children(node)))


def _own_steps(node: s.Node) -> int:
    # A function takes as long as several operators do, some as long as many.
    if not isinstance(node, s.Call) or node.function[0] in "_@!-":
        return int(not isinstance(node, s.Literal))
    return _SLOW_STEPS if node.function in _SLOW else _NAMED_STEPS
