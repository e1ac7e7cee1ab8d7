"""Functions written as source, one for each declared type, and compiled when first called.

A straight line of checks per type runs several times faster than a loop over its fields, and a
server pays only for the types it meets: what a function calls for a nested type is compiled at
that call. Knows no format. Mirrors what generated.pb.go is to Go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kapiserver.api.types import Type

_Result = TypeVar("_Result")


def cached_per_type(make: Callable[[type[Type]], _Result]) -> Callable[[type[Type]], _Result]:
    """A function that answers each type once and remembers it."""
    known: dict[type[Type], _Result] = {}

    def answer(type_: type[Type]) -> _Result:
        if type_ not in known:
            known[type_] = make(type_)
        return known[type_]

    return answer


class FunctionSource:
    """One function in the making: its lines, and the values it refers to by name."""

    def __init__(self, signature: str) -> None:
        self._lines = [f"def made({signature}):"]
        self._names: dict[str, Any] = {}

    def add(self, text: str) -> None:
        """Add lines, as indented in the text, to the body."""
        self._lines.extend(f"    {line}" for line in text.strip("\n").splitlines())

    def bind(self, value: Any) -> str:
        """A name for a value that the lines use."""
        name = f"g{len(self._names)}"
        self._names[name] = value
        return name

    def bind_lazy(self, make: Callable[[type[Type]], Callable[..., Any]], type_: type[Type]) -> str:
        """A name for a function that is made at its first call; types may so hold themselves."""
        name = f"g{len(self._names)}"
        names = self._names

        def first(*args: Any) -> Any:
            names[name] = made = make(type_)
            return made(*args)

        names[name] = first
        return name

    def compile(self, label: str, **names: Any) -> Callable[..., Any]:
        """The function. `label` stands in tracebacks; `names` are called as they are."""
        self._names.update(names)
        exec(compile("\n".join(self._lines), f"<{label}>", "exec"), self._names)
        made: Callable[..., Any] = self._names.pop("made")
        return made
