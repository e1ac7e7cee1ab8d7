"""Scans JSON text for syntax errors, with Go's messages, and for repeated keys.

Slow and exact. Used only for text that orjson refuses or that may have repeated keys or unknown
fields. Iterative, so depth does not matter; all results are limited in size. Knows no type.
"""

from __future__ import annotations

import re
from collections.abc import Container

from msgspec import Struct, field

from kapiserver.codecs.errors import Malformed
from kapiserver.codecs.limits import MAX_DEPTH, MAX_STRICT_ERRORS

MAX_SCANNED_VALUES = 100_000
"""The number of values scanned, which takes some tenths of a second. The rest is not scanned."""

_MAX_PATH_CHARS = 1 << 18

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(
    rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
)
_STRING_PART = re.compile(
    rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
)
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_LITERALS = {0x74: b"true", 0x66: b"false", 0x6E: b"null"}
_ESCAPES = {
    7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r", 92: r"\\",
    39: r"\'", 34: '"',
}  # fmt: skip


class _Level(Struct):
    """One open object (`keys` is a set) or array (`keys` is None)."""

    keys: set[bytes] | None
    name: str = ""
    """The key whose value is being read."""
    index: int = 0
    """The element being read."""


class KeyScan(Struct):
    """The paths of keys in the order of the text, each once."""

    duplicates: list[str] = field(default_factory=list)
    """The keys that are repeated within their object."""
    ordered: dict[str, None] = field(default_factory=dict)
    """The duplicates, and the requested paths that were found."""
    path_chars_left: int = _MAX_PATH_CHARS
    """The number of characters that further paths may have, which limits the memory used."""
    complete: bool = True
    """False if the text has more than MAX_SCANNED_VALUES values, so part of it was not scanned."""


def check_syntax(data: bytes) -> None:
    """Raise Malformed if the scanned part of the text has a syntax error."""
    _Scanner(data, paths=(), names=()).run()


def find_keys(data: bytes, paths: list[str]) -> KeyScan:
    """Return the duplicate keys of a text, and the order of these and of the given paths.

    Raises Malformed.
    """
    names = {re.split(r"[.\]]", path)[-1] for path in paths[:MAX_STRICT_ERRORS]}
    return _Scanner(data, paths=frozenset(paths), names=names).run()


