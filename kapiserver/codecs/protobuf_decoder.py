"""From a Protobuf message to the canonical tree of its type: one function written for each type.

Fields may come in any order; a struct that comes twice is merged, so what is appended to a
message overrides. Fields that the type does not have are skipped. Knows no envelope. Mirrors the
unmarshalers of gogo/protobuf, and what Go's JSON encoder makes of the structs they fill.
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

from kapiserver.api.scalar_types import RawExtension, StringList
from kapiserver.api.types import (
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
)
from kapiserver.codecs.codegen import FunctionSource, cached_per_type
from kapiserver.codecs.errors import Malformed, TooLarge
from kapiserver.codecs.limits import TOO_MANY_VALUES
from kapiserver.codecs.protobuf_encoder import WIRE_TYPES
from kapiserver.codecs.protobuf_wire import BYTES, VARINT, read_varint, skip_field
from kapiserver.codecs.struct_decoder import zero_value

_CACHE_SIZE = 4096
_CBOR_PREFIX_BASE64 = "2dn3"
"""How CBOR that says what it is begins, in base64: the form of bytes in a tree. KEP-4222 lets
extensions be in it within Protobuf."""
_MAX_CACHED_LENGTH = 64

_READ_TAG = """
t = b[i]
i += 1
if t > 127: t, i = read_varint(b, i - 1)
"""
_READ_NEXT_TAG = f"if i == n: break{_READ_TAG}"

# How `v` is taken from the bytes, by wire type.
_READ_DELIMITED = """
j = b[i]
i += 1
if j > 127: j, i = read_varint(b, i - 1)
j += i
v = b[i:j]
i = j
"""
# The same of what nobody asks for.
_SKIP_DELIMITED = """
j = b[i]
i += 1
if j > 127: j, i = read_varint(b, i - 1)
i += j
"""
_READ_VARINT = """
v = b[i]
i += 1
if v > 127: v, i = read_varint(b, i - 1)
"""
_READ_FIXED64 = "v, i = unpack_double(b, i)[0], i + 8"

# What becomes of `v`: a scalar's value in the tree, by name.
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
    """How many more list items, map entries and unknown fields are read."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._left = self._most = most

    def take(self, count: int) -> None:
        """Read that many. Raises TooLarge."""
        self._left -= count
        if self._left < 0:
            raise TooLarge(f"proto: {TOO_MANY_VALUES.format(self._most)}")


@cached_per_type
def compiled_decoder(type_: type[Type]) -> Callable[[bytes, ValueBudget], Tree]:
    """The compiled function that reads one message; of a Leaf, into its message as a tree.

    Raises Malformed, TooLarge, ValueError or struct.error; IndexError for what is cut off.
    """
    source = FunctionSource("b, budget")
    fields = [one for one in type_.fields() if one.number is not None]
    locals_ = {one.name: f"f{index}" for index, one in enumerate(fields)}
    add_field_scan(source, fields, locals_)
    source.add("out = {}")
    for field in fields:
        _add_tree_field(source, field, locals_[field.name])
    source.add("return out")
    return source.compile(f"protobuf reader of {type_.__name__}", **decoder_globals())


def decoder_globals() -> dict[str, Any]:
    """What the lines of a reader call, by name."""
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


# --- taking the fields apart


def add_field_scan(source: FunctionSource, fields: list[Field], locals_: dict[str, str]) -> None:
    """Add the lines that take the fields of a message `b` into their locals: bytes, unsigned
    numbers, lists of those; None where a field is not there. A `budget` pays for unknown ones."""
    if not fields:
        return
    # One pass over the tags in their usual order; what comes late gets another pass.
    marks: set[int] = set()
    numbers: dict[int, str] = {}
    body = []
    for field in sorted(fields, key=lambda one: one.number or 0):
        numbers[field.number or 0] = field.proto
        local = locals_[field.name]
        mark = _field_tag(field.number or 0, field.shape)
        marks.add(mark)
        if isinstance(field.shape, ListOf | MapOf):
            body.append(_repeated_field_lines(mark, local, field.shape))
        else:
            body.append(_single_field_lines(mark, local, field.shape))
        packed = _field_tag(field.number or 0, Scalar("bytes"))
        if isinstance(field.shape, ListOf) and packed != mark:
            marks.add(packed)
            body.append(_packed_field_lines(packed, local, mark & 7))
    known, names = source.bind(frozenset(marks)), source.bind(numbers)
    body.append(
        f"if t not in {known}:\n    budget.take(1)\n"
        f"    if t & 7 == {BYTES} and 7 < t < 4096 and t >> 3 not in {names}:\n"
        f"{_indent(_SKIP_DELIMITED, 2)}\n"
        f"    else: i = skip(b, i, t, {names})\n{_indent(_READ_NEXT_TAG)}\n"
    )
    source.add(f"""
n = len(b)
i = 0
{" = ".join(locals_.values())} = None
if n:
{_indent(_READ_TAG)}
    while True:
{_indent("".join(body), 2)}
""")
    for field in fields:
        if _is_mergeable(field.shape):
            local = locals_[field.name]
            source.add(f"if {local}.__class__ is bytearray: {local} = bytes({local})")


def _indent(text: str, depth: int = 1) -> str:
    return textwrap.indent(text.strip("\n"), "    " * depth)


def map_value_tag(shape: Scalar | Message) -> int:
    """The tag of the value in the entries of a map, which `read_entries` takes."""
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


def _single_field_lines(mark: int, local: str, shape: Shape) -> str:
    value = f"v if {local} is None else merged({local}, v)" if _is_mergeable(shape) else "v"
    return f"""if t == {mark}:
{_indent(_read_lines(shape))}
    {local} = {value}
{_indent(_READ_NEXT_TAG)}
"""


