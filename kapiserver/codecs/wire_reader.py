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
from kapiserver.codecs.bounds import TOO_MANY_VALUES
from kapiserver.codecs.errors import Malformed, TooLarge
from kapiserver.codecs.shape import zero
from kapiserver.codecs.source import Source, once_per_type
from kapiserver.codecs.varint import BYTES, VARINT, read_varint, skip
from kapiserver.codecs.wire_writer import WIRE_TYPES

_CACHED = 4096
_RAW_CBOR = "2dn3"
"""How CBOR that says what it is begins, in base64: the form of bytes in a tree. KEP-4222 lets
extensions be in it within Protobuf."""
_SHORT = 64

_TAG = """
t = b[i]
i += 1
if t > 127: t, i = read_varint(b, i - 1)
"""
_NEXT = f"if i == n: break{_TAG}"

# How `v` is taken from the bytes, by wire type.
_DELIMITED = """
j = b[i]
i += 1
if j > 127: j, i = read_varint(b, i - 1)
j += i
v = b[i:j]
i = j
"""
# The same of what nobody asks for.
_PASSED = """
j = b[i]
i += 1
if j > 127: j, i = read_varint(b, i - 1)
i += j
"""
_VARINT = """
v = b[i]
i += 1
if v > 127: v, i = read_varint(b, i - 1)
"""
_FIXED64 = "v, i = unpack_double(b, i)[0], i + 8"

# What becomes of `v`: a scalar's value in the tree, by name.
_SCALARS = {
    "string": "v.decode()",
    "bytes": "to_base64(v, newline=False).decode()",
    "bool": "v != 0",
    "int32": "v if v < 128 else signed32(v)",
    "int64": "v if v < 128 else signed64(v)",
    "double": "finite(v)",
}
_ZEROS = {
    "string": '""', "bytes": "None", "bool": "False", "int32": "0", "int64": "0", "double": "0.0",
}  # fmt: skip


class Budget:
    """How many more list items, map entries and unknown fields are read."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._left = self._most = most

    def take(self, count: int) -> None:
        """Read that many. Raises TooLarge."""
        self._left -= count
        if self._left < 0:
            raise TooLarge(f"proto: {TOO_MANY_VALUES.format(self._most)}")


@once_per_type
def reader(type_: type[Type]) -> Callable[[bytes, Budget], Tree]:
    """The compiled function that reads one message; of a Leaf, into its message as a tree.

    Raises Malformed, TooLarge, ValueError or struct.error; IndexError for what is cut off.
    """
    source = Source("b, budget")
    fields = [one for one in type_.fields() if one.number is not None]
    locals_ = {one.name: f"f{index}" for index, one in enumerate(fields)}
    add_scan(source, fields, locals_)
    source.add("out = {}")
    for field in fields:
        _add_result(source, field, locals_[field.name])
    source.add("return out")
    return source.compile(f"protobuf reader of {type_.__name__}", **runtime())


def runtime() -> dict[str, Any]:
    """What the lines of a reader call, by name."""
    return {
        "read_varint": read_varint,
        "read_entries": _read_entries,
        "read_packed": _read_packed,
        "merged": _merged,
        "skip": skip,
        "unpack_double": _DOUBLE.unpack_from,
        "to_base64": binascii.b2a_base64,
        "signed32": _signed32,
        "signed64": _signed64,
        "finite": _finite,
    }


# --- taking the fields apart


def add_scan(source: Source, fields: list[Field], locals_: dict[str, str]) -> None:
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
        mark = _mark(field.number or 0, field.shape)
        marks.add(mark)
        if isinstance(field.shape, ListOf | MapOf):
            body.append(_many(mark, local, field.shape))
        else:
            body.append(_one(mark, local, field.shape))
        packed = _mark(field.number or 0, Scalar("bytes"))
        if isinstance(field.shape, ListOf) and packed != mark:
            marks.add(packed)
            body.append(_packed(packed, local, mark & 7))
    known, names = source.bind(frozenset(marks)), source.bind(numbers)
    body.append(
        f"if t not in {known}:\n    budget.take(1)\n"
        f"    if t & 7 == {BYTES} and 7 < t < 4096 and t >> 3 not in {names}:\n"
        f"{_indented(_PASSED, 2)}\n"
        f"    else: i = skip(b, i, t, {names})\n{_indented(_NEXT)}\n"
    )
    source.add(f"""
n = len(b)
i = 0
{" = ".join(locals_.values())} = None
if n:
{_indented(_TAG)}
    while True:
{_indented("".join(body), 2)}
""")
    for field in fields:
        if _merges(field.shape):
            local = locals_[field.name]
            source.add(f"if {local}.__class__ is bytearray: {local} = bytes({local})")


def _indented(text: str, depth: int = 1) -> str:
    return textwrap.indent(text.strip("\n"), "    " * depth)


def entry_mark(shape: Scalar | Message) -> int:
    """The tag of the value in the entries of a map, which `read_entries` takes."""
    return _mark(2, shape)


def _mark(number: int, shape: Shape) -> int:
    if isinstance(shape, ListOf):
        return _mark(number, shape.item)
    return number << 3 | (WIRE_TYPES.get(shape.name, BYTES) if isinstance(shape, Scalar) else BYTES)


def _taken(shape: Shape) -> str:
    wire_type = _mark(0, shape)
    return _DELIMITED if wire_type == BYTES else _VARINT if wire_type == VARINT else _FIXED64


def _one(mark: int, local: str, shape: Shape) -> str:
    value = f"v if {local} is None else merged({local}, v)" if _merges(shape) else "v"
    return f"""if t == {mark}:
{_indented(_taken(shape))}
    {local} = {value}
{_indented(_NEXT)}
"""


def _merges(shape: Shape) -> bool:
    return isinstance(shape, Message) and not issubclass(shape.type, ScalarType)


def _many(mark: int, local: str, shape: ListOf | MapOf) -> str:
    return f"""if t == {mark}:
    if {local} is None: {local} = []
    while t == {mark}:
{_indented(_taken(shape), 2)}
        {local}.append(v)
        if i == n: t = -1
        else:
{_indented(_TAG, 3)}
    if t < 0: break
