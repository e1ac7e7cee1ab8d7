"""JSONPath of printer columns: `.spec.x`, `['a.b']`, `[0]`, `[*]`, `[1:3]`,
`[?(@.type=="Ready")].status`, `..name`.

A path is compiled to steps once and returns all matching values of an object. Knows no kind.
Mirrors k8s.io/client-go/util/jsonpath, without templates.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import orjson

from kapiserver.api.types import Value

Step: TypeAlias = Callable[[Value], Iterator[Value]]
"""Yields the values that one step reaches from a value."""

MAX_STEPS = 100
"""A path with more steps is refused."""
MAX_RECURSIVE_STEPS = 4
"""A path with more `..name` steps is refused: each searches the whole object."""

_TOKEN = re.compile(
    r"""
      \.\.(?P<anywhere>(?:\\.|[^\s.\[\]\\'"()?@=<>!*,:])+)
    | \.(?P<every>\*)
    | \.(?P<name>(?:\\.|[^\s.\[\]\\'"()?@=<>!*,:])+)
    | \[\s*+(?:'(?P<single>[^'\]]*+)'|"(?P<double>[^"\]]*+)")\s*+\]
    | \[\s*+(?P<index>-?\d++)\s*+\]
    | \[\s*+(?P<star>\*)\s*+\]
    | \[\s*+(?P<slice>-?\d*+:-?\d*+(?::-?\d*+)?+)\s*+\]
    | \[\?\(\s*+@(?P<left>[^=<>!()]*+)
        (?:(?P<operator>==|!=|<=|>=|<|>)(?P<right>[^()]*+))?+\)\]
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
    """Return a function that returns all values at a path, each object and list once. Raises
    ValueError for a malformed path."""
    steps = _steps(text)

    def find(value: Value) -> list[Value]:
        values = [value]
        for step in steps:
            values = _without_repetition(reached for current in values for reached in step(current))
        return values

    return find


def _without_repetition(values: Iterator[Value]) -> list[Value]:
    # Two `..name` steps reach an object in many ways. Without this, each step could multiply them.
    seen: set[int] = set()
    unique = []
    for value in values:
        if isinstance(value, dict | list):
            if id(value) in seen:
                continue
            seen.add(id(value))
        unique.append(value)
    return unique


def _steps(text: str) -> list[Step]:
    text = text.strip().removeprefix("$")
    steps: list[Step] = []
    position = recursive_steps = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        recursive_steps += bool(token and token["anywhere"])
        is_too_long = len(steps) >= MAX_STEPS or recursive_steps > MAX_RECURSIVE_STEPS
        if token is None or is_too_long:
            raise ValueError(f"unrecognized path at {text[position : position + 30]!r}")
        position = token.end()
        if not token["dot"]:
            steps.append(_step(token))
    return steps


def _step(match: re.Match[str]) -> Step:
    kind = match.lastgroup
    if kind in ("every", "star"):
        return _wildcard
    if kind == "anywhere":
        return _recursive(_unescape(match["anywhere"]))
    if kind == "index":
        return _index(int(match["index"]))
    if kind == "slice":
        bounds = slice(*(int(bound) if bound else None for bound in match["slice"].split(":")))
        return lambda value: iter(_items(value)[bounds])
    if match["left"] is not None:
        return _filter(match["left"], match["operator"], match["right"])
    name = match["name"]
    return _field(_unescape(name) if name is not None else match["single"] or match["double"] or "")


def _unescape(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _field(name: str) -> Step:
    def step(value: Value) -> Iterator[Value]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _wildcard(value: Value) -> Iterator[Value]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _recursive(name: str) -> Step:
    def step(value: Value) -> Iterator[Value]:
        if isinstance(value, dict):
            if name in value:
                yield value[name]
            for child in value.values():
                yield from step(child)
        elif isinstance(value, list):
            for child in value:
                yield from step(child)

    return step


def _index(index: int) -> Step:
    def step(value: Value) -> Iterator[Value]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _filter(path: str, compare: str | None, literal_text: str | None) -> Step:
    find = compile_path(path)
    if compare is None:
        return lambda value: (item for item in _items(value) if find(item))
    holds = _OPERATORS[compare]
    literal = _literal((literal_text or "").strip())

    def step(value: Value) -> Iterator[Value]:
        for item in _items(value):
            matches = find(item)
            try:
                if matches and holds(matches[0], literal):
                    yield item
            except TypeError:  # of different types: an error in Go, no match here
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
