"""From a canonical tree to its Protobuf message: one function written for each type.

Writes what the Go structs of k8s.io/api write, byte for byte: fields in the order of their
numbers; strings, numbers and structs also when they are zero, pointers only when they are set;
lists unpacked; maps sorted by key. Knows no envelope. Mirrors the marshalers of gogo/protobuf.
"""

from __future__ import annotations

import binascii
import functools
import struct
import textwrap
from collections.abc import Callable

from kapiserver.api.scalar_types import StringList
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
from kapiserver.codecs.protobuf_wire import (
    BYTES,
    FIXED64,
    SMALL_VARINTS,
    VARINT,
    encode_tag,
    encode_varint,
)

WIRE_TYPES = {"bool": VARINT, "int32": VARINT, "int64": VARINT, "double": FIXED64}
"""Of the scalars; everything else is BYTES."""

_CACHE_SIZE = 4096
_MAX_CACHED_LENGTH = 64

# The expression that gives the bytes of a scalar `v`, before its length where it has one.
_SCALAR_EXPRESSIONS = {
    "string": "v.encode()",
    "bytes": "from_base64(v, strict_mode=True)",
    "bool": 'b"\\1" if v else b"\\0"',
    "int32": "SMALL[v] if 0 <= v < 2048 else varint(v)",
    "int64": "SMALL[v] if 0 <= v < 2048 else varint(v)",
    "double": "pack_double(v)",
}
_LENGTH_EXPRESSION = "SMALL[n] if (n := len(v)) < 2048 else varint(n)"


@cached_per_type
def compiled_encoder(type_: type[Type]) -> Callable[[Tree], bytes]:
    """The compiled function that writes one message; of a Leaf, from its message as a tree.

    Raises whatever a tree that is not canonical leads to.
    """
    source = FunctionSource("tree")
    source.add("get = tree.get\nout = bytearray()")
    for field in sorted(type_.fields(), key=lambda one: one.number or 0):
        if field.number is not None:
            _add_field(source, field)
    source.add("return out")
    return source.compile(
        f"protobuf writer of {type_.__name__}",
        EMPTY={},
        SMALL=SMALL_VARINTS,
        varint=encode_varint,
        from_base64=binascii.a2b_base64,
        pack_double=struct.Struct("<d").pack,
    )


def _add_field(source: FunctionSource, field: Field) -> None:
    shape, name = field.shape, repr(field.name)
    mark = _field_tag(field.number or 0, shape)
    if isinstance(shape, ListOf):
        value = _value_expression(source, shape.item)
        source.add(_append_lines(mark, shape.item, value, under=f"for v in get({name}) or ():"))
    elif isinstance(shape, MapOf):
        _add_map(source, name, mark, shape)
    elif field.options.inline:
        names = source.bind(frozenset(one.name for one in _inlined_fields(field)))
        test = f"if not {names}.isdisjoint(tree):" if field.pointer else ""
        source.add(_append_lines(mark, shape, f"{_bind_encoder(source, shape)}(tree)", under=test))
    elif field.pointer or _omits_nil(shape):
        test = f"if (v := get({name})) is not None:"
        source.add(_append_lines(mark, shape, _value_expression(source, shape), under=test))
    elif isinstance(shape, Message):
        source.add(f"v = get({name})")
        source.add(_append_lines(mark, shape, _value_expression(source, shape)))
    else:
        zero = mark + (bytes(8) if shape.name == "double" else b"\0")
        source.add(
            _append_lines(
                mark, shape, _value_expression(source, shape), under=f"if v := get({name}):"
            )
        )
        source.add(f"else: out += {zero!r}")


def _add_map(source: FunctionSource, name: str, mark: bytes, shape: MapOf) -> None:
    absent = shape.value == Scalar("bytes")  # nil stays nil
    source.add(f"""
if w := get({name}):
    for k in sorted(w):
        v = k.encode()
        e = {_field_tag(1, Scalar("string"))!r} + ({_LENGTH_EXPRESSION}) + v
        v = w[k]
        if {"v is not None" if absent else "True"}:
            v = {_value_expression(source, shape.value)}
            e += {_field_tag(2, shape.value)!r}{_length_operand(shape.value)} + v
        n = len(e)
        out += {mark!r} + (SMALL[n] if n < 2048 else varint(n)) + e
""")


def _field_tag(number: int, shape: Shape) -> bytes:
    wire_type = WIRE_TYPES.get(shape.name, BYTES) if isinstance(shape, Scalar) else BYTES
    if isinstance(shape, ListOf):
        return _field_tag(number, shape.item)
    return encode_tag(number, wire_type)


def _length_operand(shape: Shape) -> str:
    has_size = not isinstance(shape, Scalar) or shape.name not in WIRE_TYPES
    return f" + ({_LENGTH_EXPRESSION})" if has_size else ""


def _append_lines(mark: bytes, shape: Shape, value: str, under: str = "") -> str:
    lines = f"v = {value}\nout += {mark!r}{_length_operand(shape)} + v"
    return f"{under}\n{textwrap.indent(lines, '    ')}" if under else lines


def _value_expression(source: FunctionSource, shape: Shape) -> str:
    # The expression of the bytes of `v`, without their length.
    if isinstance(shape, Scalar):
        return _SCALAR_EXPRESSIONS[shape.name]
    if isinstance(shape, Message):
        if issubclass(shape.type, ScalarType):
            return f"{_bind_encoder(source, shape)}(v)"
        return f"{_bind_encoder(source, shape)}(v or EMPTY)"
    raise TypeError(f"{shape} has no form in Protobuf")


def _bind_encoder(source: FunctionSource, shape: Shape) -> str:
    assert isinstance(shape, Message)
    leaf = issubclass(shape.type, ScalarType)
    return source.bind_lazy(_leaf_encoder if leaf else compiled_encoder, shape.type)


def _inlined_fields(field: Field) -> tuple[Field, ...]:
    assert isinstance(field.shape, Message)
    return tuple(one.field for one in field.shape.type.flat_fields())


def _omits_nil(shape: Shape) -> bool:
    # Slices that Go does not write when they are nil.
    if isinstance(shape, Message):
        return issubclass(shape.type, StringList)
    return shape == Scalar("bytes")


@cached_per_type
def _leaf_encoder(type_: type[Type]) -> Callable[[Value], bytes]:
    assert issubclass(type_, ScalarType)
    leaf, write = type_, compiled_encoder(type_)

    def write_value(value: Value) -> bytes:
        return bytes(write(leaf.to_message(value)))

    remembered = functools.lru_cache(_CACHE_SIZE)(write_value)

    def write_leaf(value: Value) -> bytes:
        # Times and quantities repeat; long values and trees are not worth the memory.
        if value.__class__ is str and len(value) <= _MAX_CACHED_LENGTH:
            return remembered(value)
        return write_value(value)

    return write_leaf
