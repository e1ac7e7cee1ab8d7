"""Functions that choose, repeat or stop: they have paths, as the filters that they are given do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kapiserver.simulation.jq.control import last_of
from kapiserver.simulation.jq.errors import JqError
from kapiserver.simulation.jq.filters import (
    Filter,
    Place,
    Scope,
    computed,
    elements,
    identity,
    values_of,
)
from kapiserver.simulation.jq.formats import to_json
from kapiserver.simulation.jq.values import is_true, type_of

_COUNT = "number"


def _empty() -> Filter:
    return lambda _place, _scope: iter(())


def _select(test: Filter) -> Filter:
    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for value in values_of(test, place.value, scope):
            if is_true(value):
                yield place

    return run


def _of_type(*types: str) -> Callable[[], Filter]:
    def run(place: Place, _scope: Scope) -> Iterator[Place]:
        if type_of(place.value) in types:
            yield place

    return lambda: run


def _error(message: Filter = identity) -> Filter:
    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for value in values_of(message, place.value, scope):
            text = value if isinstance(value, str) else f"error: {to_json(value)}"
            raise JqError(text, value, is_value=True)
        yield from ()

    return run


# Repetitions. A stack of generators takes the place of recursion.


def _recurse(step: Filter) -> Filter:
    """Return `recurse(step)`: a value, the results of `step` for it, and so on."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        stack = [iter((place,))]
        for visited in _visited(stack, scope):
            yield visited
            stack.append(step(visited, scope))

    return run


def _repeat(inner: Filter) -> Filter:
    """Return `repeat(inner)`: the results of `inner`, again and again."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        while True:
            scope.budget.spend()
            yield from inner(place, scope)

    return run


def _while(test: Filter, step: Filter) -> Filter:
    def run(place: Place, scope: Scope) -> Iterator[Place]:
        stack = [iter((place,))]
        for visited in _visited(stack, scope):
            for holds in values_of(test, visited.value, scope):
                if is_true(holds):
                    yield visited
                    stack.append(step(visited, scope))

    return run


def _until(test: Filter, step: Filter) -> Filter:
    def run(place: Place, scope: Scope) -> Iterator[Place]:
        stack = [iter((place,))]
        for visited in _visited(stack, scope):
            for holds in values_of(test, visited.value, scope):
                if is_true(holds):
                    yield visited
                else:
                    stack.append(step(visited, scope))

    return run


def _visited(stack: list[Iterator[Place]], scope: Scope) -> Iterator[Place]:
    """Yield the next place of the last generator, until no generator is left."""
    while stack:
        each = next(stack[-1], None)
        if each is None:
            stack.pop()
        else:
            scope.budget.spend()
            yield each


def _descend() -> Filter:
    """Return `..`."""

    def parts(place: Place, scope: Scope) -> Iterator[Place]:
        return elements(place, scope) if isinstance(place.value, dict | list) else iter(())

    return _recurse(parts)


# Parts of what a filter yields.


def _first(inner: Filter) -> Filter:
    return lambda place, scope: itertools.islice(inner(place, scope), 1)


def _last(inner: Filter) -> Filter:
    def run(place: Place, scope: Scope) -> Iterator[Place]:
        results = inner(place, scope)
        for result in results:
            yield last_of(results, result)

    return run


def _limit(count: Filter, inner: Filter) -> Filter:
    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for number in _counts(count, "limit", place, scope):
            yield from itertools.islice(inner(place, scope), number)

    return run


def _skip(count: Filter, inner: Filter) -> Filter:
    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for number in _counts(count, "skip", place, scope):
            for result in itertools.islice(inner(place, scope), number, None):
                scope.budget.spend()
                yield result

    return run


def _counts(count: Filter, name: str, place: Place, scope: Scope) -> Iterator[int]:
    for number in values_of(count, place.value, scope):
        if type_of(number) != _COUNT:
            raise JqError(f"{name} cannot be applied to: {type_of(number)}")
        if number < 0:
            raise JqError(f"{name} doesn't support negative count")
        yield int(min(number, 1 << 53))


def _range(*bounds: Filter) -> Filter:
    """Return `range(end)`, `range(start; end)` or `range(start; end; step)`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        lists = [list(values_of(bound, value, scope)) for bound in bounds]
        for chosen in itertools.product(*lists):
            if any(type_of(count) != _COUNT for count in chosen):
                raise JqError("a bound of a range is not a number")
            start, end, *step = (0, *chosen) if len(chosen) == 1 else chosen
            yield from _numbers(start, end, step[0] if step else 1, scope)

    return computed(run)


def _numbers(number: Any, end: Any, step: Any, scope: Scope) -> Iterator[Any]:
    while number < end if step > 0 else number > end:
        scope.budget.spend()
        yield number
        number += step


def _decided(decisive: bool) -> Callable[..., Filter]:
    """Return `any` if true is decisive, else `all`: of a condition of each result of a filter."""

    def make(source: Filter = elements, test: Filter = identity) -> Filter:
        def run(value: Any, scope: Scope) -> Iterator[Any]:
            results = (
                is_true(result) is decisive
                for element in values_of(source, value, scope)
                for result in values_of(test, element, scope)
            )
            yield decisive if any(results) else not decisive

        return computed(run)

    return make


GENERATORS: Mapping[tuple[str, int], Callable[..., Filter]] = {
    ("all", 0): _decided(False),
    ("all", 2): _decided(False),
    ("any", 0): _decided(True),
    ("any", 2): _decided(True),
    ("arrays", 0): _of_type("array"),
    ("booleans", 0): _of_type("boolean"),
    ("empty", 0): _empty,
    ("error", 0): _error,
    ("error", 1): _error,
    ("first", 1): _first,
    ("iterables", 0): _of_type("array", "object"),
    ("last", 1): _last,
    ("limit", 2): _limit,
    ("nulls", 0): _of_type("null"),
    ("numbers", 0): _of_type("number"),
    ("objects", 0): _of_type("object"),
    ("range", 1): _range,
    ("range", 2): _range,
    ("range", 3): _range,
    ("recurse", 0): _descend,
    ("recurse", 1): _recurse,
    ("repeat", 1): _repeat,
    ("scalars", 0): _of_type("null", "boolean", "number", "string"),
    ("select", 1): _select,
    ("skip", 2): _skip,
    ("strings", 0): _of_type("string"),
    ("until", 2): _until,
    ("values", 0): _of_type("boolean", "number", "string", "array", "object"),
    ("while", 2): _while,
}
