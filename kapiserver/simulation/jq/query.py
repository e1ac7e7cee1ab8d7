"""A query: an expression of jq that is parsed once, and evaluated for many values."""

from __future__ import annotations

from typing import Any

from kapiserver.api.types import Value
from kapiserver.simulation.jq.errors import Budget, JqError, StepsExceeded
from kapiserver.simulation.jq.filters import Scope
from kapiserver.simulation.jq.parser import parse


class Query:
    """An expression. Raises JqSyntaxError if it cannot be parsed."""

    def __init__(self, source: str) -> None:
        self._filter = parse(source)

    def evaluate(self, value: Value) -> list[Any]:
        """Return all results for a value, which is not changed. Raises JqError."""
        try:
            return list(self._filter(value, Scope(Budget())))
        except (StepsExceeded, RecursionError):
            raise JqError("the expression takes too long") from None
