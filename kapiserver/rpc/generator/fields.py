"""How each field of a version is converted: derived by name and type, or by hand.

A field is derived if the internal class has a field of the same name that can hold each value of
it; `accepted_annotations` says which annotations can. A message with another field needs
hand-written functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from kapiserver.rpc.generator.internal_types import InternalClass, InternalTypes
from kapiserver.rpc.generator.python_names import class_path, function_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType:
    """The type of a field's values, or of a map's keys.

    annotation  the annotation in `types.py`, such as `int` or `Item`
    default     the default in `types.py`; None if the value is a message
    check       function of `kapiserver.rpc.conversion` for the way to protobuf; "" if all fit
    read, fill  functions that convert a message to internal and back; "" for values that stay as
                they are
    module      the module that `types.py` imports the class from
    """

    annotation: str
    default: str | None = None
    check: str = ""
    read: str = ""
    fill: str = ""
    module: str = ""

    @property
    def is_message(self) -> bool:
        return self.default is None


_INT32, _INT64 = (
    ValueType(annotation="int", default="0", check=f"rules.{name}") for name in ("int32", "int64")
)
_UINT32, _UINT64 = (
    ValueType(annotation="int", default="0", check=f"rules.{name}") for name in ("uint32", "uint64")
)
SCALARS = {
    FieldDescriptor.TYPE_BOOL: ValueType(annotation="bool", default="False"),
    FieldDescriptor.TYPE_BYTES: ValueType(annotation="bytes", default='b""'),
    FieldDescriptor.TYPE_DOUBLE: ValueType(annotation="float", default="0.0"),
    FieldDescriptor.TYPE_FLOAT: ValueType(annotation="float", default="0.0", check="rules.float32"),
    FieldDescriptor.TYPE_STRING: ValueType(annotation="str", default='""'),
    **dict.fromkeys((FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32), _INT32),
    **dict.fromkeys((FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64), _INT64),
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    **dict.fromkeys((FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32), _UINT32),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64), _UINT64),
}
_WELL_KNOWN = {
    "any": ("Any",),
    "duration": ("Duration",),
    "empty": ("Empty",),
    "field_mask": ("FieldMask",),
    "struct": ("Struct", "Value", "ListValue"),
    "timestamp": ("Timestamp",),
}
_WRAPPERS = {
    "BoolValue": ("bool", "rules.wrap"),
    "BytesValue": ("bytes", "rules.wrap"),
    "DoubleValue": ("float", "rules.wrap"),
    "FloatValue": ("float", "rules.wrap_float32"),
    "Int32Value": ("int", "rules.wrap_int32"),
    "Int64Value": ("int", "rules.wrap_int64"),
    "StringValue": ("str", "rules.wrap"),
    "UInt32Value": ("int", "rules.wrap_uint32"),
    "UInt64Value": ("int", "rules.wrap_uint64"),
}
MESSAGES = {
    f"google.protobuf.{name}": ValueType(
        annotation=name, fill="rules.copy", module=f"google.protobuf.{module}_pb2"
    )
    for module, names in _WELL_KNOWN.items()
    for name in names
} | {
    f"google.protobuf.{name}": ValueType(annotation=annotation, read="rules.unwrap", fill=fill)
    for name, (annotation, fill) in _WRAPPERS.items()
}
"""Well-known types. Internal types hold protobuf's own class, and plain values for wrappers."""


def value_type(field: FieldDescriptor) -> ValueType:
    """Return the type of a field's values."""
    if field.enum_type is not None:
        return ValueType(
            annotation=f"{class_path(field.enum_type)} | int", default="0", check="rules.enum"
        )
    message = field.message_type
    if message is None:
        return SCALARS[field.type]
    if message.full_name in MESSAGES:
        return MESSAGES[message.full_name]
    name = function_name(message)
    return ValueType(
        annotation=class_path(message), read=f"to_internal_{name}", fill=f"to_pb_{name}"
    )


def map_types(field: FieldDescriptor) -> tuple[ValueType, ValueType] | None:
    """Return the types of a map's keys and values; None for other fields."""
    entry = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return None
    return value_type(entry.fields_by_name["key"]), value_type(entry.fields_by_name["value"])


def accepted_annotations(field: FieldDescriptor) -> list[str]:
    """Return the annotations of internal fields that can hold each value of a field; the first is
    that of a new `types.py`."""
    types = map_types(field)
    if types is not None:
        key, value = types
        return [f"dict[{key.annotation}, {text}]" for text in _texts(value)]
    texts = _texts(value_type(field))
    if field.is_repeated:
        return [f"list[{text}]" for text in texts]
    if field.has_presence:
        return [f"{text} | None" for text in texts]
    return [*texts, *(f"{text} | None" for text in texts)]


def _texts(value: ValueType) -> list[str]:
    """Return the annotations of a value. That of an enum may leave the enum out."""
    text = value.annotation
    return [text, "int"] if text.endswith(" | int") else [text]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A field that cannot be derived, and why."""

    field: str
    reason: str


def obstacles(message: Descriptor, types: InternalTypes) -> Iterator[Obstacle]:
    """Yield the fields of a message that its internal class cannot hold."""
    name = class_path(message)
    for field in message.fields:
        reason = _obstacle(field, types.classes[name], name, types)
        if reason:
            yield Obstacle(field.name, reason)


def _obstacle(
    field: FieldDescriptor, internal: InternalClass, name: str, types: InternalTypes
) -> str:
    annotation = internal.fields.get(field.name)
    if annotation is None:
        return f"types.{name} has no field {field.name}"
    annotations = accepted_annotations(field)
    if annotation not in annotations:
        return f"types.{name}.{field.name} is {annotation}, not {' or '.join(annotations)}"
    for descriptor in _referenced(field):
        class_name = class_path(descriptor)
        if isinstance(descriptor, EnumDescriptor):
            if f"{class_name} | int" in annotation:
                reason = _enum_obstacle(descriptor, types.classes.get(class_name), class_name)
                if reason:
                    return reason
        elif descriptor.full_name not in MESSAGES and class_name not in types.classes:
            return f"types.py has no class {class_name}"
    return ""


def _referenced(field: FieldDescriptor) -> Iterator[Descriptor | EnumDescriptor]:
    """Yield the message or enum of a field's values."""
    if field.message_type is not None and map_types(field) is not None:
        yield from _referenced(field.message_type.fields_by_name["value"])
    elif field.message_type is not None:
        yield field.message_type
    elif field.enum_type is not None:
        yield field.enum_type


def _enum_obstacle(enum: EnumDescriptor, internal: InternalClass | None, name: str) -> str:
    if internal is None:
        return f"types.py has no class {name}"
    for value in enum.values:
        number = internal.values.get(value.name)
        if number != value.number:
            difference = f"is {number}" if number is not None else "is missing"
            return f"the value {value.name} of types.{name} {difference}, not {value.number}"
    return ""