"""


def _packed(mark: int, local: str, wire_type: int) -> str:
    # Numbers of a list in one field: nobody here writes it, any reader must take it.
    return f"""if t == {mark}:
{_indented(_DELIMITED)}
    if {local} is None: {local} = []
    {local} += read_packed(v, {wire_type})
{_indented(_NEXT)}
"""


# --- putting the tree together


def _add_result(source: Source, field: Field, local: str) -> None:
    name, shape, declared = repr(field.name), field.shape, field.options
    if declared.inline:
        inner = source.bind_later(reader, _type(shape))
        test = f"if {local} is not None: " if field.pointer else ""
        source.add(f'{test}out.update({inner}({local} or b"", budget))')
        return
    if isinstance(shape, Message) and not field.pointer and not is_list(shape):
        source.add(f'v = {local} or b""\nr = {_value(source, shape)}')
        if declared.omit_zero:
            source.add(f"if r != {source.bind(zero(shape.type))}: out[{name}] = r")
        else:
            source.add(f"out[{name}] = r")
        return
    source.add(f"if {local} is not None:\n    v = {local}")
    if isinstance(shape, ListOf | MapOf):
        source.add("    budget.take(len(v))")
    source.add(f"    v = {_value(source, shape)}")
    if isinstance(shape, Scalar):
        kept = "True" if field.pointer or declared.always else "v"
    elif isinstance(shape, Message) and not is_list(shape):
        kept = "v is not None"
    else:
        kept = "True" if declared.always else "v"
    source.add(f"    if {kept}: out[{name}] = v")
    if declared.always:
        absent = _ZEROS[shape.name] if isinstance(shape, Scalar) and not field.pointer else "None"
        source.add(f"else: out[{name}] = {absent}")


def _value(source: Source, shape: Shape) -> str:
    # The expression of the value in the tree of what was taken, `v`.
    if isinstance(shape, Scalar):
        return _SCALARS[shape.name]
    if isinstance(shape, ListOf):
        return f"[{_value(source, shape.item)} for v in v]"
    if isinstance(shape, MapOf):
        assert isinstance(shape.value, Scalar | Message)
        mark = entry_mark(shape.value)
        return f"{{k: {_value(source, shape.value)} for k, v in read_entries(v, {mark})}}"
    leaf = issubclass(shape.type, ScalarType)
    return f"{source.bind_later(leaf_reader if leaf else reader, shape.type)}(v, budget)"


def _type(shape: Shape) -> type[Type]:
    assert isinstance(shape, Message)
    return shape.type


def is_list(shape: Message) -> bool:
    """Whether the value in the tree is a list, although its message is a struct."""
    return issubclass(shape.type, StringList)


@once_per_type
def leaf_reader(type_: type[Type]) -> Callable[[bytes, Budget], Value]:
    """What reads the message of a Leaf into its value."""
    assert issubclass(type_, ScalarType)
    leaf, read = type_, reader(type_)

    def read_value(data: bytes, budget: Budget) -> Value:
        message = read(data, budget)
        raw = message.get("raw")
        if raw and raw.startswith(_RAW_CBOR) and issubclass(leaf, RawExtension):
            from kapiserver.codecs.cbor import read_document  # rare

            return read_document(binascii.a2b_base64(raw))
        return leaf.from_message(message)

    # What is made of raw bytes or lists may be changed by whom it is given to.
    kinds = {field.shape for field in type_.fields()}
    if not all(isinstance(one, Scalar) and one.name != "bytes" for one in kinds):
        return read_value

    @functools.lru_cache(_CACHED)
    def remembered(data: bytes) -> Value:
        return read_value(data, Budget(_SHORT))

    def read_leaf(data: bytes, budget: Budget) -> Value:
        return remembered(data) if len(data) <= _SHORT else read_value(data, budget)

    return read_leaf


# --- what the compiled functions call


def _signed32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _signed64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _finite(value: float) -> float:
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


def _merged(first: bytes | bytearray, second: bytes) -> bytearray:
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
        if found not in (_KEY, mark):
            at = skip(data, at, found, _ENTRY)
        elif found & 7 == BYTES:
            size, at = read_varint(data, at)
            chunk = data[at : at + size]
            at += size
            if found == _KEY:
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


_KEY = 1 << 3 | BYTES
_ENTRY = {1: "key", 2: "value"}
_KEY_OF = operator.itemgetter(0)
_DOUBLE = struct.Struct("<d")
