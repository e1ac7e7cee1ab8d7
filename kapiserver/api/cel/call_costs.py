"""What calls can cost at most beside their arguments, and how large their results can be.

What is in no table is one step, and its result as large as is declared: of text that is made of a
number cel-go knows less, but messages with such text are Kubernetes' own example. Mirrors
EstimateCallCost of k8s.io/apiserver/pkg/cel/library/cost.go and functionCost of
github.com/google/cel-go/checker/cost.go, which say so of some that take longer, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kapiserver.api.cel import syntax as s
from kapiserver.api.cel.functions import tenth
from kapiserver.api.cel.sizes import UNKNOWN, Estimate, Size, part, size_of

Cost: TypeAlias = tuple[int, Size | None]
"""Steps, and the size of the result where it is known."""
Rule: TypeAlias = Callable[[s.Call, Sequence[Estimate]], Cost]
_STEP: Cost = (1, None)
_TEXTS = ("string", "bytes")
_ADDRESS_BYTES = 16
_FORMAT_NAME = 64
_FORMAT_PATTERN = 32
"""What the longest pattern of a named format costs a step of the text."""


def call_cost(node: s.Call, below: Sequence[Estimate]) -> Cost:
    """What a call costs; `below` is what is known of its target and arguments."""
    rule = _METHODS.get(node.function) if node.target is not None else _RULES.get(node.function)
    return _STEP if rule is None else rule(node, below)


def _takes(node: s.Call, place: int, *kinds: str) -> bool:
    # Whether one of the forms that may be called takes such an argument.
    return any(len(one.args) > place and one.args[place].name in kinds for one in node.overloads)


def _item(values: Estimate) -> Size:
    if values.place is not None:
        return size_of(part(values.place, "@items"))
    return UNKNOWN if values.entries is None else values.entries[1]


def _through(_: s.Call, below: Sequence[Estimate]) -> Cost:
    return tenth(below[0].size.most), below[0].size


def _through_items(node: s.Call, below: Sequence[Estimate]) -> Cost:
    values, kind = below[0], node.operands[0].kind
    if kind.name != "list":
        return tenth(values.size.most), None
    each = tenth(_item(values).most) if kind.params[0].name in _TEXTS else 0
    return values.size.most * (1 + each), None


def _replace(_: s.Call, below: Sequence[Estimate]) -> Cost:
    text, old, new = (one.size for one in below[:3])
    if old.least == 0:
        size = (text.most + 1) * new.most + text.most
    elif new.most <= old.least:
        size = text.most
    else:
        size = -(-text.most // old.least) * new.most
    return tenth(2 * text.most), Size(0, size)


def _split(node: s.Call, below: Sequence[Estimate]) -> Cost:
    most = below[0].size.most
    limit = node.args[1] if len(node.args) > 1 else None
    parts = limit.value % 2**64 if isinstance(limit, s.Literal) else most
    return tenth(2 * most), Size(0, parts)


def _join(_: s.Call, below: Sequence[Estimate]) -> Cost:
    values = below[0]
    size = values.size * _item(values)
    if len(below) > 1:
        between = Size(max(values.size.least - 1, 0), max(values.size.most - 1, 0))
        size += below[1].size * between
    return tenth(size.most), size


def _matched(_: s.Call, below: Sequence[Estimate]) -> int:
    text, pattern = (one.size.most for one in below[:2])
    return tenth(text + 1) * -(-pattern // 4)


def _find(node: s.Call, below: Sequence[Estimate]) -> Cost:
    return _matched(node, below), Size(0, below[0].size.most)


def _contains_address(base: int) -> Rule:
    def rule(node: s.Call, below: Sequence[Estimate]) -> Cost:
        return base + (tenth(below[1].size.most) if _takes(node, 1, "string") else 0), None

    return rule


_COMPARED_AT_ONCE = ("ip", "cidr", "quantity", "semver")


def _compare(node: s.Call, below: Sequence[Estimate]) -> Cost:
    one, other = (value.size for value in below)
    kinds = {value.kind.name for value in node.operands}
    if node.function == "_==_" and len(kinds) == 1:
        kind = kinds.pop()
        if kind in _COMPARED_AT_ONCE:
            return _STEP
        if kind == "format":
            return tenth(_FORMAT_NAME), None
        if kind == "url":
            return tenth(1 if other is UNKNOWN else other.most), None
    return tenth(min(one.most, other.most)), None


def _order(node: s.Call, below: Sequence[Estimate]) -> Cost:
    if not _takes(node, 0, *_TEXTS):
        return _STEP
    return max(1, tenth(min(below[0].size.most, below[1].size.most))), None


def _add(node: s.Call, below: Sequence[Estimate]) -> Cost:
    if not _takes(node, 0, *_TEXTS, "list"):
        return _STEP
    size = below[0].size + below[1].size
    return tenth(size.most) if _takes(node, 0, *_TEXTS) else 1, size


def _bytes(node: s.Call, below: Sequence[Estimate]) -> Cost:
    size = below[0].size
    if not _takes(node, 0, "string"):
        return _STEP
    return tenth(size.most), Size(size.least, size.most * 4)


def _string(node: s.Call, below: Sequence[Estimate]) -> Cost:
    size = below[0].size
    if not _takes(node, 0, "bytes"):
        return _STEP
    return tenth(size.most), Size(size.least // 4, size.most)


def _quote(_: s.Call, below: Sequence[Estimate]) -> Cost:
    size = below[0].size
    return tenth(size.most), Size(size.least + 2, size.most * 2 + 2)


def _sets(times: int) -> Rule:
    return lambda _, below: (times * below[0].size.most * below[1].size.most + 1, None)


_METHODS: Mapping[str, Rule] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _through_items),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _through),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "matches": lambda node, below: (_matched(node, below), None),
    "contains": lambda _, below: (tenth(below[0].size.most) * tenth(below[1].size.most), None),
    **dict.fromkeys(
        ("startsWith", "endsWith"), lambda _, below: (tenth(below[1].size.most), None)
    ),
    "format": lambda _, below: (tenth(below[0].size.most), None),
    "containsIP": _contains_address(tenth(2 * _ADDRESS_BYTES)),
    "containsCIDR": _contains_address(tenth(2 * _ADDRESS_BYTES) + tenth(_ADDRESS_BYTES) + 1),
    "validate": lambda _, below: (tenth(below[1].size.most) * _FORMAT_PATTERN, None),
}  # fmt: skip
_RULES: Mapping[str, Rule] = {
    "_==_": _compare,
    "_!=_": _compare,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _order),
    "_+_": _add,
    "@in": lambda node, below: (below[1].size.most if _takes(node, 1, "list") else 1, None),
    "url": _through,
    "bytes": _bytes,
    "string": _string,
    "strings.quote": _quote,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}
