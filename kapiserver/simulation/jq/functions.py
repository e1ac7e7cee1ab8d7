"""jq's functions, by name and number of arguments. Arguments are filters."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from kapiserver.api.linear_regex import InvalidPattern, compile_pattern
from kapiserver.simulation.jq.errors import JqError
from kapiserver.simulation.jq.filters import Filter, Scope, descend, item
from kapiserver.simulation.jq.values import ARITHMETIC, compare, is_true, sort_key, type_of


def _of_value(function: Callable[[Any], Any]) -> Callable[[], Filter]:
    """Return a function without arguments whose one result follows from the value."""

    def make() -> Filter:
        def run(value: Any, scope: Scope) -> Iterator[Any]:
            _spend(value, scope)
            yield scope.budget.spend_for(function(value))

        return run

    return make


def _of_argument(function: Callable[[Any, Any], Any]) -> Callable[[Filter], Filter]:
    """Return a function of the value and one argument; it has a result for each argument."""

    def make(argument: Filter) -> Filter:
        def run(value: Any, scope: Scope) -> Iterator[Any]:
            for each in argument(value, scope):
                _spend(value, scope)
                yield scope.budget.spend_for(function(value, each))

        return run

    return make


def _spend(value: Any, scope: Scope) -> None:
    """Take the steps that a look at each element or character of a value costs."""
    if isinstance(value, list | dict | str):
        scope.budget.spend(1 + len(value) // 4)


def _expect(value: Any, *types: str) -> Any:
    if type_of(value) not in types:
        raise JqError(f"expected {' or '.join(types)} but got: {type_of(value)}")
    return value


# Filters of values.


def _select(test: Filter) -> Filter:
    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for each in test(value, scope):
            if is_true(each):
                yield value

    return run


def _of_type(*types: str) -> Callable[[], Filter]:
    def make() -> Filter:
        def run(value: Any, _scope: Scope) -> Iterator[Any]:
            if type_of(value) in types:
                yield value

        return run

    return make


def _empty() -> Filter:
    def run(_value: Any, _scope: Scope) -> Iterator[Any]:
        return iter(())

    return run


def _error(*messages: Filter) -> Filter:
    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for message in messages[0](value, scope) if messages else (value,):
            raise JqError(message if isinstance(message, str) else "error")
        yield None

    return run


def _first_of(inner: Filter) -> Filter:
    return lambda value, scope: itertools.islice(inner(value, scope), 1)


def _map(inner: Filter) -> Filter:
    def run(value: Any, scope: Scope) -> Iterator[Any]:
        results = [result for each in _elements(value, scope) for result in inner(each, scope)]
        yield scope.budget.spend_for(results)

    return run


def _elements(value: Any, scope: Scope) -> Iterator[Any]:
    if not isinstance(value, list | dict):
        raise JqError(f"cannot iterate over: {type_of(value)}")
    for each in value if isinstance(value, list) else value.values():
        scope.budget.spend()
        yield each


def _decided(decisive: bool) -> Callable[..., Filter]:
    """Return `any` if true is decisive, else `all`: of the elements, of a condition of each, or of
    a condition of each result of a generator."""

    def make(*arguments: Filter) -> Filter:
        test = arguments[-1] if arguments else None

        def run(value: Any, scope: Scope) -> Iterator[Any]:
            source = arguments[0](value, scope) if len(arguments) > 1 else _elements(value, scope)
            yield decisive if any(_holds(each, scope) for each in source) else not decisive

        def _holds(each: Any, scope: Scope) -> bool:
            results = (each,) if test is None else test(each, scope)
            return any(is_true(result) is decisive for result in results)

        return run

    return make


def _range(*bounds: Filter) -> Filter:
    def run(value: Any, scope: Scope) -> Iterator[Any]:
        lists = [list(bound(value, scope)) for bound in bounds]
        for chosen in itertools.product(*lists):
            for number in range(*(int(_expect(each, "number")) for each in chosen)):
                scope.budget.spend()
                yield number

    return run


def _by(inner: Filter, choose: Callable[[Sequence[tuple[Any, Any]]], Any]) -> Filter:
    """Return a filter that chooses among the elements by the results of a filter."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        _expect(value, "array")
        yield choose([(list(inner(each, scope)), each) for each in _elements(value, scope)])

    return run