def _is_mergeable(shape: Shape) -> bool:
    return isinstance(shape, Message) and not issubclass(shape.type, ScalarType)


def _repeated_field_lines(mark: int, local: str, shape: ListOf | MapOf) -> str:
    return f"""if t == {mark}:
    if {local} is None: {local} = []
    while t == {mark}:
{_indent(_read_lines(shape), 2)}
        {local}.append(v)
        if i == n: t = -1
        else:
{_indent(_READ_TAG, 3)}
    if t < 0: break
"""


def _packed_field_lines(mark: int, local: str, wire_type: int) -> str:
    # Numbers of a list in one field: nobody here writes it, any reader must take it.
    return f"""if t == {mark}:
{_indent(_READ_DELIMITED)}
    if {local} is None: {local} = []
    {local} += read_packed(v, {wire_type})
{_indent(_READ_NEXT_TAG)}
"""


# --- putting the tree together


def _add_tree_field(source: FunctionSource, field: Field, local: str) -> None:
    name, shape, declared = repr(field.name), field.shape, field.options
    if declared.inline:
        inner = source.bind_lazy(compiled_decoder, _message_type(shape))
        test = f"if {local} is not None: " if field.pointer else ""
        source.add(f'{test}out.update({inner}({local} or b"", budget))')
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
        kept = "True" if field.pointer or declared.always else "v"
    elif isinstance(shape, Message) and not is_string_list(shape):
        kept = "v is not None"
    else:
        kept = "True" if declared.always else "v"
    source.add(f"    if {kept}: out[{name}] = v")
    if declared.always:
        absent = (
            _ZERO_LITERALS[shape.name]
            if isinstance(shape, Scalar) and not field.pointer
            else "None"
        )
        source.add(f"else: out[{name}] = {absent}")


def _value_expression(source: FunctionSource, shape: Shape) -> str:
    # The expression of the value in the tree of what was taken, `v`.
    if isinstance(shape, Scalar):
        return _SCALAR_EXPRESSIONS[shape.name]
    if isinstance(shape, ListOf):
        return f"[{_value_expression(source, shape.item)} for v in v]"
    if isinstance(shape, MapOf):
        assert isinstance(shape.value, Scalar | Message)
        mark = map_value_tag(shape.value)
        return (
            f"{{k: {_value_expression(source, shape.value)} for k, v in read_entries(v, {mark})}}"
        )
    leaf = issubclass(shape.type, ScalarType)
    return f"{source.bind_lazy(leaf_decoder if leaf else compiled_decoder, shape.type)}(v, budget)"


def _message_type(shape: Shape) -> type[Type]:
    assert isinstance(shape, Message)
    return shape.type


def is_string_list(shape: Message) -> bool:
    """Whether the value in the tree is a list, although its message is a struct."""
    return issubclass(shape.type, StringList)


@cached_per_type
def leaf_decoder(type_: type[Type]) -> Callable[[bytes, ValueBudget], Value]:
    """What reads the message of a Leaf into its value."""
    assert issubclass(type_, ScalarType)
    leaf, read = type_, compiled_decoder(type_)

    def read_value(data: bytes, budget: ValueBudget) -> Value:
        message = read(data, budget)
        raw = message.get("raw")
        if raw and raw.startswith(_CBOR_PREFIX_BASE64) and issubclass(leaf, RawExtension):
            from kapiserver.codecs.cbor import decode_value  # rare

            return decode_value(binascii.a2b_base64(raw))
        return leaf.from_message(message)

    # What is made of raw bytes or lists may be changed by whom it is given to.
    kinds = {field.shape for field in type_.fields()}
    if not all(isinstance(one, Scalar) and one.name != "bytes" for one in kinds):
        return read_value

    @functools.lru_cache(_CACHE_SIZE)
    def remembered(data: bytes) -> Value:
        return read_value(data, ValueBudget(_MAX_CACHED_LENGTH))

    def read_leaf(data: bytes, budget: ValueBudget) -> Value:
        return remembered(data) if len(data) <= _MAX_CACHED_LENGTH else read_value(data, budget)

    return read_leaf


# --- what the compiled functions call


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
    values, at = [], 0
    while at < len(data):
        value, at = read_varint(data, at)
        values.append(value)
    return values


def _merge_messages(first: bytes | bytearray, second: bytes) -> bytearray:
    # Grows in place: a message in very many parts is put together in one pass.
    whole = first if isinstance(first, bytearray) else bytearray(first)
    whole += second
    return whole


def _read_entries(data: list[bytes], mark: int) -> list[tuple[str, Any]]:
    return sorted(dict([_read_entry(one, mark) for one in data]).items(), key=_KEY_OF)


def _read_entry(data: bytes, mark: int) -> tuple[str, Any]:
    # A map entry is a message of its own: key = 1, value = 2.
    key, value = "", b"" if mark & 7 == BYTES else 0
    at, end = 0, len(data)
    while at < end:
        found, at = read_varint(data, at)
        if found not in (_KEY_TAG, mark):
            at = skip_field(data, at, found, _ENTRY_FIELDS)
        elif found & 7 == BYTES:
            size, at = read_varint(data, at)
            chunk = data[at : at + size]
            at += size
            if found == _KEY_TAG:
                key = chunk.decode()
            else:
                value = chunk
        elif found & 7 == VARINT:
            value, at = read_varint(data, at)
        else:
            value, at = _DOUBLE.unpack_from(data, at)[0], at + 8
    if at != end:
        raise IndexError
    return key, value


_KEY_TAG = 1 << 3 | BYTES
_ENTRY_FIELDS = {1: "key", 2: "value"}
_KEY_OF = operator.itemgetter(0)
_DOUBLE = struct.Struct("<d")
