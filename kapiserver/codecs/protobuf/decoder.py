"""Generates the functions that decode Protobuf messages into canonical trees, one for each type.

Fields may be in any order. Repeated messages are merged, so fields appended to a message override
earlier ones. Unknown fields are skipped. Knows no envelope. Mirrors the unmarshalers of
gogo/protobuf, followed by Go's JSON encoder.

Names in the generated code: `b` is the message, `n` its length, `i` the offset, `j` the end of a
field, `t` its tag, `v` its value, `f0`, `f1`, ... the values of the fields.
"""

from __future__ import annotations

import binascii
import functools
import math
import operator
import struct
import textwrap
from collections.abc import Callable
from typing import Any

from kapiserver.api.scalar_types import FieldsV1, RawExtension, StringList, json_value
from kapiserver.api.types import (
    EncodedType,
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
    cached_in_type,
)
from kapiserver.codecs.codegen import FunctionSource
from kapiserver.codecs.errors import Malformed, TooLarge
from kapiserver.codecs.limits import TOO_MANY_VALUES
from kapiserver.codecs.protobuf.encoder import WIRE_TYPES
from kapiserver.codecs.protobuf.wire import BYTES, VARINT, read_varint, skip_field
from kapiserver.codecs.struct_decoder import zero_value

_CACHE_SIZE = 4096
_CBOR_PREFIX = b"\xd9\xd9\xf7"
"""The self-described CBOR tag. KEP-4222 allows CBOR in a RawExtension within Protobuf."""
_FIRST_FIELD = b"\x0a"
"""The tag of field 1, of bytes."""
_MAX_CACHED_LENGTH = 64

_READ_TAG = """
t = b[i]
i += 1
if t > 127:
    if b[i] < 128: t, i = t - 128 + (b[i] << 7), i + 1
    else: t, i = read_varint(b, i - 1)
"""
_READ_NEXT_TAG = f"if i == n: break{_READ_TAG}"

# The lines that read `v` from the message, by wire type.
_READ_DELIMITED = """
j = b[i]
i += 1
if j > 127:
    if b[i] < 128: j, i = j - 128 + (b[i] << 7), i + 1
    else: j, i = read_varint(b, i - 1)
j += i
v = b[i:j]
i = j
"""
# The lines that skip a length-delimited field.
_SKIP_DELIMITED = """
j = b[i]
i += 1
if j > 127:
    if b[i] < 128: j, i = j - 128 + (b[i] << 7), i + 1
    else: j, i = read_varint(b, i - 1)
i += j
"""
_READ_VARINT = """
v = b[i]
i += 1
if v > 127: v, i = read_varint(b, i - 1)
"""
_READ_FIXED64 = "v, i = unpack_double(b, i)[0], i + 8"

# The expression of a scalar in the tree, by its name.
_SCALAR_EXPRESSIONS = {
    "string": "v.decode()",
    "bytes": "to_base64(v, newline=False).decode()",
    "bool": "v != 0",
    "int32": "v if v < 128 else signed32(v)",
    "int64": "v if v < 128 else signed64(v)",
    "double": "finite(v)",
}
_ZERO_LITERALS = {
    "string": '""', "bytes": "None", "bool": "False", "int32": "0", "int64": "0", "double": "0.0",
}  # fmt: skip


class ValueBudget:
    """Limits the number of decoded list items, map entries and unknown fields."""

    __slots__ = ("_max_count", "_remaining")

    def __init__(self, max_count: int) -> None:
        self._remaining = self._max_count = max_count

    def take(self, count: int) -> None:
        """Count that many values. Raises TooLarge if they exceed the limit."""
        self._remaining -= count
        if self._remaining < 0:
            raise TooLarge(f"proto: {TOO_MANY_VALUES.format(self._max_count)}")


