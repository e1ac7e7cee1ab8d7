"""Parses an expression of jq to its filter.

pipe        definition* (sequence | term as PATTERNS "|" pipe | label $name "|" pipe)
sequence    alternative ("," alternative)*
alternative assignment, "//", or, and, comparison, sum, product     by the precedence of operators
term        a value, a path, a call or a fold, with any number of suffixes

Names of variables and parameters are unique in the compiled expression: one that is bound again
gets another number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kapiserver.simulation.jq import control, filters
from kapiserver.simulation.jq.assignments import ASSIGNMENTS
from kapiserver.simulation.jq.control import Definition, Pattern
from kapiserver.simulation.jq.errors import MAX_SOURCE, JqSyntaxError
from kapiserver.simulation.jq.filters import COMPARISONS, Filter, constant, identity
from kapiserver.simulation.jq.formats import FORMATS, interpolation
from kapiserver.simulation.jq.functions import FUNCTIONS
from kapiserver.simulation.jq.lexer import Token, tokens
from kapiserver.simulation.jq.names import Functions, Names, Parameter
from kapiserver.simulation.jq.token_reader import KEYWORDS, TokenReader
from kapiserver.simulation.jq.values import ARITHMETIC

_MAX_NUMBER = 1.7976931348623157e308
_MAX_WHOLE = 1e17
_CONSTANTS = {"null": None, "true": True, "false": False}


def parse(source: str, functions: Functions) -> Filter:
    """Return the filter of an expression, which may call functions. Raises JqSyntaxError."""
    parser = _Parser(_limited(source), functions)
    result = parser.pipe()
    parser.expect_end()
    return result


def parse_definitions(source: str) -> Functions:
    """Return the functions that a source defines. Each may call those before it."""
    parser = _Parser(tokens(source), {})
    while parser.definition():
        pass
    parser.expect_end()
    return {
        key: function
        for key, function in parser.names.functions.items()
        if isinstance(function, Definition)
    }


def _limited(source: str) -> list[Token]:
    if len(source) > MAX_SOURCE:
        raise JqSyntaxError(f"the expression is longer than {MAX_SOURCE} characters")
    return tokens(source)


class _Parser(TokenReader):
    """The tokens that are left, and the names that are known where they stand."""

    def __init__(self, tokens: list[Token], functions: Functions) -> None:
        super().__init__(tokens)
        self.names = Names(functions)

    # Operators, from the weakest to the strongest.

    def pipe(self) -> Filter:
        """Parse an expression with pipes, and the definitions before it."""
        with self.nested():
            if self.follows("def"):
                with self.names.block():
                    while self.definition():
                        pass
                    return self.pipe()
            stages = [self._stage()]
            while self.accept("|"):
                with self.nested():
                    if self.follows("def"):
                        stages.append(self.pipe())
                        break
                    stages.append(self._stage())
        result = stages.pop()
        while stages:
            result = filters.pipe(stages.pop(), result)
        return result

    def _stage(self) -> Filter:
        if self.accept("label"):
            return self._label()
        return self._sequence()

    def definition(self) -> bool:
        """Parse a definition of a function if one follows."""
        if not self.accept("def"):
            return False
        name = self.kind("word").text
        names: list[str] = []
        if self.accept("("):
            names.append(self._parameter())
            while self.accept(";"):
                names.append(self._parameter())
            self.expect(")")
        self.expect(":")
        definition = Definition(
            parameters=[(self.names.unique(name), None) for name in names],
        )
        self.names.functions[name, len(names)] = definition
        with self.names.block():
            definition.parameters = [
                self.names.bind_parameter(name, unique)
                for name, (unique, _) in zip(names, definition.parameters, strict=True)
            ]
            definition.body = self.pipe()
        self.expect(";")
        return True

    def _parameter(self) -> str:
        token = self.next()
        if token.kind not in ("word", "variable") or token.text in KEYWORDS:
            raise self.error(token)
        return token.text

    def _label(self) -> Filter:
        name = self.kind("variable").text
        self.expect("|")
        with self.names.block():
            self.names.labels[name] = unique = self.names.unique(f"label {name}")
            return control.label(unique, self.pipe())

    def _binding(self, source: Filter) -> Filter:
        """Parse what follows `as`."""
        with self.names.block():
            bound: dict[str, str] = {}
            patterns = [self._pattern(bound)]
            while self.accept("?//"):
                patterns.append(self._pattern(bound))
            self.expect("|")
            return control.bind(source, patterns, self.pipe())

    def _sequence(self) -> Filter:
        result = self._assignment()
        while self.accept(","):
            result = filters.comma(result, self._assignment())
        return result

    def _assignment(self) -> Filter:
        result = self._alternative()
        operate = ASSIGNMENTS.get(self.peek().text) if self.peek().kind == "symbol" else None
        if operate is None:
            return result
        self.next()
        return operate(result, self._alternative())

    def _alternative(self) -> Filter:
        operands = [self._or()]
        while self.accept("//"):
            operands.append(self._or())
        result = operands.pop()
        while operands:
            result = filters.alternative(operands.pop(), result)
        return result

    def _or(self) -> Filter:
        result = self._and()
        while self.accept("or"):
            result = filters.logic(result, self._and(), decisive=True)
        return result

    def _and(self) -> Filter:
        result = self._comparison()
        while self.accept("and"):
            result = filters.logic(result, self._comparison(), decisive=False)
        return result

    def _comparison(self) -> Filter:
        left = self._sum()
        operate = COMPARISONS.get(self.peek().text) if self.peek().kind == "symbol" else None
        if operate is None:
            return left
        self.next()
        return filters.combine(left, self._sum(), operate)

    def _sum(self) -> Filter:
        return self._arithmetic(self._product, "+-")

    def _product(self) -> Filter:
        return self._arithmetic(self._postfix, "*/%")

    def _arithmetic(self, operand: Callable[[], Filter], operators: str) -> Filter:
        result = operand()
        while self.peek().kind == "symbol" and self.peek().text in operators:
            operate = ARITHMETIC[self.next().text]
            result = filters.combine(result, operand(), operate)
        return result

    # Terms.

    def _postfix(self) -> Filter:
        with self.nested():
            if self.accept("-"):
                return filters.combine(constant(0), self._postfix(), ARITHMETIC["-"])
            if self.follows("def"):
                return self.pipe()
            term = self._suffixed_term()
            return self._binding(term) if self.accept("as") else term

    def _suffixed_term(self) -> Filter:
        with self.nested():
            result = self._term()
            while True:
                suffixed = self._suffix(result)
                if suffixed is None:
                    return result
                result = suffixed

    def _suffix(self, inner: Filter) -> Filter | None:
        """Parse a suffix of a term, such as `.a`, `[0]` or `?`; None if none follows."""
        token = self.peek()
        if token.kind == "field":
            return self._attempted(inner, self._fields())
        if self.accept("["):
            return self._bracket(inner)
        if self.accept("?"):
            return filters.attempt(inner)
        if token.text == "." and token.kind == "symbol":
            self.next()
            if self.accept("["):
                return self._bracket(inner)
            if self.peek().kind == "string":
                return filters.index(inner, self._string())
            raise self.error(self.peek())
        return None

    def _attempted(self, inner: Filter, suffix: Filter) -> Filter:
        """Add a suffix. If `?` follows, that is only about errors of the suffix."""
        return filters.pipe(inner, filters.attempt(suffix) if self.accept("?") else suffix)

    def _fields(self) -> Filter:
        """Parse fields up to the last one, or the one before it if `?` follows the last one."""
        names = [self.next().text[1:]]
        while self.peek().kind == "field" and self.peek(1).text != "?":
            names.append(self.next().text[1:])
        return filters.fields(tuple(names))

    def _bracket(self, inner: Filter) -> Filter:
        """Parse what follows a left bracket after a term."""
        if self.accept("]"):
            return self._attempted(inner, filters.elements)
        start = constant(None) if self.follows(":") else self.pipe()
        if self.accept(":"):
            end = constant(None) if self.follows("]") else self.pipe()
            self.expect("]")
            return filters.part(inner, start, end)
        self.expect("]")
        return filters.index(inner, start)

    def _term(self) -> Filter:
        token = self.peek()
        match token.kind:
            case "field":
                return self._fields()
            case "number":
                return constant(_number(self.next()))
            case "string":
                return self._string()
            case "format":
                return self._format()
            case "variable":
                return self._variable()
            case "word":
                return self._word()
            case "symbol":
                return self._symbol()
        raise self.error(token)

    def _symbol(self) -> Filter:
        token = self.next()
        match token.text:
            case ".":
                if self.peek().kind == "string":
                    return filters.index(identity, self._string())
                if self.accept("["):
                    return self._bracket(identity)
                return identity
            case "..":
                return self._call_of("recurse", [])
            case "(":
                return self._closed(")")
            case "[":
                return constant([]) if self.accept("]") else filters.array(self._closed("]"))
            case "{":
                return self._object()
        raise self.error(token)

    def _closed(self, end: str) -> Filter:
        result = self.pipe()
        self.expect(end)
        return result

    def _variable(self) -> Filter:
        token = self.next()
        if token.text == "$ENV":
            return constant({})
        if token.text not in self.names.variables:
            raise JqSyntaxError(f"variable not defined: {token.text}")
        return filters.variable(self.names.variables[token.text])

    def _format(self) -> Filter:
        token = self.next()
        if token.text not in FORMATS:
            raise JqSyntaxError(f"format not defined: {token.text}")
        if self.peek().kind == "string":
            return self._string(token.text)
        return filters.computed(FORMATS[token.text])

    def _string(self, form: str = "@text") -> Filter:
        """Parse a string, whose interpolations are written in a format."""
        parts: list[str | Filter] = [
            part if isinstance(part, str) else self._inner(part) for part in self.next().parts
        ]
        if len(parts) == 1 and isinstance(parts[0], str):
            return constant(parts[0])
        return interpolation(parts, FORMATS[form])

    def _inner(self, tokens: list[Token]) -> Filter:
        """Parse the tokens of an interpolation."""
        with self.reading(tokens):
            result = self.pipe()
            self.expect_end()
        return result

    def _word(self) -> Filter:
        token = self.next()
        match token.text:
            case "null" | "true" | "false":
                return constant(_CONSTANTS[token.text])
            case "if":
                return self._condition()
            case "try":
                body = self._suffixed_term()
                handler = self._suffixed_term() if self.accept("catch") else None
                return filters.attempt(body, handler)
            case "reduce":
                return self._reduce()
            case "foreach":
                return self._foreach()
            case "break":
                name = self.kind("variable").text
                if name not in self.names.labels:
                    raise JqSyntaxError(f"label not defined: {name}")
                return control.leave(self.names.labels[name])
        if token.text in KEYWORDS:
            raise self.error(token)
        return self._call(token.text)

    def _call(self, name: str) -> Filter:
        arguments = []
        if self.accept("("):
            arguments.append(self.pipe())
            while self.accept(";"):
                arguments.append(self.pipe())
            self.expect(")")
        return self._call_of(name, arguments)

    def _call_of(self, name: str, arguments: list[Filter]) -> Filter:
        key = (name, len(arguments))
        function = self.names.functions.get(key)
        if isinstance(function, Parameter):
            return control.call_closure(function.name)
        if function is not None:
            return control.call(function, arguments)
        if key not in FUNCTIONS:
            raise JqSyntaxError(f"function not defined: {name}/{len(arguments)}")
        return FUNCTIONS[key](*arguments)

    def _reduce(self) -> Filter:
        source, (pattern, init, update) = self._fold(2)
        return control.reduce(source, pattern, init, update)

    def _foreach(self) -> Filter:
        source, (pattern, init, update, *extract) = self._fold(3)
        return control.foreach(source, pattern, init, update, *(extract or [identity]))

    def _fold(self, most: int) -> tuple[Filter, Any]:
        """Parse the source, the pattern and the two or three expressions of a fold."""
        source = self._suffixed_term()
        self.expect("as")
        with self.names.block():
            outside = dict(self.names.variables)
            pattern = self._pattern({})
            inside, self.names.variables = self.names.variables, outside
            self.expect("(")
            bodies = [self.pipe()]
            self.names.variables = inside
            while len(bodies) < 2 or (len(bodies) < most and self.follows(";")):
                self.expect(";")
                bodies.append(self.pipe())
            self.expect(")")
        return source, (pattern, *bodies)

    def _condition(self) -> Filter:
        with self.nested():
            test = self.pipe()
            self.expect("then")
            then = self.pipe()
            otherwise: Filter = identity
            if self.accept("elif"):
                return filters.condition(test, then, self._condition())
            if self.accept("else"):
                otherwise = self.pipe()
            self.expect("end")
        return filters.condition(test, then, otherwise)

    # Objects and patterns.

    def _object(self) -> Filter:
        members = []
        while not self.follows("}"):
            members.append(self._member())
            if not self.accept(","):
                break
        self.expect("}")
        return filters.construct(members)

    def _member(self) -> tuple[Filter, Filter]:
        token = self.peek()
        if token.kind == "variable":
            return constant(token.text[1:]), self._variable()
        name = self._key()
        if self.accept(":"):
            return name, self._member_value()
        return name, filters.index(identity, name)

    def _member_value(self) -> Filter:
        """Parse terms with pipes between them."""
        with self.nested():
            result = self._alternative()
            while self.accept("|"):
                result = filters.pipe(result, self._alternative())
            return result

    def _key(self) -> Filter:
        token = self.peek()
        if token.kind == "word":
            return constant(self.next().text)
        if token.kind == "string":
            return self._string()
        self.expect("(")
        return self._closed(")")

    def _pattern(self, bound: dict[str, str]) -> Pattern:
        """Parse a pattern, and bind its variables."""
        with self.nested():
            if self.peek().kind == "variable":
                return Pattern(variable=self.names.bind(self.next().text, bound))
            if self.accept("["):
                return self._array_pattern(bound)
            self.expect("{")
            parts = [self._member_pattern(bound)]
            while self.accept(","):
                parts.append(self._member_pattern(bound))
            self.expect("}")
            return Pattern(parts=parts, kind="object")

    def _array_pattern(self, bound: dict[str, str]) -> Pattern:
        parts = [(constant(0), self._pattern(bound))]
        while self.accept(","):
            parts.append((constant(len(parts)), self._pattern(bound)))
        self.expect("]")
        return Pattern(parts=parts, kind="array")

    def _member_pattern(self, bound: dict[str, str]) -> tuple[Filter, Pattern]:
        if self.peek().kind == "variable":
            text = self.next().text
            pattern = Pattern(variable=self.names.bind(text, bound))
            if self.accept(":"):
                inner = self._pattern(bound)
                pattern = Pattern(pattern.variable, inner.parts, inner.kind)
            return constant(text[1:]), pattern
        key = self._key()
        self.expect(":")
        return key, self._pattern(bound)


def _number(token: Token) -> int | float:
    """Return a number; one that is too large becomes the largest one."""
    if len(token.text) > 30:
        raise JqSyntaxError("a number is too long")
    if token.text.isdigit():
        return int(token.text)
    number = min(float(token.text), _MAX_NUMBER)
    return int(number) if number == int(number) and number <= _MAX_WHOLE else number
