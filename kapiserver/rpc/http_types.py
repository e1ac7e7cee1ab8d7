"""Derives declared types from the descriptors of protobuf messages, for calls over HTTP.

A message becomes a Type with the same fields: JSON has the JSON names of protobuf, int64 stays a
number, enums are names, well-known types have their JSON form. In Kubernetes' Protobuf the message
is that of the group's own api.proto. Knows no request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Optional, TypeAlias

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration as DurationMessage
from google.protobuf.field_mask_pb2 import FieldMask as FieldMaskMessage
from google.protobuf.timestamp_pb2 import Timestamp as TimestampMessage

from kapiserver.api.types import (
    EncodedType,
    ScalarType,
    Tree,
    Type,
    Value,
    double,
    field,
    int32,
    int64,
)
from kapiserver.rpc import http_messages

Field: TypeAlias = FieldDescriptor


class MessageType(EncodedType):
    """The Type of a protobuf message."""

    message: ClassVar[type[Any]]

    @classmethod
    def encode(cls, tree: Tree) -> bytes:
        """Return the message of a canonical tree. Raises ValueError."""
        encoded: bytes = http_messages.to_message(tree, cls.message).SerializeToString()
        return encoded

    @classmethod
    def decode(cls, data: bytes, take: Callable[[int], None]) -> Tree:
        """Return the tree of a message. Raises ValueError."""
        return http_messages.to_tree(cls.message.FromString(data), take)


class _Number(ScalarType):
    """A number that has a range of its own."""

    package = "google.protobuf"
    least: ClassVar[int]
    greatest: ClassVar[int]

    @classmethod
    def canonical(cls, value: Value) -> Value:
        """Return the number. Raises ValueError."""
        if value is None:
            return 0
        if value.__class__ is int and cls.least <= value <= cls.greatest:
            return value
        raise ValueError(
            f"json: cannot unmarshal {_json_type(value)} into Go value of type "
            f"{cls.__name__.lower()}"
        )


class UInt32(_Number):
    """An integer from 0 to 4294967295."""

    openapi = {"type": "integer", "format": "int64", "minimum": 0}
    least, greatest = 0, 2**32 - 1


class UInt64(_Number):
    """An integer from 0 to 18446744073709551615."""

    openapi = {"type": "integer", "minimum": 0}
    least, greatest = 0, 2**64 - 1


class _Text(ScalarType):
    """A well-known message that is a text in JSON."""

    package = "google.protobuf"
    message: ClassVar[type[Any]]

    @classmethod
    def canonical(cls, value: Value) -> Value:
        """Return the text in its canonical form. Raises ValueError."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise ValueError(
                f"json: cannot unmarshal {_json_type(value)} into Go value of type string"
            )
        message = cls.message()
        message.FromJsonString(value)
        text: str = message.ToJsonString()
        return text


class Timestamp(_Text):
    """A time in RFC 3339, with up to nine digits of a second."""

    openapi = {"type": "string", "format": "date-time"}
    message = TimestampMessage


class Duration(_Text):
    """A number of seconds, followed by s, such as 1.5s."""

    openapi = {"type": "string"}
    message = DurationMessage


class FieldMask(_Text):
    """Names of fields, separated by commas."""

    openapi = {"type": "string"}
    message = FieldMaskMessage


class EnumType(ScalarType):
    """A name of an enum, or the number of a value that this server does not know."""

    values: ClassVar[EnumDescriptor]

    @classmethod
    def canonical(cls, value: Value) -> Value:
        """Return the name of a known value, else its number. Raises ValueError."""
        if value is None:
            return None
        if isinstance(value, str) and value in cls.values.values_by_name:
            return value
        if value.__class__ is int and -(2**31) <= value < 2**31:
            enum_value = cls.values.values_by_number.get(value)
            return value if enum_value is None else enum_value.name
        raise ValueError(f"{value!r} is not a value of the enum {cls.values.full_name}")


_WELL_KNOWN: dict[str, Any] = {
    "google.protobuf.Timestamp": Timestamp,
    "google.protobuf.Duration": Duration,
    "google.protobuf.FieldMask": FieldMask,
    "google.protobuf.Struct": Any,
    "google.protobuf.Value": Any,
    "google.protobuf.ListValue": Any,
    "google.protobuf.Any": Any,
    "google.protobuf.BoolValue": bool,
    "google.protobuf.BytesValue": bytes,
    "google.protobuf.DoubleValue": double,
    "google.protobuf.FloatValue": double,
    "google.protobuf.Int32Value": int32,
    "google.protobuf.Int64Value": int64,
    "google.protobuf.StringValue": str,
    "google.protobuf.UInt32Value": UInt32,
    "google.protobuf.UInt64Value": UInt64,
}
"""The annotation of a field of a well-known type."""

