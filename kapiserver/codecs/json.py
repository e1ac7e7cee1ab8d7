"""JSON as kube-apiserver encodes and decodes it.

orjson parses first. `json_scanner` checks what orjson refuses: it accepts what Go accepts and
raises errors with Go's messages. Encoding follows Go: `<>&` and the line separators are escaped,
floats have Go's notation, the compact form ends with a newline and the indented form does not.
Knows no other format. Mirrors
k8s.io/apimachinery/pkg/runtime/serializer/json.
"""

from __future__ import annotations

import math
import re
from typing import Any

import orjson

from kapiserver.api.go_format import format_float, quote, replace_surrogates
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Value
from kapiserver.codecs.errors import Malformed, NotEncodable, TooLarge, WrongValue
from kapiserver.codecs.limits import MAX_STRICT_ERRORS, TOO_MANY_VALUES, UNLIMITED
from kapiserver.codecs.object_decoder import decode_object, unknown_field_errors
from kapiserver.codecs.serializer import Decoded

_INT64 = range(-(1 << 63), 1 << 63)
_PARSE_ERROR_PREFIX = "couldn't get version/kind; json parse error: "
_FLOAT = re.compile(rb"[0-9][.e]")
_ASCII_ESCAPES = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))
_ESCAPES = (*_ASCII_ESCAPES, (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


SORT_KEYS = orjson.OPT_SORT_KEYS
"""The option that sorts the keys of all objects."""


class JSONSerializer:
    """Encodes and decodes the compact form, for responses and for the store."""

    identifier = "json"

    def __init__(self, scheme: Scheme, *, max_values: int = UNLIMITED) -> None:
        self._scheme = scheme
        self._max_values = max_values

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Decode one object. Raises CodecError."""
        check_value_count(data, self._max_values)
        try:
            document, text = _parse(data)
            may_have_duplicates = _may_have_duplicates(data, text)
        except (Malformed, WrongValue) as error:
            raise type(error)(_PARSE_ERROR_PREFIX + str(error)) from None

        def strict_errors(unknown: list[str]) -> tuple[str, ...]:
            return _strict_errors(data, unknown, may_have_duplicates=may_have_duplicates)

        return decode_object(
            self._scheme, document, defaults=defaults, source=data, make_strict_errors=strict_errors
        )

    def encode(self, obj: Tree) -> bytes:
        """Encode one object, followed by a newline. Raises NotEncodable."""
        return encode_value(obj, option=self._sort_option(obj)) + b"\n"

    def _sort_option(self, obj: Tree) -> int:
        # Go sorts the keys of objects without a Go type.
        return 0 if self._scheme.is_typed(obj) else SORT_KEYS

    def recognizes(self, data: bytes) -> bool:
        """Whether the first byte after white space opens an object."""
        return data[:64].lstrip(b" \t\r\n")[:1] == b"{"


class PrettyJSONSerializer(JSONSerializer):
    """Encodes with an indentation of two spaces, for humans."""

    identifier = "json-pretty"

    def encode(self, obj: Tree) -> bytes:
        """Encode one object, indented, without a final newline. Raises NotEncodable."""
        return encode_value(obj, option=orjson.OPT_INDENT_2 | self._sort_option(obj))


def check_value_count(data: bytes, limit: int) -> None:
    """Raise TooLarge if a text has more than `limit` values. Parses nothing.

    Counts commas and opening brackets, one of which stands before each value. Strings are removed
    first only if the count with their contents exceeds the limit.
    """
    if (
        len(data) > limit
        and _estimate_values(data) > limit
        and _estimate_values(_without_strings(data)) > limit
    ):
        raise TooLarge(TOO_MANY_VALUES.format(limit))


def _estimate_values(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _without_strings(data: bytes) -> bytes:
    without_escapes = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(without_escapes.split(b'"')[::2])


def decode_value(data: bytes) -> Value:
    """Decode any JSON text. The last value of a repeated key counts, as in Go.

    Raises Malformed with Go's message, WrongValue for a number that is too large for a float.
    """
    return _parse(data)[0]


def decode_document(data: bytes) -> tuple[Value, tuple[str, ...]]:
    """Return `decode_value` of a text, and strict errors for its repeated keys. Raises Malformed,
    WrongValue."""
    value, text = _parse(data)
    may_have_duplicates = _may_have_duplicates(data, text)
    return value, _strict_errors(data, [], may_have_duplicates=may_have_duplicates)


def _parse(data: bytes) -> tuple[Value, bytes]:
    """Return `decode_value` of a text, and the text that orjson writes for it, without escapes."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _decode_slowly(data)
        return value, _text_of(value)
    try:
        return value, orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:  # for a number of more than 53 bits: orjson also reads a uint64
        text = _text_of(value)  # the function below is recursive
        return _large_integers_to_floats(value), text


def _decode_slowly(data: bytes) -> Value:
    # Imported late: hardly any body needs them.
    import json

    from kapiserver.codecs import json_scanner

    json_scanner.check_syntax(data)
    # Go accepts invalid UTF-8, lone surrogates and very large numbers.
    text = data.decode("utf-8", "replace")
    try:
        value = json.loads(
            text, parse_float=_parse_float, parse_int=_parse_int, parse_constant=_reject_constant
        )
        return _without_surrogates(value)
    except json.JSONDecodeError as error:
        # Only beyond the values that `check_syntax` scans.
        character = ascii(text[error.pos : error.pos + 1])
        raise Malformed(f"invalid character {character} looking for beginning of value") from None
    except RecursionError:
        raise Malformed("exceeded max depth") from None


def _reject_constant(name: str) -> Value:
    raise Malformed(f"invalid character '{name[0]}' looking for beginning of value")


def encode_value(value: Value, *, option: int = 0) -> bytes:
    """Encode any JSON value as Go does, with an orjson option. Raises NotEncodable, Malformed."""
    text = _dumps(value, option)
    if _FLOAT.search(_without_strings(text)):
        text = _dumps(_with_go_floats(value), option)
    return escape_html(text)


def encode_value_without_floats(value: Value) -> bytes:
    """Encode a JSON value that is known to have no floats, in half the time of `encode_value`.
    Raises NotEncodable, Malformed."""
    return escape_html(_dumps(value, 0))


def trimmed_copy(text: bytes) -> bytes:
    """Return a copy of the text that uses no more memory than its length.

    orjson allocates 4 KiB or more for each result and does not shrink it.
    """
    return bytes(memoryview(text))


def escape_html(text: bytes) -> bytes:
    """Escape `<>&` and the line separators in JSON text as Go does. They occur in strings only."""
    for plain, escape in _ASCII_ESCAPES if text.isascii() else _ESCAPES:
        text = text.replace(plain, escape)
    return text


def _dumps(value: Value, option: int) -> bytes:
    try:
        return orjson.dumps(value, option=option)
    except orjson.JSONEncodeError as error:
        if "Recursion" in str(error):
            raise Malformed("exceeded max depth") from None
        if "surrogates" in str(error):
            return _dumps(_without_surrogates(value), option)
        raise NotEncodable(f"json: unsupported value: {error}") from None


def _with_go_floats(value: Value) -> Value:
    if isinstance(value, dict):
        return {name: _with_go_floats(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_go_floats(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotEncodable(f"json: unsupported value: {value}")
        return orjson.Fragment(format_float(value).encode())
    return value


def _large_integers_to_floats(value: Value) -> Value:
    # Go decodes a larger integer into an untyped value as a float.
    if isinstance(value, dict):
        return {name: _large_integers_to_floats(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_large_integers_to_floats(item) for item in value]
    if type(value) is int and value not in _INT64:
        return float(value)
    return value


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise WrongValue(f"json: cannot unmarshal number {text} into Go value of type float64")
    return value


def _parse_int(text: str) -> int | float:
    # Go decodes an integer beyond int64 into an untyped value as a float.
    if len(text) > 20:
        return _parse_float(text)
    value = int(text)
    return value if value in _INT64 else float(text)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    return value


def _strict_errors(
    data: bytes, unknown: list[str], *, may_have_duplicates: bool
) -> tuple[str, ...]:
    """Return strict errors for unknown and duplicate fields in the order of the text."""
    if len(unknown) <= 1 and not may_have_duplicates:
        return unknown_field_errors(unknown) if unknown else ()
    from kapiserver.codecs.json_scanner import find_keys  # imported late: hardly any body needs it

    keys = find_keys(data, unknown)
    unknown_paths = dict.fromkeys(unknown)
    ordered = [*keys.ordered, *(path for path in unknown_paths if path not in keys.ordered)]
    texts = []
    for path in ordered:
        if path in unknown_paths:
            texts.append(f"unknown field {quote(path)}")
        elif not any(
            path.startswith((f"{unknown_path}.", f"{unknown_path}["))
            for unknown_path in unknown_paths
        ):
            texts.append(f"duplicate field {quote(path)}")
    if not keys.complete:
        texts.append("duplicate fields may stand further on: the body has very many values")
    return tuple(texts[:MAX_STRICT_ERRORS])


def _may_have_duplicates(data: bytes, text: bytes) -> bool:
    """Whether a key may be repeated in the text of a document, given the text that orjson writes
    for it. False is certain, True is not.

    A text that is written as orjson writes the document, which has lost repeated keys, has none.
    Otherwise the numbers of colons are compared. Colons within strings count in both texts, unless
    they are escaped.
    """
    if data.startswith(text):  # white space may follow
        return False
    if data.find(b"\\") >= 0 and (b"\\u003a" in data or b"\\u003A" in data):
        return True
    return data.count(b":") != text.count(b":")


def _text_of(value: Value) -> bytes:
    """Return the text that orjson writes, without escapes. Raises Malformed if the value is nested
    too deeply: orjson parses deeper than it writes, which is about MAX_DEPTH levels."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise Malformed("exceeded max depth") from None
