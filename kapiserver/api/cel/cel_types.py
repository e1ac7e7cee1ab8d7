"""The types of expressions, as the checker knows them, and how large their values can be.

A Kind is told by its name and parts; `size`, the most characters, items or entries a value can
have, is for cost alone and no part of what makes two kinds the same. Mirrors
github.com/google/cel-go/common/types and checker.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kapiserver.api.cel.values import Duration, Optional, Timestamp, TypeValue, UInt

UNBOUNDED = 2**62
"""A size that nothing is known of."""


@dataclass(frozen=True, slots=True, eq=False)
class CelType:
    """A type.

    name       `int`, `list`, `A` for a parameter of a signature...
    params     the parts: of a list its items, of a map keys and values
    fields     an object's fields by the names that expressions use
    names      an object's own names of fields, by those that expressions use
    list_type  `set` or `map` where the order of items means nothing; `keys` tell items of a map
    """

    name: str
    params: tuple[CelType, ...] = ()
    size: int = UNBOUNDED
    fields: Mapping[str, CelType] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    list_type: str = ""
    keys: tuple[str, ...] = ()
    min_size: int = 1
    """The fewest bytes that a value has as JSON."""

    def __str__(self) -> str:
        if self.params:
            return f"{_SHOWN.get(self.name, self.name)}({', '.join(map(str, self.params))})"
        return _SHOWN.get(self.name, self.name)


_SHOWN = {
    "optional": "optional_type", "url": "kubernetes.URL", "ip": "net.IP", "cidr": "net.CIDR",
    "quantity": "kubernetes.Quantity", "semver": "kubernetes.Semver",
    "format": "kubernetes.NamedFormat",
}  # fmt: skip
DYN, BOOL, INT, UINT = (
    CelType("dyn"),
    CelType("bool", size=1),
    CelType("int", size=1),
    CelType("uint", size=1),
)
DOUBLE, STRING, BYTES, NULL = (
    CelType("double", size=1),
    CelType("string"),
    CelType("bytes"),
    CelType("null"),
)
TIMESTAMP, DURATION = CelType("timestamp", size=1), CelType("duration", size=1)
OPAQUE = ("url", "ip", "cidr", "quantity", "semver", "format")
_PLAIN = {
    kind.name: kind
    for kind in (DYN, BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TIMESTAMP, DURATION)
}
_NULLABLE = (*OPAQUE, "null", "object", "timestamp", "duration", "optional")
TYPE_NAMES = {
    **{name: TypeValue(name) for name in ("bool", "int", "uint", "double", "string", "bytes")},
    **{name: TypeValue(name) for name in ("list", "map", "null_type", "type", "optional_type")},
    "dyn": TypeValue("dyn"),
    "google.protobuf.Timestamp": TypeValue("google.protobuf.Timestamp"),
    "google.protobuf.Duration": TypeValue("google.protobuf.Duration"),
    "net.IP": TypeValue("net.IP"),
    "net.CIDR": TypeValue("net.CIDR"),
}
"""The types that expressions can name."""


def list_of(items: CelType, size: int = UNBOUNDED) -> CelType:
    """A list."""
    return CelType("list", (items,), size)


def map_of(keys: CelType, values: CelType, size: int = UNBOUNDED) -> CelType:
    """A map."""
    return CelType("map", (keys, values), size)


def optional_of(value: CelType) -> CelType:
    """A value or none."""
    return CelType("optional", (value,), value.size)


def type_of(kind: CelType) -> CelType:
    """A type as a value."""
    return CelType("type", (kind,), 1)


_WORD = re.compile(r"[A-Za-z]+|[(),]")


@functools.cache
def read(text: str) -> CelType:
    """The kind that a text of a signature means: `map(string, A)`."""
    words = _WORD.findall(text)

    def one() -> CelType:
        name = words.pop(0)
        params = []
        if words and words[0] == "(":
            while words.pop(0) != ")":
                params.append(one())
        return _PLAIN.get(name) or CelType(name, tuple(params))

    return one()


def is_parameter(kind: CelType) -> bool:
    """Whether it stands for any kind in a signature."""
    return len(kind.name) == 1


def fits(wanted: CelType, actual: CelType, bound: dict[str, CelType]) -> bool:
    """Whether a value of `actual` may stand where `wanted` is; parameters are bound on the way."""
    if is_parameter(wanted):
        known = bound.get(wanted.name)
        if known is None or known.name == "dyn":
            bound[wanted.name] = actual
            return True
        return fits(known, actual, {}) or (
            fits(actual, known, {}) and _widen(bound, wanted, actual)
        )
    if "dyn" in (wanted.name, actual.name):
        return True
    if actual.name == "null":
        return wanted.name in _NULLABLE
    if wanted.name != actual.name:
        return False
    if wanted.name == "object":
        return wanted.fields is actual.fields or is_parameter(wanted)
    return all(fits(a, b, bound) for a, b in zip(wanted.params, actual.params, strict=False))


def _widen(bound: dict[str, CelType], wanted: CelType, actual: CelType) -> bool:
    bound[wanted.name] = actual
    return True


def bind(kind: CelType, bound: Mapping[str, CelType]) -> CelType:
    """The kind with its parameters replaced; what is not bound is dynamic."""
    if is_parameter(kind):
        return bound.get(kind.name, DYN)
    if not kind.params:
        return kind
    return CelType(kind.name, tuple(bind(one, bound) for one in kind.params), kind.size)


_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,), "bytes": (bytes,), "double": (float,), "uint": (UInt,), "list": (list,),
    "map": (dict,), "object": (dict,), "null": (type(None),), "timestamp": (Timestamp,),
    "duration": (Duration,), "optional": (Optional,), "type": (TypeValue,), "bool": (bool,),
    "int": (int,),
}  # fmt: skip


def holds(kind: CelType, value: Any) -> bool:
    """Whether a value is of a signature's kind, as far as its own type tells."""
    if kind.name == "dyn" or is_parameter(kind):
        return True
    expected = _PYTHON.get(kind.name)
    if expected is None:
        return bool(getattr(value, "type_name", "") == _SHOWN.get(kind.name))
    return type(value) in expected
