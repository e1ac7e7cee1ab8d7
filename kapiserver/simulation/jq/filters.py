"""Filters: what expressions are compiled to.

A filter maps a place to any number of places. A place is a value and the path that leads to it. The
path is None unless somebody asks for it: `path(f)` and assignments do. Filters that compute new
values have no paths; `computed` makes them of functions that know values only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from kapiserver.api.types import Value
from kapiserver.simulation.jq.errors import MAX_CALLS, Budget, JqError, StepsExceeded
from kapiserver.simulation.jq.paths import Path, item, slice_of
from kapiserver.simulation.jq.values import compare, is_true, type_of


class Place(NamedTuple):
    """A value, and the path to it if somebody asks for paths."""

    value: Any
    path: Path | None = None

    def part(self, key: Any) -> Place:
        """Return what a key leads to. Raises JqError."""
        return Place(item(self.value, key), self.step(key))

    def step(self, key: Any) -> Path | None:
        """Return the path with one more key."""
        return None if self.path is None else (*self.path, key)


class Scope(NamedTuple):
    """What a filter uses besides its place: the steps that are left, and the names that are bound.

    variables   values of variables, and the closures of parameters, by names that are unique in an
                expression
    depth       how many calls of functions surround it
    now         the time in seconds since 1970
    """

    budget: Budget
    variables: Mapping[str, Any] = {}
    depth: int = 0
    now: float = 0.0

    def bind(self, names: Mapping[str, Any]) -> Scope:
        """Return a scope in which more names are bound."""
        self.budget.spend_for_copy(self.variables)
        return self._replace(variables={**self.variables, **names})

    def call(self, variables: Mapping[str, Any]) -> Scope:
        """Return the scope of the body of a function. Raises StepsExceeded."""
        if self.depth >= MAX_CALLS:
            raise StepsExceeded
        self.budget.spend()
        return self._replace(variables=variables, depth=self.depth + 1)


Filter: TypeAlias = Callable[[Place, Scope], Iterator[Place]]
Computation: TypeAlias = Callable[[Any, Scope], Iterator[Any]]


def values_of(inner: Filter, value: Any, scope: Scope) -> Iterator[Any]:
    """Yield the results of a filter for a value."""
    for place in inner(Place(value), scope):
        yield place.value


def computed(run: Computation) -> Filter:
    """Return a filter of new values. Where a path is asked for, only a result that is the value
    itself has one."""

    def filtered(place: Place, scope: Scope) -> Iterator[Place]:
        for result in run(place.value, scope):
            if place.path is None:
                yield Place(result)
            elif _is_same(result, place.value):
                yield place
            else:
                raise JqError(f"invalid path against: {type_of(result)}")

    return filtered


def _is_same(value: Any, other: Any) -> bool:
    if isinstance(value, dict | list):
        return value is other
    return type_of(value) == type_of(other) and compare(value, other) == 0


def identity(place: Place, _scope: Scope) -> Iterator[Place]:
    """Return the place, `.`."""
    yield place


def constant(result: Value) -> Filter:
    """Return a filter with one result."""
    return computed(lambda _value, _scope: iter((result,)))


def variable(name: str) -> Filter:
    """Return the filter of a variable."""
    return computed(lambda _value, scope: iter((scope.variables[name],)))


def pipe(left: Filter, right: Filter) -> Filter:
    """Return `left | right`."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for result in left(place, scope):
            scope.budget.spend()
            yield from right(result, scope)

    return run


def comma(left: Filter, right: Filter) -> Filter:
    """Return `left, right`."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        yield from left(place, scope)
        yield from right(place, scope)

    return run


# Paths.


def fields(names: tuple[str, ...]) -> Filter:
    """Return `.a.b`."""

    def run(place: Place, _scope: Scope) -> Iterator[Place]:
        value = place.value
        for name in names:
            if isinstance(value, dict):
                value = value.get(name)
            elif value is not None:
                raise JqError(f"expected an object but got: {type_of(value)}")
        yield Place(value, None if place.path is None else place.path + names)

    return run


def index(inner: Filter, key: Filter) -> Filter:
    """Return `inner[key]`."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for result in inner(place, scope):
            for name in values_of(key, place.value, scope):
                scope.budget.spend(1 + (len(result.value or ()) if isinstance(name, list) else 0))
                yield result.part(name)

    return run


