"""From one version of a type to another: derived where the fields agree, written where not.

Fields of the same name and type are carried over; nested types convert in turn; types of one name
are taken for the same thing in two versions. A hand-written function completes a pair of types
that differ; a difference that no function answers for is found when the pair is compiled, never
while an object is being converted. Knows no group and no bytes.
Mirrors runtime/conversion of k8s.io/apimachinery and what conversion-gen derives.

The result may share parts with what it came from: copy before changing either.
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
"""From a canonical tree of one type to one of another."""
Complete: TypeAlias = Callable[[Tree, Tree], None]
"""Fill in what differs: `complete(source, target)`; `target` has what could be derived."""
Functions: TypeAlias = Mapping[tuple[type[Type], type[Type]], Complete]
"""One literal table a group: what differs between two types, by (source, target)."""

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
    """Every way between types that the functions given allow; each is compiled once."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._compiled: dict[tuple[type[Type], type[Type]], Convert] = {}
        self._open: set[tuple[type[Type], type[Type]]] = set()

    def converter(self, source: type[Type], target: type[Type]) -> Convert:
        """The way from one type to another.

        Raises TypeError where the types differ and no function says what to do.
        """
        pair = (source, target)
        found = self._compiled.get(pair)
        if found is not None:
            return found
        if pair in self._open:  # a type within itself: look it up when it is needed
            return lambda tree: self._compiled[pair](tree)
        self._open.add(pair)
        try:
            found = self._compiled[pair] = self._compile(source, target)
        finally:
            self._open.discard(pair)
        return found

    def _compile(self, source: type[Type], target: type[Type]) -> Convert:
        if source is target:
            return _same
        complete = self._functions.get((source, target))
        ours = {flat.field.name: flat.field for flat in source.flat_fields()}
        theirs = {flat.field.name: flat.field for flat in target.flat_fields()}
        differences = sorted(ours.keys() ^ theirs.keys())
        carried = []
        for name in (name for name in theirs if name in ours):
            way = self._carry(ours[name], theirs[name])
            if way is None:
                differences.append(name)
            else:
                carried.append((name, way))
        if differences and complete is None:
            raise TypeError(
                f"no conversion of {source.__module__}.{source.__name__} to "
                f"{target.__module__}.{target.__name__}: {', '.join(differences)}"
            )
        return _struct(carried, complete, tuple(theirs.values()))

    def _carry(self, ours: Field, theirs: Field) -> Convert | None:
        # None: the fields have the same name and nothing else in common.
        if ours.pointer != theirs.pointer:
            return None
        return self._value(ours.shape, theirs.shape)

    def _value(self, ours: Shape, theirs: Shape) -> Convert | None:
        match ours, theirs:
            case Scalar(), Scalar():
                return _scalar(ours, theirs)
            case Message(), Message():
                if ours.type is theirs.type:
                    return _same
                if ours.type.__name__ != theirs.type.__name__ or issubclass(ours.type, ScalarType):
                    return None
                return self.converter(ours.type, theirs.type)
            case (ListOf(), ListOf()):
                way = self._value(ours.item, theirs.item)
                return way if way in (None, _same) else _each(way)
            case (MapOf(), MapOf()):
                way = self._value(ours.value, theirs.value)
                return way if way in (None, _same) else _each_value(way)
        return None


def _same(value: Value) -> Value:
    return value


def _scalar(ours: Scalar, theirs: Scalar) -> Convert | None:
    if ours == theirs or (ours.name, theirs.name) == ("int32", "int64"):
        return _same
    return _narrow if (ours.name, theirs.name) == ("int64", "int32") else None


def _narrow(value: Value) -> Value:
    if value is not None and value not in _INT32:
        raise ConversionFailed(f"value {value} does not fit a 32-bit integer")
    return value


def _each(way: Any) -> Convert:
    return lambda values: None if values is None else [way(one) for one in values]


def _each_value(way: Any) -> Convert:
    return lambda values: None if values is None else {k: way(v) for k, v in values.items()}


def _struct(
    carried: list[tuple[str, Convert]], complete: Complete | None, fields: tuple[Field, ...]
) -> Convert:
    by_name = {field.name: field for field in fields}

    def convert(tree: Tree | None) -> Tree | None:
        if tree is None:
            return None
        target = {name: way(tree[name]) for name, way in carried if name in tree}
        if complete is not None:
            complete(tree, target)
        return canonical_fields(by_name, target)

    return convert


def canonical_fields(fields: Mapping[str, Field], tree: Tree) -> Tree:
    """The tree with its own fields as Go writes them: in order, zero values dropped or kept.

    Nested trees are taken as they are.
    """
    found = {}
    for name, field in fields.items():
        if name not in tree:
            if _kept(field):
                found[name] = zero(field)
        elif not _dropped(field, tree[name]):
            found[name] = tree[name]
    return found


def _is_struct(field: Field) -> bool:
    return isinstance(field.shape, Message) and not field.pointer


def _kept(field: Field) -> bool:
    if _is_struct(field):
        return not field.options.omit_zero
    return field.options.always


def _dropped(field: Field, value: Value) -> bool:
    if field.options.always:
        return False
    if field.pointer:
        return value is None
    if _is_struct(field) and not field.options.omit_zero:
        return False
    return value is None or value == 0 or value in ("", [], {})


def zero(field: Field) -> Value:
    """What JSON shows for a field that nobody set and that is not left out."""
    if field.pointer or not isinstance(field.shape, Scalar | Message):
        return None
    if isinstance(field.shape, Scalar):
        return _ZEROS[field.shape.name]
    if issubclass(field.shape.type, ScalarType):
        return field.shape.type.canonical(None)
    return zero_tree(field.shape.type)


def zero_tree(type_: type[Type]) -> Tree:
    """The canonical tree of a type of which nothing is set, without kind and apiVersion."""
    fields = {flat.field.name: flat.field for flat in type_.flat_fields()}
    return canonical_fields(fields, {})
