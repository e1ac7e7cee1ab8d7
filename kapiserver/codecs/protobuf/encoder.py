"""Generates the functions that encode canonical trees as Protobuf messages, one for each type.

Encodes as the Go structs of k8s.io/api do, byte for byte: fields in the order of their numbers;
strings, numbers and structs even if they are zero, pointers only if they are set; lists unpacked;
maps sorted by key. Knows no envelope. Mirrors the marshalers of gogo/protobuf.

The generated code collects the pieces of a message and joins them at its end: to add up bytes takes
twice as long. Names in it: `v` is a value, `n` a length, `w` a map, `k` a key of it and `e` its
encoded entry.
"""

from __future__ import annotations

import binascii
import functools
import itertools
import struct
import textwrap
from collections.abc import Callable

import orjson

from kapiserver.api.scalar_types import FieldsV1, RawExtension, StringList
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
from kapiserver.codecs.protobuf.wire import (
    BYTES,
    FIXED64,
    SMALL_VARINTS,
    VARINT,
    encode_tag,
    encode_varint,
)

WIRE_TYPES = {"bool": VARINT, "int32": VARINT, "int64": VARINT, "double": FIXED64}
"""The wire types of scalars; those of all other fields are BYTES."""

_LONG_ROW = 6
"""A row of this many fields has a test, which skips the row if the tree has none of the fields."""
_CACHE_SIZE = 4096
_MAX_CACHED_LENGTH = 64

# The expression of the encoded bytes of a scalar `v`, without a length.
_SCALAR_EXPRESSIONS = {
    "string": "v.encode()",
    "bytes": "from_base64(v, strict_mode=True)",
    "bool": 'b"\\1" if v else b"\\0"',
    "int32": "SMALL[v] if 0 <= v < 2048 else varint(v)",
    "int64": "SMALL[v] if 0 <= v < 2048 else varint(v)",
    "double": "pack_double(v)",
}
_LENGTH_OF = "SMALL[n] if (n := len({0})) < 2048 else varint(n)"


@cached_in_type
def compiled_encoder(type_: type[Type]) -> Callable[[Tree], bytes]:
    """Return the compiled function that encodes a message of a type. For a scalar type it takes a
    message tree.

    The function raises any exception if the tree is not canonical.
    """
    if issubclass(type_, EncodedType):
        return type_.encode
    source = FunctionSource("tree")
    source.add("get = tree.get\nout = []")
    fields = [field for field in type_.fields() if field.number is not None]
    fields.sort(key=lambda field: field.number or 0)
    for omittable, row in itertools.groupby(fields, _is_omittable):
        source.add(_row_lines(source, list(row), omittable=omittable))
    source.add('return b"".join(out)')
    return source.compile(
        f"protobuf writer of {type_.__name__}",
        EMPTY={},
        SMALL=SMALL_VARINTS,
        varint=encode_varint,
        from_base64=binascii.a2b_base64,
        pack_double=struct.Struct("<d").pack,
    )


def _is_omittable(field: Field) -> bool:
    """Whether nothing is written for a field that the tree lacks."""
    if field.options.inline:
        return False
    return isinstance(field.shape, ListOf | MapOf) or field.pointer or _omits_nil(field.shape)


def _row_lines(source: FunctionSource, fields: list[Field], *, omittable: bool) -> str:
    """Return the lines of fields in a row. Few trees have any field of a long row, such as the
    sources of a volume, so that one test skips all of them."""
    lines = "\n".join(_field_lines(source, field) for field in fields)
    if not omittable or len(fields) < _LONG_ROW:
        return lines
    names = source.bind(frozenset(field.name for field in fields))
    return f"if not {names}.isdisjoint(tree):\n{textwrap.indent(lines, '    ')}"


def _field_lines(source: FunctionSource, field: Field) -> str:
    shape, name = field.shape, repr(field.name)
    field_tag = _field_tag(field.number or 0, shape)
    if isinstance(shape, ListOf):
        value = _value_expression(source, shape.item)
        return _append_lines(field_tag, shape.item, value, condition=f"for v in get({name}) or ():")
    if isinstance(shape, MapOf):
        return _map_lines(source, name, field_tag, shape)
    if field.options.inline:
        names = source.bind(frozenset(inlined.name for inlined in _inlined_fields(field)))
        test = f"if not {names}.isdisjoint(tree):" if field.pointer else ""
        return _append_lines(
            field_tag, shape, f"{_bind_encoder(source, shape)}(tree)", condition=test
        )
    value = _value_expression(source, shape)
    if field.pointer or _omits_nil(shape):
        test = f"if (v := get({name})) is not None:"
        return _append_lines(field_tag, shape, value, condition=test)
    if isinstance(shape, Message):
        return f"v = get({name})\n{_append_lines(field_tag, shape, value)}"
    zero = field_tag + (bytes(8) if shape.name == "double" else b"\0")
    lines = _append_lines(field_tag, shape, value, condition=f"if v := get({name}):")
    return f"{lines}\nelse: out.append({zero!r})"


