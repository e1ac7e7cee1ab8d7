"""The syntax tree of CEL expressions.

Macros are nodes of their own (Loop, Bind), not expanded as in cel-go. The checker sets a node's
`cel_type`. Knows no types and no values. Mirrors github.com/google/cel-go/common/ast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_CHARACTERS = 100_000
MAX_DEPTH = 200
"""The maximum depth of nodes, because tree walks are recursive."""


class CelSyntaxError(ValueError):
    """A syntax error; `position` is a character offset."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """One node of an expression; `position` is where messages point."""

    position: int
    cel_type: Any = None
    depth: int = 1

    def set_depth(self, *nodes: Node) -> None:
        """Set the depth from that of the children. Raises CelSyntaxError beyond MAX_DEPTH."""
        self.depth = 1 + max((node.depth for node in nodes), default=0)
        if self.depth > MAX_DEPTH:
            raise CelSyntaxError(0, f"expression recursion limit exceeded: {MAX_DEPTH}")


@dataclass(slots=True, eq=False, kw_only=True)
class Literal(Node):
    """A literal value."""

    value: Any


@dataclass(slots=True, eq=False, kw_only=True)
class Ident(Node):
    """A variable or the name of a type."""

    name: str


@dataclass(slots=True, eq=False, kw_only=True)
class Select(Node):
    """`operand.field`, `operand.?field`, or `has(operand.field)`."""

    operand: Node
    field: str
    is_test: bool = False
    is_optional: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class Call(Node):
    """A function or method call; operators are `_+_`, `!_`, `_?_:_`, `_[_]`.

    `overloads` are those that match the types of the arguments, set by the checker.
    """

    function: str
    target: Node | None = None
    args: list[Node] = field(default_factory=list)
    overloads: tuple[Any, ...] = ()

    @property
    def operands(self) -> list[Node]:
        """The target, if there is one, and the arguments."""
        return [self.target, *self.args] if self.target is not None else self.args


@dataclass(slots=True, eq=False, kw_only=True)
class ListNode(Node):
    """`[a, ?b]`; `optional` has the indices of items with a question mark."""

    items: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False, kw_only=True)
class MapNode(Node):
    """`{a: b, ?c: d}`."""

    entries: list[tuple[Node, Node]]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False, kw_only=True)
class Loop(Node):
    """A macro over a list or a map: `range.macro(variables, filter, body)`."""

    macro: str
    range: Node
    variables: tuple[str, ...]
    body: Node
    filter: Node | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Bind(Node):
    """`cel.bind(variable, value, body)`; or `value.optMap(variable, body)`, by `macro`."""

    macro: str
    variable: str
    value: Node
    body: Node
