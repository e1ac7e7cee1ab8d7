"""A template that is parsed once, and evaluated for many values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kapiserver.simulation.templates.errors import TemplateError
from kapiserver.simulation.templates.evaluator import Evaluation
from kapiserver.simulation.templates.functions import BUILTINS
from kapiserver.simulation.templates.parser import MAIN, parse

KEYWORD_FUNCTIONS = frozenset(("and", "or"))
"""Functions that the evaluator has itself, as they skip arguments."""


class Template:
    """A template. Raises TemplateError if it cannot be parsed.

    names  the names of the functions that it may call, besides those of Go
    """

    def __init__(self, source: str, names: Collection[str] = ()) -> None:
        self._templates = parse(source, frozenset((*names, *BUILTINS, *KEYWORD_FUNCTIONS)))

    def evaluate(self, data: Any, functions: Mapping[str, Callable[..., Any]]) -> str:
        """Return the text that the template makes of a value (`values.from_json`). Raises
        TemplateError."""
        evaluation = Evaluation(self._templates, functions, data)
        try:
            evaluation.run(self._templates[MAIN], data)
        except RecursionError:
            raise TemplateError("the template is nested too deeply") from None
        return evaluation.output
