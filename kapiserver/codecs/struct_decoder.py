"""Decodes a JSON-shaped value into the canonical tree of a declared type.

Gives the result of decoding JSON into a Go struct and encoding the struct again: field names are
case-sensitive, null means absent, zero values are dropped where the declaration omits them, fields
are in declared order, map keys are sorted, times and quantities have their canonical text. Unknown
fields are dropped and their paths reported. Knows no bytes and no kind by name. Mirrors
sigs.k8s.io/json and its error messages.

The input consists of dict, list, str, int, float, bool and None, not of subclasses.
"""

from __future__ import annotations

import binascii
import itertools
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from kapiserver.api.scalar_types import StringList
from kapiserver.api.types import (
    FlatField,
    ListOf,
    MapOf,
    Message,
    Scalar,
    ScalarType,
    Shape,
    Tree,
    Type,
    Value,
    Variant,
    cached_in_type,
)
from kapiserver.codecs.codegen import FunctionSource
from kapiserver.codecs.errors import WrongValue
from kapiserver.codecs.limits import MAX_STRICT_ERRORS

ValuePath: TypeAlias = tuple[Any, str, str, int | str | None] | None
"""The path of a value: (path of the parent, its Go type, field, index or key); None: the root."""
Context: TypeAlias = tuple[str, str, str]
"""The Go type that has a field, the name of the field, and the Go type of its value."""


def message_type(shape: Shape) -> type[Type] | None:
    """Return the message type within a shape, or None if it contains scalars only."""
    while not isinstance(shape, Scalar | Message):
        shape = shape.item if isinstance(shape, ListOf) else shape.value
    return shape.type if isinstance(shape, Message) else None


# --- code generated for each type

_TYPE_CHECKS = {
    "string": "v.__class__ is not str",
    "bool": "v.__class__ is not bool",
    "int32": "v.__class__ is not int or not -0x80000000 <= v <= 0x7fffffff",
    "int64": "v.__class__ is not int or not -0x8000000000000000 <= v <= 0x7fffffffffffffff",
}
_ZERO_LITERALS = {"string": '""', "bool": "False", "int32": "0", "int64": "0", "double": "0.0"}


@cached_in_type
def struct_decoder(type_: type[Type]) -> Callable[[Value, ValuePath, list[str]], Any]:
    """Return the compiled function that decodes one struct; see `decode_tree`."""
    source = FunctionSource("value, at, unknown")
    fields = type_.flat_fields()
    known = source.bind(frozenset(flat.field.name for flat in fields))
    source.add(f"""
if value.__class__ is not dict: raise wrong_message(value, at, {go_struct_name(type_)!r})
if not {known}.issuperset(value): note_unknown(value, {known}, at, unknown)
get = value.get
out = {{}}
""")
    for field in fields:
        _add_field(source, type_, field)
    source.add("return out")
    return source.compile(
        f"shape of {type_.__name__}",
        EMPTY={},
        wrong=wrong_type,
        wrong_message=wrong_struct_type,
        note_unknown=_record_unknown,
        read_leaf=decode_leaf,
        read_list=_check_list,
        key_of=operator.itemgetter(0),
    )


def _add_field(source: FunctionSource, owner: type[Type], flat: FlatField) -> None:
    field, declared = flat.field, flat.field.options
    name, shape = repr(field.name), field.shape
    pointer = field.pointer or any(inlined.pointer for inlined in flat.embedded_in)
    go_name = go_field_name(flat)
    context = source.bind((owner.__name__, go_name, go_type_name(shape)))
    expression = _decode_expression(source, owner, go_name, shape, context)
    if isinstance(shape, Message) and not issubclass(shape.type, StringList) and not pointer:
        source.add(f"v = get({name})\nr = {expression}")
        test = f"if r != {source.bind(zero_value(shape.type))}: " if declared.omit_zero else ""
        source.add(f"{test}out[{name}] = r")
        return
    source.add(f"if (v := get({name})) is not None:")
    condition = "True" if field.pointer or declared.always else "v"
    if isinstance(shape, Scalar) and shape.name in _TYPE_CHECKS:
        source.add(f"    if {_TYPE_CHECKS[shape.name]}: raise wrong(v, at, {context})")
    elif isinstance(shape, ListOf | MapOf):
        container = "list" if isinstance(shape, ListOf) else "dict"
        source.add(f"    if v.__class__ is not {container}: raise wrong(v, at, {context})")
        source.add(f"    if {condition}: out[{name}] = {expression}")
        expression = ""
    else:
        source.add(f"    v = {expression}")
    if expression:
        source.add(
            f"    if {condition}: out[{name}] = v" if condition == "v" else f"    out[{name}] = v"
        )
    if declared.always:
        absent = _ZERO_LITERALS.get(shape.name, "None") if isinstance(shape, Scalar) else "None"
        source.add(f"else: out[{name}] = {'None' if field.pointer else absent}")


