"""Code generation: builds Python functions from source, one for each declared type.

Straight-line code for a type runs several times faster than a loop over its fields. The function
for a nested type is generated at its first call, so a server compiles only the types it uses. Knows
no format. Plays the role of generated.pb.go in Go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kapiserver.api.types import Type


class FunctionSource:
    """The source of one function: its lines, and the values that they refer to by name."""

    def __init__(self, signature: str) -> None:
        self._lines = [f"def generated({signature}):"]
        self._names: dict[str, Any] = {}

    def add(self, text: str) -> None:
        """Add lines to the body of the function. Their indentation is relative to the body."""
        self._lines.extend(f"    {line}" for line in text.strip("\n").splitlines())

    def bind(self, value: Any) -> str:
        """Return a name by which the lines can use a value."""
        name = f"g{len(self._names)}"
        self._names[name] = value
        return name

    def bind_lazy(
        self, create: Callable[[type[Type]], Callable[..., Any]], type_: type[Type]
    ) -> str:
        """Return a name for a function that is created at its first call, for recursive types."""
        name = f"g{len(self._names)}"
        names = self._names

        def first_call(*args: Any) -> Any:
            names[name] = function = create(type_)
            return function(*args)

        names[name] = first_call
        return name

    def compile(self, label: str, **names: Any) -> Callable[..., Any]:
        """Compile and return the function.

        label       the file name in tracebacks
        names       further values by name
        """
        self._names.update(names)
        exec(compile("\n".join(self._lines), f"<{label}>", "exec"), self._names)
        function: Callable[..., Any] = self._names.pop("generated")
        return function
