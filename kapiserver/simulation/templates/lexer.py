"""Splits a template into texts and the tokens of actions. Mirrors text/template/parse/lex.go."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from kapiserver.simulation.templates.errors import TemplateError

_OPEN, _CLOSE = "{{", "}}"
_SPACE = " \t\r\n"
_ANY_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(
    r"""
    (?P<text>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
  | (?P<character>'(?:[^'\\\n]|\\.)+')
  | (?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+
      |(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)(?![\w.]))
  | (?P<field>\.[^\W\d]\w*)
  | (?P<dot>\.(?!\w))
  | (?P<variable>\$\w*)
  | (?P<word>[^\W\d]\w*)
  | (?P<symbol>:=|[=|(),])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """A token of an action, or a text between actions.

    kind    output, text, character, number, field, dot, variable, word, symbol, or the end of an
            action
    spaced  whether space precedes it
    line    the line where it begins, from 1
    """

    kind: str
    text: str
    line: int
    spaced: bool = False


def tokens_of(source: str) -> Iterator[Token]:
    """Yield the tokens of a template: `output` tokens, and those of each action with an `end`.
    Raises TemplateError."""
    return _Lexer(source).tokens()


class _Lexer:
    """The position in a template, and whether space is trimmed there."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._position = 0
        self._trims = False
        self._newlines = [match.start() for match in re.finditer("\n", source)]

    def tokens(self) -> Iterator[Token]:
        while self._position < len(self._source):
            yield from self._output()
            if self._position < len(self._source) and not self._skip_comment():
                yield from self._action()

    def _output(self) -> Iterator[Token]:
        """Yield the text up to the next action, and skip its left delimiter."""
        source, begin = self._source, self._position
        start = source.find(_OPEN, begin)
        text = source[begin:] if start < 0 else source[begin:start]
        if self._trims:
            text = text.lstrip(_SPACE)
        self._position = len(source) if start < 0 else start + len(_OPEN)
        if start >= 0 and self._has_trim_marker():
            text = text.rstrip(_SPACE)
            self._position += 1
        elif start >= 0 and self._position == len(source):
            raise TemplateError(self._problem())
        if text:
            yield Token("output", text, self._line(begin))

    def _has_trim_marker(self) -> bool:
        """Report whether a minus sign and space follow."""
        marker = self._source[self._position : self._position + 2]
        return len(marker) == 2 and marker[0] == "-" and marker[1] in _SPACE

    def _action(self) -> Iterator[Token]:
        """Yield the tokens of an action, and skip its right delimiter."""
        source, line = self._source, self._line(self._position)
        while True:
            begin = self._position
            self._position = position = self._after_space(begin)
            spaced = position > begin
            self._trims = spaced and source.startswith("-" + _CLOSE, position)
            if self._trims or source.startswith(_CLOSE, position):
                self._position += len(_CLOSE) + self._trims
                yield Token("end", "", line)
                return
            match = _TOKEN.match(source, position)
            if match is None:
                raise TemplateError(self._problem())
            yield Token(match.lastgroup or "", match.group(), self._line(position), spaced)
            self._position = match.end()

    def _skip_comment(self) -> bool:
        """Skip a comment if one follows, and report whether one did. Raises TemplateError."""
        source, begin = self._source, self._position
        if source[begin - 1] == "-":
            begin = self._after_space(begin)
        if not source.startswith("/*", begin):
            return False
        end = source.find("*/", begin + 2)
        if end < 0:
            raise TemplateError(f"line {self._line(begin)}: unclosed comment")
        end += 2
        close = self._after_space(end)
        self._trims = close > end and source.startswith("-" + _CLOSE, close)
        if not self._trims and not source.startswith(_CLOSE, end):
            line = self._line(begin)
            raise TemplateError(f"line {line}: comment ends before closing delimiter")
        self._position = close + 1 + len(_CLOSE) if self._trims else end + len(_CLOSE)
        return True

    def _after_space(self, position: int) -> int:
        match = _ANY_SPACE.match(self._source, position)
        return position if match is None else match.end()

    def _problem(self) -> str:
        line, rest = self._line(self._position), self._source[self._position : self._position + 1]
        if not rest:
            return f"line {line}: unclosed action"
        if rest in ('"', "'", "`"):
            return f"line {line}: unterminated quoted string"
        return f"line {line}: unexpected {rest!r} in an action"

    def _line(self, position: int) -> int:
        return bisect_left(self._newlines, position) + 1