def _decode_expression(
    source: FunctionSource,
    owner: type[Type],
    name: str,
    shape: Shape,
    context: str,
    step: str = "None",
) -> str:
    # Decodes `v`; `step` is the expression of its index in a list or its key in a map.
    if isinstance(shape, Scalar):
        return (
            "v"
            if shape.name == "any"
            else f"{source.bind(_SCALAR_DECODERS[shape.name])}(v, at, {context})"
        )
    if isinstance(shape, Message):
        if issubclass(shape.type, ScalarType):
            return f"read_leaf({source.bind(shape.type)}, v, at, {context})"
        decoder = source.bind_lazy(struct_decoder, shape.type)
        # Go decodes the content of these types separately, so paths in errors begin there.
        field_path = f"(at, {owner.__name__!r}, {name!r}, {step})"
        item_path = "None" if issubclass(owner, Variant) else field_path
        return f"{decoder}(EMPTY if v is None else v, {item_path}, unknown)"
    item_shape = shape.item if isinstance(shape, ListOf) else shape.value
    inner_context = source.bind((owner.__name__, name, go_type_name(item_shape)))
    step = "i" if isinstance(shape, ListOf) else "k"
    expression = _decode_expression(source, owner, name, item_shape, inner_context, step)
    if isinstance(shape, ListOf):
        return f"[{expression} for i, v in enumerate(read_list(v, at, {context}))]"
    return f"{{k: {expression} for k, v in sorted(v.items(), key=key_of)}}"


@cached_in_type
def zero_value(type_: type[Type]) -> Value:
    """Return the zero value of a struct or scalar type. It is shared: do not change it."""
    return (
        type_.canonical(None)
        if issubclass(type_, ScalarType)
        else struct_decoder(type_)({}, None, [])
    )


def go_field_name(flat: FlatField) -> str:
    """Return the name that Go's errors give to a field: after those of the embedded structs that
    contain it, such as `Rule.resources`."""
    shapes = (outer.shape for outer in flat.embedded_in)
    embedded = (shape.type.__name__ for shape in shapes if isinstance(shape, Message))
    return ".".join((*embedded, flat.field.name))


def go_type_name(shape: Shape) -> str:
    """Return the name of the Go type for a shape, as far as the shape determines it."""
    if isinstance(shape, Scalar):
        return _GO_SCALAR_NAMES.get(shape.name, shape.name)
    if isinstance(shape, ListOf):
        return f"[]{go_type_name(shape.item)}"
    if isinstance(shape, MapOf):
        value = go_type_name(shape.value)
        return "v1.ResourceList" if value == "resource.Quantity" else f"map[string]{value}"
    return go_struct_name(shape.type)


def go_struct_name(type_: type[Type]) -> str:
    """Return the Go name of a type, such as `v1.Pod`."""
    parts = type_.__module__.split(".")  # kapiserver.api.core.v1.pods
    package = type_.package.rpartition(".")[2] or parts[min(3, len(parts) - 1)]
    return f"{package}.{type_.__name__}"


# --- functions that the generated code calls


def _decode_string(value: Value, at: ValuePath, context: Context) -> str:
    if value.__class__ is str:
        text: str = value
        return text
    if value is None:
        return ""
    raise wrong_type(value, at, context)


def _decode_bool(value: Value, at: ValuePath, context: Context) -> bool:
    if value is None or value.__class__ is bool:
        return bool(value)
    raise wrong_type(value, at, context)


def _integer_decoder(low: int, high: int) -> Callable[[Value, ValuePath, Context], int]:
    def read_integer(value: Value, at: ValuePath, context: Context) -> int:
        if value is None:
            return 0
        if value.__class__ is int and low <= value <= high:
            number: int = value
            return number
        raise wrong_type(value, at, context)

    return read_integer


def _decode_double(value: Value, at: ValuePath, context: Context) -> float:
    if value is None:
        return 0.0
    if value.__class__ is not int and value.__class__ is not float:
        raise wrong_type(value, at, context)
    try:
        return float(value)
    except OverflowError:
        raise wrong_type(value, at, context) from None


def _decode_bytes(value: Value, at: ValuePath, context: Context) -> str:
    text = _decode_string(value, at, context)
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        data = _decode_base64(text)
    return binascii.b2a_base64(data, newline=False).decode()


def _decode_base64(text: str) -> bytes:
    # Go skips line ends, and reports the offset of the first invalid byte.
    without_line_ends = text.replace("\r", "").replace("\n", "")
    try:
        return binascii.a2b_base64(without_line_ends, strict_mode=True)
    except (binascii.Error, ValueError):
        raise WrongValue(
            f"illegal base64 data at input byte {_invalid_base64_offset(text)}"
        ) from None


