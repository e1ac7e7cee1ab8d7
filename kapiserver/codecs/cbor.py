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
from kapiserver.codecs.cbor_fields import map_untyped_values, with_decoded_bytes
from kapiserver.codecs.cbor_scanner import ItemScanner
from kapiserver.codecs.errors import Malformed, NotEncodable, WrongValue
from kapiserver.codecs.go_json import replace_surrogates
from kapiserver.codecs.limits import MAX_DEPTH, UNLIMITED
from kapiserver.codecs.object_decoder import complete_kind, decode_object, kind_of_document
from kapiserver.codecs.serializer import Decoded
from kapiserver.codecs.tree_decoder import is_recursive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

SELF_DESCRIBED_TAG = b"\xd9\xd9\xf7"
"""Tag 55799: says "CBOR" and nothing else."""

_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_FALSE, _TRUE, _NULL = b"\xf4", b"\xf5", b"\xf6"
_BYTES, _ARRAY, _MAP = 0x40, 0x80, 0xA0
_EXPECTED_BASE64_TAG = b"\xd6"
"""Tag 22: bytes that JSON shows in base64."""
_CONTAINERS = frozenset((dict, list))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CBORSerializer:
    """One object as a self-described data item."""

    identifier = "cbor"

    def __init__(self, scheme: Scheme, *, max_values: int = UNLIMITED) -> None:
        self._scheme = scheme
        self._max_values = max_values

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Read one object. Raises CodecError."""
        if len(data) > self._max_values:
            # Each item has a byte at least; names count too.
            ItemScanner(self._max_values).find_end(data)
        item = _decode_item(data)
        try:
            document = _to_json_value(item)
        except UnicodeDecodeError:
            document = _to_json_value(_with_surrogates(item))
            kind = complete_kind(kind_of_document(document), defaults)
            if self._scheme.object_info(kind).is_typed:
                error = WrongValue(_invalid_text_message(document))
                error.kind = kind
                raise error from None
        found = decode_object(self._scheme, document, defaults=defaults, source=data)
        type_ = self._scheme.type_of(found.kind)
        if issubclass(type_, CustomKind):
            return found  # whose names have no order
        if is_recursive(type_):
            return decode_object(self._scheme, _sort_keys(document), defaults=defaults, source=data)
        return replace(found, object=map_untyped_values(type_, found.object, _sort_keys))

    def encode(self, obj: Tree) -> bytes:
        """Write one object for a client, its keys in any order. Raises NotEncodable."""
        return SELF_DESCRIBED_TAG + encode_value_unsorted(with_decoded_bytes(self._scheme, obj))

    def stream_list(
        self, head: Tree, member: str, items: Iterable[Tree], count: int
    ) -> Iterator[bytes]:
        """An object one of whose members is an empty list, with these items; a piece an item.
        Raises NotEncodable."""
        mark = _encode_text(member) + array_head(0)
        before, empty, after = self.encode(head).partition(mark)  # which no text holds
        assert empty, "a list has an empty array of items"
        yield before + _encode_text(member) + array_head(count)
        for item in items:
            yield encode_value_unsorted(
                with_decoded_bytes(self._scheme, {**head, member: [item]})[member][0]
            )
        yield after

    def recognizes(self, data: bytes) -> bool:
        """Whether the data describes itself as CBOR."""
        return data.startswith(SELF_DESCRIBED_TAG)


def decode_value(data: bytes) -> Value:
    """Read exactly one data item as a JSON-shaped value. Raises Malformed, WrongValue."""
    return _sort_keys(decode_value_unsorted(data))


def decode_value_unsorted(data: bytes) -> Value:
    """The same, names in the order they came in."""
    item = _decode_item(data)
    try:
        return _to_json_value(item)
    except UnicodeDecodeError:
        return _to_json_value(_with_surrogates(item))


def _with_surrogates(value: Any) -> Any:
    """What the library read with text in place of byte strings, lone surrogates in it for what is
    not UTF-8."""
    if type(value) is bytes:
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list | tuple):
        return [_with_surrogates(one) for one in value]
    if hasattr(value, "items"):
        found = {_with_surrogates(name): _with_surrogates(one) for name, one in value.items()}
        if len(found) != len(value):
            raise Malformed("cbor: found duplicate map key")
        return found
    return value


def _sort_keys(value: Value) -> Value:
    """The value with its keys sorted: free values keep the order they are read in, and Go reads
    them into maps."""
    if type(value) is dict:
        return {
            name: _sort_keys(item) if (item := value[name]).__class__ in _CONTAINERS else item
            for name in sorted(value)
        }
    if type(value) is list:
        return [_sort_keys(item) if item.__class__ in _CONTAINERS else item for item in value]
    return value


def _invalid_text_message(document: Value) -> str:
    """The error about the first text of a document that is not UTF-8."""
    open_: list[tuple[str, Value]] = [("", document)]
    while open_:
        path, value = open_.pop()
        if isinstance(value, str) and not value.isascii() and replace_surrogates(value) != value:
            return f"cbor: {path or 'the data'}: a byte string for text must be valid UTF-8"
        if isinstance(value, list):
            open_.extend((f"{path}[{i}]", one) for i, one in reversed([*enumerate(value)]))
        if isinstance(value, dict):
            for name, one in reversed(value.items()):
                shown = replace_surrogates(name)
                open_.append((f"{path}.{shown}".removeprefix("."), one))
                open_.append((f"a name in {path or 'the object'}", name))
    return "cbor: a byte string for text must be valid UTF-8"


def _decode_item(data: bytes) -> Any:
    import cbor2  # at first use: start-up is short without it

    stream = io.BytesIO(data.removeprefix(SELF_DESCRIBED_TAG))
    decoder = cbor2.CBORDecoder(
        stream,
        semantic_decoders=_semantic_decoders(),
        tag_hook=_unknown_tag,
        max_depth=MAX_DEPTH,
        read_size=len(data) or 1,
        allow_duplicate_keys=False,
        strict_hashable_types=True,
    )
    try:
        item = decoder.decode()
    except (cbor2.CBORError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise _decode_error(error) from None
    if stream.tell() != len(stream.getbuffer()):
        raise Malformed("cbor: there is data after the first data item")
    return item


def array_head(length: int) -> bytes:
    """What an array of so many items begins with."""
    return _encode_head(_ARRAY, length)


def encode_value(value: Value) -> bytes:
    """Write one JSON-shaped value, without the prefix; equal values give equal bytes.

    Raises NotEncodable.
    """
    return _join_encoded(value, _encode_sorted)


def encode_value_unsorted(value: Value) -> bytes:
    """The same with keys in the order in which the value has them; it may hold bytes."""
    return _join_encoded(value, _encode)


def _join_encoded(value: Value, write: Callable[[Value, Callable[[bytes], None]], None]) -> bytes:
    parts: list[bytes] = []
    try:
        write(value, parts.append)
    except RecursionError:
        raise NotEncodable("cbor: exceeded max nested level") from None
    return b"".join(parts)


def _decode_error(error: BaseException) -> Malformed | WrongValue:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Malformed | WrongValue):
            return cause
        cause = cause.__cause__
    return Malformed(f"cbor: {error}")


def _to_json_value(value: Any) -> Value:
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
                else _to_json_value(item)
            )
            for key, item in value.items()
        }
        if len(plain) != len(value):
            raise Malformed("cbor: found duplicate map key")
        return plain
    if kind is list:
        return [_to_json_value(item) for item in value]
    if kind is int:
        if not _MIN_INT64 <= value <= _MAX_INT64:
            raise WrongValue(f"cbor: cannot unmarshal {value} into int64: integer overflow")
        return value
    return _to_uncommon_json_value(value)


def _to_uncommon_json_value(value: Any) -> Value:
    if type(value) is float:
        if not math.isfinite(value):
            raise WrongValue(f"cbor: {value} is not allowed: JSON has no such number")
        return value
    # Inside tags the library hands out what cannot be changed.
    if isinstance(value, tuple) and type(value) is tuple:
        return [_to_json_value(item) for item in value]
    if hasattr(value, "items"):
        return _to_json_value(dict(value.items()))
    raise WrongValue(f"cbor: cannot unmarshal {type(value).__name__}: JSON has no such value")


# Tags ---------------------------------------------------------------------------------------------


def _tag_content(value: Any, _immutable: bool) -> Any:
    return value


def _unknown_tag(tag: Any, _immutable: bool) -> Any:
    return tag.value


def _standard_time(value: Any, _immutable: bool) -> Any:
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


def _reject_bignum(_value: Any, _immutable: bool) -> Any:
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


_TAG_DECODERS: dict[int, Callable[[Any, bool], Any]] = {
    0: _standard_time,
    1: _epoch_time,
    2: _reject_bignum,
    3: _reject_bignum,
    21: _as_base64url,
    22: _as_base64,
    23: _as_base16,
}
# The library would make rich, shared or compiled values of these.
_IGNORED_TAGS = (
    4,
    5,
    25,
    28,
    29,
    30,
    35,
    36,
    37,
    52,
    54,
    100,
    256,
    258,
    260,
    261,
    1004,
    43000,
    55799,
)


@functools.cache
def _semantic_decoders() -> Mapping[int, Callable[[Any, bool], Any]]:
    return dict.fromkeys(_IGNORED_TAGS, _tag_content) | _TAG_DECODERS


# Writing ------------------------------------------------------------------------------------------


def _encode_head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes((major | argument,))
    if argument < 0x100:
        return bytes((major | 24, argument))
    if argument < 0x10000:
        return struct.pack(">BH", major | 25, argument)
    if argument < 0x100000000:
        return struct.pack(">BI", major | 26, argument)
    return struct.pack(">BQ", major | 27, argument)


_TEXT_HEADS = [_encode_head(_BYTES, length) for length in range(256)]


def _encode_text(value: str) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        data = _encode_surrogates(value)
    length = len(data)
    return (_TEXT_HEADS[length] if length < 256 else _encode_head(_BYTES, length)) + data


def _encode_surrogates(value: str) -> bytes:
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return replace_surrogates(value).encode()


_ENCODED_KEYS: dict[str, bytes] = {}
"""Names as they are written, but for long ones; forgotten when there are too many."""
_MAX_CACHED_KEYS, _MAX_CACHED_KEY_LENGTH = 4096, 64


def _encode(value: Value, put: Callable[[bytes], None]) -> None:
    kind = type(value)
    if kind is str:
        put(_encode_text(value))
    elif kind is dict:
        put(_encode_head(_MAP, len(value)))
        for name, item in value.items():
            put(_ENCODED_KEYS.get(name) or _encode_key(name))
            if type(item) is str:
                put(_encode_text(item))
            else:
                _encode(item, put)
    elif kind is list:
        put(_encode_head(_ARRAY, len(value)))
        for item in value:
            _encode(item, put)
    else:
        put(_encode_scalar(value))


def _encode_sorted(value: Value, put: Callable[[bytes], None]) -> None:
    kind = type(value)
    if kind is dict:
        put(_encode_head(_MAP, len(value)))
        # Names are unique, so that values are never compared.
        for name, item in sorted(
            [(_ENCODED_KEYS.get(key) or _encode_key(key), item) for key, item in value.items()]
        ):
            put(name)
            if type(item) is str:
                put(_encode_text(item))
            else:
                _encode_sorted(item, put)
    elif kind is list:
        put(_encode_head(_ARRAY, len(value)))
        for item in value:
            _encode_sorted(item, put)
    else:
        _encode(value, put)


def _encode_key(key: Any) -> bytes:
    if type(key) is not str:
        raise NotEncodable(f"cbor: map key {key!r} is no string")
    found = _encode_text(key)
    if len(key) < _MAX_CACHED_KEY_LENGTH:
        if len(_ENCODED_KEYS) >= _MAX_CACHED_KEYS:
            _ENCODED_KEYS.clear()
        _ENCODED_KEYS[key] = found
    return found


def _encode_scalar(value: Value) -> bytes:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int):
        if not _MIN_INT64 <= value <= _MAX_INT64:
            raise NotEncodable(f"cbor: {value} overflows int64")
        return _encode_head(0x00, value) if value >= 0 else _encode_head(0x20, -1 - value)
    if isinstance(value, float):
        return _encode_float(value)
    if isinstance(value, bytes):
        return _EXPECTED_BASE64_TAG + _encode_head(_BYTES, len(value)) + value
    raise NotEncodable(f"cbor: unsupported value: {type(value).__name__}")


def _encode_float(value: float) -> bytes:
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
