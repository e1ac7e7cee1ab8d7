"""Static cost estimates of expressions, and the step costs that are charged at evaluation.

The estimate is an upper bound: the more expensive branch of a condition, loops over the largest
range. Definitions are accepted or rejected by it, so it mirrors
github.com/google/cel-go/checker/cost.go and k8s.io/apiserver/pkg/cel/library/cost.go exactly: loops
cost what their macros expand to, and a part of an unnamed value has the size of the schema's root.
Where those know no size although there is one, neither does this module: a definition must not be
rejected that kube-apiserver accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.cel import syntax as s
from kapiserver.api.cel.call_costs import call_cost, sort_cost_of
from kapiserver.api.cel.cel_types import DYN, CelType
from kapiserver.api.cel.sizes import (
    MAX_COST,
    ONE,
    UNDECLARED,
    UNKNOWN,
    Estimate,
    Size,
    part_type,
    size_of,
)

_LIST_COST = 10
_STRUCT_COST = 40
_MAP_COST = 30
_LOOPS = {
    # macro: (once: initializing and reading the result; per item, besides filter and body)
    "all": (1, 3), "exists": (1, 4), "exists_one": (2, 2), "existsOne": (2, 2),
    "map": (_LIST_COST + 1, _LIST_COST + 2), "filter": (_LIST_COST + 1, _LIST_COST + 3),
    "transformList": (_LIST_COST + 1, _LIST_COST + 2), "transformMap": (_MAP_COST + 1, 3),
    "transformMapEntry": (_MAP_COST + 1, 2), "sortBy": (_LIST_COST + 1, _LIST_COST + 2),
}  # fmt: skip
_LISTING = ("map", "filter", "transformList")
_MAPPING = ("transformMap", "transformMapEntry")

Scope: TypeAlias = Mapping[str, Estimate]
"""Estimates of the variables of loops and bindings."""


def estimate(node: s.Node, variables: Mapping[str, CelType]) -> int:
    """Return the maximum cost of an expression. The type of the first variable is the root."""
    kinds = {
        name: cel_type.params[0] if cel_type.name == "optional" else cel_type
        for name, cel_type in variables.items()
    }
    root = next(iter(kinds.values()), UNDECLARED)
    return min(_Estimator(kinds, root).of(node, {}).cost, MAX_COST)


class _Estimator(Struct, frozen=True):
    variables: Mapping[str, CelType]
    root: CelType

    def of(self, node: s.Node, scope: Scope) -> Estimate:
        """Return the estimate of a node."""
        if isinstance(node, s.Literal):
            size = len(node.value) if isinstance(node.value, str | bytes) else 1
            return Estimate(0, Size(size, size))
        if isinstance(node, s.Ident):
            schema_type = self.variables.get(node.name, self.root)
            return scope.get(node.name) or _estimate_of(1, schema_type, node.cel_type)
        if isinstance(node, s.Select):
            return self._of_select(node, scope)
        if isinstance(node, s.Call):
            return self._of_call(node, scope)
        if isinstance(node, s.ListNode):
            items = [self.of(item, scope) for item in node.items]
            cost, size = _LIST_COST + sum(item.cost for item in items), len(items)
            return Estimate(cost, Size(size, size), entries=(ONE, _widest(items)))
        if isinstance(node, s.MapNode):
            keys = [self.of(key, scope) for key, _ in node.entries]
            values = [self.of(value, scope) for _, value in node.entries]
            cost, size = _MAP_COST + sum(item.cost for item in (*keys, *values)), len(keys)
            return Estimate(cost, Size(size, size), entries=(_widest(keys), _widest(values)))
        if isinstance(node, s.Struct):
            fields = sum(self.of(value, scope).cost for _, value in node.fields)
            return Estimate(_STRUCT_COST + fields, Size(len(node.fields), len(node.fields)))
        if isinstance(node, s.Loop):
            return self._of_loop(node, scope)
        assert isinstance(node, s.Bind)
        return self._of_bind(node, scope)

    def _part_of(self, schema_type: CelType | None, name: str) -> CelType:
        # Parts of an unnamed value are looked up from the root.
        return self.root if schema_type is None else part_type(schema_type, name)

    def _of_select(self, node: s.Select, scope: Scope) -> Estimate:
        if node.variable:
            schema_type = self.variables.get(node.variable, self.root)
            return _estimate_of(1, schema_type, node.cel_type)
        if node.operand.cel_type is None:
            return Estimate(1, size_of(self.root))  # the name of a type
        inner = self.of(node.operand, scope)
        if node.is_test:
            return Estimate(inner.cost, ONE)
        if node.is_optional:
            return Estimate(inner.cost + 1, _type_size(node.cel_type))
        counts = node.operand.cel_type.name in ("object", "map")
        return _estimate_of(
            inner.cost + counts, self._part_of(inner.schema_type, node.field), node.cel_type
        )

    def _of_call(self, node: s.Call, scope: Scope) -> Estimate:
        operands = [self.of(operand, scope) for operand in node.operands]
        operand_cost = sum(operand.cost for operand in operands)
        if node.function == "_?_:_":
            condition, operand, when_false = operands
            cost = condition.cost + max(operand.cost, when_false.cost)
            return Estimate(
                cost, operand.size | when_false.size, entries=_entry_sizes(operand, when_false)
            )
        if not node.overloads:  # && and ||
            return Estimate(operand_cost, ONE)
        if node.function == "dyn":
            return Estimate(operand_cost + 1, operands[0].size, entries=operands[0].entries)
        range_type = node.operands[0].cel_type.name if node.operands else ""
        if node.function == "_[_]" and range_type != "optional":
            name = "@items" if range_type == "list" else "@values"
            element = _estimate_of(
                operand_cost + 1, self._part_of(operands[0].schema_type, name), node.cel_type
            )
            entries = operands[0].entries
            return (
                element
                if entries is None
                else Estimate(element.cost, entries[1], element.schema_type)
            )
        cost, size = call_cost(node, operands)
        entries = _entry_sizes(*operands) if node.function == "_+_" else None
        if size is None:
            size = _type_size(node.cel_type)
        return Estimate(min(operand_cost + cost, MAX_COST), size, entries=entries)

    def _of_loop(self, node: s.Loop, scope: Scope) -> Estimate:
        range_ = self.of(node.range, scope)
        inner = {**scope, **self._variables(node, range_)}
        body = self.of(node.body, inner)
        filter_cost = self.of(node.filter, inner).cost if node.filter is not None else 0
        once, per_item = _LOOPS[node.macro]
        cost = min(
            range_.cost + once + range_.size.maximum * (filter_cost + body.cost + per_item),
            MAX_COST,
        )
        if node.macro in _MAPPING:
            return Estimate(cost, range_.size)
        if node.macro == "sortBy":
            return self._of_sort(node, range_, cost)
        if node.macro not in _LISTING:
            return Estimate(cost, ONE)
        item = inner[node.variables[-1]] if node.macro == "filter" else body
        return Estimate(cost, range_.size, entries=(ONE, Size(0, item.size.maximum)))

    def _of_sort(self, node: s.Loop, range_: Estimate, cost: int) -> Estimate:
        # The list is bound to a variable, its keys are mapped, and compared with each other.
        kind = node.body.cel_type.name
        sort_cost = _LIST_COST + 1 + 1 + sort_cost_of(range_.size, kind)
        return Estimate(min(cost + sort_cost, MAX_COST), range_.size, entries=range_.entries)

    def _variables(self, node: s.Loop, range_: Estimate) -> Scope:
        keys, values = range_.entries or (None, None)
        is_list, kinds = node.range.cel_type.name == "list", node.range.cel_type.params or (DYN,)
        item = _estimate_of(
            1,
            self._part_of(range_.schema_type, "@items" if is_list else "@values"),
            kinds[-1],
            values,
        )
        key = _estimate_of(
            1, self._part_of(range_.schema_type, "@indices" if is_list else "@keys"), kinds[0], keys
        )
        if len(node.variables) == 2:
            return dict(zip(node.variables, (key, item), strict=True))
        return {node.variables[0]: item if is_list else key}

    def _of_bind(self, node: s.Bind, scope: Scope) -> Estimate:
        value = self.of(node.value, scope)
        if node.macro == "bind":
            body = self.of(node.body, {**scope, node.variable: replace(value, cost=1)})
            # A binding expands to a loop over an empty list.
            return replace(body, cost=_LIST_COST + value.cost + body.cost, schema_type=None)
        cel_type = node.value.cel_type
        variable_estimate = Estimate(1, _type_size(cel_type.params[0] if cel_type.params else DYN))
        body = self.of(node.body, {**scope, node.variable: variable_estimate})
        # Besides the binding: hasValue(), value(), and optional.of() for optMap.
        cost = _LIST_COST + 2 * value.cost + body.cost + 2 + (node.macro == "optMap")
        return Estimate(cost, _type_size(node.cel_type))


def _type_size(cel_type: CelType) -> Size:
    # The size of a value by its type alone.
    if cel_type.name == "optional":
        return _type_size(cel_type.params[0])
    return ONE if cel_type.name in _SCALARS else UNKNOWN


_SCALARS = ("bool", "int", "uint", "double", "timestamp", "duration")


def _estimate_of(
    cost: int, schema_type: CelType, cel_type: CelType, known_size: Size | None = None
) -> Estimate:
    # A value of a schema type; `known_size` is its size if the schema does not declare it.
    size = size_of(schema_type)
    if schema_type is UNDECLARED:
        size = _type_size(cel_type)
        if size is UNKNOWN:
            size = known_size or Size(0, min(cel_type.size, MAX_COST))
    return Estimate(cost, size, schema_type)


def _widest(parts: list[Estimate]) -> Size:
    size = parts[0].size if parts else Size(0, 0)
    for estimate in parts[1:]:
        size |= estimate.size
    return size


def _entry_sizes(left: Estimate, right: Estimate | None = None) -> tuple[Size, Size] | None:
    if right is None or left.entries is None or right.entries is None:
        return None
    return left.entries[0] | right.entries[0], left.entries[1] | right.entries[1]


def _children(node: s.Node) -> Iterator[s.Node]:
    # Nodes that are evaluated at most once with this node: not the bodies of loops.
    if isinstance(node, s.Select):
        yield node.operand
    elif isinstance(node, s.Call):
        yield from node.operands
    elif isinstance(node, s.ListNode):
        yield from node.items
    elif isinstance(node, s.Struct):
        yield from (child for _, child in node.fields)
    elif isinstance(node, s.MapNode):
        yield from (child for entry in node.entries for child in entry)
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
    """Return the cost of one evaluation of a node, without loops and the traversal of long
    texts."""
    return _own_steps(node) + sum(map(steps_of, _children(node)))


def _own_steps(node: s.Node) -> int:
    # A function costs as much as several operators, a slow function as much as many.
    if not isinstance(node, s.Call) or node.function[0] in "_@!-":
        return int(not isinstance(node, s.Literal))
    return _SLOW_STEPS if node.function in _SLOW else _NAMED_STEPS