@cached_in_type
def compiled_decoder(type_: type[Type]) -> Callable[[bytes, ValueBudget], Tree]:
    """Return the compiled function that decodes a message of a type. For a scalar type it returns a
    message tree.

    The function raises Malformed, TooLarge, ValueError or struct.error, and IndexError if the
    message is truncated.
    """
    if issubclass(type_, EncodedType):
        encoded_type = type_
        return lambda data, budget: encoded_type.decode(data, budget.take)
    source = FunctionSource("b, budget")
    fields = [field for field in type_.fields() if field.number is not None]
    locals_ = {field.name: f"f{index}" for index, field in enumerate(fields)}
    add_field_scan(source, fields, locals_)
    source.add("out = {}")
    for field in fields:
        _add_tree_field(source, field, locals_[field.name])
    source.add("return out")
    return source.compile(f"protobuf reader of {type_.__name__}", **decoder_globals())


def decoder_globals() -> dict[str, Any]:
    """Return the functions that the generated code calls, by name."""
    return {
        "read_varint": read_varint,
        "read_entries": _read_entries,
        "read_packed": _read_packed,
        "merged": _merge_messages,
        "skip": skip_field,
        "unpack_double": _DOUBLE.unpack_from,
        "to_base64": binascii.b2a_base64,
        "signed32": _signed32,
        "signed64": _signed64,
        "finite": _require_finite,
    }


# --- generated code: reading the fields


def add_field_scan(source: FunctionSource, fields: list[Field], locals_: dict[str, str]) -> None:
    """Add the lines that read the fields of the message `b` into local variables.

    locals_     the local variable of each field, by the field's name

    A variable is bytes, an unsigned number or a list of these; None if the field is absent. Unknown
    fields count against `budget`.
    """
    if not fields:
        return
    # One iteration tests all tags in the usual order; fields out of order need another one.
    known_tags: set[int] = set()
    names_by_number: dict[int, str] = {}
    body = []
    for field in sorted(fields, key=lambda field: field.number or 0):
        names_by_number[field.number or 0] = field.proto
        local = locals_[field.name]
        field_tag = _field_tag(field.number or 0, field.shape)
        known_tags.add(field_tag)
        if isinstance(field.shape, ListOf | MapOf):
            body.append(_repeated_field_lines(field_tag, local, field.shape))
        else:
            body.append(_single_field_lines(field_tag, local, field.shape))
        packed_tag = _field_tag(field.number or 0, Scalar("bytes"))
        if isinstance(field.shape, ListOf) and packed_tag != field_tag:
            known_tags.add(packed_tag)
            body.append(_packed_field_lines(packed_tag, local, field_tag & 7))
    tags_name, numbers_name = source.bind(frozenset(known_tags)), source.bind(names_by_number)
    body.append(
        f"if t not in {tags_name}:\n    unknown += 1\n"
        f"    if t & 7 == {BYTES} and 7 < t < 4096 and t >> 3 not in {numbers_name}:\n"
        f"{_indent(_SKIP_DELIMITED, 2)}\n"
        f"    else: i = skip(b, i, t, {numbers_name})\n{_indent(_READ_NEXT_TAG)}\n"
    )
    source.add(f"""
n = len(b)
i = unknown = 0
{" = ".join(locals_.values())} = None
if n:
{_indent(_READ_TAG)}
    while True:
{_indent("".join(body), 2)}
if unknown: budget.take(unknown)
""")
    for field in fields:
        if _is_mergeable(field.shape):
            local = locals_[field.name]
            source.add(f"if {local}.__class__ is bytearray: {local} = bytes({local})")


def _indent(text: str, depth: int = 1) -> str:
    return textwrap.indent(text.strip("\n"), "    " * depth)


def map_value_tag(shape: Scalar | Message) -> int:
    """Return the tag of the value in map entries, an argument of `read_entries`."""
    return _field_tag(2, shape)


def _field_tag(number: int, shape: Shape) -> int:
    if isinstance(shape, ListOf):
        return _field_tag(number, shape.item)
    return number << 3 | (WIRE_TYPES.get(shape.name, BYTES) if isinstance(shape, Scalar) else BYTES)


def _read_lines(shape: Shape) -> str:
    wire_type = _field_tag(0, shape)
    return (
        _READ_DELIMITED
        if wire_type == BYTES
        else _READ_VARINT
        if wire_type == VARINT
        else _READ_FIXED64
    )


def _single_field_lines(field_tag: int, local: str, shape: Shape) -> str:
    value = f"v if {local} is None else merged({local}, v)" if _is_mergeable(shape) else "v"
    return f"""if t == {field_tag}:
{_indent(_read_lines(shape))}
    {local} = {value}
{_indent(_READ_NEXT_TAG)}
"""


