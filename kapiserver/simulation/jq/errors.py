"""The errors of jq's expressions, and their limits."""

from __future__ import annotations

from typing import Any

MAX_SOURCE = 16 << 10
"""The characters of an expression."""
MAX_DEPTH = 50
"""How deep an expression is nested."""
MAX_STEPS = 20_000
"""The values that one evaluation may produce."""
MAX_CALLS = 100
"""How deep functions that an expression defines call each other."""
_TEXT_OF_A_STEP = 64
_COPIED_IN_A_STEP = 64


class JqSyntaxError(ValueError):
    """An expression cannot be parsed."""


class JqError(ValueError):
    """An expression cannot be evaluated for a value, such as `.a` for a list.

    value   what `catch` gets: the message, or what the function `error` was given
    """

    def __init__(self, message: str, value: Any = None, *, is_value: bool = False) -> None:
        super().__init__(message)
        self.value = value if is_value else message


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
        if isinstance(value, int) and value.bit_length() > _TEXT_OF_A_STEP:
            self.spend(value.bit_length() // _TEXT_OF_A_STEP)
        if isinstance(value, list | dict):
            for part in value.values() if isinstance(value, dict) else value:
                self.spend_for(part)
        return value

    def spend_for_copy(self, value: Any) -> None:
        """Take the steps of a copy of a list or object whose parts are not copied."""
        self.spend(1 + len(value) // _COPIED_IN_A_STEP)
