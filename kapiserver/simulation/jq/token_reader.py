"""Reads tokens one after the other, for a parser by recursive descent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kapiserver.simulation.jq.errors import MAX_DEPTH, JqSyntaxError
from kapiserver.simulation.jq.lexer import Token

KEYWORDS = frozenset(
    ("and", "or", "if", "then", "elif", "else", "end", "as", "try", "catch", "def", "reduce",
     "foreach", "import", "include", "label")
)  # fmt: skip


class TokenReader:
    """The tokens that are left, and how deep the expressions around them are nested."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens[::-1]
        self._depth = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return the next token, or one after it. The last token is the end."""
        return self._tokens[max(-1 - ahead, -len(self._tokens))]

    def next(self) -> Token:
        """Skip a token."""
        token = self._tokens[-1]
        if token.kind != "end":
            self._tokens.pop()
        return token

    def kind(self, kind: str) -> Token:
        """Skip a token of a kind that is not a keyword. Raises JqSyntaxError."""
        token = self.next()
        if token.kind != kind or token.text in KEYWORDS:
            raise self.error(token)
        return token

    def follows(self, text: str) -> bool:
        """Report whether a symbol or keyword is next."""
        token = self.peek()
        return token.text == text and token.kind in ("symbol", "word")

    def accept(self, text: str) -> bool:
        """Skip a symbol or keyword if it is next."""
        if not self.follows(text):
            return False
        self.next()
        return True

    def expect(self, text: str) -> None:
        """Skip a symbol or keyword. Raises JqSyntaxError."""
        if not self.accept(text):
            raise self.error(self.peek())

    def expect_end(self) -> None:
        """Raise JqSyntaxError unless no token is left."""
        if self.peek().kind != "end":
            raise self.error(self.peek())

    @contextlib.contextmanager
    def reading(self, tokens: list[Token]) -> Iterator[None]:
        """Read other tokens meanwhile."""
        outside, self._tokens = self._tokens, tokens[::-1]
        yield
        self._tokens = outside

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """Count one more level. Raises JqSyntaxError if there are too many."""
        if self._depth >= MAX_DEPTH:
            raise JqSyntaxError("the expression is nested too deeply")
        self._depth += 1
        yield
        self._depth -= 1

    def error(self, token: Token) -> JqSyntaxError:
        """Return the error that a token is not expected."""
        return JqSyntaxError(f"unexpected {token.text!r} at position {token.position + 1}")
