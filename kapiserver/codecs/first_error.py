"""Finds the error that Go reports of a document in which several values have a wrong type.

The compiled decoders stop at the first error in the order of the declared fields. Go decodes in the
order of the document, and remembers the first value of a wrong type. A type that decodes itself,
such as Time or Quantity, ends the decoding: its error counts, even if another one came before.
Mirrors saveError of sigs.k8s.io/json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from kapiserver.api.scalar_types import StringList
from kapiserver.api.types import (
    ListOf,
    MapOf,
    Scalar,
    ScalarType,
    Shape,
    Type,
    Value,
    cached_in_type,
)
from kapiserver.codecs.errors import WrongValue
from kapiserver.codecs.struct_decoder import (
    Context,
    ValuePath,
    decode_leaf,
    decode_scalar,
    go_field_name,
    go_struct_name,
    go_type_name,
    wrong_struct_type,
    wrong_type,
)

Members: TypeAlias = Iterable[tuple[str, Value]]


def first_error(
    type_: type[Type], value: Value, *, order: Callable[[Members], Members] = iter
) -> WrongValue | None:
    """Return the error of a value that is decoded as a declared type. Return None if it has none,
    or if it is nested too deeply to be visited.

    order   returns the members of an object in the order in which Go decodes them
    """
    walk = _Walk(order)
    try:
        walk.struct(type_, value, None)
    except WrongValue as error:
        return error
    except RecursionError:
        return None
    return walk.first


@cached_in_type
def _fields(type_: type[Type]) -> Mapping[str, tuple[str, Shape]]:
    """Return the names in errors, and the shapes, of the fields of a struct by their names."""
    return {
        flat.field.name: (go_field_name(flat), flat.field.shape) for flat in type_.flat_fields()
    }


class _Walk:
    """Visits values in their order. An error that ends the decoding is raised."""

    def __init__(self, order: Callable[[Members], Members]) -> None:
        self.first: WrongValue | None = None
        self._order = order

    def _save(self, error: WrongValue) -> None:
        self.first = self.first or error

    def struct(self, type_: type[Type], value: Value, at: ValuePath) -> None:
        """Visit the fields of a struct."""
        if not isinstance(value, dict):
            self._save(wrong_struct_type(value, at, go_struct_name(type_)))
            return
        fields = _fields(type_)
        for name, item in self._order(value.items()):
            if name in fields and item is not None:
                go_name, shape = fields[name]
                self._value(shape, item, at, (type_.__name__, go_name), None)

    def _value(
        self,
        shape: Shape,
        value: Value,
        at: ValuePath,
        field: tuple[str, str],
        step: int | str | None,
    ) -> None:
        context = (*field, go_type_name(shape))
        if isinstance(shape, ListOf | MapOf):
            self._items(shape, value, at, context)
        elif isinstance(shape, Scalar):
            try:
                decode_scalar(shape, value, at, context)
            except WrongValue as error:
                self._save(error)
        elif not issubclass(shape.type, ScalarType):
            self.struct(shape.type, {} if value is None else value, (at, *field, step))
        else:
            self._leaf(shape.type, value, at, context)

    def _items(self, shape: ListOf | MapOf, value: Value, at: ValuePath, context: Context) -> None:
        field = context[:2]
        if isinstance(shape, ListOf) and isinstance(value, list):
            for index, item in enumerate(value):
                self._value(shape.item, item, at, field, index)
        elif isinstance(shape, MapOf) and isinstance(value, dict):
            for key, item in self._order(value.items()):
                self._value(shape.value, item, at, field, key)
        elif value is not None:
            self._save(wrong_type(value, at, context))

    def _leaf(self, type_: type[ScalarType], value: Value, at: ValuePath, context: Context) -> None:
        try:
            decode_leaf(type_, value, at, context)
        except WrongValue as error:
            if not issubclass(type_, StringList):
                raise
            self._save(error)
