"""From a Protobuf message straight to the JSON of its object: one function written for each type.

What the reader makes a tree of, this makes text of, at a fifth of the cost: what is stored goes
out as JSON without a tree in between. The two agree byte for byte on every message that was
written from a canonical tree; a message that is not whole raises, and the reader says what is
wrong with it. Items of lists repeat from object to object (containers, tolerations, managed
fields): their text is remembered, within a number of bytes. Knows no envelope and no kind.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Callable

import orjson

from kapiserver.api.embedded_type_meta import with_type_meta
from kapiserver.api.types import Field, ListOf, MapOf, Message, Scalar, ScalarType, Shape, Type
from kapiserver.codecs.bounds import UNBOUNDED
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.go_text import float_text
from kapiserver.codecs.json import escaped, exact, write_document
from kapiserver.codecs.shape import zero
from kapiserver.codecs.source import Source, once_per_type
from kapiserver.codecs.wire_reader import (
    Budget,
    add_scan,
    entry_mark,
    is_list,
    leaf_reader,
    runtime,
)

REMEMBERED = 2 << 20
"""Bytes of messages and their texts remembered, in each of two generations."""
COST = 256
"""Bytes that remembering one takes beside those."""
LONGEST = 4096
"""A longer message is not remembered."""

NOT_WHOLE = (IndexError, ValueError, OverflowError, struct.error, RecursionError, CodecError)
"""What a message that is not whole raises here."""

# The expression of the text of a scalar, as a template of that of its value ...
_SCALARS = {
    "string": "dumps({}.decode())",
    "bytes": "b'\"%b\"' % to_base64({}, newline=False)",
    "bool": 'b"true" if {} else b"false"',
    "int32": 'b"%d" % {}',
    "int64": 'b"%d" % {}',
    "double": "float_text({}).encode()",
}
# ... which is what was taken from the bytes, `v`, or made of that.
_VALUES = {"int32": "signed32(v)", "int64": "signed64(v)", "double": "finite(v)"}
_ZEROS = {
    "string": '""',
    "bytes": "null",
    "bool": "false",
    "int32": "0",
    "int64": "0",
    "double": "0",
}


def transcoder(type_: type[Type]) -> Callable[[bytes], bytes]:
    """What turns messages of a type into the JSON of their objects, without kind and apiVersion.

    Objects in the object have both where they name themselves in answers. The function raises one
    of NOT_WHOLE.
    """
    members = _members(type_)

    def transcode(message: bytes) -> bytes:
        return escaped(b"{%b}" % members(message)[1:])

    return transcode


class _Memory:
    """Texts by message, of one type each; all types share one allowance in two generations, so
    that what is used stays."""

    def __init__(self) -> None:
        self.young: dict[tuple[object, bytes], bytes] = {}
        self.old: dict[tuple[object, bytes], bytes] = {}
        self.size = 0

    def keep(self, key: tuple[object, bytes], text: bytes) -> None:
        """Remember a text."""
        size = len(key[1]) + len(text) + COST
        self.size += size
        if self.size > REMEMBERED:
            self.old, self.young, self.size = self.young, {}, size
        self.young[key] = text


_memory = _Memory()


def _remembering(make: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def remembered(message: bytes) -> bytes:
        key = (make, message)
        found = _memory.young.get(key)
        if found is None:
            found = _memory.old.get(key)
            if found is None:
                found = make(message)
            if len(message) <= LONGEST:
                _memory.keep(key, found)
        return found

    return remembered


@once_per_type
def _members(type_: type[Type]) -> Callable[[bytes], bytes]:
    """The compiled function: the members of the object, each with a comma before it."""
    source = Source("b")
    fields = [one for one in type_.fields() if one.number is not None]
    locals_ = {one.name: f"f{index}" for index, one in enumerate(fields)}
    add_scan(source, fields, locals_)
    source.add("out = bytearray()")
    for field in fields:
        _add_member(source, field, locals_[field.name])
    source.add("return out")
    names = {
        **runtime(),
        "budget": Budget(UNBOUNDED),
        "dumps": orjson.dumps,
        "to_base64": binascii.b2a_base64,
        "float_text": float_text,
    }
    return source.compile(f"JSON of {type_.__name__} from protobuf", **names)


@once_per_type
def _item(type_: type[Type]) -> Callable[[bytes], bytes]:
    members = _members(type_)
    return _remembering(lambda message: b"{%b}" % members(message)[1:])


@once_per_type
def _leaf(type_: type[Type]) -> Callable[[bytes], bytes]:
    read, budget = leaf_reader(type_), Budget(UNBOUNDED)
    return _remembering(lambda message: exact(write_document(read(message, budget))))


def _add_member(source: Source, field: Field, local: str) -> None:
    shape, declared = field.shape, field.options
    mark = repr(b',"%b":' % field.name.encode())
    if declared.inline:
        assert isinstance(shape, Message)
        test = f"if {local} is not None: " if field.pointer else ""
        source.add(f'{test}out += {source.bind_later(_members, shape.type)}({local} or b"")')
        return
    if isinstance(shape, Message) and not field.pointer and not is_list(shape):
        source.add(f'v = {local} or b""\nr = {_text(source, shape)}')
        if declared.omit_zero:
            nothing = source.bind(write_document(zero(shape.type)))
            source.add(f"if r != {nothing}: out += {mark} + r")
        else:
            source.add(f"out += {mark} + r")
        return
    source.add(f"if {local} is not None:\n    v = {local}")
    if isinstance(shape, Scalar):
        _add_scalar(source, shape, mark, kept=field.pointer or declared.always)
    else:
        text = _named(source, field) if declared.item_api_version else _text(source, shape)
        source.add(f"    r = {text}")
        if isinstance(shape, Message) and not is_list(shape):
            empty = b"null"
        else:
            empty = b"" if declared.always else b"{}" if isinstance(shape, MapOf) else b"[]"
        source.add(f"    if r != {empty!r}: out += {mark} + r")
    if declared.always:
        plain = isinstance(shape, Scalar) and not field.pointer
        absent = _ZEROS[shape.name] if plain and isinstance(shape, Scalar) else "null"
        member = b',"%b":%b' % (field.name.encode(), absent.encode())
        source.add(f"else: out += {member!r}")


def _add_scalar(source: Source, shape: Scalar, mark: str, *, kept: bool) -> None:
    if shape.name in _VALUES:
        source.add(f"    v = {_VALUES[shape.name]}")
    text = _SCALARS[shape.name].format("v")
    source.add(f"    if {'True' if kept else 'v'}:\n        out += {mark}\n        out += {text}")


def _text(source: Source, shape: Shape) -> str:
    # The expression of the text of what was taken, `v`.
    if isinstance(shape, Scalar):
        return _SCALARS[shape.name].format(_VALUES.get(shape.name, "v"))
    if isinstance(shape, ListOf):
        return f'b"[%b]" % b",".join([{_item_text(source, shape.item)} for v in v])'
    if isinstance(shape, MapOf):
        assert isinstance(shape.value, Scalar | Message)
        entries = f"read_entries(v, {entry_mark(shape.value)})"
        pair = f'b"%b:%b" % (dumps(k), {_item_text(source, shape.value)})'
        return f'b"{{%b}}" % b",".join([{pair} for k, v in {entries}])'
    if issubclass(shape.type, ScalarType):
        return f"{source.bind_later(_leaf, shape.type)}(v)"
    return f'b"{{%b}}" % {source.bind_later(_members, shape.type)}(v)[1:]'


def _named(source: Source, field: Field) -> str:
    # Objects that say what they are.
    assert isinstance(field.shape, ListOf)
    head = with_type_meta(field, {})
    item = _item_text(source, field.shape.item)
    return f'b"[%b]" % b",".join([{write_document(head)[:-1]!r} + b"," + {item}[1:] for v in v])'


def _item_text(source: Source, shape: Shape) -> str:
    if isinstance(shape, Message) and not issubclass(shape.type, ScalarType):
        return f"{source.bind_later(_item, shape.type)}(v)"
    return _text(source, shape)