_SCALARS: dict[int, Any] = {
    Field.TYPE_BOOL: bool,
    Field.TYPE_BYTES: bytes,
    Field.TYPE_DOUBLE: double,
    Field.TYPE_FLOAT: double,
    Field.TYPE_FIXED32: UInt32,
    Field.TYPE_FIXED64: UInt64,
    Field.TYPE_INT32: int32,
    Field.TYPE_INT64: int64,
    Field.TYPE_SFIXED32: int32,
    Field.TYPE_SFIXED64: int64,
    Field.TYPE_SINT32: int32,
    Field.TYPE_SINT64: int64,
    Field.TYPE_STRING: str,
    Field.TYPE_UINT32: UInt32,
    Field.TYPE_UINT64: UInt64,
}


class TypeMaker:
    """Makes the types of the messages of one version of a group.

    module    the name of the module that the types are in
    package   the package of the schemas in OpenAPI
    comments  the texts of messages, fields and enums by full name
    """

    def __init__(self, module: str, package: str, comments: Mapping[str, str]) -> None:
        self.module = module
        self.package = package
        self._comments = comments
        self._types: dict[str, type[Type]] = {}

    def message_type(self, descriptor: Any) -> type[Type]:
        """Return the type of a message."""
        cached = self._types.get(descriptor.full_name)
        if cached is not None:
            return cached
        message = message_factory.GetMessageClass(descriptor)
        namespace: dict[str, Any] = {
            "message": message,
            **{item.name: self._declaration(item) for item in descriptor.fields},
        }
        text = self._comments.get(descriptor.full_name)
        text = text or f"The message {descriptor.full_name}."
        type_ = self._make(MessageType, descriptor, text, namespace)
        # The annotations come after the type, because messages may be recursive.
        type_.__annotations__ = {item.name: self._annotation(item) for item in descriptor.fields}
        return type_

    def _make(
        self,
        base: type[Any],
        descriptor: Descriptor | EnumDescriptor,
        text: str,
        namespace: dict[str, Any],
    ) -> type[Any]:
        name = _relative_name(descriptor)
        type_ = type(
            name,
            (base,),
            {**namespace, "__module__": self.module, "__doc__": text, "package": self.package},
        )
        self._types[descriptor.full_name] = type_
        return type_

    def _declaration(self, item: Field) -> Any:
        text = "Deprecated. " if item.GetOptions().deprecated else ""
        oneof: Any = item.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            names = ", ".join(member.json_name for member in oneof.fields)
            text += f"At most one of {names} may be set. "
        text += self._comments.get(item.full_name) or f"Field {item.name} of {_owner(item)}."
        return field(item.number, json=item.json_name, doc=text)

    def _annotation(self, item: Field) -> Any:
        if http_messages.is_map(item):
            value: Any = self._item_annotation(http_messages.map_field(item, "value"))
            return dict[str, value]
        annotation = self._item_annotation(item)
        if item.is_repeated:
            return list[annotation]  # type: ignore[valid-type] # made at run time
        return Optional[annotation] if item.has_presence or _is_enum(item) else annotation  # noqa: UP045 - `|` needs a type

    def _item_annotation(self, item: Field) -> Any:
        if item.enum_type is not None:
            if item.enum_type.full_name == "google.protobuf.NullValue":
                return Any
            return self._enum_type(item.enum_type)
        message = item.message_type
        if message is not None:
            scalar_type = _WELL_KNOWN.get(message.full_name)
            return self.message_type(message) if scalar_type is None else scalar_type
        return _SCALARS[item.type]

    def _enum_type(self, descriptor: EnumDescriptor) -> type[Type]:
        cached = self._types.get(descriptor.full_name)
        if cached is not None:
            return cached
        names = ", ".join(descriptor.values_by_name)
        comment = self._comments.get(descriptor.full_name, "")
        text = f"{comment} One of {names}, or the number of an unknown value.".lstrip()
        openapi = {"x-kubernetes-int-or-string": True}
        return self._make(EnumType, descriptor, text, {"values": descriptor, "openapi": openapi})


def _owner(item: Any) -> str:
    name: str = item.containing_type.full_name
    return name


def _is_enum(item: Field) -> bool:
    return item.enum_type is not None


def _relative_name(descriptor: Descriptor | EnumDescriptor) -> str:
    """Return the name within the file, `Outer_Inner` for a nested message."""
    name = descriptor.full_name.removeprefix(f"{descriptor.file.package}.")
    return name.replace(".", "_")


def _json_type(value: Value) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {value}"
    return {str: "string", list: "array", dict: "object"}.get(value.__class__, "value")
