"""Canonical trees of any declared type, for property tests.

`trees(type_)` is a hypothesis strategy, `filled(type_)` returns a tree with every field set, and
`kinds(scheme)` yields every kind of a scheme. The canonical form is derived from the declarations,
independently of the codecs.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from kapiserver.api import scalar_types
from kapiserver.api.apiextensions.schema_variants import (
    SchemaOrBool,
    SchemaOrNames,
    SchemaOrSchemas,
)
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.groups import DISCOVERY, META
from kapiserver.api.runtime import Unknown
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import (
    FlatField,
    Kind,
    ListOf,
    MapOf,
    Message,
    Scalar,
    ScalarType,
    Shape,
    Tree,
    Type,
    Value,
    Variant,
)

MAX_DEPTH = 12
"""Depth of messages; deeper ones are omitted if they are optional."""
_WIDE_DEPTH = 6
"""Depth below which recursive messages do not branch."""

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary(max_size=12).map(lambda data: base64.b64encode(data).decode()),
    "any": _JSON,
}

_DATES = st.datetimes(min_value=datetime(2, 1, 1))
_SECONDS = _DATES.map(lambda moment: f"{moment.isoformat(timespec='seconds')}Z")
_MICROS = _DATES.map(lambda moment: f"{moment.isoformat(timespec='microseconds')}Z")

LEAVES: dict[type[ScalarType], st.SearchStrategy[Any]] = {
    scalar_types.Time: _SECONDS,
    scalar_types.MicroTime: _MICROS,
    scalar_types.Duration: st.integers(-(2**62), 2**62).map(
        lambda nanos: scalar_types.Duration.from_message({"duration": nanos})
    ),
    scalar_types.Quantity: st.builds(
        lambda number, suffix: scalar_types.Quantity.canonical(f"{number}{suffix}"),
        st.integers(-9999, 99999),
        st.sampled_from(["", "m", "k", "Mi", "Gi", "n", "e3"]),
    ),
    scalar_types.IntOrString: st.integers(-(2**31), 2**31 - 1) | TEXTS,
    scalar_types.RawExtension: _JSON.filter(lambda value: value is not None),
    Unknown: _JSON.filter(lambda value: value is not None),
    scalar_types.FieldsV1: st.dictionaries(TEXTS, st.just({}), max_size=3),
    scalar_types.StringList: st.lists(TEXTS, min_size=1, max_size=3),
}

_FILLED_SCALARS: dict[str, Value] = {
    "string": "text", "bool": True, "int32": -7, "int64": 1 << 40, "double": 2.5,
    "bytes": "AAEC", "any": {"any": [1, "two"]},
}  # fmt: skip
_FILLED_LEAVES: dict[type[ScalarType], Value] = {
    scalar_types.Time: "2006-01-02T15:04:05Z",
    scalar_types.MicroTime: "2006-01-02T15:04:05.123456Z",
    scalar_types.Duration: "1h2m3.5s",
    scalar_types.Quantity: "1500m",
    scalar_types.IntOrString: "http",
    scalar_types.RawExtension: {"raw": [1, None]},
    Unknown: {"kind": "Pod", "apiVersion": "v1"},
    SchemaOrBool: True,
    SchemaOrNames: ["one", "two"],
    SchemaOrSchemas: [{"type": "string"}, {}],
    scalar_types.FieldsV1: {"f:metadata": {}},
    scalar_types.StringList: ["one", "two"],
}


def kinds(scheme: Scheme, *, wire: bool = False) -> Iterator[GroupVersionKind]:
    """Every kind of every declared version, with lists and meta/v1, without hub versions; with
    `wire` only kinds with a Protobuf form."""
    for group in scheme.declared_groups:
        for name in group.declared_versions:
            version = GroupVersion(group.name, name)
            for kind in scheme.kinds(version):
                if not wire or kind.wire:
                    yield version.with_kind(kind.__name__)
                if kind.listed and group not in (META, DISCOVERY):
                    yield version.with_kind(f"{kind.__name__}List")


def kinds_by_version(
    scheme: Scheme, *, wire: bool = False
) -> dict[GroupVersion, list[GroupVersionKind]]:
    """The kinds of `kinds`, for tests of a version each: the work for one kind is less than that of
    pytest for a test."""
    by_version: dict[GroupVersion, list[GroupVersionKind]] = {}
    for kind in kinds(scheme, wire=wire):
        by_version.setdefault(kind.group_version, []).append(kind)
    return by_version


def objects(scheme: Scheme, kind: GroupVersionKind) -> st.SearchStrategy[Tree]:
    """Complete canonical objects of a kind, with kind and apiVersion."""
    head = {"kind": kind.kind, "apiVersion": str(kind.group_version)}
    return trees(scheme.type_of(kind)).map(lambda tree: {**head, **tree})


@st.composite
def trees(draw: st.DrawFn, type_: type[Type], depth: int = 0) -> Tree:
    """Canonical trees of a type, as its Protobuf decoder returns them: an empty list is absent or
    null, and kind and apiVersion are absent."""
    optional = [flat for flat in _fields(type_) if not _is_required(flat)]
    max_fields = 6 if depth < 2 else 3 if depth < _WIDE_DEPTH else 1 if depth < MAX_DEPTH else 0
    strategies = (
        draw(st.lists(st.sampled_from(optional), max_size=max_fields))
        if optional and max_fields
        else []
    )
    names = {flat.field.name for flat in strategies}
    tree: Tree = {}
    for flat in _fields(type_):
        field = flat.field
        if _is_required(flat) or field.name in names:
            value = draw(_values(field.shape, depth))
            if not _omitted(flat, value):
                tree[field.name] = value
    return tree


def _fields(type_: type[Type]) -> list[FlatField]:
    heads = ("kind", "apiVersion") if issubclass(type_, Kind) else ()
    return [flat for flat in type_.flat_fields() if flat.field.name not in heads]


def _is_required(flat: FlatField) -> bool:
    # Present in every canonical tree: `always`, and structs that are not pointers.
    field = flat.field
    struct = isinstance(field.shape, Message) and not issubclass(
        field.shape.type, scalar_types.StringList
    )
    pointer = field.pointer or any(flat_parent.pointer for flat_parent in flat.embedded_in)
    return field.options.always or (struct and not pointer)


def _omitted(flat: FlatField, value: Value) -> bool:
    field = flat.field
    if field.options.omit_zero:
        return value is None or value == _zero(field.shape)
    if field.pointer or _is_required(flat):
        return field.pointer and value is None and not field.options.always
    return not value


def _zero(shape: Shape) -> Value:
    assert isinstance(shape, Message)
    if issubclass(shape.type, ScalarType):
        return shape.type.canonical(None)
    return {
        flat.field.name: _zero(flat.field.shape) if isinstance(flat.field.shape, Message) else None
        for flat in _fields(shape.type)
        if _is_required(flat)
    }


def _values(shape: Shape, depth: int) -> st.SearchStrategy[Any]:
    if isinstance(shape, Scalar):
        return SCALARS[shape.name]
    if isinstance(shape, Message):
        if issubclass(shape.type, Variant):
            return _variants(shape.type, depth)
        leaf = leaf_of(shape.type)
        return LEAVES[leaf] if leaf else trees(shape.type, depth + 1)
    list_size = 3 if depth < MAX_DEPTH else 0
    if isinstance(shape, ListOf):
        # An empty list is null if it is required, and absent otherwise.
        return st.lists(_values(shape.item, depth + 1), max_size=list_size).map(
            lambda drawn_items: drawn_items or None
        )
    assert isinstance(shape, MapOf)
    entries = st.dictionaries(TEXTS, _values(shape.value, depth + 1), max_size=list_size)
    return entries.map(lambda drawn_items: dict(sorted(drawn_items.items())) or None)


def _variants(type_: type[Variant], depth: int) -> st.SearchStrategy[Any]:
    values = st.one_of(_values(member.shape, depth + 1) for member in type_.fields())
    return values.map(lambda value: {} if value is None else value)


def leaf_of(type_: type[Type]) -> type[ScalarType] | None:
    """The scalar type of the tables above that a type is or inherits from."""
    return next((base for base in type_.__mro__ if base in _FILLED_LEAVES), None)


def filled(type_: type[Type], *, above: tuple[type[Type], ...] = ()) -> Tree:
    """A canonical tree with every field set, except recursive ones."""
    return {
        flat.field.name: _filled(flat.field.shape, (*above, type_))
        for flat in _fields(type_)
        if _message(flat.field.shape) not in (*above, type_)
    }


def _message(shape: Shape) -> type[Type] | None:
    while isinstance(shape, ListOf | MapOf):
        shape = shape.item if isinstance(shape, ListOf) else shape.value
    return shape.type if isinstance(shape, Message) else None


def _filled(shape: Shape, above: tuple[type[Type], ...]) -> Value:
    if isinstance(shape, Scalar):
        return _FILLED_SCALARS[shape.name]
    if isinstance(shape, ListOf):
        return [_filled(shape.item, above)] * 2
    if isinstance(shape, MapOf):
        return {"a": _filled(shape.value, above), "b": _filled(shape.value, above)}
    leaf = leaf_of(shape.type)
    return _FILLED_LEAVES[leaf] if leaf else filled(shape.type, above=above)
