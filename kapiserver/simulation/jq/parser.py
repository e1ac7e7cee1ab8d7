"""Parses an expression of jq to its filter.

pipe        sequence | term as $name "|" pipe
sequence    alternative ("," alternative)*
alternative or ("//" alternative)?
or, and, comparison, sum, product     by the precedence of their operators
term        a value or a path, with any number of suffixes
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

from kapiserver.simulation.jq import filters
from kapiserver.simulation.jq.errors import MAX_DEPTH, MAX_SOURCE, JqSyntaxError
from kapiserver.simulation.jq.filters import COMPARISONS, Filter, constant, identity
from kapiserver.simulation.jq.functions import FUNCTIONS
from kapiserver.simulation.jq.values import ARITHMETIC

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+|\#[^\n]*)
  | (?P<field>\.[A-Za-z_]\w*)
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<variable>\$[A-Za-z_]\w*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<symbol>//|==|!=|<=|>=|\.\.|[.\[\]{}()|,:?<>+\-*/%;])
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_KEYWORDS = frozenset(
    ("and", "or", "if", "then", "elif", "else", "end", "as", "try", "catch", "def", "reduce",
     "foreach", "import", "include", "label")
)  # fmt: skip
_CONSTANTS = {"null": None, "true": True, "false": False}


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse(source: str) -> Filter:
    """Return the filter of an expression. Raises JqSyntaxError."""
    if len(source) > MAX_SOURCE:
        raise JqSyntaxError(f"the expression is longer than {MAX_SOURCE} characters")
    parser = _Parser(source)
    result = parser.pipe()
    parser.expect_end()
    return result


def _tokens(source: str) -> list[_Token]:
    tokens, position = [], 0
    while position < len(source):
        found = _TOKEN.match(source, position)
        if found is None:
            raise JqSyntaxError(f"unexpected {source[position]!r} at position {position + 1}")
        if found.lastgroup != "space":
            tokens.append(_Token(found.lastgroup or "", found.group(), position))
        position = found.end()
    tokens.append(_Token("end", "end of the expression", len(source)))
    return tokens


class _Parser:
    """The tokens that are left, and the variables that are bound where they stand."""

    def __init__(self, source: str) -> None:
        self._tokens = _tokens(source)[::-1]
        self._variables: list[str] = []
        self._depth = 0

    # Operators, from the weakest to the strongest.

    def pipe(self) -> Filter:
        """Parse an expression with pipes."""
        with self._nested():
            left = self._sequence()
            if self._accept("as"):
                return self._binding(left)
            stages = [left]
            while self._accept("|"):
                with self._nested():
                    right = self._sequence()
                    if self._accept("as"):
                        stages.append(self._binding(right))
                        break
                    stages.append(right)
        result = stages[0]
        for stage in stages[1:]:
            result = filters.pipe(result, stage)
        return result

    def _binding(self, source: Filter) -> Filter:
        token = self._next()
        if token.kind != "variable":
            raise self._error(token)
        self._expect("|")
        self._variables.append(token.text)
        body = self.pipe()
        self._variables.pop()
        return filters.bind(source, token.text, body)

    def _sequence(self) -> Filter:
        result = self._alternative()
        while self._accept(","):
            result = filters.comma(result, self._alternative())
        return result

    def _alternative(self) -> Filter:
        operands = [self._or()]
        while self._accept("//"):
            operands.append(self._or())
        result = operands.pop()
        while operands:
            result = filters.alternative(operands.pop(), result)
        return result

    def _or(self) -> Filter:
        result = self._and()
        while self._accept("or"):
            result = filters.logic(result, self._and(), decisive=True)
        return result

    def _and(self) -> Filter:
        result = self._comparison()
        while self._accept("and"):
            result = filters.logic(result, self._comparison(), decisive=False)
        return result

    def _comparison(self) -> Filter:
        left = self._sum()
        operate = COMPARISONS.get(self._peek().text) if self._peek().kind == "symbol" else None
        if operate is None:
            return left
        self._next()
        return filters.combine(left, self._sum(), operate)

    def _sum(self) -> Filter:
        return self._arithmetic(self._product, "+-")

    def _product(self) -> Filter:
        return self._arithmetic(self._postfix, "*/%")

    def _arithmetic(self, operand: Callable[[], Filter], operators: str) -> Filter:
        result = operand()
        while self._peek().kind == "symbol" and self._peek().text in operators:
            operate = ARITHMETIC[self._next().text]
            result = filters.combine(result, operand(), operate)
        return result

    # Terms.

    def _postfix(self) -> Filter:
        with self._nested():
            if self._accept("-"):
                return filters.combine(constant(0), self._postfix(), ARITHMETIC["-"])
            result = self._term()
            while True:
                suffixed = self._suffix(result)
                if suffixed is None:
                    return result
                result = suffixed

    def _suffix(self, inner: Filter) -> Filter | None:
        """Parse a suffix of a term, such as `.a`, `[0]` or `?`; None if none follows."""
        token = self._peek()
        if token.kind == "field":
            return filters.pipe(inner, self._fields())
        if self._accept("["):
            return self._bracket(inner)
        if self._accept("?"):
            return filters.attempt(inner)
        if token.text == "." and token.kind == "symbol":
            self._next()
            if self._accept("["):
                return self._bracket(inner)
            if self._peek().kind == "string":
                return filters.index(inner, self._string())
            raise self._error(self._peek())
        return None

    def _fields(self) -> Filter:
        names = []
        while self._peek().kind == "field":
            names.append(self._next().text[1:])
        return filters.fields(tuple(names))

    def _bracket(self, inner: Filter) -> Filter:
        """Parse what follows a left bracket after a term."""
        if self._accept("]"):
            return filters.iterate(inner)
        start = constant(None) if self._is(":") else self.pipe()
        if self._accept(":"):
            end = constant(None) if self._is("]") else self.pipe()
            self._expect("]")
            return filters.part(inner, start, end)
        self._expect("]")
        return filters.index(inner, start)

    def _term(self) -> Filter:
        token = self._peek()
        match token.kind:
            case "field":
                return self._fields()
            case "number":
                return constant(orjson.loads(_json_number(self._next())))
            case "string":
                return self._string()
            case "variable":
                return self._variable()
            case "word":
                return self._word()
            case "symbol":
                return self._symbol()
        raise self._error(token)

    def _symbol(self) -> Filter:
        token = self._next()
        match token.text:
            case ".":
                if self._peek().kind == "string":
                    return filters.index(identity, self._string())
                return identity
            case "..":
                return filters.descend
            case "(":
                return self._closed(")")
            case "[":
                return constant([]) if self._accept("]") else filters.array(self._closed("]"))
            case "{":
                return self._object()
        raise self._error(token)

    def _closed(self, end: str) -> Filter:
        result = self.pipe()
        self._expect(end)
        return result

    def _variable(self) -> Filter:
        token = self._next()
        if token.text not in self._variables:
            raise JqSyntaxError(f"variable not defined: {token.text}")
        return filters.variable(token.text)

    def _string(self) -> Filter:
        token = self._next()
        if "\\(" in token.text:
            raise JqSyntaxError("interpolation in strings is not supported")
        try:
            return constant(orjson.loads(token.text))
        except orjson.JSONDecodeError:
            raise self._error(token) from None

    def _word(self) -> Filter:
        token = self._next()
        if token.text in _CONSTANTS:
            return constant(_CONSTANTS[token.text])
        if token.text == "if":
            return self._condition()
        if token.text == "try":
            body = self._postfix()
            handler = self._postfix() if self._accept("catch") else None
            return filters.attempt(body, handler)
        if token.text in _KEYWORDS:
            raise self._error(token)
        return self._call(token.text)

    def _call(self, name: str) -> Filter:
        arguments = []
        if self._accept("("):
            arguments.append(self.pipe())
            while self._accept(";"):
                arguments.append(self.pipe())
            self._expect(")")
        make = FUNCTIONS.get((name, len(arguments)))
        if make is None:
            raise JqSyntaxError(f"function not defined: {name}/{len(arguments)}")
        return make(*arguments)

    def _condition(self) -> Filter:
        with self._nested():
            test = self.pipe()
            self._expect("then")
            then = self.pipe()
            otherwise: Filter = identity
            if self._accept("elif"):
                return filters.condition(test, then, self._condition())
            if self._accept("else"):
                otherwise = self.pipe()
            self._expect("end")
        return filters.condition(test, then, otherwise)

    def _object(self) -> Filter:
        members = []
        while not self._is("}"):
            members.append(self._member())
            if not self._accept(","):
                break
        self._expect("}")
        return filters.construct(members)

    def _member(self) -> tuple[Filter, Filter]:
        token = self._peek()
        if token.kind == "variable":
            return constant(token.text[1:]), self._variable()
        if token.kind == "word":
            name = constant(self._next().text)
        elif token.kind == "string":
            name = self._string()
        else:
            self._expect("(")
            name = self._closed(")")
        if self._accept(":"):
            return name, self._alternative()
        return name, filters.index(identity, name)

    # Tokens.

    def _peek(self) -> _Token:
        return self._tokens[-1]

    def _next(self) -> _Token:
        token = self._tokens[-1]
        if token.kind != "end":
            self._tokens.pop()
        return token

    def _is(self, text: str) -> bool:
        token = self._tokens[-1]
        return token.text == text and token.kind in ("symbol", "word")

    def _accept(self, text: str) -> bool:
        """Go behind a symbol or keyword if it follows."""
        if not self._is(text):
            return False
        self._next()
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._error(self._peek())

    def expect_end(self) -> None:
        """Raise JqSyntaxError unless the expression is at its end."""
        if self._peek().kind != "end":
            raise self._error(self._peek())

    @contextlib.contextmanager
    def _nested(self) -> Iterator[None]:
        if self._depth >= MAX_DEPTH:
            raise JqSyntaxError("the expression is nested too deeply")
        self._depth += 1
        yield
        self._depth -= 1

    def _error(self, token: _Token) -> JqSyntaxError:
        return JqSyntaxError(f"unexpected {token.text!r} at position {token.position + 1}")


def _json_number(token: _Token) -> Any:
    text = token.text
    if len(text) > 30:
        raise JqSyntaxError("a number is too long")
    number = float(text)
    return str(int(number)) if number == int(number) else repr(number)
