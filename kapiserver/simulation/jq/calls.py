"""Makes functions of jq from functions of Python that know values only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kapiserver.simulation.jq.errors import JqError
from kapiserver.simulation.jq.filters import Filter, Scope, computed, values_of
from kapiserver.simulation.jq.values import type_of


def of_value(function: Callable[[Any], Any]) -> Callable[[], Filter]:
    """Return a function without arguments whose one result follows from the value."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        _spend(value, scope)
        yield scope.budget.spend_for(function(value))

    return lambda: computed(run)


def of_elements(function: Callable[[Any], Any]) -> Callable[[], Filter]:
    """Return a function without arguments that compares the elements of the value."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        yield scope.budget.spend_for(function(scope.budget.spend_for(value)))

    return lambda: computed(run)


def of_pair(function: Callable[[Any, Any], Any]) -> Callable[[Filter], Filter]:
    """Return a function that compares parts of the value with all parts of its argument."""

    def make(argument: Filter) -> Filter:
        def run(value: Any, scope: Scope) -> Iterator[Any]:
            for result in values_of(argument, value, scope):
                scope.budget.spend(1 + _count(value) * _count(result) // 8)
                yield scope.budget.spend_for(function(value, result))

        return computed(run)

    return make


def _count(value: Any) -> int:
    """Return the number of parts of a value; of a string, that of its pieces of 64 characters."""
    if isinstance(value, list | dict):
        parts = value.values() if isinstance(value, dict) else value
        return 1 + sum(_count(part) for part in parts)
    return 1 + len(value) // 64 if isinstance(value, str) else 1


def of_argument(function: Callable[[Any, Any], Any]) -> Callable[[Filter], Filter]:
    """Return a function of the value and one argument; it has a result for each argument."""
    return of_arguments(function)


def of_arguments(function: Callable[..., Any]) -> Callable[..., Filter]:
    """Return a function of the value and its arguments, for each combination of them."""

    def make(*arguments: Filter) -> Filter:
        def run(value: Any, scope: Scope) -> Iterator[Any]:
            for chosen in _combinations(arguments, value, scope):
                _spend(value, scope)
                yield scope.budget.spend_for(function(value, *chosen))

        return computed(run)

    return make


def _combinations(
    arguments: tuple[Filter, ...], value: Any, scope: Scope
) -> Iterator[tuple[Any, ...]]:
    if not arguments:
        yield ()
        return
    for last in values_of(arguments[-1], value, scope):
        for before in _combinations(arguments[:-1], value, scope):
            yield (*before, last)


def _spend(value: Any, scope: Scope) -> None:
    """Take the steps that a look at each element or character of a value costs."""
    if isinstance(value, list | dict | str):
        scope.budget.spend(1 + len(value) // 4)


def expect(value: Any, *types: str) -> Any:
    """Return a value of one of these types. Raises JqError."""
    if type_of(value) not in types:
        raise JqError(f"expected {' or '.join(types)} but got: {type_of(value)}")
    return value