def _is_mergeable(shape: Shape) -> bool:
    return isinstance(shape, Message) and not issubclass(shape.type, ScalarType)


def _repeated_field_lines(field_tag: int, local: str, shape: ListOf | MapOf) -> str:
    return f"""if t == {field_tag}:
    if {local} is None: {local} = []
    while t == {field_tag}:
{_indent(_read_lines(shape), 2)}
        {local}.append(v)
        if i == n: t = -1
        else:
{_indent(_READ_TAG, 3)}
    if t < 0: break
"""


def _packed_field_lines(field_tag: int, local: str, wire_type: int) -> str:
    # Packed lists: this server does not write them, but every decoder must accept them.
    return f"""if t == {field_tag}:
{_indent(_READ_DELIMITED)}
    if {local} is None: {local} = []
    {local} += read_packed(v, {wire_type})
{_indent(_READ_NEXT_TAG)}
"""


# --- generated code: building the tree


def _add_tree_field(source: FunctionSource, field: Field, local: str) -> None:
    name, shape, declared = repr(field.name), field.shape, field.options
    if declared.inline:
        decoder = source.bind_lazy(compiled_decoder, _message_type(shape))
        test = f"if {local} is not None: " if field.pointer else ""
        source.add(f'{test}out.update({decoder}({local} or b"", budget))')
        return
    if isinstance(shape, Message) and not field.pointer and not is_string_list(shape):
        source.add(f'v = {local} or b""\nr = {_value_expression(source, shape)}')
        if declared.omit_zero:
            source.add(f"if r != {source.bind(zero_value(shape.type))}: out[{name}] = r")
        else:
            source.add(f"out[{name}] = r")
        return
    source.add(f"if {local} is not None:\n    v = {local}")
    if isinstance(shape, ListOf | MapOf):
        source.add("    budget.take(len(v))")
    source.add(f"    v = {_value_expression(source, shape)}")
    if isinstance(shape, Scalar):
        condition = "True" if field.pointer or declared.always else "v"
    elif isinstance(shape, Message) and not is_string_list(shape):
        condition = "v is not None"
    else:
        condition = "True" if declared.always else "v"
    source.add(f"    if {condition}: out[{name}] = v")
    if declared.always:
        absent = (
            _ZERO_LITERALS[shape.name]
            if isinstance(shape, Scalar) and not field.pointer
            else "None"
        )
        source.add(f"else: out[{name}] = {absent}")


def _value_expression(source: FunctionSource, shape: Shape) -> str:
    # Returns the expression of the value in the tree for the value `v` that was read.
    if isinstance(shape, Scalar):
        return _SCALAR_EXPRESSIONS[shape.name]
    if isinstance(shape, ListOf):
        return f"[{_value_expression(source, shape.item)} for v in v]"
    if isinstance(shape, MapOf):
        assert isinstance(shape.value, Scalar | Message)
        value_tag = map_value_tag(shape.value)
        value = _value_expression(source, shape.value)
        return f"{{k: {value} for k, v in read_entries(v, {value_tag})}}"
    is_leaf = issubclass(shape.type, ScalarType)
    return (
        f"{source.bind_lazy(leaf_decoder if is_leaf else compiled_decoder, shape.type)}(v, budget)"
    )


def _message_type(shape: Shape) -> type[Type]:
    assert isinstance(shape, Message)
    return shape.type


def is_string_list(shape: Message) -> bool:
    """Whether the tree has a list although the message is a struct."""
    return issubclass(shape.type, StringList)


@cached_in_type
def leaf_decoder(type_: type[Type]) -> Callable[[bytes, ValueBudget], Value]:
    """Return the function that decodes the message of a scalar type into its value."""
    assert issubclass(type_, ScalarType)
    if issubclass(type_, FieldsV1 | RawExtension):
        return _raw_json_decoder(type_)
    leaf, decode_message = type_, compiled_decoder(type_)

    def decode(data: bytes, budget: ValueBudget) -> Value:
        return leaf.from_message(decode_message(data, budget))

    # Only immutable values are cached: callers may change values made of bytes or lists.
    shapes = {field.shape for field in type_.fields()}
    if not all(isinstance(shape, Scalar) and shape.name != "bytes" for shape in shapes):
        return decode

    @functools.lru_cache(_CACHE_SIZE)
    def decode_cached(data: bytes) -> Value:
        return decode(data, ValueBudget(_MAX_CACHED_LENGTH))

    def decode_leaf(data: bytes, budget: ValueBudget) -> Value:
        return decode_cached(data) if len(data) <= _MAX_CACHED_LENGTH else decode(data, budget)

    return decode_leaf


