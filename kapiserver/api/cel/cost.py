"""What an expression can cost at most, told from the sizes that its variables can have; and what
its parts are charged when they are evaluated.

An upper bound: both branches of a condition of which the dearer counts, every loop over as many
items as there can be. Which definitions are accepted hangs on it, so it is what
github.com/google/cel-go/checker/cost.go and k8s.io/apiserver/pkg/cel/library/cost.go come to:
loops cost what the macros they stand for expand to, and what is taken out of a value without a
name has the size of the schema's root. Where it knows no size although there is one, that counts:
a definition refused for nothing is worse than one that is not refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from kapiserver.api.cel import syntax as s
from kapiserver.api.cel.call_costs import call_cost
from kapiserver.api.cel.cel_types import DYN, CelType
from kapiserver.api.cel.sizes import MOST, NOWHERE, ONE, UNKNOWN, Estimate, Size, part, size_of

_LIST_COST = 10
_MAP_COST = 30
_LOOPS = {
    # macro: (once: what the result is begun with and read; each time, beside filter and body)
    "all": (1, 3), "exists": (1, 4), "exists_one": (2, 2), "existsOne": (2, 2),
    "map": (_LIST_COST + 1, _LIST_COST + 2), "filter": (_LIST_COST + 1, _LIST_COST + 3),
    "transformList": (_LIST_COST + 1, _LIST_COST + 2), "transformMap": (_MAP_COST + 1, 3),
    "transformMapEntry": (_MAP_COST + 1, 2),
}  # fmt: skip
_LISTING = ("map", "filter", "transformList")
_MAPPING = ("transformMap", "transformMapEntry")

Scope: TypeAlias = Mapping[str, Estimate]
"""What is known of the variables of loops and bindings."""


def estimate(node: s.Node, variables: Mapping[str, CelType]) -> int:
    """The most that an expression can cost. The kind of the first variable is the root."""
    kinds = {
        name: kind.params[0] if kind.name == "optional" else kind
        for name, kind in variables.items()
    }
    root = next(iter(kinds.values()), NOWHERE)
    return min(_Estimator(kinds, root).of(node, {}).cost, MOST)


@dataclass(frozen=True, slots=True)
class _Estimator:
    variables: Mapping[str, CelType]
    root: CelType

    def of(self, node: s.Node, scope: Scope) -> Estimate:
        """What is known of a node."""
        if isinstance(node, s.Literal):
            size = len(node.value) if isinstance(node.value, str | bytes) else 1
            return Estimate(0, Size(size, size))
        if isinstance(node, s.Ident):
            place = self.variables.get(node.name, self.root)
            return scope.get(node.name) or _at(1, place, node.kind)
        if isinstance(node, s.Select):
            return self._of_select(node, scope)
        if isinstance(node, s.Call):
            return self._of_call(node, scope)
        if isinstance(node, s.ListNode):
            below = [self.of(one, scope) for one in node.items]
            cost, size = _LIST_COST + sum(one.cost for one in below), len(below)
            return Estimate(cost, Size(size, size), entries=(ONE, _widest(below)))
        if isinstance(node, s.MapNode):
            keys = [self.of(key, scope) for key, _ in node.entries]
            values = [self.of(value, scope) for _, value in node.entries]
            cost, size = _MAP_COST + sum(one.cost for one in (*keys, *values)), len(keys)
            return Estimate(cost, Size(size, size), entries=(_widest(keys), _widest(values)))
        if isinstance(node, s.Loop):
            return self._of_loop(node, scope)
        assert isinstance(node, s.Bind)
        return self._of_bind(node, scope)

    def _part(self, place: CelType | None, name: str) -> CelType:
        # What is in something that has no name itself, is looked for from the root.
        return self.root if place is None else part(place, name)

    def _of_select(self, node: s.Select, scope: Scope) -> Estimate:
        if node.operand.kind is None:
            return Estimate(1, size_of(self.root))  # the name of a type
        inner = self.of(node.operand, scope)
        if node.is_test:
            return Estimate(inner.cost, ONE)
        if node.is_optional:
            return Estimate(inner.cost + 1, _plain(node.kind))
        counts = node.operand.kind.name in ("object", "map")
        return _at(inner.cost + counts, self._part(inner.place, node.field), node.kind)

    def _of_call(self, node: s.Call, scope: Scope) -> Estimate:
        below = [self.of(one, scope) for one in node.operands]
        spent = sum(one.cost for one in below)
        if node.function == "_?_:_":
            condition, one, other = below
            cost = condition.cost + max(one.cost, other.cost)
            return Estimate(cost, one.size | other.size, entries=_both(one, other))
        if not node.overloads:  # && and ||
            return Estimate(spent, ONE)
        if node.function == "dyn":
            return Estimate(spent + 1, below[0].size, entries=below[0].entries)
        over = node.operands[0].kind.name if node.operands else ""
        if node.function == "_[_]" and over != "optional":
            name = "@items" if over == "list" else "@values"
            found = _at(spent + 1, self._part(below[0].place, name), node.kind)
            entries = below[0].entries
            return found if entries is None else Estimate(found.cost, entries[1], found.place)
        cost, size = call_cost(node, below)
        entries = _both(*below) if node.function == "_+_" else None
        if size is None:
            sizes = [one.size.most for one in below]
            size = Size(0, min(max(one.size(sizes) for one in node.overloads), MOST))
        return Estimate(min(spent + cost, MOST), size, entries=entries)

    def _of_loop(self, node: s.Loop, scope: Scope) -> Estimate:
        over = self.of(node.range, scope)
        inner = {**scope, **self._variables(node, over)}
        body = self.of(node.body, inner)
        kept = self.of(node.filter, inner).cost if node.filter is not None else 0
        once, each = _LOOPS[node.macro]
        cost = min(over.cost + once + over.size.most * (kept + body.cost + each), MOST)
        if node.macro in _MAPPING:
            return Estimate(cost, over.size)
        if node.macro not in _LISTING:
            return Estimate(cost, ONE)
        item = inner[node.variables[-1]] if node.macro == "filter" else body
        return Estimate(cost, over.size, entries=(ONE, Size(0, item.size.most)))

    def _variables(self, node: s.Loop, over: Estimate) -> Scope:
        keys, values = over.entries or (None, None)
        is_list, kinds = node.range.kind.name == "list", node.range.kind.params or (DYN,)
        item = _at(1, self._part(over.place, "@items" if is_list else "@values"), kinds[-1], values)
        key = _at(1, self._part(over.place, "@indices" if is_list else "@keys"), kinds[0], keys)
        if len(node.variables) == 2:
            return dict(zip(node.variables, (key, item), strict=True))
        return {node.variables[0]: item if is_list else key}

    def _of_bind(self, node: s.Bind, scope: Scope) -> Estimate:
        value = self.of(node.value, scope)
        if node.macro == "bind":
            body = self.of(node.body, {**scope, node.variable: replace(value, cost=1)})
            # A binding is a loop over an empty list.
            return replace(body, cost=_LIST_COST + value.cost + body.cost, place=None)
        kind = node.value.kind
        known = Estimate(1, _plain(kind.params[0] if kind.params else DYN))
        body = self.of(node.body, {**scope, node.variable: known})
        # Beside the binding hasValue(), value(), and of optMap optional.of().
        cost = _LIST_COST + 2 * value.cost + body.cost + 2 + (node.macro == "optMap")
        return Estimate(cost, _plain(node.kind))


def _plain(kind: CelType) -> Size:
    # What is known of a value by its type alone.
    if kind.name == "optional":
        return _plain(kind.params[0])
    return ONE if kind.name in _SCALARS else UNKNOWN


_SCALARS = ("bool", "int", "uint", "double", "timestamp", "duration")


def _at(cost: int, place: CelType, kind: CelType, known: Size | None = None) -> Estimate:
    # A value at a place; `known` is what else is known of its size.
    size = size_of(place)
    if place is NOWHERE:
        size = _plain(kind)
        if size is UNKNOWN:
            size = known or Size(0, min(kind.size, MOST))
    return Estimate(cost, size, place)


def _widest(parts: list[Estimate]) -> Size:
    found = parts[0].size if parts else Size(0, 0)
    for one in parts[1:]:
        found |= one.size
    return found


def _both(one: Estimate, other: Estimate | None = None) -> tuple[Size, Size] | None:
    if other is None or one.entries is None or other.entries is None:
        return None
    return one.entries[0] | other.entries[0], one.entries[1] | other.entries[1]


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
