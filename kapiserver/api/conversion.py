"""Conversion between versions of a type: derived from the fields, completed by hand.

Fields with the same name and type are copied, and nested types with the same name are converted in
turn. A handwritten function completes a pair of types that differ. Compiling a pair fails if the
types differ and no function handles it, so that converting an object never does. Knows no group and
no bytes. Mirrors runtime/conversion of k8s.io/apimachinery and conversion-gen.

The result may share values with the source: copy before changing either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kapiserver.api.errors import ConversionFailed
from kapiserver.api.types import (
    Field,
    ListOf,
    MapOf,
    Message,
    Scalar,
    ScalarType,
    Shape,
    Tree,
    Type,
    Value,
)

Convert: TypeAlias = Callable[[Value], Value]
"""Converts a canonical tree of one type to a canonical tree of another."""
Complete: TypeAlias = Callable[[Tree, Tree], None]
"""Sets the fields that differ: `complete(source, target)`; `target` has the derived fields."""
Functions: TypeAlias = Mapping[tuple[type[Type], type[Type]], Complete]
"""The handwritten functions of a group, by (source type, target type)."""

_INT32 = range(-(2**31), 2**31)
_ZEROS: dict[str, Value] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "double": 0,
    "bytes": None,
    "any": None,
}


class Conversion:
    """The converters between types, each compiled once."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._compiled: dict[tuple[type[Type], type[Type]], Convert] = {}
        self._open: set[tuple[type[Type], type[Type]]] = set()

    def converter(self, source: type[Type], target: type[Type]) -> Convert:
        """Return the converter from one type to another.

        Raises TypeError if the types differ and no function handles the difference.
        """
        pair = (source, target)
        convert = self._compiled.get(pair)
        if convert is not None:
            return convert
        if pair in self._open:  # a recursive type: look it up on use
            return lambda tree: self._compiled[pair](tree)
        self._open.add(pair)
        try:
            convert = self._compiled[pair] = self._compile(source, target)
        finally:
            self._open.discard(pair)
        return convert

    def _compile(self, source: type[Type], target: type[Type]) -> Convert:
        if source is target:
            return _same
        complete = self._functions.get((source, target))
        source_fields = {flat.field.name: flat.field for flat in source.flat_fields()}
        target_fields = {flat.field.name: flat.field for flat in target.flat_fields()}
        differences = sorted(source_fields.keys() ^ target_fields.keys())
        converters = []
        for name in (name for name in target_fields if name in source_fields):
            convert = self._field_converter(source_fields[name], target_fields[name])
            if convert is None:
                differences.append(name)
            else:
                converters.append((name, convert))
        if differences and complete is None:
            raise TypeError(
                f"no conversion of {source.__module__}.{source.__name__} to "
                f"{target.__module__}.{target.__name__}: {', '.join(differences)}"
            )
        return _convert_struct(converters, complete, tuple(target_fields.values()))

    def _field_converter(self, source: Field, target: Field) -> Convert | None:
        # None if the fields have the same name but cannot be converted.
        if source.pointer != target.pointer:
            return None
        return self._value(source.shape, target.shape)

    def _value(self, source: Shape, target: Shape) -> Convert | None:
        match source, target:
            case Scalar(), Scalar():
                return _scalar_converter(source, target)
            case Message(), Message():
                if source.type is target.type:
                    return _same
                if source.type.__name__ != target.type.__name__ or issubclass(
                    source.type, ScalarType
                ):
                    return None
                return self.converter(source.type, target.type)
            case (ListOf(), ListOf()):
                convert = self._value(source.item, target.item)
                return convert if convert in (None, _same) else _convert_items(convert)
            case (MapOf(), MapOf()):
                convert = self._value(source.value, target.value)
                return convert if convert in (None, _same) else _convert_values(convert)
        return None


def _same(value: Value) -> Value:
    return value


def _scalar_converter(source: Scalar, target: Scalar) -> Convert | None:
    if source == target or (source.name, target.name) == ("int32", "int64"):
        return _same
    return _narrow if (source.name, target.name) == ("int64", "int32") else None


def _narrow(value: Value) -> Value:
    if value is not None and value not in _INT32:
        raise ConversionFailed(f"value {value} does not fit a 32-bit integer")
    return value


def _convert_items(convert: Any) -> Convert:
    return lambda values: None if values is None else [convert(value) for value in values]


def _convert_values(convert: Any) -> Convert:
    return lambda values: None if values is None else {k: convert(v) for k, v in values.items()}


def _convert_struct(
    converters: list[tuple[str, Convert]], complete: Complete | None, fields: tuple[Field, ...]
) -> Convert:
    by_name = {field.name: field for field in fields}

    def convert(tree: Tree | None) -> Tree | None:
        if tree is None:
            return None
        target = {
            name: convert_value(tree[name]) for name, convert_value in converters if name in tree
        }
        if complete is not None:
            complete(tree, target)
        return canonical_fields(by_name, target)

    return convert


def canonical_fields(fields: Mapping[str, Field], tree: Tree) -> Tree:
    """Return the fields of a tree in Go's order, zero values dropped or added as Go writes them.

    Nested trees are not changed.
    """
    canonical = {}
    for name, field in fields.items():
        if name not in tree:
            if _is_always_written(field):
                canonical[name] = zero(field)
        elif not _is_omitted(field, tree[name]):
            canonical[name] = tree[name]
    return canonical


def _is_struct(field: Field) -> bool:
    return isinstance(field.shape, Message) and not field.pointer


def _is_always_written(field: Field) -> bool:
    if _is_struct(field):
        return not field.options.omit_zero
    return field.options.always


def _is_omitted(field: Field, value: Value) -> bool:
    if field.options.always:
        return False
    if field.pointer:
        return value is None
    if _is_struct(field) and not field.options.omit_zero:
        return False
    return value is None or value == 0 or value in ("", [], {})


def zero(field: Field) -> Value:
    """Return the JSON value of a field that is unset and not omitted."""
    if field.pointer or not isinstance(field.shape, Scalar | Message):
        return None
    if isinstance(field.shape, Scalar):
        return _ZEROS[field.shape.name]
    if issubclass(field.shape.type, ScalarType):
        return field.shape.type.canonical(None)
    return zero_tree(field.shape.type)


def zero_tree(type_: type[Type]) -> Tree:
    """Return the canonical tree of an object with no field set, without kind and apiVersion."""
    fields = {flat.field.name: flat.field for flat in type_.flat_fields()}
    return canonical_fields(fields, {})