def _map_lines(source: FunctionSource, name: str, field_tag: bytes, shape: MapOf) -> str:
    nullable = shape.value == Scalar("bytes")  # nil stays nil in Go
    key_tag, value_tag = _field_tag(1, Scalar("string")), _field_tag(2, shape.value)
    return f"""if w := get({name}):
    for k in sorted(w):
        v = w[k]
        k = k.encode()
        e = [{key_tag!r}, {_LENGTH_OF.format("k")}, k]
        if {"v is not None" if nullable else "True"}:
            v = {_value_expression(source, shape.value)}
            e += {value_tag!r}, {_length_operand(shape.value)}v
        v = b"".join(e)
        out += {field_tag!r}, {_LENGTH_OF.format("v")}, v"""


def _field_tag(number: int, shape: Shape) -> bytes:
    wire_type = WIRE_TYPES.get(shape.name, BYTES) if isinstance(shape, Scalar) else BYTES
    if isinstance(shape, ListOf):
        return _field_tag(number, shape.item)
    return encode_tag(number, wire_type)


def _length_operand(shape: Shape) -> str:
    has_size = not isinstance(shape, Scalar) or shape.name not in WIRE_TYPES
    return f"{_LENGTH_OF.format('v')}, " if has_size else ""


def _append_lines(field_tag: bytes, shape: Shape, value: str, condition: str = "") -> str:
    lines = f"v = {value}\nout += {field_tag!r}, {_length_operand(shape)}v"
    return f"{condition}\n{textwrap.indent(lines, '    ')}" if condition else lines


def _value_expression(source: FunctionSource, shape: Shape) -> str:
    # Returns the expression of the encoded bytes of `v`, without a length.
    if isinstance(shape, Scalar):
        return _SCALAR_EXPRESSIONS[shape.name]
    if isinstance(shape, Message):
        if issubclass(shape.type, ScalarType):
            return f"{_bind_encoder(source, shape)}(v)"
        return f"{_bind_encoder(source, shape)}(v or EMPTY)"
    raise TypeError(f"{shape} has no form in Protobuf")


def _bind_encoder(source: FunctionSource, shape: Shape) -> str:
    assert isinstance(shape, Message)
    is_leaf = issubclass(shape.type, ScalarType)
    return source.bind_lazy(_leaf_encoder if is_leaf else compiled_encoder, shape.type)


def _inlined_fields(field: Field) -> tuple[Field, ...]:
    assert isinstance(field.shape, Message)
    return tuple(flat.field for flat in field.shape.type.flat_fields())


def _omits_nil(shape: Shape) -> bool:
    # Go does not encode these slices if they are nil.
    if isinstance(shape, Message):
        return issubclass(shape.type, StringList)
    return shape == Scalar("bytes")


@cached_in_type
def _leaf_encoder(type_: type[Type]) -> Callable[[Value], bytes]:
    assert issubclass(type_, ScalarType)
    if issubclass(type_, FieldsV1 | RawExtension):
        return _encode_raw_json
    leaf, encode_message = type_, compiled_encoder(type_)

    def encode(value: Value) -> bytes:
        return encode_message(leaf.to_message(value))

    encode_cached = functools.lru_cache(_CACHE_SIZE)(encode)

    def encode_leaf(value: Value) -> bytes:
        # Times and quantities repeat. Long values and trees are not worth the memory.
        if value.__class__ is str and len(value) <= _MAX_CACHED_LENGTH:
            return encode_cached(value)
        return encode(value)

    return encode_leaf


def _encode_raw_json(value: Value) -> bytes:
    """Return the message of FieldsV1 or RawExtension: field 1 has the JSON."""
    if value is None:
        return b""
    text = orjson.dumps(value)
    return b"\x0a%b%b" % (encode_varint(len(text)), text)
