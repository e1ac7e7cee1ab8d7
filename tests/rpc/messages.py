"""Hypothesis strategies for the messages of a protobuf descriptor."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=5),
    FieldDescriptor.TYPE_DOUBLE: st.floats(),
    FieldDescriptor.TYPE_FLOAT: st.floats(width=32),
    FieldDescriptor.TYPE_STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    FieldDescriptor.TYPE_ENUM: _INT32,
    **dict.fromkeys((FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32), _INT32),
    **dict.fromkeys((FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64), _INT64),
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_FIXED32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_FIXED64: st.integers(0, 2**64 - 1),
}


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor, depth: int = 3) -> Message:
    """Draw a message with some of its fields set; below the depth none is."""
    message = GetMessageClass(descriptor)()
    if depth == 0 or not descriptor.fields:
        return message
    for field in draw(st.lists(st.sampled_from(list(descriptor.fields)), max_size=6)):
        _set_field(draw, message, field, depth)
    return message


def _set_field(draw: st.DrawFn, message: Message, field: FieldDescriptor, depth: int) -> None:
    def value(of: FieldDescriptor) -> Any:
        if of.message_type is not None:
            return draw(messages(of.message_type, depth - 1))
        return draw(_SCALARS[of.type])

    current = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key_field, value_field = field.message_type.fields
        for _ in range(draw(st.integers(1, 2))):
            key = value(key_field)
            if value_field.message_type is not None:
                current[key].CopyFrom(value(value_field))
            else:
                current[key] = value(value_field)
    elif field.is_repeated:
        current.extend([value(field) for _ in range(draw(st.integers(1, 2)))])
    elif field.message_type is not None:
        current.SetInParent()
        current.CopyFrom(value(field))
    else:
        setattr(message, field.name, value(field))
