"""JSONPath as printer columns have it: `.spec.x`, `['a.b']`, `[0]`, `[*]`, `[1:3]`,
`[?(@.type=="Ready")].status`, `..name`.

A path is compiled to steps once and finds all values in an object. Knows no kind. Mirrors
k8s.io/client-go/util/jsonpath, less templates.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import orjson

from kapiserver.api.types import Value

Step: TypeAlias = Callable[[Value], Iterator[Value]]
"""From one value to those it leads to."""

MOST_STEPS = 100
"""A path of more is refused."""

_TOKEN = re.compile(
    r"""
      \.\.(?P<anywhere>(?:\\.|[^\s.\[\]\\'"()?@=<>!*,:])+)
    | \.(?P<every>\*)
    | \.(?P<name>(?:\\.|[^\s.\[\]\\'"()?@=<>!*,:])+)
    | \[\s*(?:'(?P<single>[^'\]]*)'|"(?P<double>[^"\]]*)")\s*\]
    | \[\s*(?P<index>-?\d+)\s*\]
    | \[\s*(?P<star>\*)\s*\]
    | \[\s*(?P<slice>-?\d*:-?\d*(?::-?\d*)?)\s*\]
    | \[\?\(\s*@(?P<left>[^=<>!()]*?)\s*
        (?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>[^()]*?))?\s*\)\]
    | (?P<dot>\.)$
    """,
    re.VERBOSE,
)
_OPERATORS: dict[str, Callable[[Value, Value], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compile_path(text: str) -> Callable[[Value], list[Value]]:
    """What finds the values at a path; absent ones are found nowhere. Raises ValueError."""
    steps = _steps(text)

    def find(value: Value) -> list[Value]:
        found = [value]
        for step in steps:
            found = [below for one in found for below in step(one)]
        return found

    return find


def _steps(text: str) -> list[Step]:
    text = text.strip().removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or len(steps) >= MOST_STEPS:
            raise ValueError(f"unrecognized path at {text[at : at + 30]!r}")
        at = found.end()
        if not found["dot"]:
            steps.append(_step(found))
    return steps


def _step(found: re.Match[str]) -> Step:
    kind = found.lastgroup
    if kind in ("every", "star"):
        return _every
    if kind == "anywhere":
        return _anywhere(_plain(found["anywhere"]))
    if kind == "index":
        return _at(int(found["index"]))
    if kind == "slice":
        part = slice(*(int(one) if one else None for one in found["slice"].split(":")))
        return lambda value: iter(_items(value)[part])
    if found["left"] is not None:
        return _filter(found["left"], found["operator"], found["right"])
    name = found["name"]
    return _named(_plain(name) if name is not None else found["single"] or found["double"] or "")


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _named(name: str) -> Step:
    def step(value: Value) -> Iterator[Value]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _every(value: Value) -> Iterator[Value]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _anywhere(name: str) -> Step:
    def step(value: Value) -> Iterator[Value]:
        if isinstance(value, dict):
            if name in value:
                yield value[name]
            for one in value.values():
                yield from step(one)
        elif isinstance(value, list):
            for one in value:
                yield from step(one)

    return step


def _at(index: int) -> Step:
    def step(value: Value) -> Iterator[Value]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _filter(left: str, compare: str | None, right: str | None) -> Step:
    find = compile_path(left)
    if compare is None:
        return lambda value: (one for one in _items(value) if find(one))
    holds = _OPERATORS[compare]
    wanted = _literal(right or "")

    def step(value: Value) -> Iterator[Value]:
        for one in _items(value):
            found = find(one)
            try:
                if found and holds(found[0], wanted):
                    yield one
            except TypeError:  # of different types: Go refuses, here nothing is found
                continue

    return step


def _items(value: Value) -> Sequence[Value]:
    return value if isinstance(value, list) else ()


def _literal(text: str) -> Value:
    if text[:1] == "'" and text[-1:] == "'" and len(text) > 1:
        return text[1:-1]
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise ValueError(f"unrecognized literal {text!r}") from None
