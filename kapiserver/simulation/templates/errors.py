"""The error of templates, and the limits that keep one from using up the server."""

from __future__ import annotations

from typing import Any

MAX_SOURCE = 256 << 10
"""The characters of a template."""
MAX_TEXT = 1 << 20
"""The characters of an output, and of any text that a function returns."""
MAX_DEPTH = 50
"""How deep blocks, parentheses and calls of other templates are nested."""
MAX_STEPS = 100_000
"""The steps of one evaluation: nodes that are evaluated, and parts of the results of functions."""
_TEXT_OF_A_STEP = 64


class TemplateError(ValueError):
    """A template cannot be parsed, or cannot be evaluated for an object."""


class Budget:
    """The steps that an evaluation may still take."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        """Take steps. Raises TemplateError if none are left."""
        self._left -= steps
        if self._left < 0:
            raise TemplateError("the template takes too long")

    def spend_for(self, value: Any, depth: int = 0) -> None:
        """Take the steps of a value that a function returned, with all its parts: a part that
        occurs twice counts twice, so that no value grows exponentially."""
        if isinstance(value, str):
            check_size(len(value))
            self.spend(1 + len(value) // _TEXT_OF_A_STEP)
            return
        self.spend()
        if depth > MAX_DEPTH:
            raise TemplateError("a value is nested too deeply")
        if isinstance(value, list):
            for item in value:
                self.spend_for(item, depth + 1)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.spend_for(key, depth + 1)
                self.spend_for(item, depth + 1)


def check_size(characters: int) -> None:
    """Raise TemplateError if a text of this many characters is too long."""
    if characters > MAX_TEXT:
        raise TemplateError(f"a text is longer than {MAX_TEXT} characters")
