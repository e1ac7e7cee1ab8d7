"""The expressions of a Stage, in jq or CEL: conditions, numbers and durations.

Mirrors value_int_from.go and value_duration_from.go of kwok's pkg/utils/lifecycle.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from kapiserver.api.cel.program import CompileError
from kapiserver.api.cel.values import Duration
from kapiserver.api.types import Tree
from kapiserver.apiserver.durations import parse_duration
from kapiserver.simulation.jq.errors import JqError, JqSyntaxError
from kapiserver.simulation.jq.query import Query
from kapiserver.simulation.kwok.expressions import (
    ExpressionError,
    Surroundings,
    compile_cached,
    evaluate,
)

_NANOSECONDS = 1e9
_log = logging.getLogger(__name__)


class StageError(ValueError):
    """A Stage cannot be compiled."""


Results: TypeAlias = Callable[[Tree, float], list[Any] | None]
"""Returns the results of an expression for an object at a time; None if it cannot be evaluated."""


def jq(source: str) -> Results:
    """Return an expression of jq; results that are null are left out. Raises StageError."""
    try:
        query = Query(source)
    except JqSyntaxError as error:
        raise StageError(f"jq: {source}: {error}") from None

    def results(obj: Tree, now: float) -> list[Any] | None:
        try:
            return [result for result in query.evaluate(obj, now) if result is not None]
        except JqError:
            return None

    return results


def cel(source: str) -> Results:
    """Return an expression of CEL. Raises StageError."""
    try:
        compile_cached(source)
    except CompileError as error:
        raise StageError(f"cel: {error}") from None

    def results(obj: Tree, now: float) -> list[Any] | None:
        try:
            return [evaluate(source, {"self": obj}, Surroundings(now=now))]
        except ExpressionError as error:
            _log.debug("%s: %s", source, error)
            return None

    return results


def result_of(source: Tree) -> Results:
    """Return the expression of an ExpressionFrom. Raises StageError."""
    if source.get("cel"):
        return cel(source["cel"].get("expression") or "")
    if source.get("jq"):
        return jq(source["jq"].get("expression") or "")
    return jq(source.get("expressionFrom") or "")


def weight(value: int, source: Tree | None) -> Callable[[Tree, float], int | None]:
    """Return the weight of an object: what an expression says, or else a value. It is None if the
    expression has no number as its result. Raises StageError."""
    if source is None:
        return lambda _obj, _now: value
    results = result_of(source)

    def weight_of(obj: Tree, now: float) -> int | None:
        values = results(obj, now)
        if not values or not isinstance(values[0], str | int | float):
            return value
        if not isinstance(values[0], str):
            return int(values[0])
        try:
            return int(values[0], 0)
        except ValueError:
            return None

    return weight_of


def duration(
    milliseconds: int | None, source: Tree | None
) -> Callable[[Tree, float], float | None]:
    """Return the seconds for an object: those up to the time or of the duration that an expression
    says, or else a value. Raises StageError."""
    value = None if milliseconds is None else milliseconds / 1000
    if source is None:
        return lambda _obj, _now: value
    results = result_of(source)

    def duration_of(obj: Tree, now: float) -> float | None:
        values = results(obj, now)
        return value if not values else _seconds(values[0], now, value)

    return duration_of


def _seconds(result: Any, now: float, value: float | None) -> float | None:
    if isinstance(result, Duration):
        return float(result.ns / _NANOSECONDS)
    if isinstance(result, int | float) and not isinstance(result, bool):
        return result / _NANOSECONDS
    if not isinstance(result, str) or not result:
        return None if result == "" else value
    seconds = parse_duration(result)
    if seconds is not None:
        return seconds
    try:
        return datetime.fromisoformat(result).timestamp() - now
    except ValueError:
        return value
