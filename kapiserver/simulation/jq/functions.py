"""jq's functions, by name and number of arguments. Arguments are filters."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kapiserver.simulation.jq.assignments import PATH_FUNCTIONS
from kapiserver.simulation.jq.calls import expect, of_argument, of_elements, of_pair, of_value
from kapiserver.simulation.jq.errors import JqError
from kapiserver.simulation.jq.filters import Filter, Scope, computed, values_of
from kapiserver.simulation.jq.generators import GENERATORS
from kapiserver.simulation.jq.numbers import NUMBER_FUNCTIONS
from kapiserver.simulation.jq.texts import TEXT_FUNCTIONS
from kapiserver.simulation.jq.values import ARITHMETIC, compare, sort_key, type_of

# Functions of the elements.


def _by(inner: Filter, choose: Callable[[Sequence[tuple[Any, Any]]], Any]) -> Filter:
    """Return a filter that chooses among the elements by the results of a filter."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        scope.budget.spend_for(expect(value, "array"))
        yield choose([(list(values_of(inner, element, scope)), element) for element in value])

    return computed(run)


def _sorted_by(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return sorted(pairs, key=lambda pair: sort_key(pair[0]))


def _end_of(pairs: Sequence[tuple[Any, Any]], at: int) -> Any:
    return pairs[at][1] if pairs else None


def _grouped(pairs: Sequence[tuple[Any, Any]]) -> list[list[Any]]:
    groups: list[list[tuple[Any, Any]]] = []
    for pair in _sorted_by(pairs):
        if groups and not compare(groups[-1][0][0], pair[0]):
            groups[-1].append(pair)
        else:
            groups.append([pair])
    return [[element for _, element in group] for group in groups]


# Functions of a value.


def _length(value: Any) -> Any:
    if isinstance(value, bool):
        raise JqError("boolean has no length")
    if isinstance(value, int | float):
        return abs(value)
    return 0 if value is None else len(value)


def _keys(value: Any) -> list[Any]:
    expect(value, "array", "object")
    return sorted(value) if isinstance(value, dict) else list(range(len(value)))


def _sum(value: Any) -> Any:
    elements = list(expect(value, "array", "object"))
    if isinstance(value, dict):
        elements = list(value.values())
    if len(elements) > 1 and all(isinstance(element, str) for element in elements):
        return "".join(elements)
    if len(elements) > 1 and all(isinstance(element, list) for element in elements):
        return list(itertools.chain.from_iterable(elements))
    return functools.reduce(ARITHMETIC["+"], elements, None)


def _extreme(sign: int) -> Callable[[Any], Any]:
    def find(value: Any) -> Any:
        elements = sorted(expect(value, "array"), key=sort_key)
        return elements[0 if sign < 0 else -1] if elements else None

    return find


def _unique(value: Any) -> list[Any]:
    return [
        group[0] for group in _grouped([(element, element) for element in expect(value, "array")])
    ]


# Functions of a value and an argument.


def _has(value: Any, key: Any) -> bool:
    if isinstance(value, dict) and isinstance(key, str):
        return bool(key in value)
    if isinstance(value, list) and type_of(key) == "number":
        return bool(0 <= key < len(value))
    raise JqError(f"cannot check whether {type_of(value)} has a key")


def _contains(value: Any, other: Any) -> bool:
    if type_of(value) != type_of(other):
        raise JqError(f"cannot check containment of {type_of(other)} in {type_of(value)}")
    if isinstance(value, str):
        return bool(other in value)
    if isinstance(value, list):
        return all(any(_is_part(element, part) for element in value) for part in other)
    if isinstance(value, dict):
        return all(name in value and _is_part(value[name], other[name]) for name in other)
    return not compare(value, other)


def _is_part(value: Any, other: Any) -> bool:
    return type_of(value) == type_of(other) and _contains(value, other)


def _flatten(value: Any, depth: Any) -> list[Any]:
    if expect(depth, "number") < 0:
        raise JqError("flatten depth must not be negative")
    flat: list[Any] = []
    elements = expect(value, "array", "object")
    for element in elements if isinstance(value, list) else elements.values():
        flat.extend(
            _flatten(element, depth - 1) if isinstance(element, list) and depth >= 1 else [element]
        )
    return flat


def _binary_search(value: Any, searched: Any) -> int:
    elements = [sort_key(element) for element in expect(value, "array")]
    at = bisect.bisect_left(elements, sort_key(searched))
    is_there = at < len(elements) and not compare(value[at], searched)
    return at if is_there else -at - 1


def _transpose(value: Any) -> list[Any]:
    rows = [expect(row, "array") for row in expect(value, "array")]
    return [list(column) for column in itertools.zip_longest(*rows)]


FUNCTIONS: Mapping[tuple[str, int], Callable[..., Filter]] = {
    **GENERATORS,
    **PATH_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **NUMBER_FUNCTIONS,
    ("add", 0): of_value(_sum),
    ("bsearch", 1): of_pair(_binary_search),
    ("contains", 1): of_pair(_contains),
    ("env", 0): of_value(lambda _value: {}),
    ("flatten", 0): of_value(lambda value: _flatten(value, math.inf)),
    ("flatten", 1): of_argument(_flatten),
    ("group_by", 1): lambda inner: _by(inner, _grouped),
    ("has", 1): of_argument(_has),
    ("keys", 0): of_value(_keys),
    ("length", 0): of_value(_length),
    ("max", 0): of_elements(_extreme(1)),
    ("max_by", 1): lambda inner: _by(inner, lambda pairs: _end_of(_sorted_by(pairs), -1)),
    ("min", 0): of_elements(_extreme(-1)),
    ("min_by", 1): lambda inner: _by(inner, lambda pairs: _end_of(_sorted_by(pairs), 0)),
    ("reverse", 0): of_value(lambda value: expect(value, "array")[::-1]),
    ("sort", 0): of_elements(lambda value: sorted(expect(value, "array"), key=sort_key)),
    ("sort_by", 1): lambda inner: _by(
        inner, lambda pairs: [element for _, element in _sorted_by(pairs)]
    ),
    ("transpose", 0): of_value(_transpose),
    ("type", 0): of_value(type_of),
    ("unique", 0): of_elements(_unique),
    ("unique_by", 1): lambda inner: _by(
        inner, lambda pairs: [group[0] for group in _grouped(pairs)]
    ),
}
