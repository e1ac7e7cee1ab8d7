"""The parser of CEL: precedence climbing; macros become nodes of their own.

Mirrors the grammar of cel-spec and the parser of github.com/google/cel-go with its error messages.
"""

from __future__ import annotations

from typing import TypeVar

from kapiserver.api.cel.lexer import RESERVED, TOKENS, Token, tokenize
from kapiserver.api.cel.syntax import (
    Bind,
    Call,
    CelSyntaxError,
    Ident,
    ListNode,
    Literal,
    Loop,
    MapNode,
    Node,
    Select,
    Struct,
    qualified_name,
)

_MAX_NESTING = 80
"""The maximum nesting of brackets and conditions; each level takes some frames of Python's
stack."""
_PRECEDENCE = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "%": 5,
}  # fmt: skip
_JUNCTIONS = ("||", "&&")
_SYMBOLS = "[]{}().,-!?"
_OPERAND_SYMBOLS = "[{(.-!"
_FIRST_FIELD = "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"


def _operand(symbols: str = "") -> str:
    """Return what may begin an expression, or be one of these symbols, in the words of errors."""
    expected = [
        f"'{symbol}'" for symbol in _SYMBOLS if symbol in _OPERAND_SYMBOLS or symbol in symbols
    ]
    words = "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
    return f"{{{', '.join(expected)}, {words}}}"


_CONSTANTS = {"true": True, "false": False, "null": None}
_LOOPS = {
    # (macro, number of arguments): number of variables
    ("all", 2): 1, ("exists", 2): 1, ("exists_one", 2): 1, ("existsOne", 2): 1, ("map", 2): 1,
    ("map", 3): 1, ("filter", 2): 1, ("all", 3): 2, ("exists", 3): 2, ("existsOne", 3): 2,
    ("exists_one", 3): 2, ("transformList", 3): 2, ("transformList", 4): 2, ("transformMap", 3): 2,
    ("transformMap", 4): 2, ("transformMapEntry", 3): 2, ("transformMapEntry", 4): 2,
    ("sortBy", 2): 1,
}  # fmt: skip
_OPTIONAL_MACROS = ("optMap", "optFlatMap")

_N = TypeVar("_N", bound=Node)


def parse(source: str, *, bindings: bool = False) -> Node:
    """Return the tree of an expression. Raises CelSyntaxError.

    bindings  whether `cel.bind` is a macro, not an unknown function
    """
    parser = _Parser(tokenize(source), bindings=bindings)
    node = parser.expression()
    if parser.current.kind != "end":
        is_last = parser.tokens[parser.index + 1].kind == "end"
        raise parser.unexpected("<EOF>", "extraneous" if is_last else "mismatched")
    return node


def _with_depth(node: _N, *children: Node) -> _N:
    node.set_depth(*children)
    return node


