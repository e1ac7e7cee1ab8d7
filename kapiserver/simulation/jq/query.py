"""A query: an expression of jq that is parsed once, and evaluated for many values."""

from __future__ import annotations

from typing import Any

from kapiserver.api.types import Value
from kapiserver.simulation.jq.errors import Budget, JqError, StepsExceeded
from kapiserver.simulation.jq.filters import Scope, values_of
from kapiserver.simulation.jq.parser import parse
from kapiserver.simulation.jq.prelude import prelude


class Query:
    """An expression. Raises JqSyntaxError if it cannot be parsed."""

    def __init__(self, source: str) -> None:
        self._filter = parse(source, prelude())

    def evaluate(self, value: Value, now: float = 0.0) -> list[Any]:
        """Return all results for a value, which is not changed, at a time in seconds since 1970.
        Raises JqError."""
        try:
            return list(values_of(self._filter, value, Scope(Budget(), now=now)))
        except (StepsExceeded, RecursionError):
            raise JqError("the expression takes too long") from None
