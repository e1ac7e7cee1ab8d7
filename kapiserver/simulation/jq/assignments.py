"""Assignments, and functions of paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kapiserver.simulation.jq.errors import JqError
from kapiserver.simulation.jq.filters import Filter, Place, Scope, alternative, computed, values_of
from kapiserver.simulation.jq.paths import Path, delete_paths, get_path, set_path
from kapiserver.simulation.jq.values import ARITHMETIC, type_of


def paths_of(target: Filter, value: Any, scope: Scope) -> Iterator[Path]:
    """Yield the paths that a filter leads to. Raises JqError if it leads elsewhere."""
    for place in target(Place(value, ()), scope):
        if place.path is None:
            raise JqError(f"invalid path against: {type_of(place.value)}")
        yield place.path


def _operate(target: Filter, source: Filter, operate: Callable[[Any, Any], Any]) -> Filter:
    """Return `target = operate(target, source)` for all paths of the target."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for operand in values_of(source, value, scope):
            result = value
            for path in list(paths_of(target, value, scope)):
                new = scope.budget.spend_for(operate(get_path(result, path), operand))
                result = set_path(result, path, new, scope.budget)
            yield result

    return computed(run)


def update(target: Filter, change: Filter) -> Filter:
    """Return `target |= change`; what has no result is deleted."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        result, deleted = value, []
        for path in list(paths_of(target, value, scope)):
            new = list(_first(values_of(change, get_path(result, path), scope)))
            if new:
                new_value = scope.budget.spend_for(new[0])
                result = set_path(result, path, new_value, scope.budget)
            else:
                deleted.append(path)
        yield delete_paths(result, deleted, scope.budget)

    return computed(run)


def _first(results: Iterator[Any]) -> Iterator[Any]:
    for result in results:
        yield result
        return


def update_alternative(target: Filter, source: Filter) -> Filter:
    """Return `target //= source`."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for operand in values_of(source, value, scope):
            other = computed(lambda _value, _scope, operand=operand: iter((operand,)))  # type: ignore[misc]
            old = computed(lambda value, _scope: iter((value,)))
            yield from values_of(update(target, alternative(old, other)), value, scope)

    return computed(run)


def _operator(operate: Callable[[Any, Any], Any]) -> Callable[[Filter, Filter], Filter]:
    return lambda target, source: _operate(target, source, operate)


ASSIGNMENTS: Mapping[str, Callable[[Filter, Filter], Filter]] = {
    "=": _operator(lambda _old, new: new),
    "|=": update,
    "//=": update_alternative,
    **{f"{name}=": _operator(operate) for name, operate in ARITHMETIC.items()},
}


# Functions.


def _path(target: Filter) -> Filter:
    return computed(
        lambda value, scope: (
            scope.budget.spend_for(list(path)) for path in paths_of(target, value, scope)
        )
    )


def _get_path(argument: Filter) -> Filter:
    def run(place: Place, scope: Scope) -> Iterator[Place]:
        for path in values_of(argument, place.value, scope):
            keys = _keys(path)
            scope.budget.spend(len(keys))
            value = get_path(place.value, keys)
            yield Place(value, None if place.path is None else place.path + keys)

    return run


def _keys(path: Any) -> Path:
    if not isinstance(path, list):
        raise JqError(f"a path is not an array but: {type_of(path)}")
    return tuple(path)


def _set_path(argument: Filter, source: Filter) -> Filter:
    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for new in values_of(source, value, scope):
            for path in values_of(argument, value, scope):
                yield scope.budget.spend_for(set_path(value, _keys(path), new, scope.budget))

    return computed(run)


def _delete_paths(argument: Filter) -> Filter:
    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for paths in values_of(argument, value, scope):
            yield delete_paths(value, [_keys(path) for path in _keys(paths)], scope.budget)

    return computed(run)


def _delete(target: Filter) -> Filter:
    return computed(
        lambda value, scope: iter(
            (delete_paths(value, list(paths_of(target, value, scope)), scope.budget),)
        )
    )


PATH_FUNCTIONS: Mapping[tuple[str, int], Callable[..., Filter]] = {
    ("del", 1): _delete,
    ("delpaths", 1): _delete_paths,
    ("getpath", 1): _get_path,
    ("path", 1): _path,
    ("setpath", 2): _set_path,
}
