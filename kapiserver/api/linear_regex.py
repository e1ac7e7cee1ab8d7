"""Regular expressions that match in time linear in the text, whatever the pattern.

This is the only module that imports RE2, which it does at the first pattern. A bounded number of
compiled patterns is cached. Mirrors the syntax of Go's package regexp.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from kapiserver.api.go_format import replace_surrogates

_MAX_MEMORY = 1 << 20
"""The memory limit of one compiled pattern and its automaton, in bytes."""
_CACHED_MATCHERS = 4096
_CACHED_RESULTS = 4096
_SHORT = 64


class InvalidPattern(ValueError):
    """A pattern is malformed; the message is RE2's in Go's words."""


class Matcher:
    """Searches texts for a pattern. Bytes that are not UTF-8 (possible in CBOR) count as U+FFFD."""

    __slots__ = ("_pattern",)

    def __init__(self, pattern: Any) -> None:
        self._pattern = pattern

    @property
    def size(self) -> int:
        """The number of instructions of the compiled pattern. Where their automaton takes too much
        memory, a search takes time in proportion to it."""
        return int(self._pattern.programsize)

    def search(self, text: str) -> Any:
        """Return the first match, or None."""
        try:
            return self._pattern.search(text)
        except UnicodeError:
            return self._pattern.search(replace_surrogates(text))

    def finditer(self, text: str) -> Iterator[Any]:
        """Yield all matches."""
        matches: Iterator[Any] = self._pattern.finditer(replace_surrogates(text))
        return matches


@functools.lru_cache(_CACHED_MATCHERS)
def compile_pattern(pattern: str) -> Matcher:
    """Return the matcher of a pattern. Raises InvalidPattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return Matcher(re2.compile(pattern, options))
    except (re2.error, UnicodeError) as error:
        raise InvalidPattern(_go_message(error)) from None


def matches(pattern: str, text: str) -> bool:
    """Report whether the pattern occurs in the text; an invalid pattern never does."""
    # Short texts repeat with every update of their object.
    return _search_cached(pattern, text) if len(text) <= _SHORT else _search(pattern, text)


def _search(pattern: str, text: str) -> bool:
    try:
        return compile_pattern(pattern).search(text) is not None
    except InvalidPattern:
        return False


_search_cached = functools.lru_cache(_CACHED_RESULTS)(_search)
_GO_REASONS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
}


def _go_message(error: Exception) -> str:
    message = error.args[0] if error.args else "wrong"
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    if text == "trailing \\":
        return "error parsing regexp: trailing backslash at end of expression: ``"
    reason, colon, part = text.partition(": ")
    reason = _GO_REASONS.get(reason, reason)
    return (
        f"error parsing regexp: {reason}: `{part}`" if colon else f"error parsing regexp: {reason}"
    )
