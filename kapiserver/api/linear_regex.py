"""Regular expressions in time linear in the text, whatever the pattern.

The only importer of RE2, which is loaded at the first pattern. Mirrors the syntax of Go's package
regexp. Patterns are kept by their text, a bounded number of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from kapiserver.api.go_format import plain_text

_MAX_MEMORY = 1 << 20
"""What one compiled pattern and its automaton may take, in bytes."""
_MATCHERS_KEPT = 4096
_ANSWERS_KEPT = 4096
_SHORT = 64


class InvalidPattern(ValueError):
    """A text that is no pattern; says why in RE2's words."""


class Matcher:
    """Looks for a pattern in texts. Bytes that are no text, out of CBOR, are U+FFFD to it."""

    __slots__ = ("_pattern",)

    def __init__(self, pattern: Any) -> None:
        self._pattern = pattern

    def search(self, text: str) -> Any:
        """The first match; None without any."""
        try:
            return self._pattern.search(text)
        except UnicodeError:
            return self._pattern.search(plain_text(text))

    def finditer(self, text: str) -> Iterator[Any]:
        """All matches."""
        found: Iterator[Any] = self._pattern.finditer(plain_text(text))
        return found


@functools.lru_cache(_MATCHERS_KEPT)
def compile_pattern(pattern: str) -> Matcher:
    """The matcher of a pattern. Raises WrongPattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return Matcher(re2.compile(pattern, options))
    except (re2.error, UnicodeError) as error:
        raise InvalidPattern(_told(error)) from None


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is anywhere in the text; a wrong pattern is nowhere."""
    # Short texts come again and again: with every update of what they are part of.
    return _found_before(pattern, text) if len(text) <= _SHORT else _found(pattern, text)


def _found(pattern: str, text: str) -> bool:
    try:
        return compile_pattern(pattern).search(text) is not None
    except InvalidPattern:
        return False


_found_before = functools.lru_cache(_ANSWERS_KEPT)(_found)
_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
}


def _told(error: Exception) -> str:
    told = error.args[0] if error.args else "wrong"
    text = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
    if text == "trailing \\":
        return "error parsing regexp: trailing backslash at end of expression: ``"
    words, colon, part = text.partition(": ")
    words = _GO_WORDS.get(words, words)
    return f"error parsing regexp: {words}: `{part}`" if colon else f"error parsing regexp: {words}"