def _raw_json_decoder(type_: type[ScalarType]) -> Callable[[bytes, ValueBudget], Value]:
    decode_message, (field,) = compiled_decoder(type_), type_.fields()
    allows_cbor = issubclass(type_, RawExtension)

    def decode(data: bytes, budget: ValueBudget) -> Value:
        raw = _whole_field(data)
        if raw is None:  # no field, several, or unknown ones
            raw = binascii.a2b_base64(decode_message(data, budget).get(field.name) or "")
        if allows_cbor and raw.startswith(_CBOR_PREFIX):
            from kapiserver.codecs.cbor import decode_value  # imported late: rarely used

            return decode_value(raw)
        return json_value(raw)

    return decode


def _whole_field(data: bytes) -> bytes | None:
    """Return the bytes of field 1 if the message is only that field."""
    if data[:1] != _FIRST_FIELD:
        return None
    size, start = read_varint(data, 1)
    return data[start:] if start + size == len(data) else None


# --- functions that the generated code calls


def _signed32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _signed64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _require_finite(value: float) -> float:
    if not math.isfinite(value):
        raise Malformed("a number is infinite or not a number")
    return value


def _read_packed(data: bytes, wire_type: int) -> list[Any]:
    if wire_type != VARINT:
        return [value for (value,) in _DOUBLE.iter_unpack(data)]
    values, offset = [], 0
    while offset < len(data):
        value, offset = read_varint(data, offset)
        values.append(value)
    return values


def _merge_messages(first: bytes | bytearray, second: bytes) -> bytearray:
    # Appends in place, so merging a message of very many parts takes linear time.
    merged = first if isinstance(first, bytearray) else bytearray(first)
    merged += second
    return merged


def _read_entries(data: list[bytes], value_tag: int) -> list[tuple[str, Any]]:
    return sorted(dict([read_entry(entry, value_tag) for entry in data]).items(), key=_KEY_OF)


def read_entry(data: bytes, value_tag: int) -> tuple[str, Any]:
    """Return the key of a map entry, and its value as bytes or a number. Raises Malformed,
    IndexError, ValueError, struct.error."""
    # A map entry is a message with the fields key = 1 and value = 2, usually in this order.
    if value_tag == _BYTES_VALUE_TAG and data.startswith(_KEY_START):
        value_at = data[1] + 2
        if data[1] < 128 and value_at + 1 < len(data) and data[value_at] == value_tag:
            size, start = read_varint(data, value_at + 1)
            if start + size == len(data):
                return data[2:value_at].decode(), data[start:]
    key, value = "", b"" if value_tag & 7 == BYTES else 0
    offset, end = 0, len(data)
    while offset < end:
        field_tag, offset = read_varint(data, offset)
        if field_tag not in (_KEY_TAG, value_tag):
            offset = skip_field(data, offset, field_tag, _ENTRY_FIELDS)
        elif field_tag & 7 == BYTES:
            size, offset = read_varint(data, offset)
            chunk = data[offset : offset + size]
            offset += size
            if field_tag == _KEY_TAG:
                key = chunk.decode()
            else:
                value = chunk
        elif field_tag & 7 == VARINT:
            value, offset = read_varint(data, offset)
        else:
            value, offset = _DOUBLE.unpack_from(data, offset)[0], offset + 8
    if offset != end:
        raise IndexError
    return key, value


_KEY_TAG = 1 << 3 | BYTES
_KEY_START = bytes([_KEY_TAG])
_BYTES_VALUE_TAG = 2 << 3 | BYTES
_ENTRY_FIELDS = {1: "key", 2: "value"}
_KEY_OF = operator.itemgetter(0)
_DOUBLE = struct.Struct("<d")
