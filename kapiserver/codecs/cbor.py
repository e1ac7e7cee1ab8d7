"""CBOR as Kubernetes reads and writes it (KEP-4222, RFC 8949).

Written: the self-described prefix, names and text as byte strings, declared bytes behind tag 22,
the shortest float that is exact. What is stored has its keys in the order of their encoded bytes:
equal trees give equal bytes. Answers have them in no order that anybody may rely on; sorting would
double their cost. Read: text or byte strings alike; duplicate keys, invalid UTF-8 in text,
integers beyond int64, NaN, infinities, undefined and other simple values are errors; no tag
becomes anything but JSON-shaped values. Byte strings that are not UTF-8 go through documents and
custom objects unchanged (as lone surrogates), but not into declared types, which Protobuf stores.
Knows no other format.
"""

from __future__ import annotations

import base64
import functools
import io
import math
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kapiserver.api.custom_kinds import CustomKind
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Value
from kapiserver.codecs.bounds import MAX_DEPTH, UNBOUNDED
from kapiserver.codecs.cbor_bytes import with_bytes, with_free_values
from kapiserver.codecs.cbor_items import ItemEnd
from kapiserver.codecs.document import build, complete, kind_of_document
from kapiserver.codecs.errors import Malformed, NotEncodable, WrongValue
from kapiserver.codecs.go_text import valid_text
from kapiserver.codecs.serializer import Decoded
from kapiserver.codecs.trees import holds_itself

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

SELF_DESCRIBED = b"\xd9\xd9\xf7"
"""Tag 55799: says "CBOR" and nothing else."""

