"""What is wrong with a JSON text, in the words of Go's encoding/json, and which keys repeat.

Slow and exact: looked at only when the fast parser refuses a text, or when it is known that a key
repeats. Iterative, so that depth costs nothing; every list it makes is bounded. Knows no type.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field

from kapiserver.codecs.bounds import MAX_DEPTH, MAX_REPORTED
from kapiserver.codecs.errors import Malformed

MAX_VALUES = 100_000
"""Values looked at, some tenths of a second's work; texts with more are hardly looked at."""

_MAX_PATH_TEXT = 1 << 18

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


@dataclass(slots=True)
class _Level:
    """One open object (`keys` is a set) or array (`keys` is None)."""

    keys: set[bytes] | None
    name: str = ""
    """The key whose value is being read."""
    index: int = 0
    """The element being read."""


@dataclass(slots=True)
class Findings:
    """Paths in the order in which they stand in the text, each once."""

    duplicates: list[str] = field(default_factory=list)
    """Keys that repeat within their object."""
    ordered: dict[str, None] = field(default_factory=dict)
    """The duplicates and those of the `wanted` that were met."""
    text_left: int = _MAX_PATH_TEXT
    """Characters of paths that may still be spelled out: long paths must not add up."""
    complete: bool = True
    """False when the text has more than MAX_VALUES: the rest was not looked at."""


def check(data: bytes) -> None:
    """Raise Malformed; return when the text is well-formed as far as it was looked at."""
    _Scanner(data, wanted=(), names=()).run()


def find_keys(data: bytes, wanted: list[str]) -> Findings:
    """The duplicate keys of a text, and in what order they and the `wanted` paths stand in it.

    Raises Malformed.
    """
    names = {re.split(r"[.\]]", path)[-1] for path in wanted[:MAX_REPORTED]}
    return _Scanner(data, wanted=frozenset(wanted), names=names).run()