def part(inner: Filter, start: Filter, end: Filter) -> Filter:
    """Return `inner[start:end]`."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for result in inner(place, scope):
            for last in values_of(end, place.value, scope):
                for first in values_of(start, place.value, scope):
                    scope.budget.spend(len(result.value or ()) if _has_parts(result.value) else 1)
                    bounds = {"start": first, "end": last}
                    yield Place(slice_of(result.value, bounds), result.step(bounds))

    return run


def _has_parts(value: Any) -> bool:
    return isinstance(value, str | list)


def elements(place: Place, scope: Scope) -> Iterator[Place]:
    """Yield the elements of a list or object, `.[]`. Raises JqError."""
    value = place.value
    if not isinstance(value, list | dict):
        raise JqError(f"cannot iterate over: {type_of(value)}")
    for key in range(len(value)) if isinstance(value, list) else sorted(value):
        scope.budget.spend()
        yield Place(value[key], place.step(key))


# Operators.


def combine(left: Filter, right: Filter, operate: Callable[[Any, Any], Any]) -> Filter:
    """Return a filter that applies an operation to each pair of results."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for second in values_of(right, value, scope):
            for first in values_of(left, value, scope):
                scope.budget.spend_for(first)
                scope.budget.spend_for(second)
                yield scope.budget.spend_for(operate(first, second))

    return computed(run)


def logic(left: Filter, right: Filter, *, decisive: bool) -> Filter:
    """Return `left or right` if true is decisive, else `left and right`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for first in values_of(left, value, scope):
            if is_true(first) is decisive:
                yield decisive
            else:
                yield from (is_true(second) for second in values_of(right, value, scope))

    return computed(run)


def alternative(left: Filter, right: Filter) -> Filter:
    """Return `left // right`: the results of `left` that are true, or else those of `right`. As in
    gojq, an error of `left` is one of both."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        has_result = False
        for result in left(place, scope):
            if is_true(result.value):
                has_result = True
                yield result
        if not has_result:
            yield from right(place, scope)

    return run


def condition(test: Filter, then: Filter, otherwise: Filter) -> Filter:
    """Return `if test then then else otherwise end`."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for value in values_of(test, place.value, scope):
            yield from (then if is_true(value) else otherwise)(place, scope)

    return run


def attempt(inner: Filter, handler: Filter | None = None) -> Filter:
    """Return `try inner catch handler`; without a handler, `inner?`."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        try:
            yield from inner(place, scope)
        except JqError as error:
            if handler is None:
                return
            caught = error.value
        else:
            return
        yield from handler(Place(caught), scope)

    return run


def array(inner: Filter) -> Filter:
    """Return `[inner]`."""
    return computed(
        lambda value, scope: iter((scope.budget.spend_for(list(values_of(inner, value, scope))),))
    )


def construct(members: Sequence[tuple[Filter, Filter]]) -> Filter:
    """Return `{name: value, ...}`: an object for each combination of their results."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        pairs = [
            [
                (name, element)
                for name in values_of(names, value, scope)
                for element in values_of(items, value, scope)
            ]
            for names, items in members
        ]
        for chosen in product(*pairs):
            if any(not isinstance(name, str) for name, _ in chosen):
                raise JqError("a key of an object is not a string")
            yield scope.budget.spend_for(dict(chosen))

    return computed(run)


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": lambda left, right: compare(left, right) == 0,
    "!=": lambda left, right: compare(left, right) != 0,
    "<": lambda left, right: compare(left, right) < 0,
    "<=": lambda left, right: compare(left, right) <= 0,
    ">": lambda left, right: compare(left, right) > 0,
    ">=": lambda left, right: compare(left, right) >= 0,
}
