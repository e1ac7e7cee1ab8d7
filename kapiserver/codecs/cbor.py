"""CBOR as Kubernetes encodes and decodes it (KEP-4222, RFC 8949).

Encoding writes the self-described tag, keys and text as byte strings, the values of byte fields
behind tag 22, and the shortest exact float. `encode_value` sorts the keys by their encoded bytes,
so equal trees give equal bytes in the store. Responses are not sorted, because sorting doubles
their cost; clients must not rely on their order.

Decoding accepts text strings and byte strings alike. It refuses duplicate keys, invalid UTF-8 in
text strings, integers beyond int64, NaN, infinities, undefined and other simple values. Tags are
resolved to JSON-shaped values. Byte strings that are not UTF-8 are kept in untyped values and
custom objects as lone surrogates; declared types refuse them, since Protobuf cannot store them.
Knows no other format.
"""

from __future__ import annotations

import base64
import functools
import io
import math
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kapiserver.api.go_format import replace_surrogates
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Value
from kapiserver.codecs.cbor_fields import map_untyped_values, with_decoded_bytes
from kapiserver.codecs.cbor_scanner import ItemScanner
from kapiserver.codecs.errors import Malformed, NotEncodable, WrongValue
from kapiserver.codecs.limits import MAX_DEPTH, UNLIMITED
from kapiserver.codecs.object_decoder import complete_kind, decode_object, kind_of_document
from kapiserver.codecs.serializer import Decoded
from kapiserver.codecs.tree_decoder import is_recursive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

SELF_DESCRIBED_TAG = b"\xd9\xd9\xf7"
"""Tag 55799, the self-described CBOR tag: it marks data as CBOR."""

_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_FALSE, _TRUE, _NULL = b"\xf4", b"\xf5", b"\xf6"
_BYTES, _ARRAY, _MAP = 0x40, 0x80, 0xA0
_EXPECTED_BASE64_TAG = b"\xd6"
"""Tag 22, expected conversion to base64: JSON shows these bytes in base64."""
_CONTAINERS = frozenset((dict, list))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CBORSerializer:
    """Encodes and decodes one object as a self-described data item."""

    identifier = "cbor"

    def __init__(self, scheme: Scheme, *, max_values: int = UNLIMITED) -> None:
        self._scheme = scheme
        self._max_values = max_values

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Decode one object. Raises CodecError."""
        if len(data) > self._max_values:
            # An item takes at least one byte, so shorter data cannot exceed the limit. Keys count.
            ItemScanner(self._max_values).find_end(data)
        item = _decode_item(data)
        try:
            document = _to_json_value(item)
        except UnicodeDecodeError:
            document = _to_json_value(_with_surrogates(item))
            kind = complete_kind(kind_of_document(document), defaults)
            if self._scheme.object_info(kind).is_typed:
                raise _invalid_text_error(document, kind) from None
        decoded = decode_object(self._scheme, document, defaults=defaults, source=data)
        if not self._scheme.object_info(decoded.kind).is_typed:
            return decoded  # the keys of custom objects have no order
        type_ = self._scheme.type_of(decoded.kind)
        if is_recursive(type_):
            return decode_object(self._scheme, sort_keys(document), defaults=defaults, source=data)
        return replace(decoded, object=map_untyped_values(type_, decoded.object, sort_keys))

    def encode(self, obj: Tree) -> bytes:
        """Encode one object, its keys in no particular order. Raises NotEncodable."""
        return SELF_DESCRIBED_TAG + encode_value_unsorted(with_decoded_bytes(self._scheme, obj))

    def stream_list(
        self, head: Tree, member: str, items: Iterable[Tree], count: int
    ) -> Iterator[bytes]:
        """Yield the encoding of a list object in chunks, one an item.

        head        the list object, in which `member` is an empty list
        count       the number of items

        Raises NotEncodable.
        """
        empty_list = _encode_text(member) + array_head(0)
        prefix, separator, suffix = self.encode(head).partition(
            empty_list
        )  # no text contains it: 0x80 after ASCII is not UTF-8
        assert separator, "a list has an empty array of items"
        yield prefix + _encode_text(member) + array_head(count)
        for item in items:
            yield encode_value_unsorted(
                with_decoded_bytes(self._scheme, {**head, member: [item]})[member][0]
            )
        yield suffix

    def recognizes(self, data: bytes) -> bool:
        """Whether the data begins with the self-described tag."""
        return data.startswith(SELF_DESCRIBED_TAG)


def decode_value(data: bytes) -> Value:
    """Decode exactly one data item, its keys sorted. Raises Malformed, WrongValue."""
    return sort_keys(decode_value_unsorted(data))


def decode_value_unsorted(data: bytes) -> Value:
    """Decode exactly one data item, its keys in input order. Raises Malformed, WrongValue."""
    item = _decode_item(data)
    try:
        return _to_json_value(item)
    except UnicodeDecodeError:
        return _to_json_value(_with_surrogates(item))


def _with_surrogates(value: Any) -> Any:
    """Return a decoded item with each byte string as text; bytes that are not UTF-8 become lone
    surrogates."""
    if type(value) is bytes:
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list | tuple):
        return [_with_surrogates(item) for item in value]
    if hasattr(value, "items"):
        entries = {_with_surrogates(key): _with_surrogates(item) for key, item in value.items()}
        if len(entries) != len(value):
            raise Malformed("cbor: found duplicate map key")
        return entries
    return value


def sort_keys(value: Value) -> Value:
    """Return the value with its keys sorted, as Go sorts the keys of the maps it decodes into."""
    if type(value) is dict:
        return {
            key: sort_keys(item) if (item := value[key]).__class__ in _CONTAINERS else item
            for key in sorted(value)
        }
    if type(value) is list:
        return [sort_keys(item) if item.__class__ in _CONTAINERS else item for item in value]
    return value


def _invalid_text_error(document: Value, kind: GroupVersionKind) -> WrongValue:
    error = WrongValue(_invalid_text_message(document))
    error.kind = kind
    return error


def _invalid_text_message(document: Value) -> str:
    """Return the error message for the first text of a document that is not UTF-8."""
    stack: list[tuple[str, Value]] = [("", document)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, str) and not value.isascii() and replace_surrogates(value) != value:
            return f"cbor: {path or 'the data'}: a byte string for text must be valid UTF-8"
        if isinstance(value, list):
            stack.extend((f"{path}[{i}]", item) for i, item in reversed([*enumerate(value)]))
        if isinstance(value, dict):
            for key, item in reversed(value.items()):
                valid_key = replace_surrogates(key)
                stack.append((f"{path}.{valid_key}".removeprefix("."), item))
                stack.append((f"a name in {path or 'the object'}", key))
    return "cbor: a byte string for text must be valid UTF-8"


def _decode_item(data: bytes) -> Any:
    import cbor2  # imported at first use, to keep start-up short

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
    """Return the head of an array of `length` items."""
    return _encode_head(_ARRAY, length)


def encode_value(value: Value) -> bytes:
    """Encode one JSON-shaped value, its keys sorted, without the self-described tag.

    Raises NotEncodable.
    """
    return _join_encoded(value, _encode_sorted)


def encode_value_unsorted(value: Value) -> bytes:
    """Encode one value, its keys in the order of the dict. The value may contain `bytes`.

    Raises NotEncodable.
    """
    return _join_encoded(value, _encode)


def _join_encoded(value: Value, encode: Callable[[Value, Callable[[bytes], None]], None]) -> bytes:
    parts: list[bytes] = []
    try:
        encode(value, parts.append)
    except RecursionError:
        raise NotEncodable("cbor: exceeded max nested level") from None
    return b"".join(parts)


def _decode_error(error: BaseException) -> Malformed | WrongValue:
    """Return the error of the function that decodes a tag, or one with cbor2's message. The error
    is new: if the function's own error were raised again, it would get cbor2's error as its
    context, which has it as its cause, and this cycle would keep the body in memory."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Malformed | WrongValue):
            return type(cause)(*cause.args)
        cause = cause.__cause__
    return Malformed(f"cbor: {error}")


