"""Filters that bind names and control what follows: variables, functions, folds, labels."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from kapiserver.simulation.jq.errors import JqError
from kapiserver.simulation.jq.filters import Filter, Place, Scope, values_of
from kapiserver.simulation.jq.paths import item
from kapiserver.simulation.jq.values import type_of

# Patterns, as in `. as [$first, {name: $name}]`.


class Pattern(Struct):
    """What a value is taken apart to: a variable, or the patterns of its parts.

    variable    the unique name that is bound to the value
    parts       the keys of parts, and their patterns
    kind        the type that a value with parts has, besides null
    """

    variable: str | None = None
    parts: Sequence[tuple[Filter, Pattern]] = ()
    kind: str = ""

    def names(self) -> Iterator[str]:
        """Yield all variables of the pattern."""
        if self.variable is not None:
            yield self.variable
        for _, part in self.parts:
            yield from part.names()

    def match(self, value: Any, scope: Scope) -> Iterator[Scope]:
        """Yield scopes in which the variables are bound. Raises JqError."""
        if self.variable is not None:
            scope = scope.bind({self.variable: value})
        if self.kind and value is not None and type_of(value) != self.kind:
            raise JqError(f"expected an {self.kind} but got: {type_of(value)}")
        yield from self._match_parts(value, 0, scope)

    def _match_parts(self, value: Any, at: int, scope: Scope) -> Iterator[Scope]:
        if at == len(self.parts):
            yield scope
            return
        key, pattern = self.parts[at]
        for name in values_of(key, value, scope):
            if self.kind == "object" and not isinstance(name, str):
                raise JqError("a key of an object is not a string")
            for bound in pattern.match(item(value, name), scope):
                yield from self._match_parts(value, at + 1, bound)


def bind(source: Filter, patterns: Sequence[Pattern], body: Filter) -> Filter:
    """Return `source as PATTERN ?// PATTERN | body`: the first pattern without an error."""
    absent = {name: None for pattern in patterns for name in pattern.names()}

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for value in values_of(source, place.value, scope):
            yield from matched(value, place, scope)

    def matched(value: Any, place: Place, scope: Scope) -> Iterator[Place]:
        for pattern in patterns:
            try:
                inner = scope.bind(absent) if len(patterns) > 1 else scope
                for bound in pattern.match(value, inner):
                    yield from body(place, bound)
            except JqError:
                if pattern is patterns[-1]:
                    raise
            else:
                return

    return run


# Functions.


class Definition(Struct):
    """A function that an expression defines. Its body may call it, and is known later.

    parameters  unique names of closures, each with the name of the variable if it is a value
    """

    parameters: Sequence[tuple[str, str | None]]
    body: Filter | None = None


class Closure(NamedTuple):
    """An argument: a filter, and the scope of the call."""

    filter: Filter
    scope: Scope


def call(definition: Definition, arguments: Sequence[Filter]) -> Filter:
    """Return the call of a function."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for names in _bound(definition.parameters, arguments, place.value, scope):
            assert definition.body is not None
            yield from definition.body(place, scope.call(scope.bind(names).variables))

    return run


def _bound(
    parameters: Sequence[tuple[str, str | None]],
    arguments: Sequence[Filter],
    value: Any,
    scope: Scope,
) -> Iterator[Mapping[str, Any]]:
    """Yield what parameters stand for, for each combination of those that are values."""
    if not parameters:
        yield {}
        return
    (name, variable), *others = parameters
    argument, *behind = arguments
    closure = {name: Closure(argument, scope)}
    bound: Iterable[dict[str, Any]] = [closure]
    if variable is not None:
        bound = ({**closure, variable: result} for result in values_of(argument, value, scope))
    for names in bound:
        for rest in _bound(others, behind, value, scope):
            yield {**names, **rest}


def call_closure(name: str) -> Filter:
    """Return the call of a parameter."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        closure: Closure = scope.variables[name]
        yield from closure.filter(place, scope.call(closure.scope.variables))

    return run


# Folds.


def reduce(source: Filter, pattern: Pattern, init: Filter, update: Filter) -> Filter:
    """Return `reduce source as PATTERN (init; update)`."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for state in init(place, scope):
            for value in values_of(source, place.value, scope):
                for bound in pattern.match(value, scope):
                    scope.budget.spend()
                    state = last_of(update(state, bound), state)
            yield state

    return run


def last_of(places: Iterator[Place], default: Place) -> Place:
    """Return the last place, or the default if there is none."""
    last = deque(places, maxlen=1)
    return last.pop() if last else default


def foreach(
    source: Filter, pattern: Pattern, init: Filter, update: Filter, extract: Filter
) -> Filter:
    """Return `foreach source as PATTERN (init; update; extract)`."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for state in init(place, scope):
            for value in values_of(source, place.value, scope):
                for bound in pattern.match(value, scope):
                    states = update(state, bound)
                    for state in states:  # the last one is where the next value begins
                        scope.budget.spend()
                        yield from extract(state, bound)

    return run


# Labels.


class _Break(Exception):
    """Leaves the label with this mark."""

    def __init__(self, mark: object) -> None:
        super().__init__("break")
        self.mark = mark


def label(name: str, body: Filter) -> Filter:
    """Return `label $name | body`."""

    def run(place: Place, scope: Scope) -> Iterator[Place]:
        mark = object()
        try:
            yield from body(place, scope.bind({name: mark}))
        except _Break as left:
            if left.mark is not mark:
                raise

    return run


def leave(name: str) -> Filter:
    """Return `break $name`."""

    def run(_place: Place, scope: Scope) -> Iterator[Place]:
        raise _Break(scope.variables[name])
        yield

    return run
