"""Filters: what expressions are compiled to. A filter maps a value to any number of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from kapiserver.api.types import Value
from kapiserver.simulation.jq.errors import Budget, JqError
from kapiserver.simulation.jq.values import compare, is_true, type_of


class Scope(NamedTuple):
    """What a filter uses beside its value: the steps that are left, and the variables."""

    budget: Budget
    variables: Mapping[str, Any] = {}


Filter: TypeAlias = Callable[[Any, Scope], Iterator[Any]]


def identity(value: Any, _scope: Scope) -> Iterator[Any]:
    """Return the value, `.`."""
    yield value


def constant(result: Value) -> Filter:
    """Return a filter with one result."""

    def run(_value: Any, _scope: Scope) -> Iterator[Any]:
        yield result

    return run


def variable(name: str) -> Filter:
    """Return the filter of a variable."""

    def run(_value: Any, scope: Scope) -> Iterator[Any]:
        yield scope.variables[name]

    return run


def pipe(left: Filter, right: Filter) -> Filter:
    """Return `left | right`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for each in left(value, scope):
            scope.budget.spend()
            yield from right(each, scope)

    return run


def comma(left: Filter, right: Filter) -> Filter:
    """Return `left, right`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        yield from left(value, scope)
        yield from right(value, scope)

    return run


# Paths.


def fields(names: tuple[str, ...]) -> Filter:
    """Return `.a.b`."""

    def run(value: Any, _scope: Scope) -> Iterator[Any]:
        for name in names:
            if isinstance(value, dict):
                value = value.get(name)
            elif value is not None:
                raise JqError(f"expected an object but got: {type_of(value)}")
        yield value

    return run


def index(inner: Filter, key: Filter) -> Filter:
    """Return `inner[key]`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for each in inner(value, scope):
            for name in key(value, scope):
                scope.budget.spend()
                yield item(each, name)

    return run


def item(value: Any, key: Any) -> Any:
    """Return a field or an item of a value; None if it is missing. Raises JqError."""
    if value is None and isinstance(key, str | int | float):
        return None
    if isinstance(value, dict) and isinstance(key, str):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int | float) and not isinstance(key, bool):
        position = int(key)
        return value[position] if -len(value) <= position < len(value) else None
    raise JqError(f"cannot index {type_of(value)} with {type_of(key)}")


def part(inner: Filter, start: Filter, end: Filter) -> Filter:
    """Return `inner[start:end]`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for each, first, last in product(
            inner(value, scope), start(value, scope), end(value, scope)
        ):
            if each is not None and not isinstance(each, str | list):
                raise JqError(f"cannot slice {type_of(each)}")
            for bound in (first, last):
                if bound is not None and type_of(bound) != "number":
                    raise JqError("a bound of a slice is not a number")
            scope.budget.spend(len(each or ()))
            low, high = (None if bound is None else int(bound) for bound in (first, last))
            yield None if each is None else each[low:high]

    return run


def iterate(inner: Filter) -> Filter:
    """Return `inner[]`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for each in inner(value, scope):
            if not isinstance(each, list | dict):
                raise JqError(f"cannot iterate over: {type_of(each)}")
            for element in each if isinstance(each, list) else each.values():
                scope.budget.spend()
                yield element

    return run


def descend(value: Any, scope: Scope) -> Iterator[Any]:
    """Yield a value and all its parts, `..`."""
    scope.budget.spend()
    yield value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in parts:
        if isinstance(each, dict | list):
            yield from descend(each, scope)
        else:
            scope.budget.spend()
            yield each


# Operators.


def combine(left: Filter, right: Filter, operate: Callable[[Any, Any], Any]) -> Filter:
    """Return a filter that applies an operation to each pair of results."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for second in right(value, scope):
            for first in left(value, scope):
                yield scope.budget.spend_for(operate(first, second))

    return run


def logic(left: Filter, right: Filter, *, decisive: bool) -> Filter:
    """Return `left or right` if true is decisive, else `left and right`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for first in left(value, scope):
            if is_true(first) is decisive:
                yield decisive
            else:
                yield from (is_true(second) for second in right(value, scope))

    return run


def alternative(left: Filter, right: Filter) -> Filter:
    """Return `left // right`: the results of `left` that are true, or else those of `right`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        found = False
        try:
            for each in left(value, scope):
                if is_true(each):
                    found = True
                    yield each
        except JqError:
            pass
        if not found:
            yield from right(value, scope)

    return run


def condition(test: Filter, then: Filter, otherwise: Filter) -> Filter:
    """Return `if test then then else otherwise end`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for each in test(value, scope):
            yield from (then if is_true(each) else otherwise)(value, scope)

    return run


def attempt(inner: Filter, handler: Filter | None = None) -> Filter:
    """Return `try inner catch handler`; without a handler, `inner?`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        try:
            yield from inner(value, scope)
        except JqError as error:
            if handler is None:
                return
            message = str(error)
        else:
            return
        yield from handler(message, scope)

    return run


def bind(source: Filter, name: str, body: Filter) -> Filter:
    """Return `source as $name | body`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for each in source(value, scope):
            yield from body(value, Scope(scope.budget, {**scope.variables, name: each}))

    return run


def array(inner: Filter) -> Filter:
    """Return `[inner]`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        yield scope.budget.spend_for(list(inner(value, scope)))

    return run


def construct(members: list[tuple[Filter, Filter]]) -> Filter:
    """Return `{name: value, ...}`: an object for each combination of their results."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        pairs = [
            [(name, item) for name in names(value, scope) for item in items(value, scope)]
            for names, items in members
        ]
        for chosen in product(*pairs):
            if any(not isinstance(name, str) for name, _ in chosen):
                raise JqError("a key of an object is not a string")
            yield scope.budget.spend_for(dict(chosen))

    return run


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": lambda left, right: compare(left, right) == 0,
    "!=": lambda left, right: compare(left, right) != 0,
    "<": lambda left, right: compare(left, right) < 0,
    "<=": lambda left, right: compare(left, right) <= 0,
    ">": lambda left, right: compare(left, right) > 0,
    ">=": lambda left, right: compare(left, right) >= 0,
}
