"""The syntax tree of CEL expressions.

Macros are nodes of their own (Loop, Bind), not expanded as in cel-go. The checker sets a node's
`cel_type`. Knows no types and no values. Mirrors github.com/google/cel-go/common/ast.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_CHARACTERS = 100_000
MAX_DEPTH = 200
"""The maximum depth of nodes, because tree walks are recursive."""


class CelSyntaxError(ValueError):
    """A syntax error; `position` is a character offset."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


class Node(msgspec.Struct, eq=False, kw_only=True):
    """One node of an expression; `position` is where messages point."""

    position: int
    cel_type: Any = None
    depth: int = 1

    def set_depth(self, *nodes: Node) -> None:
        """Set the depth from that of the children. Raises CelSyntaxError beyond MAX_DEPTH."""
        self.depth = 1 + max((node.depth for node in nodes), default=0)
        if self.depth > MAX_DEPTH:
            raise CelSyntaxError(0, f"expression recursion limit exceeded: {MAX_DEPTH}")


class Literal(Node, eq=False, kw_only=True):
    """A literal value."""

    value: Any


class Ident(Node, eq=False, kw_only=True):
    """A variable or the name of a type."""

    name: str


class Select(Node, eq=False, kw_only=True):
    """`operand.field`, `operand.?field`, or `has(operand.field)`.

    `variable` is set by the checker if the node is the name of a variable with dots, such as
    `authorizer.requestResource`.
    """

    operand: Node
    field: str
    is_test: bool = False
    is_optional: bool = False
    variable: str = ""


class Struct(Node, eq=False, kw_only=True):
    """`Name{field: a, ?other: b}`; `optional` has the indices of fields with a question mark."""

    name: str
    fields: list[tuple[str, Node]]
    optional: frozenset[int] = frozenset()


class Call(Node, eq=False, kw_only=True):
    """A function or method call; operators are `_+_`, `!_`, `_?_:_`, `_[_]`.

    `overloads` are those that match the types of the arguments, set by the checker.
    """

    function: str
    target: Node | None = None
    args: list[Node] = msgspec.field(default_factory=list)
    overloads: tuple[Any, ...] = ()

    @property
    def operands(self) -> list[Node]:
        """The target, if there is one, and the arguments."""
        return [self.target, *self.args] if self.target is not None else self.args


class ListNode(Node, eq=False, kw_only=True):
    """`[a, ?b]`; `optional` has the indices of items with a question mark."""

    items: list[Node]
    optional: frozenset[int] = frozenset()


class MapNode(Node, eq=False, kw_only=True):
    """`{a: b, ?c: d}`."""

    entries: list[tuple[Node, Node]]
    optional: frozenset[int] = frozenset()


class Loop(Node, eq=False, kw_only=True):
    """A macro over a list or a map: `range.macro(variables, filter, body)`."""

    macro: str
    range: Node
    variables: tuple[str, ...]
    body: Node
    filter: Node | None = None


def qualified_name(node: Node) -> str:
    """Return the name that a chain of field selections spells: `a.b.c`; "" for other nodes."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.is_test and not node.is_optional:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return ""
    return ".".join([node.name, *reversed(parts)])


class Bind(Node, eq=False, kw_only=True):
    """`cel.bind(variable, value, body)`; or `value.optMap(variable, body)`, by `macro`."""

    macro: str
    variable: str
    value: Node
    body: Node
