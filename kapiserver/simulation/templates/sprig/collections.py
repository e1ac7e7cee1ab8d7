"""sprig's functions for lists and maps. All return new ones, except `set` and `unset`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kapiserver.api.accessors import copy_tree
from kapiserver.api.go_format import go_value
from kapiserver.simulation.templates.errors import TemplateError

# Lists.


def _chunk(size: int, items: list[Any]) -> list[Any]:
    if size < 1:
        raise TemplateError("a chunk has no items")
    return [items[start : start + size] for start in range(0, len(items), size)]


def _compact(items: list[Any]) -> list[Any]:
    return [item for item in items if item]


def _concat(*lists: list[Any]) -> list[Any]:
    return [item for items in lists for item in items]


def _first(items: list[Any]) -> Any:
    return items[0] if items else None


def _has(value: Any, items: list[Any]) -> bool:
    return any(_same(value, item) for item in items)


def _initial(items: list[Any]) -> list[Any]:
    return items[:-1]


def _last(items: list[Any]) -> Any:
    return items[-1] if items else None


def _rest(items: list[Any]) -> list[Any]:
    return items[1:]


def _reverse(items: list[Any]) -> list[Any]:
    return items[::-1]


def _append(items: list[Any], value: Any) -> list[Any]:
    return [*items, value]


def _prepend(items: list[Any], value: Any) -> list[Any]:
    return [value, *items]


def _uniq(items: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    for item in items:
        if not _has(item, distinct):
            distinct.append(item)
    return distinct


def _without(items: list[Any], *omitted: Any) -> list[Any]:
    return [item for item in items if not _has(item, list(omitted))]


def _same(value: Any, other: Any) -> bool:
    """Compare as reflect.DeepEqual does: `true` is not 1."""
    return type(value) is type(other) and bool(value == other)


# Maps.


def _dict(*pairs: Any) -> dict[str, Any]:
    names = [go_value(name) for name in pairs[::2]]
    values = [*pairs[1::2], *([""] if len(pairs) % 2 else [])]
    return dict(zip(names, values, strict=True))


def _dig(*args: Any) -> Any:
    if len(args) < 3:
        raise TemplateError("dig needs at least three arguments")
    *names, default, value = args
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return default
        value = value[name]
    return value


def _get(mapping: dict[str, Any], name: str) -> Any:
    return mapping.get(name, "")


def _has_key(mapping: dict[str, Any], name: str) -> bool:
    return name in mapping


def _keys(*mappings: dict[str, Any]) -> list[Any]:
    return [name for mapping in mappings for name in mapping]


def _merge(mapping: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    """Return what the first map has, and what it lacks from the others."""
    for other in others:
        mapping = _with_missing(mapping, other)
    return mapping


def _with_missing(mapping: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = dict(mapping)
    for name, value in other.items():
        present = merged.get(name)
        if isinstance(present, dict) and isinstance(value, dict):
            merged[name] = _with_missing(present, value)
        elif not present:
            merged[name] = value
    return merged


def _merge_overwrite(mapping: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    for other in others:
        mapping = _with_missing(other, mapping)
    return mapping


def _omit(mapping: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in names}


def _pick(mapping: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name in names}


def _pluck(name: str, *mappings: dict[str, Any]) -> list[Any]:
    return [mapping[name] for mapping in mappings if name in mapping]


def _set(mapping: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    if _holds(value, mapping):
        raise TemplateError("a map cannot hold itself")
    mapping[name] = value
    return mapping


def _holds(value: Any, mapping: dict[str, Any]) -> bool:
    """Report whether a value is a map or has it in a part."""
    if value is mapping:
        return True
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_holds(part, mapping) for part in parts)


def _unset(mapping: dict[str, Any], name: str) -> dict[str, Any]:
    mapping.pop(name, None)
    return mapping


def _values(mapping: dict[str, Any]) -> list[Any]:
    return list(mapping.values())


COLLECTIONS: Mapping[str, Callable[..., Any]] = {
    "append": _append,
    "chunk": _chunk,
    "compact": _compact,
    "concat": _concat,
    "deepCopy": copy_tree,
    "dict": _dict,
    "dig": _dig,
    "first": _first,
    "get": _get,
    "has": _has,
    "hasKey": _has_key,
    "initial": _initial,
    "keys": _keys,
    "last": _last,
    "list": lambda *values: list(values),
    "merge": _merge,
    "mergeOverwrite": _merge_overwrite,
    "mustMerge": _merge,
    "mustMergeOverwrite": _merge_overwrite,
    "omit": _omit,
    "pick": _pick,
    "pluck": _pluck,
    "prepend": _prepend,
    "push": _append,
    "rest": _rest,
    "reverse": _reverse,
    "set": _set,
    "tuple": lambda *values: list(values),
    "uniq": _uniq,
    "unset": _unset,
    "values": _values,
    "without": _without,
}
