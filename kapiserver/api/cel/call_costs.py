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
from kapiserver.api.cel.sizes import UNKNOWN, Estimate, Size, part_type, size_of

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
    """Return the cost of a call; `below` has the estimates of its target and arguments."""
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


def _traverse(_: s.Call, below: Sequence[Estimate]) -> Cost:
    return traversal_cost(below[0].size.most), below[0].size


def _traverse_items(node: s.Call, below: Sequence[Estimate]) -> Cost:
    values, cel_type = below[0], node.operands[0].cel_type
    if cel_type.name != "list":
        return traversal_cost(values.size.most), None
    item_cost = traversal_cost(_item(values).most) if cel_type.params[0].name in _TEXTS else 0
    return values.size.most * (1 + item_cost), None


def _replace(_: s.Call, below: Sequence[Estimate]) -> Cost:
    text, old, new = (estimate.size for estimate in below[:3])
    if old.least == 0:
        size = (text.most + 1) * new.most + text.most
    elif new.most <= old.least:
        size = text.most
    else:
        size = -(-text.most // old.least) * new.most
    return traversal_cost(2 * text.most), Size(0, size)


def _split(node: s.Call, below: Sequence[Estimate]) -> Cost:
    most = below[0].size.most
    limit = node.args[1] if len(node.args) > 1 else None
    parts = limit.value % 2**64 if isinstance(limit, s.Literal) else most
    return traversal_cost(2 * most), Size(0, parts)


def _join(_: s.Call, below: Sequence[Estimate]) -> Cost:
    values = below[0]
    size = values.size * _item(values)
    if len(below) > 1:
        separators = Size(max(values.size.least - 1, 0), max(values.size.most - 1, 0))
        size += below[1].size * separators
    return traversal_cost(size.most), size


def _match_cost(_: s.Call, below: Sequence[Estimate]) -> int:
    text, pattern = (estimate.size.most for estimate in below[:2])
    return traversal_cost(text + 1) * -(-pattern // 4)


def _find(node: s.Call, below: Sequence[Estimate]) -> Cost:
    return _match_cost(node, below), Size(0, below[0].size.most)


def _contains_address(base: int) -> Rule:
    def rule(node: s.Call, below: Sequence[Estimate]) -> Cost:
        return base + (
            traversal_cost(below[1].size.most) if _accepts(node, 1, "string") else 0
        ), None

    return rule


_CONSTANT_COMPARISON = ("ip", "cidr", "quantity", "semver")


def _compare(node: s.Call, below: Sequence[Estimate]) -> Cost:
    left, right = (value.size for value in below)
    types = {value.cel_type.name for value in node.operands}
    if node.function == "_==_" and len(types) == 1:
        type_name = types.pop()
        if type_name in _CONSTANT_COMPARISON:
            return _STEP
        if type_name == "format":
            return traversal_cost(_FORMAT_NAME), None
        if type_name == "url":
            return traversal_cost(1 if right is UNKNOWN else right.most), None
    return traversal_cost(min(left.most, right.most)), None


def _order(node: s.Call, below: Sequence[Estimate]) -> Cost:
    if not _accepts(node, 0, *_TEXTS):
        return _STEP
    return max(1, traversal_cost(min(below[0].size.most, below[1].size.most))), None


def _add(node: s.Call, below: Sequence[Estimate]) -> Cost:
    if not _accepts(node, 0, *_TEXTS, "list"):
        return _STEP
    size = below[0].size + below[1].size
    return traversal_cost(size.most) if _accepts(node, 0, *_TEXTS) else 1, size


def _bytes(node: s.Call, below: Sequence[Estimate]) -> Cost:
    size = below[0].size
    if not _accepts(node, 0, "string"):
        return _STEP
    return traversal_cost(size.most), Size(size.least, size.most * 4)


def _string(node: s.Call, below: Sequence[Estimate]) -> Cost:
    size = below[0].size
    if not _accepts(node, 0, "bytes"):
        return _STEP
    return traversal_cost(size.most), Size(size.least // 4, size.most)


def _quote(_: s.Call, below: Sequence[Estimate]) -> Cost:
    size = below[0].size
    return traversal_cost(size.most), Size(size.least + 2, size.most * 2 + 2)


def _sets(times: int) -> Rule:
    return lambda _, below: (times * below[0].size.most * below[1].size.most + 1, None)


_METHODS: Mapping[str, Rule] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traverse_items),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _traverse),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "matches": lambda node, below: (_match_cost(node, below), None),
    "contains": lambda _, below: (
        traversal_cost(below[0].size.most) * traversal_cost(below[1].size.most),
        None,
    ),
    **dict.fromkeys(
        ("startsWith", "endsWith"), lambda _, below: (traversal_cost(below[1].size.most), None)
    ),
    "format": lambda _, below: (traversal_cost(below[0].size.most), None),
    "containsIP": _contains_address(traversal_cost(2 * _ADDRESS_BYTES)),
    "containsCIDR": _contains_address(
        traversal_cost(2 * _ADDRESS_BYTES) + traversal_cost(_ADDRESS_BYTES) + 1
    ),
    "validate": lambda _, below: (traversal_cost(below[1].size.most) * _FORMAT_PATTERN, None),
}
_RULES: Mapping[str, Rule] = {
    "_==_": _compare,
    "_!=_": _compare,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _order),
    "_+_": _add,
    "@in": lambda node, below: (below[1].size.most if _accepts(node, 1, "list") else 1, None),
    "url": _traverse,
    "bytes": _bytes,
    "string": _string,
    "strings.quote": _quote,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}
