"""The names that a parser knows. One that is bound again gets another unique name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from kapiserver.simulation.jq.control import Definition

Functions: TypeAlias = Mapping[tuple[str, int], Definition]
"""Functions by their names and numbers of parameters."""


class Parameter(NamedTuple):
    """A parameter of a function, which its body calls by this unique name."""

    name: str


class Names:
    """Functions and parameters, and the unique names of variables and labels."""

    def __init__(self, functions: Functions) -> None:
        self.functions: dict[tuple[str, int], Definition | Parameter] = dict(functions)
        self.variables: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self._count = 0

    def unique(self, name: str) -> str:
        """Return a name that no other name of the expression equals."""
        self._count += 1
        return f"{name} {self._count}"

    def bind(self, name: str, bound: dict[str, str] | None = None) -> str:
        """Bind a variable. In all patterns of a binding, whose names are `bound`, it is the same
        variable."""
        unique = (bound or {}).get(name) or self.unique(name)
        if bound is not None:
            bound[name] = unique
        self.variables[name] = unique
        return unique

    def bind_parameter(self, name: str, unique: str) -> tuple[str, str | None]:
        """Bind a parameter, and the variable if it is a value, such as `$x`."""
        self.functions[name.removeprefix("$"), 0] = Parameter(unique)
        return unique, self.bind(name) if name.startswith("$") else None

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Forget the names that are bound meanwhile."""
        outside = dict(self.functions), dict(self.variables), dict(self.labels)
        yield
        self.functions, self.variables, self.labels = outside
