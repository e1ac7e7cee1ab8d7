"""Splits an expression of jq into tokens; a string with interpolations is one token with parts."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from kapiserver.api.go_format import replace_surrogates
from kapiserver.simulation.jq.errors import MAX_DEPTH, JqSyntaxError

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+|\#[^\n]*)
  | (?P<field>\.[A-Za-z_]\w*)
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<quote>")
  | (?P<format>@[A-Za-z0-9_]+)
  | (?P<variable>\$[A-Za-z_]\w*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<symbol>\?//=|\?//|//=|[|+\-*/%]=|//|==|!=|<=|>=|\.\.|[.\[\]{}()|,:?<>+\-*/%;=])
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_PIECE = re.compile(r'[^"\\]+|\\[^(]|\\\(|"', re.DOTALL)
"""A part of a string: characters, an escape, the begin of an interpolation, or the end."""


class Token(NamedTuple):
    """A piece of the source. Only strings have parts: texts, and the tokens of interpolations."""

    kind: str
    text: str
    position: int
    parts: tuple[str | list[Token], ...] = ()


def tokens(source: str) -> list[Token]:
    """Return the tokens of an expression, and one for its end. Raises JqSyntaxError."""
    return _Lexer(source).tokens(closing=False)


class _Lexer:
    def __init__(self, source: str) -> None:
        self._source = source
        self._position = 0
        self._depth = 0

    def tokens(self, *, closing: bool) -> list[Token]:
        """Return the tokens up to the end, or up to the parenthesis that ends an interpolation."""
        tokens: list[Token] = []
        open_parentheses = 0
        while self._position < len(self._source):
            token = self._next()
            if token.kind == "symbol" and token.text in "()":
                open_parentheses += 1 if token.text == "(" else -1
                if closing and open_parentheses < 0:
                    tokens.append(token._replace(kind="end"))
                    return tokens
            if token.kind != "space":
                tokens.append(token)
        if closing:
            raise JqSyntaxError("unexpected end of the expression in a string")
        tokens.append(Token("end", "end of the expression", len(self._source)))
        return tokens

    def _next(self) -> Token:
        start = self._position
        match = _TOKEN.match(self._source, start)
        if match is None:
            raise _unexpected(self._source[start], start)
        self._position = match.end()
        if match.lastgroup == "quote":
            parts = self._parts()
            text = self._source[start : self._position]
            return Token("string", text, start, parts)
        return Token(match.lastgroup or "", match.group(), start)

    def _parts(self) -> tuple[str | list[Token], ...]:
        """Read a string behind its quote."""
        parts: list[str | list[Token]] = []
        start = self._position - 1
        text = ""
        while True:
            piece = _PIECE.match(self._source, self._position)
            if piece is None:
                raise _unexpected(self._source[start], start)
            self._position = piece.end()
            if piece.group() not in ('"', "\\("):
                text += piece.group()
                continue
            parts.append(_unescaped(text, start))
            text = ""
            if piece.group() == '"':
                return tuple(parts)
            parts.append(self._interpolation())

    def _interpolation(self) -> list[Token]:
        if self._depth >= MAX_DEPTH:
            raise JqSyntaxError("the expression is nested too deeply")
        self._depth += 1
        inner = self.tokens(closing=True)
        self._depth -= 1
        return inner


def _unescaped(text: str, position: int) -> str:
    """Return what the escapes of a string stand for. Characters below U+0020 may stand in it."""
    try:
        return replace_surrogates(json.loads(f'"{text}"', strict=False))
    except json.JSONDecodeError:
        raise _unexpected(f'"{text}"', position) from None


def _unexpected(text: str, position: int) -> JqSyntaxError:
    return JqSyntaxError(f"unexpected {text!r} at position {position + 1}")
