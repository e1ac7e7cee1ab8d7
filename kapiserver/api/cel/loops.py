"""The macros over lists and maps, as closures: all, exists, map, filter, sortBy and the others.

`pairs` yields what a macro iterates over. Mirrors the folds of
github.com/google/cel-go/interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from kapiserver.api.cel.frames import Frame, Run, as_bool, decide, spend
from kapiserver.api.cel.libraries.lists import sort_by
from kapiserver.api.cel.values import EvaluationError

Iterate: TypeAlias = Callable[[Frame], Iterator[Any]]


def pairs(value: Any, count: int) -> Iterator[tuple[Any, Any]]:
    """Return the keys and values of a list or a map; both are the key if a macro with `count`
    variables takes the keys of a map. Raises EvaluationError for other values."""
    if isinstance(value, list):
        return enumerate(value)
    if isinstance(value, dict):
        return iter(value.items()) if count == 2 else ((key, key) for key in value)
    raise EvaluationError("no such overload")


def _quantifier(decisive: bool) -> Callable[[Iterate, Run], Run]:
    def make(rounds: Iterate, body: Run) -> Run:
        return lambda frame: decide(frame, (body for _ in rounds(frame)), decisive=decisive)

    return make


def _exactly_one(rounds: Iterate, body: Run) -> Run:
    return lambda frame: sum(as_bool(body(frame)) for _ in rounds(frame)) == 1


def _map(rounds: Iterate, body: Run) -> Run:
    return lambda frame: [body(frame) for _ in rounds(frame)]


def _filter(rounds: Iterate, body: Run) -> Run:
    return lambda frame: [value for value in rounds(frame) if as_bool(body(frame))]


def _transform_map(rounds: Iterate, body: Run) -> Run:
    return lambda frame: {key: body(frame) for key in rounds(frame)}


def _transform_entries(rounds: Iterate, body: Run) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        merged: dict[Any, Any] = {}
        for _ in rounds(frame):
            entries = body(frame)
            spend(frame, len(entries))
            for key, value in entries.items():
                if key in merged:
                    raise EvaluationError(f"insert failed: key {key} already exists")
                merged[key] = value
        return merged

    return run


def _sort_by(rounds: Iterate, body: Run) -> Run:
    def run(frame: Frame) -> list[Any]:
        items, keys = [], []
        for item in rounds(frame):
            items.append(item)
            keys.append(body(frame))
        return sort_by(items, keys, lambda cost: spend(frame, cost))

    return run


LOOPS: dict[str, Callable[[Iterate, Run], Run]] = {
    "all": _quantifier(False),
    "exists": _quantifier(True),
    "exists_one": _exactly_one,
    "existsOne": _exactly_one,
    "map": _map,
    "filter": _filter,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entries,
    "sortBy": _sort_by,
}
"""The macros over lists and maps."""
