"""The Protobuf wire format: varints, tags, and skipping unknown fields.

Knows no type. Mirrors the Protocol Buffers encoding specification and the errors of gogo/protobuf.
"""

from __future__ import annotations

from kapiserver.codecs.errors import Malformed

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
"""The wire types: the low three bits of a tag."""

_UINT64 = (1 << 64) - 1
_METADATA_TAG = b"\x0a"
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
"""The encoded varints of the numbers below 2048, by number."""


def encode_varint(value: int) -> bytes:
    """Encode a number as a varint; a negative number takes ten bytes."""
    if 0 <= value < 2048:
        return SMALL_VARINTS[value]
    if 0 <= value < 16384:
        return bytes((value & 127 | 128, value >> 7))
    if 1 << 28 <= value < 1 << 35:  # seconds since 1970, and most nanoseconds
        low, high = value & 0xFFF_FFFF, value >> 28
        return bytes(
            (low & 127 | 128, low >> 7 & 127 | 128, low >> 14 & 127 | 128, low >> 21 | 128, high)
        )
    return _encode(value & _UINT64)


def encode_tag(number: int, wire_type: int) -> bytes:
    """Encode the tag of a field."""
    return encode_varint(number << 3 | wire_type)


def encode_delimited(number: int, data: bytes) -> bytes:
    """Encode a length-delimited field: a string, bytes or a message."""
    tag, size = number << 3 | BYTES, len(data)
    if tag < 2048 and size < 2048:
        return b"".join((SMALL_VARINTS[tag], SMALL_VARINTS[size], data))
    return b"".join((encode_varint(tag), encode_varint(size), data))


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the unsigned number at an offset, and the offset after it.

    Raises Malformed if it has more than ten bytes, IndexError if it is truncated.
    """
    byte = data[offset]
    if byte < 128:
        return byte, offset + 1
    second = data[offset + 1]
    if second < 128:  # as the length of most objects
        return byte & 127 | second << 7, offset + 2
    value = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _UINT64, offset
        shift += 7
        if shift == 7 * _MAX_VARINT_BYTES:
            raise Malformed("proto: integer overflow")


def metadata_of_message(message: bytes) -> bytes:
    """Return the part of an object's message that holds its metadata, or the whole message.

    Metadata is the first field of every object, and written once. Raises IndexError if the message
    is truncated.
    """
    if message[:1] != _METADATA_TAG:
        return message
    length, start = read_varint(message, 1)
    return message[: start + length]


def skip_field(data: bytes, offset: int, tag: int, field_names: dict[int, str]) -> int:
    """Return the offset after the field whose tag ends at an offset.

    field_names     the names of known fields by number; a tag of such a field has a wrong wire type

    Raises Malformed; IndexError if a tag within a group is truncated. The result may be beyond the
    end of the data.
    """
    number, wire_type = tag >> 3, tag & 7
    if not 0 < number <= _MAX_FIELD_NUMBER:
        raise Malformed(f"proto: illegal tag {number} (wire type {wire_type})")
    if number in field_names:
        raise Malformed(f"proto: wrong wireType = {wire_type} for field {field_names[number]}")
    groups = [number] if wire_type == GROUP else []
    offset = _skip_value(data, offset, wire_type)
    remaining_fields = _MAX_GROUP_FIELDS
    while groups:
        tag, offset = read_varint(data, offset)
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
        offset = _skip_value(data, offset, wire_type)
    return offset


def _skip_value(data: bytes, offset: int, wire_type: int) -> int:
    if wire_type == VARINT:
        return read_varint(data, offset)[1]
    if wire_type == BYTES:
        length, offset = read_varint(data, offset)
        return offset + length
    if wire_type == FIXED64:
        return offset + 8
    if wire_type == FIXED32:
        return offset + 4
    if wire_type == GROUP:
        return offset
    raise Malformed(f"proto: illegal wireType {wire_type}")
