"""Conditions that a test waits for, in the words of `kubectl wait --for`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from kapiserver.api.json_path import compile_path
from kapiserver.api.types import Tree

Condition: TypeAlias = str | Callable[[Tree | None], object]
"""`create`, `delete`, `condition=Ready`, `condition=Ready=False`,
`jsonpath={.status.phase}=Running`, `jsonpath={.status.phase}` (has any value), or a function that
takes the object (None if there is none) and returns whether it meets the condition."""

Predicate: TypeAlias = Callable[[Tree | None], bool]

_JSONPATH = re.compile(
    r"jsonpath='?(?:\{(?P<braced>[^}]*)\}|(?P<bare>[^=']*))'?(?:=(?P<value>.*))?", re.DOTALL
)


def parse_condition(condition: Condition) -> Predicate:
    """Return the condition as a function of the object. Raises ValueError."""
    if callable(condition):
        return lambda obj: bool(condition(obj))
    if condition == "delete":
        return lambda obj: obj is None
    if condition == "create":
        return lambda obj: obj is not None
    if condition.startswith("condition="):
        kind, _, status = condition.removeprefix("condition=").partition("=")
        if kind:
            return lambda obj: _status(obj, kind) == (status or "True").lower()
    match = _JSONPATH.fullmatch(condition)
    if match is None:
        raise ValueError(
            f"{condition!r} is not a condition: write create, delete, condition=Type[=Status], "
            "jsonpath={.path}[=value], or pass a function"
        )
    return _jsonpath(match["braced"] or match["bare"], match["value"])


def _status(obj: Tree | None, kind: str) -> str:
    """Return the status of a condition in lower case, or "" if the object does not have it or was
    changed since the condition was observed."""
    for condition in ((obj or {}).get("status") or {}).get("conditions") or ():
        if str(condition.get("type", "")).lower() == kind.lower():
            generation = (obj or {}).get("metadata", {}).get("generation") or 0
            if condition.get("observedGeneration", generation) < generation:
                return ""
            return str(condition.get("status", "")).lower()
    return ""


def _jsonpath(path: str, value: str | None) -> Predicate:
    find = compile_path(path if path.startswith((".", "[", "$")) else f".{path}")

    def is_reached(obj: Tree | None) -> bool:
        values = [] if obj is None else find(obj)
        if value is None:
            return bool(values)
        return [_as_text(item) for item in values] == [value]

    return is_reached


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