class _Scanner:
    def __init__(self, data: bytes, *, wanted: Container[str], names: Container[str]) -> None:
        self.data = data
        self.at = 0
        self.levels: list[_Level] = []
        self.values_left = MAX_VALUES
        self.findings = Findings()
        self.wanted = wanted
        self.names = names

    def run(self) -> Findings:
        self._value()
        while self.levels:
            if self.values_left <= 0:
                self.findings.complete = False
                return self.findings
            level = self.levels[-1]
            mark = self._next()
            if mark == b",":
                level.index += 1
                if level.keys is not None:
                    self._key(level)
                self._value()
            elif mark == (b"]" if level.keys is None else b"}"):
                self.levels.pop()
            else:
                where = "array element" if level.keys is None else "object key:value pair"
                raise self._unexpected(f"after {where}")
        self._skip()
        if self.at < len(self.data):
            self.at += 1
            raise self._unexpected("after top-level value")
        return self.findings

    def _skip(self) -> None:
        found = _SPACE.match(self.data, self.at)
        assert found
        self.at = found.end()

    def _next(self) -> bytes:
        """The next byte that is no space. Raises Malformed at the end."""
        self._skip()
        self.at += 1
        if self.at > len(self.data):
            raise Malformed("unexpected end of JSON input")
        return self.data[self.at - 1 : self.at]

    def _unexpected(self, context: str) -> Malformed:
        """The error for the byte before the current place."""
        if self.at > len(self.data):
            return Malformed("unexpected end of JSON input")
        return Malformed(f"invalid character {_quoted(self.data[self.at - 1])} {context}")

    def _value(self) -> None:
        """Pass a scalar, or open what opens here up to the first scalar in it."""
        self.values_left -= 1
        mark = self._next()
        while mark in (b"{", b"["):
            if self._opens_empty(mark):
                return
            self.values_left -= 1
            mark = self._next()
        self.at -= 1
        if mark == b'"':
            self._string()
        elif mark in b"-0123456789":
            self._number()
        elif self.data[self.at] in _LITERALS:
            self._literal()
        else:
            self.at += 1
            raise self._unexpected("looking for beginning of value")

    def _opens_empty(self, mark: bytes) -> bool:
        """Open a level and pass its first key, or the whole of it when there is nothing in it."""
        if len(self.levels) >= MAX_DEPTH:
            raise Malformed("exceeded max depth")
        level = _Level(keys=set() if mark == b"{" else None)
        self.levels.append(level)
        if self._next() == (b"}" if mark == b"{" else b"]"):
            self.levels.pop()
            return True
        self.at -= 1
        if level.keys is not None:
            self._key(level)
        return False

    def _key(self, level: _Level) -> None:
        if self._next() != b'"':
            raise self._unexpected("looking for beginning of object key string")
        self.at -= 1
        start = self.at
        self._string()
        key = self.data[start : self.at]
        if b"\\" in key:
            key = _plain(key)
        if self._next() != b":":
            raise self._unexpected("after object key")
        level.name = key[1:-1].decode("utf-8", "replace")
        assert level.keys is not None
        repeated = key in level.keys
        level.keys.add(key)
        if repeated or level.name in self.names:
            self._note(repeated=repeated)

    def _note(self, *, repeated: bool) -> None:
        findings = self.findings
        if findings.text_left <= 0 or len(findings.ordered) >= 2 * MAX_REPORTED:
            return
        path = self._path()
        findings.text_left -= len(path)
        if repeated and path not in findings.duplicates:
            findings.duplicates.append(path)
        if repeated or path in self.wanted:
            findings.ordered.setdefault(path)

    def _path(self) -> str:
        text = ""
        for level in self.levels:
            if level.keys is None:
                text += f"[{level.index}]"
            else:
                text += f".{level.name}" if text else level.name
        return text

    def _string(self) -> None:
        found = _STRING.match(self.data, self.at)
        if found:
            self.at = found.end()
            return
        part = _STRING_PART.match(self.data, self.at)
        assert part
        self.at = part.end() + 1
        if self.data[self.at - 1 : self.at] != b"\\":
            raise self._unexpected("in string literal")
        self.at += 1
        if self.data[self.at - 1 : self.at] != b"u":
            raise self._unexpected("in string escape code")
        digits = re.compile(rb"[0-9a-fA-F]*").match(self.data, self.at)
        assert digits
        self.at = digits.end() + 1
        raise self._unexpected(r"in \u hexadecimal character escape")

    def _number(self) -> None:
        found = _NUMBER.match(self.data, self.at)
        if not found:
            self.at += 2
            raise self._unexpected("in numeric literal")
        self.at = found.end()
        follows = self.data[self.at : self.at + 1]
        if follows == b"." and not found.group(1) and not found.group(2):
            self.at += 2
            raise self._unexpected("after decimal point in numeric literal")
        if follows in (b"e", b"E") and not found.group(2):
            self.at += 3 if self.data[self.at + 1 : self.at + 2] in (b"+", b"-") else 2
            raise self._unexpected("in exponent of numeric literal")

    def _literal(self) -> None:
        word = _LITERALS[self.data[self.at]]
        for letter in word:
            self.at += 1
            if self.data[self.at - 1 : self.at] != bytes((letter,)):
                raise self._unexpected(f"in literal {word.decode()} (expecting {_quoted(letter)})")


def _quoted(byte: int) -> str:
    """A byte as Go shows it: read as Latin-1, in single quotes."""
    if byte in _ESCAPES:
        return f"'{_ESCAPES[byte]}'"
    if byte < 0x20 or byte == 0x7F:
        return f"'\\x{byte:02x}'"
    if 0x80 <= byte < 0xA1 or byte == 0xAD:
        return f"'\\u{byte:04x}'"
    return f"'{chr(byte)}'"


def _plain(key: bytes) -> bytes:
    # The same key may be spelled with and without escapes.
    import json  # only for keys with escapes

    text: str = json.loads(key.decode("utf-8", "replace"))
    return b'"' + text.encode("utf-8", "surrogatepass") + b'"'