class _Parser:
    def __init__(self, tokens: list[Token], *, bindings: bool) -> None:
        self.tokens = tokens
        self.bindings = bindings
        self.index = 0
        self.nesting = 0

    @property
    def current(self) -> Token:
        return self.tokens[self.index]

    def unexpected(self, expecting: str, word: str = "mismatched") -> CelSyntaxError:
        token = self.current
        message = f"Syntax error: {word} input '{token.text}' expecting {expecting}"
        return CelSyntaxError(token.position, message)

    def missing(self, symbol: str) -> CelSyntaxError:
        token = self.current
        return CelSyntaxError(token.position, f"Syntax error: missing '{symbol}' at '{token.text}'")

    def not_viable(self) -> CelSyntaxError:
        """Return the error of a token after a dot."""
        token = self.current
        text = "." if token.kind == "end" else f".{token.text}"
        return CelSyntaxError(
            token.position, f"Syntax error: no viable alternative at input '{text}'"
        )

    def take(self) -> Token:
        word = self.current
        self.index += word.kind != "end"
        return word

    def accept(self, symbol: str) -> Token | None:
        word = self.current
        return self.take() if word.kind == "symbol" and word.text == symbol else None

    def expect(self, symbol: str) -> Token:
        word = self.accept(symbol)
        if word is None and self.current.kind == "end" and symbol in (")", "]"):
            raise self.missing(symbol)
        if word is None:
            raise self.unexpected(f"'{symbol}'")
        return word

    def expression(self) -> Node:
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            raise CelSyntaxError(0, f"expression recursion limit exceeded: {_MAX_NESTING}")
        condition = self.binary(1)
        question = self.accept("?")
        if question is not None:
            consequent = self.binary(1)
            self.expect(":")
            args = [condition, consequent, self.expression()]
            condition = _with_depth(
                Call(position=question.position, function="_?_:_", args=args), *args
            )
        self.nesting -= 1
        return condition

    def binary(self, lowest: int) -> Node:
        left = self.unary()
        while True:
            word = self.current
            level = _PRECEDENCE.get(word.text, 0) if word.kind in ("symbol", "ident") else 0
            if level < lowest:
                return left
            self.take()
            right = self.binary(level + 1)
            function = f"_{word.text}_" if word.text != "in" else "@in"
            if (
                word.text in _JUNCTIONS
                and isinstance(left, Call)
                and left.function == function
                and left.target is None
            ):
                left.args.append(right)
                left.set_depth(*left.args)
                continue
            args = [left, right]
            left = _with_depth(Call(position=word.position, function=function, args=args), *args)

    def unary(self) -> Node:
        operators: list[Token] = []
        while self.current.kind == "symbol" and self.current.text in ("!", "-"):
            operators.append(self.take())
        node = self.member(minus=bool(operators) and operators[-1].text == "-")
        if operators and operators[-1].text == "-" and _is_number(node):
            assert isinstance(node, Literal)
            node = Literal(position=operators.pop().position, value=-node.value)
        # The same operator twice cancels out.
        while operators:
            word = operators.pop()
            if operators and operators[-1].text == word.text:
                operators.pop()
                continue
            function = "!_" if word.text == "!" else "-_"
            call = Call(position=word.position, function=function, args=[node])
            node = _with_depth(call, node)
        return node

    def member(self, *, minus: bool) -> Node:
        node = self.primary(minus=minus)
        while True:
            if (dot := self.accept(".")) is not None:
                node = self.select(node, dot)
            elif (bracket := self.accept("[")) is not None:
                optional = self.accept("?") is not None
                index = self.operand_or("?" if not optional else "")
                self.expect("]")
                function = "_[?_]" if optional else "_[_]"
                call = Call(position=bracket.position, function=function, args=[node, index])
                node = _with_depth(call, node, index)
            elif self.current.text == "{" and (name := qualified_name(node)):
                node = self.struct(name, self.take())
            else:
                return node

    def select(self, operand: Node, dot: Token) -> Node:
        optional = self.accept("?") is not None
        if not optional and not self.is_field_name():
            raise self.not_viable()
        word = self.field_name("IDENTIFIER")
        opening = self.accept("(") if not optional and word.kind == "ident" else None
        if opening is not None:
            return self.method(operand, word, opening, self.arguments(")"))
        name = word.text.strip("`")
        node = Select(position=dot.position, operand=operand, field=name, is_optional=optional)
        return _with_depth(node, operand)

    def is_field_name(self) -> bool:
        word = self.current
        return word.kind == "escaped" or (word.kind == "ident" and word.text not in TOKENS)

    def field_name(self, expecting: str) -> Token:
        if not self.is_field_name():
            raise self.unexpected(expecting)
        return self.take()

    def operand_or(self, symbols: str) -> Node:
        """Return an expression; if none begins here, the error names these symbols, too."""
        word = self.current
        if word.kind == "end" or (word.kind == "symbol" and word.text not in _OPERAND_SYMBOLS):
            raise self.unexpected(_operand(symbols))
        return self.expression()

    def method(self, target: Node, token: Token, opening: Token, args: list[Node]) -> Node:
        name, position = token.text, opening.position
        if self.bindings and qualified_name(target) == "cel" and name == "bind" and len(args) == 3:
            return _with_depth(
                Bind(
                    position=position, macro="bind", variable=self.variable(args[0]),
                    value=args[1], body=args[2],
                ),
                *args,
            )  # fmt: skip
        variables = _LOOPS.get((name, len(args)))
        if variables:
            names = tuple(self.variable(arg) for arg in args[:variables])
            body = args[-1]
            filter_node = args[variables] if len(args) - variables == 2 else None
            if len(set(names)) < len(names):
                raise CelSyntaxError(args[1].position, "duplicate iteration variable name")
            loop = Loop(
                position=position,
                macro=name,
                range=target,
                variables=names,
                body=body,
                filter=filter_node,
            )
            return _with_depth(loop, target, *args)
        if name in _OPTIONAL_MACROS and len(args) == 2:
            variable = self.variable(args[0])
            bind = Bind(
                position=position, macro=name, variable=variable, value=target, body=args[1]
            )
            return _with_depth(bind, target, *args)
        call = Call(position=position, function=name, target=target, args=args)
        return _with_depth(call, target, *args)

    def variable(self, node: Node) -> str:
        if not isinstance(node, Ident):
            raise CelSyntaxError(node.position, "argument must be a simple name")
        return node.name

    def arguments(self, closing: str) -> list[Node]:
        args: list[Node] = []
        while self.accept(closing) is None:
            if args and self.current.kind == "end":
                raise self.missing(closing)
            if args:
                self.expect(",")
            args.append(self.operand_or("" if args else closing))
        return args

    def primary(self, *, minus: bool) -> Node:
        word = self.take()
        if word.kind == "literal":
            if type(word.value) is int and word.value == 2**63 and not minus:
                raise CelSyntaxError(word.position, "invalid int literal")
            return Literal(position=word.position, value=word.value)
        if word.kind == "symbol" and word.text == ".":
            if self.current.kind != "ident":
                raise self.not_viable()
            word = self.take()
        if word.kind == "ident":
            return self.identifier(word)
        if word.kind == "symbol" and word.text == "(":
            node = self.expression()
            self.expect(")")
            return node
        if word.kind == "symbol" and word.text == "[":
            return self.list(word)
        if word.kind == "symbol" and word.text == "{":
            return self.map(word)
        self.index -= word.kind != "end"
        raise self.unexpected(_operand())

    def identifier(self, word: Token) -> Node:
        if word.text in _CONSTANTS:
            return Literal(position=word.position, value=_CONSTANTS[word.text])
        if word.text == "in":
            self.index -= 1
            raise self.unexpected(_operand())
        if word.text in RESERVED:
            raise CelSyntaxError(word.position, f"reserved identifier: {word.text}")
        opening = self.accept("(")
        if opening is None:
            return Ident(position=word.position, name=word.text)
        args = self.arguments(")")
        if word.text == "has" and len(args) == 1:
            return self.presence_test(opening, args[0])
        call = Call(position=opening.position, function=word.text, args=args)
        return _with_depth(call, *args)

    def presence_test(self, opening: Token, arg: Node) -> Node:
        if not isinstance(arg, Select) or arg.is_test:
            raise CelSyntaxError(arg.position, "invalid argument to has() macro")
        node = Select(position=opening.position, operand=arg.operand, field=arg.field, is_test=True)
        return _with_depth(node, arg.operand)

    def list(self, opening: Token) -> Node:
        items: list[Node] = []
        optional = set()
        while self.accept("]") is None:
            if items:
                if self.accept(",") is None:
                    raise self.unexpected("{']', ','}")
                if self.current.kind == "end":
                    raise self.missing("]")
                if self.accept("]") is not None:
                    break
            elif self.accept(",") is not None:
                self.expect("]")
                break
            if self.accept("?") is not None:
                optional.add(len(items))
            items.append(self.operand_or("" if items else "],?"))
        node = ListNode(position=opening.position, items=items, optional=frozenset(optional))
        return _with_depth(node, *items)

    def struct(self, name: str, opening: Token) -> Node:
        fields: list[tuple[str, Node]] = []
        optional = set()
        while self.accept("}") is None:
            if fields:
                self.expect(",")
                if self.accept("}") is not None:
                    break
            elif self.accept(",") is not None:
                self.expect("}")
                break
            if self.accept("?") is not None:
                optional.add(len(fields))
            word = self.field_name("IDENTIFIER" if fields else _FIRST_FIELD)
            self.expect(":")
            fields.append((word.text.strip("`"), self.expression()))
        node = Struct(
            position=opening.position, name=name, fields=fields, optional=frozenset(optional)
        )
        return _with_depth(node, *(child for _, child in fields))

    def map(self, opening: Token) -> Node:
        entries: list[tuple[Node, Node]] = []
        optional = set()
        while self.accept("}") is None:
            if entries:
                self.expect(",")
                if self.accept("}") is not None:
                    break
            elif self.accept(",") is not None:
                self.expect("}")
                break
            if self.accept("?") is not None:
                optional.add(len(entries))
            key = self.operand_or("" if entries else "},?")
            self.expect(":")
            entries.append((key, self.expression()))
        node = MapNode(position=opening.position, entries=entries, optional=frozenset(optional))
        return _with_depth(node, *(child for entry in entries for child in entry))


def _is_number(node: Node) -> bool:
    return isinstance(node, Literal) and type(node.value) in (int, float)