class _Scanner:
    def __init__(self, data: bytes, *, paths: Container[str], names: Container[str]) -> None:
        self.data = data
        self.position = 0
        self.stack: list[_Level] = []
        self.remaining_values = MAX_SCANNED_VALUES
        self.result = KeyScan()
        self.paths = paths
        self.names = names

    def run(self) -> KeyScan:
        self._scan_value()
        while self.stack:
            if self.remaining_values <= 0:
                self.result.complete = False
                return self.result
            level = self.stack[-1]
            delimiter = self._next_byte()
            if delimiter == b",":
                level.index += 1
                if level.keys is not None:
                    self._scan_key(level)
                self._scan_value()
            elif delimiter == (b"]" if level.keys is None else b"}"):
                self.stack.pop()
            else:
                context = "array element" if level.keys is None else "object key:value pair"
                raise self._unexpected(f"after {context}")
        self._skip_space()
        if self.position < len(self.data):
            self.position += 1
            raise self._unexpected("after top-level value")
        return self.result

    def _skip_space(self) -> None:
        space = _SPACE.match(self.data, self.position)
        assert space
        self.position = space.end()

    def _next_byte(self) -> bytes:
        """Return the next byte that is not white space. Raises Malformed at the end."""
        self._skip_space()
        self.position += 1
        if self.position > len(self.data):
            raise Malformed("unexpected end of JSON input")
        return self.data[self.position - 1 : self.position]

    def _unexpected(self, context: str) -> Malformed:
        """Return the error for the byte before the current position."""
        if self.position > len(self.data):
            return Malformed("unexpected end of JSON input")
        return Malformed(f"invalid character {_quote_byte(self.data[self.position - 1])} {context}")

    def _scan_value(self) -> None:
        """Skip a scalar, or open containers up to the first scalar in them."""
        self.remaining_values -= 1
        first_byte = self._next_byte()
        while first_byte in (b"{", b"["):
            if self._open_container(first_byte):
                return
            self.remaining_values -= 1
            first_byte = self._next_byte()
        self.position -= 1
        if first_byte == b'"':
            self._scan_string()
        elif first_byte in b"-0123456789":
            self._scan_number()
        elif self.data[self.position] in _LITERALS:
            self._scan_literal()
        else:
            self.position += 1
            raise self._unexpected("looking for beginning of value")

    def _open_container(self, opening: bytes) -> bool:
        """Open a container and scan its first key. If it is empty, close it and return True."""
        if len(self.stack) >= MAX_DEPTH:
            raise Malformed("exceeded max depth")
        level = _Level(keys=set() if opening == b"{" else None)
        self.stack.append(level)
        if self._next_byte() == (b"}" if opening == b"{" else b"]"):
            self.stack.pop()
            return True
        self.position -= 1
        if level.keys is not None:
            self._scan_key(level)
        return False

    def _scan_key(self, level: _Level) -> None:
        if self._next_byte() != b'"':
            raise self._unexpected("looking for beginning of object key string")
        self.position -= 1
        start = self.position
        self._scan_string()
        key = self.data[start : self.position]
        if b"\\" in key:
            key = _unescape_key(key)
        if self._next_byte() != b":":
            raise self._unexpected("after object key")
        level.name = key[1:-1].decode("utf-8", "replace")
        assert level.keys is not None
        duplicate = key in level.keys
        level.keys.add(key)
        if duplicate or level.name in self.names:
            self._record_key(duplicate=duplicate)

    def _record_key(self, *, duplicate: bool) -> None:
        result = self.result
        if result.path_chars_left <= 0 or len(result.ordered) >= 2 * MAX_STRICT_ERRORS:
            return
        path = self._path()
        result.path_chars_left -= len(path)
        if duplicate and path not in result.duplicates:
            result.duplicates.append(path)
        if duplicate or path in self.paths:
            result.ordered.setdefault(path)

    def _path(self) -> str:
        text = ""
        for level in self.stack:
            if level.keys is None:
                text += f"[{level.index}]"
            else:
                text += f".{level.name}" if text else level.name
        return text

    def _scan_string(self) -> None:
        match = _STRING.match(self.data, self.position)
        if match:
            self.position = match.end()
            return
        part = _STRING_PART.match(self.data, self.position)
        assert part
        self.position = part.end() + 1
        if self.data[self.position - 1 : self.position] != b"\\":
            raise self._unexpected("in string literal")
        self.position += 1
        if self.data[self.position - 1 : self.position] != b"u":
            raise self._unexpected("in string escape code")
        digits = re.compile(rb"[0-9a-fA-F]*").match(self.data, self.position)
        assert digits
        self.position = digits.end() + 1
        raise self._unexpected(r"in \u hexadecimal character escape")

    def _scan_number(self) -> None:
        match = _NUMBER.match(self.data, self.position)
        if not match:
            self.position += 2
            raise self._unexpected("in numeric literal")
        self.position = match.end()
        next_byte = self.data[self.position : self.position + 1]
        if next_byte == b"." and not match.group(1) and not match.group(2):
            self.position += 2
            raise self._unexpected("after decimal point in numeric literal")
        if next_byte in (b"e", b"E") and not match.group(2):
            self.position += (
                3 if self.data[self.position + 1 : self.position + 2] in (b"+", b"-") else 2
            )
            raise self._unexpected("in exponent of numeric literal")

    def _scan_literal(self) -> None:
        literal = _LITERALS[self.data[self.position]]
        for expected in literal:
            self.position += 1
            if self.data[self.position - 1 : self.position] != bytes((expected,)):
                raise self._unexpected(
                    f"in literal {literal.decode()} (expecting {_quote_byte(expected)})"
                )


def _quote_byte(byte: int) -> str:
    """Format a byte as Go does: as Latin-1 in single quotes."""
    if byte in _ESCAPES:
        return f"'{_ESCAPES[byte]}'"
    if byte < 0x20 or byte == 0x7F:
        return f"'\\x{byte:02x}'"
    if 0x80 <= byte < 0xA1 or byte == 0xAD:
        return f"'\\u{byte:04x}'"
    return f"'{chr(byte)}'"


def _unescape_key(key: bytes) -> bytes:
    # A key can be written with and without escapes, and these are equal.
    import json  # imported late: only for keys with escapes

    text: str = json.loads(key.decode("utf-8", "replace"))
    return b'"' + text.encode("utf-8", "surrogatepass") + b'"'
