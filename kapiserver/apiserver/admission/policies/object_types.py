"""The CEL types of the objects of a kind, for the type checking of policies.

Built-in kinds have the types of their declarations, custom kinds those of their schemas. Types may
be recursive, so the fields of a type are made when they are first read. Mirrors SchemaDeclType of
k8s.io/apiserver/pkg/cel/common for the schemas that the server publishes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from kapiserver.api.apiextensions.cel.schema_types import cel_type_of, escaped
from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel.cel_types import CelType
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Duration, MicroTime, Quantity, Time
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import ListOf, MapOf, Message, Scalar, ScalarType, Shape, Type

_SCALARS = {
    "string": k.STRING, "bytes": k.BYTES, "bool": k.BOOL, "int32": k.INT, "int64": k.INT,
    "double": k.DOUBLE, "any": k.DYN,
}  # fmt: skip
_SCALAR_MESSAGES: dict[type[Type], CelType] = {
    Time: k.TIMESTAMP, MicroTime: k.TIMESTAMP, Quantity: k.STRING, Duration: k.STRING,
}  # fmt: skip


def object_type(scheme: Scheme, kind: GroupVersionKind) -> CelType | None:
    """Return the type of the objects of a kind; None for a kind without a schema."""
    custom = scheme.custom.version_of(kind)
    if custom is not None:
        cel_type = cel_type_of(custom.structural, is_root=True)
        if cel_type is None:
            return None
        return replace(cel_type, fields={**cel_type.fields, "metadata": _declared(ObjectMeta)})
    try:
        type_: Any = scheme.type_of(kind)
    except NotRegistered:
        return None
    return _declared(type_)


class _Fields(Mapping[str, CelType]):
    """The fields of a declared type, by their names in expressions."""

    def __init__(self, make: Callable[[], Mapping[str, CelType]]) -> None:
        self._make = make

    @functools.cached_property
    def _fields(self) -> Mapping[str, CelType]:
        return self._make()

    def __getitem__(self, name: str) -> CelType:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


@functools.cache
def _declared(type_: Any) -> CelType:
    if issubclass(type_, ScalarType):
        return _SCALAR_MESSAGES.get(type_, k.DYN)
    return CelType("object", fields=_Fields(lambda: _fields(type_)))


def _fields(type_: type[Type]) -> Mapping[str, CelType]:
    fields = {}
    for flat in type_.flat_fields():
        name = escaped(flat.field.name)
        if name is not None:
            fields[name] = _of_shape(flat.field.shape)
    return fields


def _of_shape(shape: Shape) -> CelType:
    match shape:
        case Scalar(name):
            return _SCALARS[name]
        case Message():
            message: Any = shape.type
            return _declared(message)
        case MapOf(value):
            return k.map_of(k.STRING, _of_shape(value))
        case ListOf(item):
            return k.list_of(_of_shape(item))