_BASE64_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _invalid_base64_offset(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass").decode("latin-1")
    symbols = padding = 0
    for position, char in enumerate(data):
        if char in "\r\n":
            continue
        if padding:
            # "xx=" needs another "=", and nothing may follow the padding.
            if char == "=" and padding == 1 and symbols % 4 == 2:
                padding = 2
                continue
            return position
        if char == "=" and symbols % 4 >= 2:
            padding = 1
        elif char not in _BASE64_ALPHABET:
            return position
        else:
            symbols += 1
    # The last group of four is incomplete.
    return len(data) if padding else len(data) - symbols % 4


_SCALAR_DECODERS: dict[str, Callable[[Value, ValuePath, Context], Any]] = {
    "string": _decode_string,
    "bool": _decode_bool,
    "int32": _integer_decoder(-(2**31), 2**31 - 1),
    "int64": _integer_decoder(-(2**63), 2**63 - 1),
    "double": _decode_double,
    "bytes": _decode_bytes,
}
_GO_SCALAR_NAMES = {"bytes": "[]uint8", "double": "float64", "any": "interface {}"}


def _check_list(value: Value, at: ValuePath, context: Context) -> list[Value]:
    if value is None:
        return []
    if value.__class__ is not list:
        raise wrong_type(value, at, context)
    items: list[Value] = value
    return items


def decode_scalar(shape: Scalar, value: Value, at: ValuePath, context: Context) -> Value:
    """Decode a value of a scalar field. Raises WrongValue."""
    return value if shape.name == "any" else _SCALAR_DECODERS[shape.name](value, at, context)


def decode_leaf(leaf: type[ScalarType], value: Value, at: ValuePath, context: Context) -> Value:
    """Decode a value of a type that is a single value in the tree. Raises WrongValue."""
    try:
        if issubclass(leaf, Variant) and value is not None:
            return leaf.from_message(struct_decoder(leaf)(leaf.to_message(value), None, []))
        return leaf.canonical(value)
    except ValueError as error:
        # Go reports the field of a value of a wrong type, but not that of an invalid text.
        text, _, type_ = str(error).partition(" into Go value of type ")
        if not type_:
            raise WrongValue(text) from None
        raise WrongValue(
            f"{text} into Go struct field {_go_field_name(at, context)} of type {type_}"
        ) from None


def _record_unknown(
    value: Tree, field_names: frozenset[str], path: ValuePath, unknown: list[str]
) -> None:
    remaining = MAX_STRICT_ERRORS - len(unknown)
    if remaining <= 0:
        return
    parent = _format_path(path)
    before = f"{parent}." if parent else ""
    names = (name for name in value if name not in field_names)
    unknown.extend(f"{before}{name}" for name in itertools.islice(names, remaining))


def in_key_order(paths: Iterable[str]) -> list[str]:
    """Return paths of unknown fields in the order of a document whose keys are sorted."""
    return sorted(paths, key=_segments)


def _segments(path: str) -> list[tuple[int, str]]:
    return [(int(index), "") if index else (-1, name) for index, name in _SEGMENT.findall(path)]


_SEGMENT = re.compile(r"\[(\d+)\]|([^.\[]+)")


def _format_path(at: ValuePath) -> str:
    parts: list[str] = []
    while at is not None:
        at, _, name, step = at
        if step is not None:
            parts.append(f"[{step}]" if isinstance(step, int) else f".{step}")
        parts.append(f".{name.rpartition('.')[2]}")  # without embedded structs
    return "".join(reversed(parts)).removeprefix(".")


def _go_field_name(at: ValuePath, context: Context) -> str:
    names = [context[1]]
    while at is not None:
        at, _, name, _ = at
        names.append(name)
    return f"{context[0]}.{'.'.join(reversed(names))}"


def wrong_type(value: Value, at: ValuePath, context: Context) -> WrongValue:
    """Return the error for a field whose value has a wrong type."""
    json_type = _json_type_name(value)
    if json_type == "number" and context[2] in ("int32", "int64", "float64"):
        json_type = f"number {value!r}"
    return WrongValue(
        f"json: cannot unmarshal {json_type} into Go struct field {_go_field_name(at, context)}"
        f" of type {context[2]}"
    )


def wrong_struct_type(value: Value, at: ValuePath, type_: str) -> WrongValue:
    """Return the error for a value that is not an object, where a struct is expected."""
    if at is None:
        return WrongValue(
            f"json: cannot unmarshal {_json_type_name(value)} into Go value of type {type_}"
        )
    parent, owner, name, _ = at
    return wrong_type(value, parent, (owner, name, type_))


def _json_type_name(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return {str: "string", list: "array", dict: "object"}.get(value.__class__, "value")