_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_FALSE, _TRUE, _NULL = b"\xf4", b"\xf5", b"\xf6"
_BYTES, _ARRAY, _MAP = 0x40, 0x80, 0xA0
_LATER_BASE64 = b"\xd6"
"""Tag 22: bytes that JSON shows in base64."""
_NESTED = frozenset((dict, list))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CBORSerializer:
    """One object as a self-described data item."""

    identifier = "cbor"

    def __init__(self, scheme: Scheme, *, max_values: int = UNBOUNDED) -> None:
        self._scheme = scheme
        self._max_values = max_values

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Read one object. Raises CodecError."""
        if len(data) > self._max_values:
            # Each item has a byte at least; names count too.
            ItemEnd(self._max_values).find(data)
        item = _read_item(data)
        try:
            document = _plain(item)
        except UnicodeDecodeError:
            document = _plain(_escaped(item))
            kind = complete(kind_of_document(document), defaults)
            if self._scheme.custom.version_of(kind) is None:
                error = WrongValue(_no_text(document))
                error.kind = kind
                raise error from None
        found = build(self._scheme, document, defaults=defaults, source=data)
        type_ = self._scheme.type_of(found.kind)
        if issubclass(type_, CustomKind):
            return found  # whose names have no order
        if holds_itself(type_):
            return build(self._scheme, _by_name(document), defaults=defaults, source=data)
        return replace(found, object=with_free_values(type_, found.object, _by_name))

    def encode(self, obj: Tree) -> bytes:
        """Write one object for a client, its keys in any order. Raises NotEncodable."""
        return SELF_DESCRIBED + write_quickly(with_bytes(self._scheme, obj))

    def pieces(self, head: Tree, member: str, items: Iterable[Tree], count: int) -> Iterator[bytes]:
        """An object one of whose members is an empty list, with these items; a piece an item.
        Raises NotEncodable."""
        mark = _text(member) + array_head(0)
        before, empty, after = self.encode(head).partition(mark)  # which no text holds
        assert empty, "a list has an empty array of items"
        yield before + _text(member) + array_head(count)
        for item in items:
            yield write_quickly(with_bytes(self._scheme, {**head, member: [item]})[member][0])
        yield after

    def recognizes(self, data: bytes) -> bool:
        """Whether the data describes itself as CBOR."""
        return data.startswith(SELF_DESCRIBED)


def read_document(data: bytes) -> Value:
    """Read exactly one data item as a JSON-shaped value. Raises Malformed, WrongValue."""
    return _by_name(read_quickly(data))


def read_quickly(data: bytes) -> Value:
    """The same, names in the order they came in."""
    item = _read_item(data)
    try:
        return _plain(item)
    except UnicodeDecodeError:
        return _plain(_escaped(item))


def _escaped(value: Any) -> Any:
    """What the library read with text in place of byte strings, lone surrogates in it for what is
    not UTF-8."""
    if type(value) is bytes:
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list | tuple):
        return [_escaped(one) for one in value]
    if hasattr(value, "items"):
        found = {_escaped(name): _escaped(one) for name, one in value.items()}
        if len(found) != len(value):
            raise Malformed("cbor: found duplicate map key")
        return found
    return value


def _by_name(value: Value) -> Value:
    """The value with its keys sorted: free values keep the order they are read in, and Go reads
    them into maps."""
    if type(value) is dict:
        return {
            name: _by_name(item) if (item := value[name]).__class__ in _NESTED else item
            for name in sorted(value)
        }
    if type(value) is list:
        return [_by_name(item) if item.__class__ in _NESTED else item for item in value]
    return value


def _no_text(document: Value) -> str:
    """The error about the first text of a document that is not UTF-8."""
    open_: list[tuple[str, Value]] = [("", document)]
    while open_:
        path, value = open_.pop()
        if isinstance(value, str) and not value.isascii() and valid_text(value) != value:
            return f"cbor: {path or 'the data'}: a byte string for text must be valid UTF-8"
        if isinstance(value, list):
            open_.extend((f"{path}[{i}]", one) for i, one in reversed([*enumerate(value)]))
        if isinstance(value, dict):
            for name, one in reversed(value.items()):
                shown = valid_text(name)
                open_.append((f"{path}.{shown}".removeprefix("."), one))
                open_.append((f"a name in {path or 'the object'}", name))
    return "cbor: a byte string for text must be valid UTF-8"


def _read_item(data: bytes) -> Any:
    import cbor2  # at first use: start-up is short without it

    stream = io.BytesIO(data.removeprefix(SELF_DESCRIBED))
    decoder = cbor2.CBORDecoder(
        stream,
        semantic_decoders=_tags(),
        tag_hook=_unknown_tag,
        max_depth=MAX_DEPTH,
        read_size=len(data) or 1,
        allow_duplicate_keys=False,
        strict_hashable_types=True,
    )
    try:
        item = decoder.decode()
    except (cbor2.CBORError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise _reading_error(error) from None
    if stream.tell() != len(stream.getbuffer()):
        raise Malformed("cbor: there is data after the first data item")
    return item


def array_head(length: int) -> bytes:
    """What an array of so many items begins with."""
    return _head(_ARRAY, length)


def write_document(value: Value) -> bytes:
    """Write one JSON-shaped value, without the prefix; equal values give equal bytes.

    Raises NotEncodable.
    """
    return _written(value, _write_sorted)


def write_quickly(value: Value) -> bytes:
    """The same with keys in the order in which the value has them; it may hold bytes."""
    return _written(value, _write)


def _written(value: Value, write: Callable[[Value, Callable[[bytes], None]], None]) -> bytes:
    parts: list[bytes] = []
    try:
        write(value, parts.append)
    except RecursionError:
        raise NotEncodable("cbor: exceeded max nested level") from None
    return b"".join(parts)


def _reading_error(error: BaseException) -> Malformed | WrongValue:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Malformed | WrongValue):
            return cause
        cause = cause.__cause__
    return Malformed(f"cbor: {error}")


def _plain(value: Any) -> Value:
    """The JSON-shaped form of what the library read. Raises UnicodeDecodeError."""
    kind = type(value)
    if kind is bytes:
        return value.decode()
    if kind is str or kind is bool or value is None:
        return value
    if kind is dict:
        plain = {
            key.decode() if type(key) is bytes else key: (
                item
                if type(item) is str
                else item.decode()
                if type(item) is bytes
                else _plain(item)
            )
            for key, item in value.items()
        }
        if len(plain) != len(value):
            raise Malformed("cbor: found duplicate map key")
        return plain
    if kind is list:
        return [_plain(item) for item in value]
    if kind is int:
        if not _MIN_INT64 <= value <= _MAX_INT64:
            raise WrongValue(f"cbor: cannot unmarshal {value} into int64: integer overflow")
        return value
    return _plain_rare(value)


def _plain_rare(value: Any) -> Value:
    if type(value) is float:
        if not math.isfinite(value):
            raise WrongValue(f"cbor: {value} is not allowed: JSON has no such number")
        return value
    # Inside tags the library hands out what cannot be changed.
    if isinstance(value, tuple) and type(value) is tuple:
        return [_plain(item) for item in value]
    if hasattr(value, "items"):
        return _plain(dict(value.items()))
    raise WrongValue(f"cbor: cannot unmarshal {type(value).__name__}: JSON has no such value")


# Tags ---------------------------------------------------------------------------------------------


def _content(value: Any, _immutable: bool) -> Any:
    return value


def _unknown_tag(tag: Any, _immutable: bool) -> Any:
    return tag.value


def _time_text(value: Any, _immutable: bool) -> Any:
    if not isinstance(value, str | bytes):
        raise WrongValue("cbor: tag 0 must enclose a text string")
    return value


def _epoch_time(value: Any, _immutable: bool) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongValue("cbor: tag 1 must enclose a number")
    try:
        moment = _EPOCH + timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise WrongValue("cbor: tag 1 encloses a time out of range") from None
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{text}{fraction}Z".rjust(len("0000-00-00T00:00:00Z") + len(fraction), "0")


def _big_number(_value: Any, _immutable: bool) -> Any:
    raise WrongValue("cbor: bignums are not allowed: JSON has no such number")


# What these make is text, so that one around another changes nothing: it would double it.
def _as_base64url(value: Any, _immutable: bool) -> Any:
    if not isinstance(value, bytes):
        return value
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _as_base64(value: Any, _immutable: bool) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _as_base16(value: Any, _immutable: bool) -> Any:
    return value.hex() if isinstance(value, bytes) else value


_READ_TAGS: dict[int, Callable[[Any, bool], Any]] = {
    0: _time_text,
    1: _epoch_time,
    2: _big_number,
    3: _big_number,
    21: _as_base64url,
    22: _as_base64,
    23: _as_base16,
}
# The library would make rich, shared or compiled values of these.
_RICH_TAGS = (4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799)


@functools.cache
def _tags() -> Mapping[int, Callable[[Any, bool], Any]]:
    return dict.fromkeys(_RICH_TAGS, _content) | _READ_TAGS


# Writing ------------------------------------------------------------------------------------------


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes((major | argument,))
    if argument < 0x100:
        return bytes((major | 24, argument))
    if argument < 0x10000:
        return struct.pack(">BH", major | 25, argument)
    if argument < 0x100000000:
        return struct.pack(">BI", major | 26, argument)
    return struct.pack(">BQ", major | 27, argument)


_TEXT_HEADS = [_head(_BYTES, length) for length in range(256)]


def _text(value: str) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        data = _odd_text(value)
    length = len(data)
    return (_TEXT_HEADS[length] if length < 256 else _head(_BYTES, length)) + data


def _odd_text(value: str) -> bytes:
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return valid_text(value).encode()


_NAMES: dict[str, bytes] = {}
"""Names as they are written, but for long ones; forgotten when there are too many."""
_MAX_NAMES, _LONG_NAME = 4096, 64


def _write(value: Value, put: Callable[[bytes], None]) -> None:
    kind = type(value)
    if kind is str:
        put(_text(value))
    elif kind is dict:
        put(_head(_MAP, len(value)))
        for name, item in value.items():
            put(_NAMES.get(name) or _key(name))
            if type(item) is str:
                put(_text(item))
            else:
                _write(item, put)
    elif kind is list:
        put(_head(_ARRAY, len(value)))
        for item in value:
            _write(item, put)
    else:
        put(_scalar(value))


def _write_sorted(value: Value, put: Callable[[bytes], None]) -> None:
    kind = type(value)
    if kind is dict:
        put(_head(_MAP, len(value)))
        # Names are unique, so that values are never compared.
        for name, item in sorted(
            [(_NAMES.get(key) or _key(key), item) for key, item in value.items()]
        ):
            put(name)
            if type(item) is str:
                put(_text(item))
            else:
                _write_sorted(item, put)
    elif kind is list:
        put(_head(_ARRAY, len(value)))
        for item in value:
            _write_sorted(item, put)
    else:
        _write(value, put)


def _key(key: Any) -> bytes:
    if type(key) is not str:
        raise NotEncodable(f"cbor: map key {key!r} is no string")
    found = _text(key)
    if len(key) < _LONG_NAME:
        if len(_NAMES) >= _MAX_NAMES:
            _NAMES.clear()
        _NAMES[key] = found
    return found


def _scalar(value: Value) -> bytes:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int):
        if not _MIN_INT64 <= value <= _MAX_INT64:
            raise NotEncodable(f"cbor: {value} overflows int64")
        return _head(0x00, value) if value >= 0 else _head(0x20, -1 - value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, bytes):
        return _LATER_BASE64 + _head(_BYTES, len(value)) + value
    raise NotEncodable(f"cbor: unsupported value: {type(value).__name__}")


def _float(value: float) -> bytes:
    if not math.isfinite(value):
        raise NotEncodable(f"cbor: unsupported value: {value}")
    for head, form in ((b"\xf9", ">e"), (b"\xfa", ">f")):
        try:
            data = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, data)[0] == value:
            return head + data
    return b"\xfb" + struct.pack(">d", value)