def _to_json_value(value: Any) -> Value:
    """Return a decoded item as a JSON-shaped value.

    Raises Malformed, WrongValue; UnicodeDecodeError for a byte string that is not UTF-8.
    """
    type_ = type(value)
    if type_ is bytes:
        return value.decode()
    if type_ is str or type_ is bool or value is None:
        return value
    if type_ is dict:
        entries = {
            key.decode() if type(key) is bytes else key: (
                item
                if type(item) is str
                else item.decode()
                if type(item) is bytes
                else _to_json_value(item)
            )
            for key, item in value.items()
        }
        if len(entries) != len(value):
            raise Malformed("cbor: found duplicate map key")
        return entries
    if type_ is list:
        return [_to_json_value(item) for item in value]
    if type_ is int:
        if not _MIN_INT64 <= value <= _MAX_INT64:
            raise WrongValue(f"cbor: cannot unmarshal {value} into int64: integer overflow")
        return value
    return _to_uncommon_json_value(value)


def _to_uncommon_json_value(value: Any) -> Value:
    if type(value) is float:
        if not math.isfinite(value):
            raise WrongValue(f"cbor: {value} is not allowed: JSON has no such number")
        return value
    # cbor2 returns immutable tuples and mappings inside tags.
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


# These return text, so that nested tags encode the bytes once only.
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
# cbor2 would turn these into decimals, patterns, shared references and the like.
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
"""Short keys with their encoding. Cleared at _MAX_CACHED_KEYS."""
_MAX_CACHED_KEYS, _MAX_CACHED_KEY_LENGTH = 4096, 64


def _encode(value: Value, write: Callable[[bytes], None]) -> None:
    type_ = type(value)
    if type_ is str:
        write(_encode_text(value))
    elif type_ is dict:
        write(_encode_head(_MAP, len(value)))
        for key, item in value.items():
            write(_ENCODED_KEYS.get(key) or _encode_key(key))
            if type(item) is str:
                write(_encode_text(item))
            else:
                _encode(item, write)
    elif type_ is list:
        write(_encode_head(_ARRAY, len(value)))
        for item in value:
            _encode(item, write)
    else:
        write(_encode_scalar(value))


def _encode_sorted(value: Value, write: Callable[[bytes], None]) -> None:
    type_ = type(value)
    if type_ is dict:
        write(_encode_head(_MAP, len(value)))
        # Keys are unique, so `sorted` never compares the values.
        for encoded_key, item in sorted(
            [(_ENCODED_KEYS.get(key) or _encode_key(key), item) for key, item in value.items()]
        ):
            write(encoded_key)
            if type(item) is str:
                write(_encode_text(item))
            else:
                _encode_sorted(item, write)
    elif type_ is list:
        write(_encode_head(_ARRAY, len(value)))
        for item in value:
            _encode_sorted(item, write)
    else:
        _encode(value, write)


def _encode_key(key: Any) -> bytes:
    if type(key) is not str:
        raise NotEncodable(f"cbor: map key {key!r} is not a string")
    encoded = _encode_text(key)
    if len(key) < _MAX_CACHED_KEY_LENGTH:
        if len(_ENCODED_KEYS) >= _MAX_CACHED_KEYS:
            _ENCODED_KEYS.clear()
        _ENCODED_KEYS[key] = encoded
    return encoded


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
