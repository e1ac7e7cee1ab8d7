"""Cost estimates of calls without their arguments, and size estimates of their results.

A function that is in no table costs one step, and its result is as large as declared. Mirrors
EstimateCallCost of k8s.io/apiserver/pkg/cel/library/cost.go and functionCost of
github.com/google/cel-go/checker/cost.go, including the functions that they underestimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kapiserver.api.cel import syntax as s
from kapiserver.api.cel.functions import traversal_cost
from kapiserver.api.cel.libraries.authorization import CHECK_COST
from kapiserver.api.cel.sizes import MAX_COST, UNKNOWN, Estimate, Size, part_type, size_of

Cost: TypeAlias = tuple[int, Size | None]
"""Steps, and the size of the result if it is known."""
Rule: TypeAlias = Callable[[s.Call, Sequence[Estimate]], Cost]
_STEP: Cost = (1, None)
_TEXTS = ("string", "bytes")
_ADDRESS_BYTES = 16
_FORMAT_NAME = 64
_FORMAT_PATTERN = 32
"""The cost of the longest pattern of a named format, per step of the text."""


def call_cost(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    """Return the cost of a call; `operands` has the estimates of its target and arguments."""
    rule = _METHODS.get(node.function) if node.target is not None else _RULES.get(node.function)
    return _STEP if rule is None else rule(node, operands)


def _accepts(node: s.Call, index: int, *types: str) -> bool:
    # Whether an overload takes an argument of one of these types at this index.
    return any(
        len(overload.args) > index and overload.args[index].name in types
        for overload in node.overloads
    )


def _item(values: Estimate) -> Size:
    if values.schema_type is not None:
        return size_of(part_type(values.schema_type, "@items"))
    return UNKNOWN if values.entries is None else values.entries[1]


def _traverse(_: s.Call, operands: Sequence[Estimate]) -> Cost:
    return traversal_cost(operands[0].size.maximum), operands[0].size


def _traverse_items(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    values, cel_type = operands[0], node.operands[0].cel_type
    if cel_type.name != "list":
        return traversal_cost(values.size.maximum), None
    item_cost = traversal_cost(_item(values).maximum) if cel_type.params[0].name in _TEXTS else 0
    return values.size.maximum * (1 + item_cost), None


def _replace(_: s.Call, operands: Sequence[Estimate]) -> Cost:
    text, old, new = (estimate.size for estimate in operands[:3])
    if old.minimum == 0:
        size = (text.maximum + 1) * new.maximum + text.maximum
    elif new.maximum <= old.minimum:
        size = text.maximum
    else:
        size = -(-text.maximum // old.minimum) * new.maximum
    return traversal_cost(2 * text.maximum), Size(0, size)


def _split(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    max_size = operands[0].size.maximum
    limit = node.args[1] if len(node.args) > 1 else None
    parts = limit.value % 2**64 if isinstance(limit, s.Literal) else max_size
    return traversal_cost(2 * max_size), Size(0, parts)


def _join(_: s.Call, operands: Sequence[Estimate]) -> Cost:
    values = operands[0]
    size = values.size * _item(values)
    if len(operands) > 1:
        separators = Size(max(values.size.minimum - 1, 0), max(values.size.maximum - 1, 0))
        size += operands[1].size * separators
    return traversal_cost(size.maximum), size


def _match_cost(_: s.Call, operands: Sequence[Estimate]) -> int:
    text, pattern = (estimate.size.maximum for estimate in operands[:2])
    return traversal_cost(text + 1) * -(-pattern // 4)


def _find(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    return _match_cost(node, operands), Size(0, operands[0].size.maximum)


def _contains_address(base: int) -> Rule:
    def rule(node: s.Call, operands: Sequence[Estimate]) -> Cost:
        return base + (
            traversal_cost(operands[1].size.maximum) if _accepts(node, 1, "string") else 0
        ), None

    return rule


_CONSTANT_COMPARISON = ("ip", "cidr", "quantity", "semver")


def _compare(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    left, right = (value.size for value in operands)
    types = {value.cel_type.name for value in node.operands}
    if node.function == "_==_" and len(types) == 1:
        type_name = types.pop()
        if type_name in _CONSTANT_COMPARISON:
            return _STEP
        if type_name == "format":
            return traversal_cost(_FORMAT_NAME), None
        if type_name == "url":
            return traversal_cost(1 if right is UNKNOWN else right.maximum), None
    return traversal_cost(min(left.maximum, right.maximum)), None


def _order(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    if not _accepts(node, 0, *_TEXTS):
        return _STEP
    return max(1, traversal_cost(min(operands[0].size.maximum, operands[1].size.maximum))), None


def _add(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    if not _accepts(node, 0, *_TEXTS, "list"):
        return _STEP
    size = operands[0].size + operands[1].size
    return traversal_cost(size.maximum) if _accepts(node, 0, *_TEXTS) else 1, size


def _bytes(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    size = operands[0].size
    if not _accepts(node, 0, "string"):
        return _STEP
    return traversal_cost(size.maximum), Size(size.minimum, size.maximum * 4)


def _string(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    size = operands[0].size
    if not _accepts(node, 0, "bytes"):
        return _STEP
    return traversal_cost(size.maximum), Size(size.minimum // 4, size.maximum)


def _quote(_: s.Call, operands: Sequence[Estimate]) -> Cost:
    size = operands[0].size
    return traversal_cost(size.maximum), Size(size.minimum + 2, size.maximum * 2 + 2)


def _sets(times: int) -> Rule:
    return lambda _, operands: (
        times * operands[0].size.maximum * operands[1].size.maximum + 1,
        None,
    )


_LIST_CALL = 11
"""The cost of a call that makes a list."""


def _literal(node: s.Node, default: int) -> int:
    is_literal = isinstance(node, s.Literal) and isinstance(node.value, int) and node.value >= 0
    return int(node.value) if is_literal and isinstance(node, s.Literal) else default


def _slice(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    start, end = _literal(node.args[0], 0), _literal(node.args[1], operands[0].size.maximum)
    size = (end - start) % 2**64
    return min(size + _LIST_CALL, MAX_COST), Size(size, size)


def _flatten(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    depth = _literal(node.args[0], MAX_COST) if node.args else 1
    return min(depth * operands[0].size.maximum + _LIST_CALL, MAX_COST), operands[0].size


def _range(node: s.Call, _operands: Sequence[Estimate]) -> Cost:
    size = _literal(node.args[0], MAX_COST)
    return min(size + _LIST_CALL, MAX_COST), Size(size, size)


def _distinct(_: s.Call, operands: Sequence[Estimate]) -> Cost:
    size = operands[0].size * operands[0].size
    return min(2 * size.maximum + _LIST_CALL, MAX_COST), size


def sort_cost_of(size: Size, kind: str) -> int:
    """Return the cost of sorting a list by keys of a type: each is compared with each."""
    squared = (size * size).maximum
    extra = traversal_cost(squared) if kind in _TEXTS else 0
    return min(2 * squared + extra + _LIST_CALL, MAX_COST)


def _sort(node: s.Call, operands: Sequence[Estimate]) -> Cost:
    params = node.operands[0].cel_type.params
    kind = params[0].name if params else "dyn"
    return sort_cost_of(operands[0].size, kind), operands[0].size * operands[0].size


_METHODS: Mapping[str, Rule] = {
    "check": lambda _node, _operands: (CHECK_COST, None),
    "slice": _slice,
    "flatten": _flatten,
    "reverse": lambda _, operands: (
        min(operands[0].size.maximum + _LIST_CALL, MAX_COST),
        operands[0].size,
    ),
    "distinct": _distinct,
    "sort": _sort,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traverse_items),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _traverse),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "matches": lambda node, operands: (_match_cost(node, operands), None),
    "contains": lambda _, operands: (
        traversal_cost(operands[0].size.maximum) * traversal_cost(operands[1].size.maximum),
        None,
    ),
    **dict.fromkeys(
        ("startsWith", "endsWith"),
        lambda _, operands: (traversal_cost(operands[1].size.maximum), None),
    ),
    "format": lambda _, operands: (traversal_cost(operands[0].size.maximum), None),
    "containsIP": _contains_address(traversal_cost(2 * _ADDRESS_BYTES)),
    "containsCIDR": _contains_address(
        traversal_cost(2 * _ADDRESS_BYTES) + traversal_cost(_ADDRESS_BYTES) + 1
    ),
    "validate": lambda _, operands: (
        traversal_cost(operands[1].size.maximum) * _FORMAT_PATTERN,
        None,
    ),
}
_RULES: Mapping[str, Rule] = {
    "lists.range": _range,
    "_==_": _compare,
    "_!=_": _compare,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _order),
    "_+_": _add,
    "@in": lambda node, operands: (
        operands[1].size.maximum if _accepts(node, 1, "list") else 1,
        None,
    ),
    "url": _traverse,
    "bytes": _bytes,
    "string": _string,
    "strings.quote": _quote,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}