def _sorted_by(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return sorted(pairs, key=lambda pair: sort_key(pair[0]))


def _grouped(pairs: Sequence[tuple[Any, Any]]) -> list[list[Any]]:
    groups: list[list[tuple[Any, Any]]] = []
    for pair in _sorted_by(pairs):
        if groups and not compare(groups[-1][0][0], pair[0]):
            groups[-1].append(pair)
        else:
            groups.append([pair])
    return [[each for _, each in group] for group in groups]


# Functions of a value.


def _length(value: Any) -> Any:
    if isinstance(value, bool):
        raise JqError("boolean has no length")
    if isinstance(value, int | float):
        return abs(value)
    return 0 if value is None else len(value)


def _keys(value: Any) -> list[Any]:
    _expect(value, "array", "object")
    return sorted(value) if isinstance(value, dict) else list(range(len(value)))


def _sum(value: Any) -> Any:
    elements = list(_expect(value, "array", "object"))
    if isinstance(value, dict):
        elements = list(value.values())
    if len(elements) > 1 and all(isinstance(each, str) for each in elements):
        return "".join(elements)
    if len(elements) > 1 and all(isinstance(each, list) for each in elements):
        return list(itertools.chain.from_iterable(elements))
    return functools.reduce(ARITHMETIC["+"], elements, None)


def _flatten(value: Any) -> list[Any]:
    flat: list[Any] = []
    for each in _expect(value, "array"):
        flat.extend(_flatten(each) if isinstance(each, list) else [each])
    return flat


def _to_number(value: Any) -> Any:
    if type_of(value) == "number":
        return value
    try:
        number = orjson.loads(_expect(value, "string"))
    except orjson.JSONDecodeError:
        number = None
    if type_of(number) != "number":
        raise JqError("invalid number")
    return number


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else _to_json(value)


def _to_json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:
        raise JqError(str(error)) from None


def _from_json(value: Any) -> Any:
    try:
        return orjson.loads(_expect(value, "string"))
    except orjson.JSONDecodeError:
        raise JqError("invalid JSON") from None


def _to_entries(value: Any) -> list[Any]:
    return [{"key": name, "value": each} for name, each in _expect(value, "object").items()]


def _from_entries(value: Any) -> dict[str, Any]:
    entries = [_expect(each, "object") for each in _expect(value, "array")]
    return {str(each.get("key", each.get("name"))): each.get("value") for each in entries}


def _with_entries(inner: Filter) -> Filter:
    mapped = _map(inner)

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for entries in mapped(_to_entries(value), scope):
            yield _from_entries(entries)

    return run


def _extreme(sign: int) -> Callable[[Any], Any]:
    def find(value: Any) -> Any:
        elements = sorted(_expect(value, "array"), key=sort_key)
        return elements[0 if sign < 0 else -1] if elements else None

    return find


def _unique(value: Any) -> list[Any]:
    return [group[0] for group in _grouped([(each, each) for each in _expect(value, "array")])]


def _text(method: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: method(_expect(value, "string"))


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
        return all(any(_is_part(each, part) for each in value) for part in other)
    if isinstance(value, dict):
        return all(name in value and _is_part(value[name], other[name]) for name in other)
    return not compare(value, other)


def _is_part(value: Any, other: Any) -> bool:
    return type_of(value) == type_of(other) and _contains(value, other)


def _test(value: Any, pattern: Any) -> bool:
    try:
        matcher = compile_pattern(_expect(pattern, "string"))
    except InvalidPattern as error:
        raise JqError(str(error)) from None
    return bool(matcher.search(_expect(value, "string")))


def _join(value: Any, separator: Any) -> str:
    _expect(separator, "string")
    texts = ["" if each is None else _to_text(each) for each in _expect(value, "array")]
    if sum(map(len, texts)) + len(separator) * len(texts) > 1 << 20:
        raise JqError("a string is too long")
    return str(separator.join(texts))


def _split(value: Any, separator: Any) -> list[str]:
    text, by = _expect(value, "string"), _expect(separator, "string")
    return list(text.split(by)) if by else list(text)


def _starts(value: Any, prefix: Any) -> bool:
    return bool(_expect(value, "string").startswith(_expect(prefix, "string")))


def _ends(value: Any, suffix: Any) -> bool:
    return bool(_expect(value, "string").endswith(_expect(suffix, "string")))


def _index_of(value: Any, part: Any) -> Any:
    if value is None:
        return None
    found = _expect(value, "string").find(_expect(part, "string"))
    return found if found >= 0 else None


def _without(method: Callable[[str, str], str]) -> Callable[[Any, Any], Any]:
    def run(value: Any, part: Any) -> Any:
        return method(value, part) if isinstance(value, str) and isinstance(part, str) else value

    return run


FUNCTIONS: Mapping[tuple[str, int], Callable[..., Filter]] = {
    ("add", 0): _of_value(_sum),
    ("all", 0): _decided(False),
    ("all", 1): _decided(False),
    ("all", 2): _decided(False),
    ("any", 0): _decided(True),
    ("any", 1): _decided(True),
    ("any", 2): _decided(True),
    ("arrays", 0): _of_type("array"),
    ("ascii_downcase", 0): _of_value(_text(str.lower)),
    ("ascii_upcase", 0): _of_value(_text(str.upper)),
    ("booleans", 0): _of_type("boolean"),
    ("contains", 1): _of_argument(_contains),
    ("empty", 0): _empty,
    ("endswith", 1): _of_argument(_ends),
    ("error", 0): _error,
    ("error", 1): _error,
    ("first", 0): _of_value(lambda value: item(value, 0)),
    ("first", 1): _first_of,
    ("flatten", 0): _of_value(_flatten),
    ("floor", 0): _of_value(lambda value: int(_expect(value, "number") // 1)),
    ("from_entries", 0): _of_value(_from_entries),
    ("fromjson", 0): _of_value(_from_json),
    ("group_by", 1): lambda inner: _by(inner, _grouped),
    ("has", 1): _of_argument(_has),
    ("index", 1): _of_argument(_index_of),
    ("inside", 1): _of_argument(lambda value, other: _contains(other, value)),
    ("iterables", 0): _of_type("array", "object"),
    ("join", 1): _of_argument(_join),
    ("keys", 0): _of_value(_keys),
    ("last", 0): _of_value(lambda value: item(value, -1)),
    ("length", 0): _of_value(_length),
    ("ltrimstr", 1): _of_argument(_without(str.removeprefix)),
    ("map", 1): _map,
    ("max", 0): _of_value(_extreme(1)),
    ("min", 0): _of_value(_extreme(-1)),
    ("not", 0): _of_value(lambda value: not is_true(value)),
    ("nulls", 0): _of_type("null"),
    ("numbers", 0): _of_type("number"),
    ("objects", 0): _of_type("object"),
    ("range", 1): _range,
    ("range", 2): _range,
    ("recurse", 0): lambda: descend,
    ("reverse", 0): _of_value(lambda value: _expect(value, "array")[::-1]),
    ("rtrimstr", 1): _of_argument(_without(str.removesuffix)),
    ("scalars", 0): _of_type("null", "boolean", "number", "string"),
    ("select", 1): _select,
    ("sort", 0): _of_value(lambda value: sorted(_expect(value, "array"), key=sort_key)),
    ("sort_by", 1): lambda inner: _by(inner, lambda pairs: [each for _, each in _sorted_by(pairs)]),
    ("split", 1): _of_argument(_split),
    ("startswith", 1): _of_argument(_starts),
    ("strings", 0): _of_type("string"),
    ("test", 1): _of_argument(_test),
    ("to_entries", 0): _of_value(_to_entries),
    ("tojson", 0): _of_value(_to_json),
    ("tonumber", 0): _of_value(_to_number),
    ("tostring", 0): _of_value(_to_text),
    ("type", 0): _of_value(type_of),
    ("unique", 0): _of_value(_unique),
    ("values", 0): _of_type("boolean", "number", "string", "array", "object"),
    ("with_entries", 1): _with_entries,
}
