"""Paths into values: reading, setting and deleting what they lead to.

A path is a sequence of keys: names of fields, positions of elements, and slices, which are objects
with `start` and `end`.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

from kapiserver.simulation.jq.errors import Budget, JqError
from kapiserver.simulation.jq.values import compare, type_of

Path: TypeAlias = tuple[Any, ...]
_MAX_LENGTH = 1 << 16
"""The length of a list that an assignment may make longer."""


def item(value: Any, key: Any) -> Any:
    """Return what a key leads to; None if it is missing. Raises JqError."""
    if isinstance(key, dict):
        return slice_of(value, key)
    if value is None and isinstance(key, str | int | float):
        return None
    if isinstance(value, dict) and isinstance(key, str):
        return value.get(key)
    if isinstance(value, list | str) and type_of(key) == "number":
        position = _position(key)
        return value[position] if -len(value) <= position < len(value) else None
    if isinstance(value, list) and isinstance(key, list):
        return positions_of(value, key)
    raise JqError(f"cannot index {type_of(value)} with {type_of(key)}")


def positions_of(value: list[Any], part: list[Any]) -> list[int]:
    """Return where a list contains another one."""
    if not part:
        return []
    return [
        start
        for start in range(len(value) - len(part) + 1)
        if all(not compare(value[start + at], element) for at, element in enumerate(part))
    ]


def slice_of(value: Any, bounds: dict[str, Any]) -> Any:
    """Return `value[start:end]`. Raises JqError."""
    if value is None:
        return None
    if not isinstance(value, str | list):
        raise JqError(f"cannot slice {type_of(value)}")
    low, high = _bounds(bounds, len(value))
    return value[low:high]


def _bounds(bounds: dict[str, Any], length: int) -> tuple[int, int]:
    """Return the first position of a slice, and the one behind its last."""
    start, end = bounds.get("start"), bounds.get("end")
    for bound in (start, end):
        if bound is not None and type_of(bound) != "number":
            raise JqError("a bound of a slice is not a number")
    low = 0 if start is None else _position(start)
    high = length if end is None else -_position(-end)
    low, high = (bound + length if bound < 0 else bound for bound in (low, high))
    low = min(max(low, 0), length)
    return low, min(max(high, low), length)


def _position(number: Any) -> int:
    """Round a number down; one that is out of the range of positions becomes the nearest."""
    return int(max(min(number, 1 << 53), -(1 << 53)) // 1) if number == number else 0


def get_path(value: Any, path: Path) -> Any:
    """Return what a path leads to; None if it is missing. Raises JqError."""
    for key in path:
        if value is None:
            return None
        value = item(value, key)
    return value


def set_path(value: Any, path: Path, new: Any, budget: Budget) -> Any:
    """Return a copy in which a path leads to a new value. Raises JqError."""
    if not path:
        return new
    key, *rest = path
    replaced = set_path(item(value, key), tuple(rest), new, budget)
    if isinstance(key, str):
        fields = _expected(value, "object", {})
        budget.spend_for_copy(fields)
        return {**fields, key: replaced}
    copy = list(_expected(value, "array", []))
    budget.spend_for_copy(copy)
    if isinstance(key, dict):
        if not isinstance(replaced, list):
            raise JqError(f"cannot assign {type_of(replaced)} to a slice")
        low, high = _bounds(key, len(copy))
        copy[low:high] = replaced
        return copy
    return _with_element(copy, _position(key), replaced, budget)


def _expected(value: Any, kind: str, empty: Any) -> Any:
    """Return a value of a type, for null the empty one. Raises JqError."""
    if value is not None and type_of(value) != kind:
        raise JqError(f"expected an {kind} but got: {type_of(value)}")
    return empty if value is None else value


def _with_element(copy: list[Any], position: int, new: Any, budget: Budget) -> list[Any]:
    if position < -len(copy):
        raise JqError("out of bounds negative array index")
    if position >= _MAX_LENGTH:
        raise JqError("array index too large")
    missing = max(position + 1 - len(copy), 0)
    budget.spend(missing)
    copy += [None] * missing
    copy[position] = new
    return copy


def delete_paths(value: Any, paths: list[Path], budget: Budget) -> Any:
    """Return a copy without what the paths lead to; the last first, so that no position changes
    before it is used. Raises JqError."""
    order = functools.cmp_to_key(_compare_paths)
    for path in sorted(paths, key=order, reverse=True):
        value = _without(value, path, budget)
    return value


def _compare_paths(path: Path, other_path: Path) -> int:
    return compare(list(path), list(other_path))


def _without(value: Any, path: Path, budget: Budget) -> Any:
    if value is None or not path:
        return None
    key, *rest = path
    if rest:
        part = item(value, key)
        if part is None:
            return value
        return set_path(value, (key,), _without(part, tuple(rest), budget), budget)
    budget.spend_for_copy(value if isinstance(value, list | dict) else ())
    return _without_key(value, key)


def _without_key(value: Any, key: Any) -> Any:
    if isinstance(value, dict) and isinstance(key, str):
        return {name: item for name, item in value.items() if name != key}
    if isinstance(value, list) and isinstance(key, dict):
        low, high = _bounds(key, len(value))
        return value[:low] + value[high:]
    if isinstance(value, list) and type_of(key) == "number":
        position = _position(key)
        if not -len(value) <= position < len(value):
            return value
        position %= len(value)
        return value[:position] + value[position + 1 :]
    raise JqError(f"cannot delete {type_of(key)} of {type_of(value)}")
