"""The expressions of kwok's Stages, ResourceUsages and Metrics: CEL with functions of kwok.

    Now()                               the time
    Rand()                              a number from 0 to 1
    UnixSecond(Now())                   a time in seconds since 1970
    SinceSecond(pod)                    the age of a pod or node in seconds
    Quantity("100m")                    a quantity, which has the operators + - * / and comparisons
    Usage(pod, "cpu")                   what a node, a pod or, with its name, a container uses
    CumulativeUsage(node, "cpu")        the same, added up since it was first asked for
    StartedContainersTotal(node)        how many containers a node has started

A function of an object may be called as its method: `pod.SinceSecond()`. `node`, `pod` and
`container` are the variables, and `self` in a Stage. Quantities and times of pods and nodes are
values, and labels and annotations are maps, also if there are none. Mirrors pkg/utils/cel and
pkg/kwok/metrics of kwok.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from typing import Any

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.cel.cel_types import DYN
from kapiserver.api.cel.extensions import Extensions
from kapiserver.api.cel.functions import Overload, Row, overload
from kapiserver.api.cel.libraries.kubernetes import Quantity, quantity_of
from kapiserver.api.cel.program import CompileError, Program, compile_expression
from kapiserver.api.cel.values import (
    Duration,
    EvaluationError,
    Timestamp,
    parse_time,
    timestamp_of,
)
from kapiserver.api.types import Tree

COST_LIMIT = 100_000
"""The steps of one evaluation."""
_MAX_LENGTH = 16384
"""The most characters of an expression."""
_NANOSECONDS = 1_000_000_000
_VARIABLES = {"node": DYN, "pod": DYN, "container": DYN, "self": DYN}


class ExpressionError(Exception):
    """An expression has no value, or not one of the type that is needed."""


def _only_in_metrics(*_arguments: Any) -> Any:
    raise EvaluationError("only an expression of a Metric may ask for this")


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What functions know besides their arguments. An expression of a ResourceUsage knows the time
    alone, because it defines what the others return.

    now                 the time, in seconds since 1970
    usage               returns what a node, a pod or a container of it uses of a resource
    cumulative_usage    returns what it has used, in units times seconds
    started_containers  returns how many containers a node has started, by the node's name
    """

    now: float
    usage: Callable[[Tree, str, str], float] = _only_in_metrics
    cumulative_usage: Callable[[Tree, str, str], float] = _only_in_metrics
    started_containers: Callable[[str], int] = _only_in_metrics


_surroundings: ContextVar[Surroundings] = ContextVar("surroundings")
"""The surroundings of the evaluation in progress. Programs are compiled once for all of them."""


def evaluate(source: str, variables: Mapping[str, Tree], surroundings: Surroundings) -> Any:
    """Return the value of an expression. Raises CompileError, ExpressionError.

    variables  the objects `node`, `pod` and `container`, or `self`, as the API has them
    """
    typed = {name: _typed(name, obj) for name, obj in variables.items()}
    token = _surroundings.set(surroundings)
    try:
        result = compile_cached(source).evaluate(typed, COST_LIMIT)
    finally:
        _surroundings.reset(token)
    if result.failure is not None:
        raise ExpressionError(result.failure)
    return result.value


def number_of(value: Any) -> float:
    """Return a value as a finite number. Raises ExpressionError, OverflowError."""
    if isinstance(value, Quantity):
        value = float(value.value)
    elif isinstance(value, Duration):
        value = value.ns
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    raise ExpressionError(f"{value!r} is not a finite number")


@functools.lru_cache(maxsize=256)
def compile_cached(source: str) -> Program:
    """Return the program of an expression. Raises CompileError."""
    if len(source) > _MAX_LENGTH:
        raise CompileError(f"the expression is longer than {_MAX_LENGTH} characters")
    return compile_expression(source, _VARIABLES, _EXTENSIONS)


# The variables.


def _typed(name: str, obj: Tree) -> Tree:
    if name == "self" and obj.get("kind") not in ("Node", "Pod"):
        return obj
    return _typed_container(obj) if name == "container" else _typed_object(obj)


def _typed_object(obj: Tree) -> Tree:
    """Return a pod or node with values in place of the texts of quantities and times."""
    metadata = {"labels": {}, "annotations": {}} | (obj.get("metadata") or {})
    if metadata.get("creationTimestamp"):
        metadata["creationTimestamp"] = parse_time(metadata["creationTimestamp"])
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_typed_container(container) for container in spec[field]]
    for field in ("capacity", "allocatable"):
        if field in status:
            status[field] = _quantities(status[field])
    return obj | {"metadata": metadata, "spec": spec, "status": status}


