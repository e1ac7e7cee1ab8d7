"""What an expression can cost at most, told from the sizes that its variables can have; and what
its parts are charged when they are evaluated.

An upper bound: both branches of a condition of which the dearer counts, every loop over as many
items as there can be. Which definitions are accepted hangs on it, so it is what
github.com/google/cel-go/checker/cost.go and k8s.io/apiserver/pkg/cel/library/cost.go come to:
loops cost what the macros they stand for expand to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kapiserver.api.cel import syntax as s
from kapiserver.api.cel.functions import Overload, flat
from kapiserver.api.cel.kinds import UNBOUNDED, Kind

_LIST_COST = 10
_MAP_COST = 30
_LOOPS = {
    # macro: (once: what the result is begun with and read; each time, beside filter and body)
    "all": (1, 3), "exists": (1, 4), "exists_one": (2, 2), "existsOne": (2, 2),
    "map": (_LIST_COST + 1, _LIST_COST + 2), "filter": (_LIST_COST + 1, _LIST_COST + 3),
    "transformList": (_LIST_COST + 1, _LIST_COST + 2), "transformMap": (_MAP_COST + 1, 3),
    "transformMapEntry": (_MAP_COST + 1, 2),
}  # fmt: skip
_UNREAD = frozenset(
    (
        "ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "quantity", "isQuantity", "isURL",
        "semver", "isSemver",
    )
)  # fmt: skip
"""Functions that are estimated as if they did not read the text they are given."""
MOST = 2**64 - 1
"""No estimate is higher, as with an unsigned integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The most a node can cost, the most characters, items or entries of its value, and the most
    of each of its items."""

    cost: int
    size: int
    item: int = UNBOUNDED


Scope: TypeAlias = Mapping[str, Estimate]
"""What is known of the variables of loops and bindings."""


def estimate(node: s.Node) -> int:
    """The most that an expression can cost."""
    return min(_estimate(node, {}).cost, MOST)


def _estimate(node: s.Node, scope: Scope) -> Estimate:
    if isinstance(node, s.Literal):
        return Estimate(0, node.kind.size)
    if isinstance(node, s.Ident):
        return scope.get(node.name) or _of_kind(1, node.kind)
    if isinstance(node, s.Select):
        if node.operand.kind is None:
            return Estimate(1, 1)  # the name of a type
        inner = _estimate(node.operand, scope)
        counts = not node.is_test and node.operand.kind.name in ("object", "map")
        return _of_kind(inner.cost + counts, node.kind, inner.item)
    if isinstance(node, s.Call):
        return _estimate_call(node, scope)
    if isinstance(node, s.ListNode):
        below = [_estimate(one, scope) for one in node.items]
        most = max((one.size for one in below), default=0)
        return Estimate(_LIST_COST + sum(one.cost for one in below), len(below), most)
    if isinstance(node, s.MapNode):
        parts = [_estimate(one, scope) for entry in node.entries for one in entry]
        most = max((one.size for one in parts), default=0)
        return Estimate(_MAP_COST + sum(one.cost for one in parts), len(node.entries), most)
    if isinstance(node, s.Loop):
        return _estimate_loop(node, scope)
    assert isinstance(node, s.Bind)
    value = _estimate(node.value, scope)
    known = Estimate(1, value.size, value.item)
    body = _estimate(node.body, {**scope, node.variable: known})
    cost = _LIST_COST + value.cost + body.cost  # a binding is a loop over an empty list
    if node.macro != "bind":
        cost += value.cost + 2 + (node.macro == "optMap")  # hasValue(), value() and optional.of()
    return Estimate(cost, body.size, body.item)


def _of_kind(cost: int, kind: Kind, most: int = UNBOUNDED) -> Estimate:
    # `most` is what is known beside the kind.
    items = kind.params[-1].size if kind.params else UNBOUNDED
    return Estimate(cost, min(kind.size, most), items)


def _estimate_call(node: s.Call, scope: Scope) -> Estimate:
    below = [_estimate(one, scope) for one in node.operands]
    spent = sum(one.cost for one in below)
    if node.function == "_?_:_":
        condition, one, other = below
        cost = condition.cost + max(one.cost, other.cost)
        return Estimate(cost, max(one.size, other.size), max(one.item, other.item))
    if not node.overloads:  # && and ||
        return Estimate(spent, 1)
    if node.function in _UNREAD:
        return Estimate(spent + 1, 1)
    if node.function in ("_[_]", "_[?_]"):
        return _of_kind(spent + 1, node.kind, below[0].item)
    sizes = [one.size for one in below]
    costs = [1 if _is_a_step(node, one) else one.cost(sizes) for one in node.overloads]
    size = max(overload.size(sizes) for overload in node.overloads)
    if node.function == "join":
        size = sizes[0] * (below[0].item + (sizes[1] if len(sizes) > 1 else 0))
    item = sizes[0] if node.function in _PARTED else max((one.item for one in below), default=0)
    return Estimate(min(spent + max(costs), MOST), min(size, UNBOUNDED), item)


def _is_a_step(node: s.Call, overload: Overload) -> bool:
    # Some that take longer are estimated so all the same.
    if overload.cost is flat or node.function == "reverse":
        return True
    if node.function == "matches":
        return node.target is None
    return node.function == "_+_" and overload.result.name == "list"


_PARTED = ("split", "findAll")
"""Functions whose result has parts of a text."""


def _estimate_loop(node: s.Loop, scope: Scope) -> Estimate:
    over = _estimate(node.range, scope)
    inner = {name: known for name, known in scope.items() if name not in node.variables}
    # The only variable is an item, of a map a key; of two the first is the place or the key.
    if node.range.kind.name == "list":
        inner[node.variables[-1]] = _of_kind(1, node.range.kind.params[0], over.item)
    body = _estimate(node.body, inner)
    kept = _estimate(node.filter, inner).cost if node.filter is not None else 0
    once, each = _LOOPS[node.macro]
    cost = min(over.cost + once + over.size * (kept + body.cost + each), MOST)
    if node.kind.name not in ("list", "map"):
        return Estimate(cost, 1)
    return Estimate(cost, over.size, over.item if node.macro == "filter" else body.size)


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
