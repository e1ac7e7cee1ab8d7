"""Converts protobuf messages to trees and back, for calls over HTTP.

Trees have the JSON form of protobuf, but 64-bit integers are numbers. Fields without presence are
left out if they are zero.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from kapiserver.api.types import Tree, Value

_Message = TypeVar("_Message", bound=Message)
_WELL_KNOWN = "google.protobuf."
_LIBRARY_ERRORS = (
    json_format.Error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
"""json_format raises these for a value that a well-known type does not allow."""
_MAX_FLOAT = 3.4028234663852886e38


def is_map(field: FieldDescriptor) -> bool:
    """Report whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def map_field(field: FieldDescriptor, name: str) -> Any:
    """Return the descriptor of the keys (`key`) or values (`value`) of a map."""
    assert field.message_type is not None
    return field.message_type.fields_by_name[name]


def to_tree(message: Message, take: Callable[[int], None] = lambda _count: None) -> Tree:
    """Return the tree of a message. Calls `take` with the number of items of each list and map.
    Raises ValueError for a value that JSON does not have."""
    tree: Tree = {}
    for field, value in message.ListFields():
        if is_map(field):
            take(len(value))
            item = map_field(field, "value")
            names = {
                _map_key(key): _to_value(item, key_value, take) for key, key_value in value.items()
            }
            tree[field.json_name] = dict(sorted(names.items()))
        elif field.is_repeated:
            take(len(value))
            tree[field.json_name] = [_to_value(field, item, take) for item in value]
        else:
            item = _to_value(field, value, take)
            if item is not None:  # a null of google.protobuf.Value, which means absent here
                tree[field.json_name] = item
    return tree


def _map_key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _to_value(field: FieldDescriptor, value: Any, take: Callable[[int], None]) -> Value:
    if field.message_type is not None:
        return _message_to_value(value, take)
    if field.enum_type is not None:
        enum_value = field.enum_type.values_by_number.get(value)
        return value if enum_value is None else enum_value.name
    if isinstance(value, bytes):
        return binascii.b2a_base64(value, newline=False).decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{field.name}: JSON has no number {value}")
    return value


def _message_to_value(message: Message, take: Callable[[int], None]) -> Value:
    name = message.DESCRIPTOR.full_name
    if not _is_well_known(name):
        return to_tree(message, take)
    if name.endswith("Value") and name not in (f"{_WELL_KNOWN}Value", f"{_WELL_KNOWN}ListValue"):
        field: Any = message.DESCRIPTOR.fields_by_name["value"]
        return _to_value(field, getattr(message, "value"), take)  # noqa: B009 - a wrapper
    take(message.ByteSize())
    try:
        return json_format.MessageToDict(message)
    except _LIBRARY_ERRORS as error:
        raise ValueError(str(error)) from None


def _is_well_known(name: str) -> bool:
    return name.startswith(_WELL_KNOWN) and name != f"{_WELL_KNOWN}Empty"


def to_message(tree: Tree, class_: type[_Message]) -> _Message:
    """Return the message of a canonical tree. Raises ValueError for a value that does not fit, with
    the path of its field."""
    message = class_()
    _fill(message, tree)
    return message


def _fill(message: Message, tree: Tree) -> None:
    members: dict[str, str] = {}
    fields: Any = message.DESCRIPTOR.fields
    for field in fields:
        value = tree.get(field.json_name)
        if value is None:
            continue
        oneof = field.containing_oneof
        if oneof is not None:
            other_member = members.setdefault(oneof.name, field.json_name)
            if other_member != field.json_name:
                raise ValueError(f"{field.json_name}: must not be set together with {other_member}")
        try:
            _set(message, field, value)
        except _LIBRARY_ERRORS as error:
            raise ValueError(f"{field.json_name}: {error}") from None


def _set(message: Message, field: FieldDescriptor, value: Value) -> None:
    target = getattr(message, field.name)
    if is_map(field):
        key_field = map_field(field, "key")
        item = map_field(field, "value")
        for name, field_value in value.items():
            key = _parse_key(key_field, name)
            if item.message_type is not None:
                _fill_item(target[key], field_value)
            else:
                target[key] = _from_value(item, field_value)
    elif field.is_repeated:
        for field_value in value:
            if field.message_type is not None:
                _fill_item(target.add(), field_value)
            else:
                target.append(_from_value(field, field_value))
    elif field.message_type is not None:
        target.SetInParent()
        _fill_item(target, value)
    else:
        setattr(message, field.name, _from_value(field, value))


def _fill_item(message: Message, value: Value) -> None:
    name = message.DESCRIPTOR.full_name
    if not _is_well_known(name):
        _fill(message, value or {})
    elif value is not None:
        json_format.ParseDict(value, message)


def _from_value(field: FieldDescriptor, value: Value) -> Any:
    if field.enum_type is not None:
        if isinstance(value, str):
            return field.enum_type.values_by_name[value].number
        return value or 0
    if field.type == FieldDescriptor.TYPE_BYTES:
        return binascii.a2b_base64(value)
    if field.type == FieldDescriptor.TYPE_FLOAT and abs(value) > _MAX_FLOAT:
        raise ValueError(f"{value} does not fit into a float of 32 bits")
    return value


def _parse_key(field: FieldDescriptor, name: str) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        return name
    if field.type == FieldDescriptor.TYPE_BOOL:
        if name not in ("true", "false"):
            raise ValueError(f"the key {name!r} is neither true nor false")
        return name == "true"
    return int(name)
