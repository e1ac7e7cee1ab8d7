"""Parses a template to its syntax tree. Mirrors text/template/parse/parse.go."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence

from kapiserver.simulation.templates.errors import MAX_DEPTH, MAX_SOURCE, TemplateError
from kapiserver.simulation.templates.lexer import Token, tokens_of
from kapiserver.simulation.templates.syntax import (
    Action,
    Branch,
    Call,
    Command,
    Dot,
    Fields,
    Invocation,
    Jump,
    Literal,
    Node,
    Operand,
    Pipeline,
    Text,
    Variable,
)

MAIN = ""
"""The name of the template itself, besides those that it defines."""

_EOF = Token("eof", "", 0)
_OPERANDS = frozenset(("text", "character", "number", "dot", "field", "variable", "word"))
_CONSTANTS = {"true": True, "false": False, "nil": None}
_KEYWORDS = frozenset(
    ("if", "else", "end", "range", "with", "define", "template", "block", "break", "continue")
)


def parse(source: str, functions: Collection[str]) -> dict[str, tuple[Node, ...]]:
    """Return the nodes of a template by name: its own under MAIN, and those of each `define` and
    `block`. Raises TemplateError."""
    if len(source) > MAX_SOURCE:
        raise TemplateError(f"the template is longer than {MAX_SOURCE} characters")
    parser = _Parser(tokens_of(source), functions)
    parser.templates[MAIN] = parser.main()
    return parser.templates


class _Parser:
    """The tokens that are left, and the variables that are declared where they stand."""

    def __init__(self, tokens: Iterator[Token], functions: Collection[str]) -> None:
        self._tokens = tokens
        self._functions = functions
        self._token = next(tokens, _EOF)
        self._variables = ["$"]
        self._depth = 0
        self._loops = 0
        self.templates: dict[str, tuple[Node, ...]] = {}

    # Nodes.

    def main(self) -> tuple[Node, ...]:
        nodes, word = self._nodes()
        if word:
            raise self._error(f"unexpected {{{{{word}}}}}")
        return nodes

    def _nodes(self) -> tuple[tuple[Node, ...], str]:
        """Return nodes, and the keyword that ends them: `end`, `else`, or "" at the end of the
        template. What follows the keyword is left."""
        nodes: list[Node] = []
        while self._token is not _EOF:
            if self._token.kind == "output":
                nodes.append(Text(self._next().text))
                continue
            word = self._token.text if self._token.kind == "word" else ""
            if word in ("end", "else"):
                self._next()
                return tuple(nodes), word
            nodes.extend(self._action(word))
        return tuple(nodes), ""

    def _action(self, word: str) -> Sequence[Node]:
        if word not in _KEYWORDS:
            pipeline = self._pipeline("end")
            return [Action(pipeline)]
        self._next()
        match word:
            case "if" | "with" | "range":
                return [self._branch(word)]
            case "template":
                return [self._invocation(self._name())]
            case "break" | "continue":
                return [self._jump(word)]
            case "define" | "block":
                return self._definition(word)
        raise AssertionError("unreachable")

    def _branch(self, word: str) -> Branch:
        """Parse what follows `if`, `with` or `range`, up to its `end`."""
        count, is_loop = len(self._variables), word == "range"
        pipeline = self._pipeline("end", is_loop=is_loop)
        self._loops += is_loop
        body, end = self._block()
        self._loops -= is_loop
        otherwise: tuple[Node, ...] = ()
        if end == "else" and not is_loop and self._is_word(word):
            self._next()  # {{else if}} and {{else with}} have the end of the outer one
            with self._nested():
                otherwise = (self._branch(word),)
        elif end == "else":
            self._expect("end", "in else clause")
            otherwise, end = self._block()
            if end != "end":
                raise self._error("expected end; found {{else}}")
            self._expect("end", "in end clause")
        else:
            self._expect("end", "in end clause")
        del self._variables[count:]
        return Branch(word, pipeline, body, otherwise)

    def _block(self) -> tuple[tuple[Node, ...], str]:
        """Parse nodes up to `end` or `else`."""
        with self._nested():
            nodes, word = self._nodes()
        if not word:
            raise self._error("unexpected EOF")
        return nodes, word

    def _invocation(self, name: str) -> Invocation:
        if self._token.kind == "end":
            self._next()
            return Invocation(name, None)
        return Invocation(name, self._pipeline("end"))

    def _jump(self, word: str) -> Jump:
        if not self._loops:
            raise self._error(f"{{{{{word}}}}} outside {{{{range}}}}")
        self._expect("end", f"in {word}")
        return Jump(word)

    def _definition(self, word: str) -> Sequence[Node]:
        """Parse `define`, or `block`, which also invokes what it defines."""
        name, invoked = self._name(), []
        if word == "define":
            if self._depth:
                raise self._error("unexpected {{define}}")
            self._expect("end", "in define clause")
        else:
            invoked = [self._invocation(name)]
        outer, self._variables = self._variables, ["$"]
        loops, self._loops = self._loops, 0
        nodes, end = self._block()
        if end != "end":
            raise self._error(f"unexpected {{{{else}}}} in {word} clause")
        self._expect("end", "in end clause")
        self._variables, self._loops = outer, loops
        self.templates[name] = nodes
        return invoked

    def _name(self) -> str:
        if self._token.kind != "text":
            raise self._error(f"unexpected {self._token.text!r} instead of a name of a template")
        return unquote(self._next())

    # Pipelines.

    def _pipeline(self, end: str, *, is_loop: bool = False) -> Pipeline:
        """Parse commands up to the end of the action, or up to a right parenthesis."""
        with self._nested():
            variables, is_assigned = self._declaration(is_loop)
            commands = [self._command()]
            while self._is_symbol("|"):
                self._next()
                commands.append(self._command())
            for command in commands[1:]:
                if not isinstance(command.operands[0], Call | Fields | Variable):
                    raise self._error("non executable command in pipeline")
        self._expect(end, "in a pipeline")
        return Pipeline(tuple(commands), variables, is_assigned)

    def _declaration(self, is_loop: bool) -> tuple[tuple[str, ...], bool]:
        """Parse variables and the sign that sets them. Without a sign, the variable is left."""
        if self._token.kind != "variable":
            return (), False
        token = self._next()
        if self._is_symbol("="):
            self._check_variable(token)
            self._next()
            return (token.text,), True
        names = [token.text]
        if is_loop and self._is_symbol(","):
            self._next()
            if self._token.kind != "variable":
                raise self._error("range can only initialize variables")
            names.append(self._next().text)
            if self._is_symbol("="):
                self._next()
                return tuple(names), True
        if self._is_symbol(":="):
            self._next()
            self._variables.extend(names)
            return tuple(names), False
        if len(names) > 1:
            raise self._error("missing := in range")
        self._pushed = token
        return (), False

    def _command(self) -> Command:
        operands: list[Operand] = []
        while self._pushed is not None or self._token.kind in _OPERANDS or self._is_symbol("("):
            if operands and not self._token.spaced:
                raise self._error(f"unexpected {self._token.text!r} after an operand")
            operands.append(self._operand())
        if not operands:
            raise self._error("missing value for command")
        if isinstance(operands[0], Literal) and (len(operands) > 1 or operands[0].value is None):
            raise self._error(
                "nil is not a command"
                if operands[0].value is None
                else "can't give argument to non-function"
            )
        return Command(tuple(operands))

    def _operand(self) -> Operand:
        operand = self._term()
        names = []
        if isinstance(operand, Fields):
            names, operand = list(operand.names), operand.operand
        while self._token.kind == "field" and not self._token.spaced:
            names.append(self._next().text[1:])
        if not names:
            return operand
        if isinstance(operand, Literal | Call):
            raise self._error(f"unexpected .{names[0]} after an operand")
        return Fields(operand, tuple(names))

    def _term(self) -> Operand:
        token, self._pushed = self._pushed or self._next(), None
        match token.kind:
            case "text":
                return Literal(unquote(token))
            case "character":
                return Literal(_character(token))
            case "number":
                return Literal(_number(token))
            case "dot":
                return Dot()
            case "field":
                return Fields(Dot(), (token.text[1:],))
            case "variable":
                self._check_variable(token)
                return Variable(token.text)
            case "word":
                return self._word(token)
        return self._pipeline(")")

    def _word(self, token: Token) -> Operand:
        if token.text in _CONSTANTS:
            return Literal(_CONSTANTS[token.text])
        if token.text in _KEYWORDS:
            raise self._error(f"unexpected {token.text!r} in operand", token)
        if token.text not in self._functions:
            raise self._error(f'function "{token.text}" not defined', token)
        return Call(token.text)

    def _check_variable(self, token: Token) -> None:
        if token.text not in self._variables:
            raise self._error(f'undefined variable "{token.text}"', token)

    # Tokens.

    _pushed: Token | None = None
    """A variable that is read already, and begins a command."""

    def _next(self) -> Token:
        token, self._token = self._token, next(self._tokens, _EOF)
        return token

    def _is_symbol(self, text: str) -> bool:
        return self._token.kind == "symbol" and self._token.text == text

    def _is_word(self, text: str) -> bool:
        return self._token.kind == "word" and self._token.text == text

    def _expect(self, end: str, where: str) -> None:
        """Skip the end of an action, or a symbol."""
        if self._token.kind != end and not self._is_symbol(end):
            raise self._error(f"unexpected {self._token.text!r} {where}")
        self._next()

    @contextlib.contextmanager
    def _nested(self) -> Iterator[None]:
        if self._depth >= MAX_DEPTH:
            raise self._error("the template is nested too deeply")
        self._depth += 1
        yield
        self._depth -= 1

    def _error(self, message: str, token: Token | None = None) -> TemplateError:
        line = (token or self._token).line
        return TemplateError(f"line {line}: {message}" if line else message)


def unquote(token: Token) -> str:
    """Return the text of a quoted or raw string. Raises TemplateError."""
    if token.text[0] == "`":
        return token.text[1:-1].replace("\r", "")
    return _ESCAPE.sub(lambda match: _unescaped(match, token), token.text[1:-1])


def _unescaped(match: re.Match[str], token: Token) -> str:
    text = match.group(1)
    if text in _ESCAPES:
        return _ESCAPES[text]
    code = int(text, 8) if text[0] in "01234567" and len(text) == 3 else -1
    if text[0] in "xuU" and len(text) > 1:
        code = int(text[1:], 16)
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code < 0xE000:
        raise TemplateError(f"line {token.line}: invalid escape in a string: \\{text}")
    return chr(code)


def _character(token: Token) -> int:
    text = unquote(token)
    if len(text) != 1:
        raise TemplateError(f"line {token.line}: malformed character constant: {token.text}")
    return ord(text)


def _number(token: Token) -> int | float:
    """Return the value of a number. Raises TemplateError."""
    text = token.text
    if len(text) > _MAX_DIGITS:
        raise TemplateError(f"line {token.line}: a number is too long")
    try:
        value = int(text, 8 if _OCTAL.fullmatch(text) else 0)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise TemplateError(f"line {token.line}: bad number syntax: {text!r}") from None
    if not -(1 << 63) <= value < 1 << 63:
        raise TemplateError(f"line {token.line}: integer overflow: {text}")
    return value


_ESCAPE = re.compile(r"\\([0-7]{3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", '"': '"', "'": "'",
}  # fmt: skip
_OCTAL = re.compile(r"[+-]?0[0-7_]+")
_MAX_DIGITS = 100
