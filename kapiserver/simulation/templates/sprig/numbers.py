"""sprig's functions for numbers, which take whatever can be read as one."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kapiserver.simulation.templates.errors import TemplateError

_MAX_NUMBERS = 10_000
"""The numbers that `until` and `seq` make at most."""


def to_int(value: Any) -> int:
    """Return the integer (64 bits) that a value is, or 0."""
    number = _to_number(value)
    return _wrapped(int(number)) if math.isfinite(number) else 0


def _to_float(value: Any) -> float:
    return float(_to_number(value))


def _to_number(value: Any) -> int | float:
    if isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str) or len(value) > 100:
        return 0
    for read in (lambda text: int(text, 0), int, float):
        try:
            return read(value)
        except ValueError:
            continue
    return 0


def _wrapped(value: int) -> int:
    """Return an integer as Go keeps it in 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _fold(step: Callable[[int, int], int], start: int) -> Callable[..., int]:
    def run(*values: Any) -> int:
        return functools.reduce(lambda a, b: _wrapped(step(a, b)), map(to_int, values), start)

    return run


def _fold_float(step: Callable[[float, float], float]) -> Callable[..., float]:
    def run(first: Any, *others: Any) -> float:
        return functools.reduce(step, map(_to_float, others), _to_float(first))

    return run


def _div(value: Any, other: Any) -> int:
    divisor = to_int(other)
    if not divisor:
        raise TemplateError("integer divide by zero")
    quotient = abs(to_int(value)) // abs(divisor)
    return quotient if (to_int(value) < 0) == (divisor < 0) else -quotient


def _mod(value: Any, other: Any) -> int:
    return to_int(value) - to_int(other) * _div(value, other)


def _round(value: Any, digits: int) -> float:
    scaled = _to_float(value) * 10.0 ** min(max(digits, -300), 300)
    if not math.isfinite(scaled):
        return _to_float(value)
    return math.floor(scaled + 0.5) / 10.0 ** min(max(digits, -300), 300)


def _until(count: int) -> list[int]:
    return _numbers(range(0, count, 1 if count >= 0 else -1))


def _until_step(start: int, stop: int, step: int) -> list[int]:
    return _numbers(range(start, stop, step)) if step else []


def _sequence(*bounds: int) -> str:
    if not bounds or len(bounds) > 3:
        return ""
    start, end = (1, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[-1])
    down = end < start
    step = bounds[1] if len(bounds) == 3 else -1 if down else 1
    if not step:
        return ""
    return " ".join(map(str, _numbers(range(start, end + (-1 if step < 0 else 1), step))))


def _numbers(numbers: range) -> list[int]:
    if len(numbers) > _MAX_NUMBERS:
        raise TemplateError(f"more than {_MAX_NUMBERS} numbers")
    return list(numbers)


def _extreme(choose: Callable[[Iterable[Any]], Any], read: Callable[[Any], Any]) -> Any:
    def run(first: Any, *others: Any) -> Any:
        return choose([read(value) for value in (first, *others)])

    return run


NUMBERS: Mapping[str, Callable[..., Any]] = {
    "add": _fold(operator.add, 0),
    "add1": lambda value: _wrapped(to_int(value) + 1),
    "addf": _fold_float(operator.add),
    "atoi": to_int,
    "biggest": _extreme(max, to_int),
    "ceil": lambda value: float(math.ceil(_to_float(value))),
    "div": _div,
    "divf": _fold_float(operator.truediv),
    "float64": _to_float,
    "floor": lambda value: float(math.floor(_to_float(value))),
    "int": to_int,
    "int64": to_int,
    "max": _extreme(max, to_int),
    "maxf": _extreme(max, _to_float),
    "min": _extreme(min, to_int),
    "minf": _extreme(min, _to_float),
    "mod": _mod,
    "mul": _fold(operator.mul, 1),
    "mulf": _fold_float(operator.mul),
    "round": _round,
    "seq": _sequence,
    "sub": lambda value, other: _wrapped(to_int(value) - to_int(other)),
    "subf": _fold_float(operator.sub),
    "until": _until,
    "untilStep": _until_step,
}
