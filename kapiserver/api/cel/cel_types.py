"""The types of CEL expressions, and how large their values can be.

A type is identified by its name and parameters; `size`, the maximum number of characters, items or
entries, is for cost estimates only. Mirrors github.com/google/cel-go/common/types and checker.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from kapiserver.api.cel.values import Duration, Optional, Timestamp, TypeValue, UInt

UNBOUNDED = 2**62
"""The size of a value without a known limit."""


class CelType(Struct, frozen=True, eq=False):
    """A type.

    name       `int`, `list`, or `A` for a type parameter of a signature
    params     parameters: the item type of a list, key and value types of a map
    fields     the fields of an object, by their names in expressions
    names      the JSON names of an object's fields, by their names in expressions
    list_type  `set` or `map` if the order of items is irrelevant; `keys` identify items of a map
    null_is_absent  whether a field of an object that is null counts as absent
    is_struct  whether values are constructed as `Name{field: value}`; fields that are not in
               `fields` are dynamic, unless `is_closed`
    """

    name: str
    params: tuple[CelType, ...] = ()
    size: int = UNBOUNDED
    fields: Mapping[str, CelType] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    list_type: str = ""
    keys: tuple[str, ...] = ()
    null_is_absent: bool = False
    min_size: int = 1
    """The minimum length of a value in JSON, in bytes."""
    is_struct: bool = False
    is_closed: bool = False

    def __str__(self) -> str:
        if self.params:
            return f"{_DISPLAY_NAMES.get(self.name, self.name)}({', '.join(map(str, self.params))})"
        return _DISPLAY_NAMES.get(self.name, self.name)


_DISPLAY_NAMES = {
    "optional": "optional_type", "url": "kubernetes.URL", "ip": "net.IP", "cidr": "net.CIDR",
    "quantity": "kubernetes.Quantity", "semver": "kubernetes.Semver",
    "format": "kubernetes.NamedFormat", "authorizer": "kubernetes.authorization.Authorizer",
    "pathcheck": "kubernetes.authorization.PathCheck",
    "groupcheck": "kubernetes.authorization.GroupCheck",
    "resourcecheck": "kubernetes.authorization.ResourceCheck",
    "decision": "kubernetes.authorization.Decision",
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
_OPAQUE = (
    "url", "ip", "cidr", "quantity", "semver", "format", "authorizer", "pathcheck", "groupcheck",
    "resourcecheck", "decision",
)  # fmt: skip
_SIMPLE_TYPES = {
    cel_type.name: cel_type
    for cel_type in (DYN, BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TIMESTAMP, DURATION)
}
_NULLABLE = (*_OPAQUE, "null", "object", "timestamp", "duration", "optional")
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
    """Return a list type."""
    return CelType("list", (items,), size)


def map_of(keys: CelType, values: CelType, size: int = UNBOUNDED) -> CelType:
    """Return a map type."""
    return CelType("map", (keys, values), size)


def optional_of(value: CelType) -> CelType:
    """Return an optional type."""
    return CelType("optional", (value,), value.size)


def type_of(cel_type: CelType) -> CelType:
    """Return the type of a type value."""
    return CelType("type", (cel_type,), 1)


_WORD = re.compile(r"[A-Za-z]+|[(),]")


@functools.cache
def parse_type(text: str) -> CelType:
    """Parse a type in a signature: `map(string, A)`."""
    return _read_type(_WORD.findall(text))


def _read_type(words: list[str]) -> CelType:
    """Return the type that the words begin with, and remove its words."""
    name = words.pop(0)
    params = []
    if words and words[0] == "(":
        while words.pop(0) != ")":
            params.append(_read_type(words))
    return _SIMPLE_TYPES.get(name) or CelType(name, tuple(params))


def is_parameter(cel_type: CelType) -> bool:
    """Report whether it is a type parameter of a signature."""
    return len(cel_type.name) == 1


def is_assignable(expected: CelType, actual: CelType, bound: dict[str, CelType]) -> bool:
    """Report whether a value of `actual` is allowed for `expected`; binds type parameters."""
    if is_parameter(expected):
        bound_type = bound.get(expected.name)
        if bound_type is None:
            bound[expected.name] = actual
        elif is_assignable(bound_type, actual, {}) or is_assignable(actual, bound_type, {}):
            bound[expected.name] = _most_general(bound_type, actual)
        else:
            return False
        return True
    if "dyn" in (expected.name, actual.name):
        return True
    if actual.name == "null":
        return expected.name in _NULLABLE or expected.is_struct
    if expected.name != actual.name:
        return False
    if expected.name == "object":
        return expected.fields is actual.fields or is_parameter(expected)
    return all(
        is_assignable(a, b, bound) for a, b in zip(expected.params, actual.params, strict=False)
    )


def _most_general(left: CelType, right: CelType) -> CelType:
    """Return the type of a value that has either of two types; dynamic parts prevail. An empty list
    or map has the type of the other."""
    if _is_empty(left) or not is_assignable(left, right, {}):
        return right
    return right if _is_dynamic(right) and not _is_empty(right) else left


def _is_empty(cel_type: CelType) -> bool:
    return cel_type.name in ("list", "map") and not cel_type.size


def _is_dynamic(cel_type: CelType) -> bool:
    return cel_type.name == "dyn" or any(map(_is_dynamic, cel_type.params))


def substitute(cel_type: CelType, bound: Mapping[str, CelType]) -> CelType:
    """Return the type with its parameters replaced by their bindings; unbound ones become DYN."""
    if is_parameter(cel_type):
        return bound.get(cel_type.name, DYN)
    if not cel_type.params:
        return cel_type
    return CelType(
        cel_type.name, tuple(substitute(param, bound) for param in cel_type.params), cel_type.size
    )


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "bytes": (bytes,), "double": (float,), "uint": (UInt,), "list": (list,),
    "map": (dict,), "object": (dict,), "null": (type(None),), "timestamp": (Timestamp,),
    "duration": (Duration,), "optional": (Optional,), "type": (TypeValue,), "bool": (bool,),
    "int": (int,),
}  # fmt: skip


def is_instance(cel_type: CelType, value: Any) -> bool:
    """Report whether a value is of a signature's type, as far as its Python type tells."""
    if cel_type.name == "dyn" or is_parameter(cel_type):
        return True
    expected = _PYTHON_TYPES.get(cel_type.name)
    if expected is None:
        type_name = _DISPLAY_NAMES.get(cel_type.name, cel_type.name)
        return bool(getattr(value, "type_name", "") == type_name)
    return type(value) in expected
