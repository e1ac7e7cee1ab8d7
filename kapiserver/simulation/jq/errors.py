"""The errors of jq's expressions, and their limits."""

from __future__ import annotations

from typing import Any

MAX_SOURCE = 16 << 10
"""The characters of an expression."""
MAX_DEPTH = 50
"""How deep an expression is nested."""
MAX_STEPS = 20_000
"""The values that one evaluation may produce."""
_TEXT_OF_A_STEP = 64


class JqSyntaxError(ValueError):
    """An expression cannot be parsed."""


class JqError(ValueError):
    """An expression cannot be evaluated for a value, such as `.a` for a list."""


class StepsExceeded(Exception):
    """An evaluation takes too long. `?` and `try` do not catch it."""


class Budget:
    """The steps that an evaluation may still take."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        """Take steps. Raises StepsExceeded if none are left."""
        self._left -= steps
        if self._left < 0:
            raise StepsExceeded

    def spend_for(self, value: Any) -> Any:
        """Take the steps of a new value with all its parts, and return it. A part that occurs twice
        counts twice, so that no value grows exponentially."""
        self.spend(1 + (len(value) // _TEXT_OF_A_STEP if isinstance(value, str) else 0))
        if isinstance(value, list | dict):
            for part in value.values() if isinstance(value, dict) else value:
                self.spend_for(part)
        return value