def _typed_container(container: Tree) -> Tree:
    resources = {
        field: _quantities(value_at(container, "resources", field))
        for field in ("requests", "limits")
    }
    return container | {"resources": resources}


def _quantities(resources: Tree | None) -> dict[str, Quantity]:
    return {name: quantity_of(text) for name, text in (resources or {}).items()}


# The functions.


def _now() -> Timestamp:
    return timestamp_of(int(_surroundings.get().now * _NANOSECONDS))


def _unix_second(time: Timestamp) -> float:
    return time.ns / _NANOSECONDS


def _since_second(obj: Tree) -> float:
    created = value_at(obj, "metadata", "creationTimestamp")
    if not isinstance(created, Timestamp):
        raise EvaluationError("the object has no creation timestamp")
    return _surroundings.get().now - created.ns / _NANOSECONDS


def _usage(obj: Tree, resource: str, container: str = "") -> float:
    return _surroundings.get().usage(obj, resource, container)


def _cumulative_usage(obj: Tree, resource: str, container: str = "") -> float:
    return _surroundings.get().cumulative_usage(obj, resource, container)


def _started_containers(node: Any) -> float:
    name = node if isinstance(node, str) else name_of(node)
    return float(_surroundings.get().started_containers(name))


def _both(arguments: str, result: str, run: Callable[..., Any]) -> list[Row]:
    """Return a function, and the method of its first argument."""
    first, _, others = arguments.partition(", ")
    return [(f"({arguments}) {result}", run), (f"{first}.({others}) {result}", run)]


def _milli(quantity: Quantity) -> int:
    return int((quantity.value * 1000).to_integral_value(ROUND_UP))


def _of_milli(milli: float | Decimal) -> Quantity:
    """Return a quantity of whole thousandths, as in kwok. Raises EvaluationError."""
    try:
        return Quantity(Decimal(int(milli)) / 1000)
    except (OverflowError, ValueError) as error:
        raise EvaluationError("the quantity has no such multiple") from error


def _times(quantity: Quantity, value: Any) -> Quantity:
    if isinstance(value, float):
        return _of_milli(float(quantity.value) * value * 1000)
    return _of_milli(_milli(quantity) * value)


def _divided(quantity: Quantity, value: Any) -> Quantity:
    if not value:
        raise EvaluationError("division by zero")
    if isinstance(value, float):
        return _of_milli(float(quantity.value) / value * 1000)
    return _of_milli(_milli(quantity) / Decimal(value))


_NUMBERS = ("int", "uint", "double")
_TABLE: Mapping[str, Sequence[Row]] = {
    "Now": [("() timestamp", _now)],
    "now": [("() timestamp", _now)],
    "Rand": [("() double", random.random)],
    "UnixSecond": _both("timestamp", "double", _unix_second),
    "SinceSecond": _both("dyn", "double", _since_second),
    "Quantity": _both("string", "quantity", quantity_of),
    "Usage": [
        *_both("dyn, string", "double", _usage),
        *_both("dyn, string, string", "double", _usage),
    ],
    "CumulativeUsage": [
        *_both("dyn, string", "double", _cumulative_usage),
        *_both("dyn, string, string", "double", _cumulative_usage),
    ],
    "StartedContainersTotal": _both("dyn", "double", _started_containers),
    "startedContainersTotal": _both("dyn", "double", _started_containers),
    "_+_": [("(quantity, quantity) quantity", lambda a, b: Quantity(a.value + b.value))],
    "_-_": [("(quantity, quantity) quantity", lambda a, b: Quantity(a.value - b.value))],
    "_*_": [(f"(quantity, {kind}) quantity", _times) for kind in _NUMBERS],
    "_/_": [(f"(quantity, {kind}) quantity", _divided) for kind in _NUMBERS],
    "-_": [("(quantity) quantity", lambda value: Quantity(-value.value))],
    "_<_": [("(quantity, quantity) bool", lambda a, b: a < b)],
    "_<=_": [("(quantity, quantity) bool", lambda a, b: a <= b)],
    "_>_": [("(quantity, quantity) bool", lambda a, b: a > b)],
    "_>=_": [("(quantity, quantity) bool", lambda a, b: a >= b)],
}
_OVERLOADS: Mapping[str, Sequence[Overload]] = {
    name: tuple(map(overload, rows)) for name, rows in _TABLE.items()
}
_EXTENSIONS = Extensions(functions=lambda name: _OVERLOADS.get(name, ()))
