"""Protobuf messages of declared classes, whose fields have numbers.

    class DatabaseSpec(Struct):
        engine: Annotated[str, number(1)] = "postgres"
        size: Annotated[int, number(2), Meta(ge=1)] = 1

    class Database(Object):
        spec: Annotated[DatabaseSpec, number(2)]  # metadata is 1

`object_message` makes a `Type` (`api/types.py`) of such a class, from which the codecs of built-in
kinds are derived. Every field is a pointer, so that an absent field differs from one with the zero
value, as in JSON; an empty list or map is absent. Integers are int64, floats double, enums strings
or integers; `int | str` is IntOrString, and values without a schema are JSON, as in Kubernetes.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import inspect

from kapiserver.api.apiextensions.schema_variants import FreeJSON
from kapiserver.api.meta.v1 import ListMeta, ObjectMeta
from kapiserver.api.scalar_types import IntOrString
from kapiserver.api.types import Kind, Type, double, field, int64
from kapiserver.extension.markers import NUMBER
from kapiserver.extension.models import ModelField, fields_of, is_model
from kapiserver.extension.objects import Object
from kapiserver.extension.schemas import UnusableType

_NOT_DECLARED = ("apiVersion", "kind", "metadata")
_METADATA, _ITEMS = 1, 2
_MAX_NUMBER = (1 << 29) - 1
_RESERVED = range(19000, 20000)
"""Numbers that Protobuf keeps for itself."""
_SCALARS: Mapping[type, Any] = {
    inspect.AnyType: FreeJSON,
    inspect.RawType: FreeJSON,
    inspect.BoolType: bool,
    inspect.BytesType: bytes,
    inspect.ByteArrayType: bytes,
    inspect.FloatType: double,
    inspect.IntType: int64,
}
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


def object_message(type_: type[Object], package: str = "") -> type[Kind] | None:
    """Return the message of a class, or None if no field has a number. The package is that of the
    Protobuf IDL. Raises UnusableType if some fields have one and others have not, and for a value
    that no message can hold."""
    builder = _Builder(package)
    info = inspect.type_info(type_)
    assert isinstance(info, inspect.StructType)
    message: type[Kind] = builder.message(type_, info.fields, type_.__name__)
    if not builder.numbered:
        return None
    if builder.unnumbered:
        raise UnusableType(builder.unnumbered[0], "it has no number, but other fields have")
    return message


def list_message(item: type[Kind]) -> type[Kind]:
    """Return the message of a list of objects."""
    annotations = {"metadata": ListMeta, "items": types.GenericAlias(list, (item,))}
    fields = {"metadata": field(_METADATA), "items": field(_ITEMS)}
    attributes = {**fields, "package": item.package, "__doc__": f"A list of {item.__name__}."}
    return cast("type[Kind]", _declare(f"{item.__name__}List", Kind, annotations, attributes))


def _declare(
    name: str, base: type[Type], annotations: Mapping[str, Any], attributes: Mapping[str, Any]
) -> Any:
    own = {"__annotations__": annotations, "__module__": __name__}
    return type(name, (base,), {**attributes, **own})


class _Builder:
    """Makes the messages of a class and of those in its fields; each class once."""

    def __init__(self, package: str) -> None:
        self._package = package
        self.numbered = False
        self.unnumbered: list[str] = []
        """The paths of fields without a number."""
        self._messages: dict[type, type[Type]] = {}

    def message(
        self, cls: type, fields_of_class: Iterable[inspect.Field | ModelField], path: str
    ) -> Any:
        """Return the message of a class with these fields."""
        if cls in self._messages:
            return self._messages[cls]
        is_object = issubclass(cls, Object)
        annotations: dict[str, Any] = {"metadata": ObjectMeta} if is_object else {}
        fields: dict[str, Any] = {"metadata": field(_METADATA)} if is_object else {}
        numbers = {_METADATA: "metadata"} if is_object else {}
        for declared in fields_of_class:
            if is_object and declared.encode_name in _NOT_DECLARED:
                continue
            where = f"{path}.{declared.encode_name}"
            number = self._number(declared.type, where)
            if number in numbers:
                raise UnusableType(where, f"{numbers[number]} has the number {number}, too")
            if number:
                numbers[number] = declared.encode_name
            annotations[declared.name] = self._annotation(declared.type, where) | None
            fields[declared.name] = field(
                number, json=declared.encode_name, doc=_description(declared.type)
            )
        base = Kind if is_object else Type
        attributes = {**fields, "package": self._package, "__doc__": cls.__doc__ or ""}
        message = _declare(cls.__name__, base, annotations, attributes)
        self._messages[cls] = message
        return message

    def _number(self, info: inspect.Type, path: str) -> int:
        """Return the number of a field, 0 if it has none."""
        number = (info.extra or {}).get(NUMBER, 0) if isinstance(info, inspect.Metadata) else 0
        if not number:
            self.unnumbered.append(path)
            return 0
        if not 1 <= number <= _MAX_NUMBER or number in _RESERVED:
            raise UnusableType(path, f"{number} is not a number of a Protobuf field")
        self.numbered = True
        return int(number)

    def _annotation(self, info: inspect.Type, path: str) -> Any:
        """Return the annotation of a field, as `api/types.py` reads it."""
        if isinstance(info, inspect.Metadata):
            return self._annotation(info.type, path)
        if isinstance(info, inspect.StructType):
            return self.message(info.cls, info.fields, path)
        if isinstance(info, inspect.CustomType) and is_model(info.cls):
            return self.message(info.cls, fields_of(info.cls), path)
        if isinstance(info, inspect.UnionType):
            return self._union(info.types, path)
        if isinstance(info, inspect.DictType):
            value = self._annotation(info.value_type, f"{path}[]")
            return types.GenericAlias(dict, (str, value))
        if isinstance(info, _LISTS):
            item = self._annotation(info.item_type, f"{path}[]")
            if isinstance(item, types.GenericAlias):
                raise UnusableType(path, "no message has a list of lists or of dictionaries")
            return types.GenericAlias(list, (item,))
        if isinstance(info, inspect.LiteralType | inspect.EnumType):
            return _enum(info)
        scalar = _SCALARS.get(type(info), str)  # dates, uuids and decimals are texts
        if scalar is FreeJSON and self._package:
            from kapiserver.api.apiextensions.v1 import JSON  # as the IDL of Kubernetes has it

            return JSON
        return scalar

    def _union(self, members: Sequence[inspect.Type], path: str) -> Any:
        others = [member for member in members if not isinstance(member, inspect.NoneType)]
        if len(others) == 1:
            return self._annotation(others[0], path)
        return IntOrString  # the only union that has a schema


def _description(info: inspect.Type) -> str:
    """Return the description of a field, or ""."""
    schema = (info.extra_json_schema or {}) if isinstance(info, inspect.Metadata) else {}
    return str(schema.get("description") or "")


def _enum(info: inspect.LiteralType | inspect.EnumType) -> Any:
    values: Iterable[Any]
    if isinstance(info, inspect.EnumType):
        values = [member.value for member in info.cls]
    else:
        values = info.values
    return int64 if all(isinstance(value, int) for value in values) else str
