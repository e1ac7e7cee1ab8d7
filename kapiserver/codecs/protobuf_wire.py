"""The bytes below a Protobuf message: varints, tags, and fields that nobody knows.

Knows no type. Mirrors the Protocol Buffers encoding specification, and the errors of
gogo/protobuf.
"""

from __future__ import annotations

from kapiserver.codecs.errors import Malformed

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
"""The wire types: the low three bits of a tag."""

_UINT64 = (1 << 64) - 1
_MAX_VARINT_BYTES = 10
_MAX_FIELD_NUMBER = (1 << 29) - 1
_MAX_GROUPS = 32
_MAX_GROUP_FIELDS = 1000


def _encode(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


SMALL_VARINTS = tuple(_encode(value) for value in range(2048))
"""The varints of small numbers, by number."""


def encode_varint(value: int) -> bytes:
    """Write a number; a negative one takes ten bytes."""
    return SMALL_VARINTS[value] if 0 <= value < 2048 else _encode(value & _UINT64)


def encode_tag(number: int, wire_type: int) -> bytes:
    """Write the tag of a field."""
    return encode_varint(number << 3 | wire_type)


def encode_delimited(number: int, data: bytes) -> bytes:
    """Write a field of bytes: a string, bytes or a message."""
    return b"%b%b%b" % (encode_varint(number << 3 | BYTES), encode_varint(len(data)), data)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at an offset, unsigned, and the offset after it.

    Raises Malformed when it has more than ten bytes, IndexError when it is cut off.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _UINT64, at
        shift += 7
        if shift == 7 * _MAX_VARINT_BYTES:
            raise Malformed("proto: integer overflow")


def skip_field(data: bytes, at: int, tag: int, known: dict[int, str]) -> int:
    """The offset after the field whose tag ends at an offset.

    known       names of the fields that would have had another wire type, by number

    Raises Malformed; IndexError when an inner tag is cut off. May end beyond the data.
    """
    number, wire_type = tag >> 3, tag & 7
    if not 0 < number <= _MAX_FIELD_NUMBER:
        raise Malformed(f"proto: illegal tag {number} (wire type {wire_type})")
    if number in known:
        raise Malformed(f"proto: wrong wireType = {wire_type} for field {known[number]}")
    groups = [number] if wire_type == GROUP else []
    at = _skip_value(data, at, wire_type)
    remaining_fields = _MAX_GROUP_FIELDS
    while groups:
        tag, at = read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == END_GROUP:
            if groups.pop() != number:
                raise Malformed("proto: unexpected end of group")
            continue
        remaining_fields -= 1
        if remaining_fields < 0:
            raise Malformed("proto: a group has too many fields")
        if wire_type == GROUP:
            groups.append(number)
            if len(groups) > _MAX_GROUPS:
                raise Malformed("proto: groups nested too deep")
        at = _skip_value(data, at, wire_type)
    return at


def _skip_value(data: bytes, at: int, wire_type: int) -> int:
    if wire_type == VARINT:
        return read_varint(data, at)[1]
    if wire_type == BYTES:
        length, at = read_varint(data, at)
        return at + length
    if wire_type == FIXED64:
        return at + 8
    if wire_type == FIXED32:
        return at + 4
    if wire_type == GROUP:
        return at
    raise Malformed(f"proto: illegal wireType {wire_type}")
