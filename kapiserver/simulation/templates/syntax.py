"""The syntax tree of a template. Mirrors text/template/parse/node.go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

# Operands: what commands are made of.


@dataclass(frozen=True)
class Literal:
    """A constant: a text, number, boolean, or nil."""

    value: Any


@dataclass(frozen=True)
class Dot:
    """The cursor, `.`."""


@dataclass(frozen=True)
class Variable:
    """A variable; its name has the dollar sign."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function, by name."""

    name: str


@dataclass(frozen=True)
class Fields:
    """Fields of an operand, `.a.b`."""

    operand: Operand
    names: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """An operand with arguments, each separated by spaces."""

    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class Pipeline:
    """Commands; each gets the value of the one before it as its last argument.

    variables    the variables that get the value; two for a range
    is_assigned  whether they exist already (`=`), or are declared (`:=`)
    """

    commands: tuple[Command, ...]
    variables: tuple[str, ...] = ()
    is_assigned: bool = False


Operand: TypeAlias = Literal | Dot | Variable | Call | Fields | Pipeline

# Nodes: what a template is made of.


@dataclass(frozen=True)
class Text:
    """Text that is written as it is."""

    text: str


@dataclass(frozen=True)
class Action:
    """A pipeline whose value is written, unless it sets a variable."""

    pipeline: Pipeline


@dataclass(frozen=True)
class Branch:
    """`if`, `with` or `range`, with what follows `else`."""

    word: str
    pipeline: Pipeline
    body: Sequence[Node]
    otherwise: Sequence[Node]


@dataclass(frozen=True)
class Invocation:
    """`template`: another template, for the value of a pipeline, or nil without one."""

    name: str
    pipeline: Pipeline | None


@dataclass(frozen=True)
class Jump:
    """`break` or `continue`."""

    word: str


Node: TypeAlias = Text | Action | Branch | Invocation | Jump
