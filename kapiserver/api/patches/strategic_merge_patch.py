"""Strategic merge patch: a merge patch that merges lists by their merge keys.

The field options `merge` (the key, "" for scalars) and `patch` ("replace") direct it. Values of
unknown type (maps of strings, free JSON) are merged as objects or replaced as lists. Pure: neither
the object nor the patch is changed. Mirrors apimachinery/pkg/util/strategicpatch with the options
of the server (parallel lists merged, unmatched nulls ignored).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from kapiserver.api.errors import BadObject, PatchFailed
from kapiserver.api.go_format import go_type, go_value, json_type
from kapiserver.api.types import ListOf, MapOf, Message, ScalarType, Shape, Tree, Type, Value

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_FROM = "$deleteFromPrimitiveList/"

_SAFE_INTEGER = 1 << 53
_BAD_RETAIN_KEYS = "invalid patch format of retainKeys"

_Schema: TypeAlias = "type[Type] | MapOf | None"
"""The type of an object; a MapOf for maps; None if unknown."""


def read(patch: Value) -> Tree:
    """Check that a decoded body is a strategic merge patch. Raises BadObject."""
    if patch is None:
        return {}
    if not isinstance(patch, dict):
        raise BadObject(
            f"json: cannot unmarshal {json_type(patch)} "
            "into Go value of type map[string]interface {}"
        )
    return {name: _with_integers(value) for name, value in patch.items()}


def _with_integers(value: Value) -> Value:
    """Return a value with integers in place of floats such as 3.0, which Go converts to integers
    after a strategic merge patch, but refuses elsewhere."""
    if isinstance(value, dict):
        return {name: _with_integers(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    is_integer = isinstance(value, float) and value.is_integer() and abs(value) < _SAFE_INTEGER
    return int(value) if is_integer else value


def apply(target: Tree, patch: Tree, type_: type[Type]) -> Tree:
    """Return the target, an object of `type_`, after the patch.

    Raises BadObject for a malformed patch, PatchFailed for one that cannot be applied.
    """
    try:
        return _merge_map(target, patch, type_)
    except RecursionError:
        raise PatchFailed("the patch is nested too deeply") from None


class _Rule(Struct, frozen=True):
    """How the value of a field is merged; lists without a `key` are replaced."""

    below: _Schema = None
    key: str | None = None
    replace: bool = False


_NO_RULE = _Rule()


@functools.cache
def _rules(type_: Any) -> Mapping[str, _Rule]:
    rules = {}
    for flat in type_.flat_fields():
        options = flat.field.options
        strategies = (options.patch or "").split(",")
        rules[flat.field.name] = _Rule(
            below=_nested_schema(flat.field.shape),
            key=options.merge,
            replace="replace" in strategies,
        )
    return rules


def _nested_schema(shape: Shape) -> _Schema:
    match shape:
        case Message(type_) if not issubclass(type_, ScalarType):
            return type_
        case ListOf(item):
            return _nested_schema(item)
        case MapOf():
            return shape
        case _:
            return None


def _rule(schema: _Schema, name: str) -> _Rule:
    if isinstance(schema, MapOf):
        return _Rule(below=_nested_schema(schema.value))
    if schema is None:
        return _NO_RULE
    owner: Any = schema  # for mypy, to which classes are not hashable
    return _rules(owner).get(name, _NO_RULE)


def _merge_map(target: Tree, patch: Tree, schema: _Schema) -> Tree:
    if _DIRECTIVE in patch:
        return _apply_directive(patch)
    merged = _retain_keys(target, patch)
    handled = {_RETAIN_KEYS}
    for key, order in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            handled |= {key, name}
            _merge_ordered(merged, patch, name, order, _rule(schema, name))
    for key, value in patch.items():
        if key in handled:
            continue
        if key.startswith(_DELETE_FROM):
            _delete_from(merged, key.removeprefix(_DELETE_FROM), value)
        elif value is None or (_is_directed(value) and not isinstance(merged.get(key), dict)):
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value, _rule(schema, key))
    return merged


def _merge(target: Value, value: Value, rule: _Rule) -> Value:
    if isinstance(target, dict) and isinstance(value, dict) and not rule.replace:
        return _merge_map(target, value, rule.below)
    if isinstance(target, list) and isinstance(value, list) and rule.key is not None:
        return _merge_list(target, value, rule.key, rule.below)
    return _without_directives(value)


def _apply_directive(patch: Tree) -> Tree:
    match patch[_DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        case "delete":
            return {}
        case directive:
            raise _unknown_directive(directive, patch)


def _retain_keys(target: Tree, patch: Tree) -> Tree:
    """Return a copy of the target with only the keys that `$retainKeys` names, if it is set."""
    if _RETAIN_KEYS not in patch:
        return dict(target)
    names = patch[_RETAIN_KEYS]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadObject(_BAD_RETAIN_KEYS)
    retained = set(names)
    for key, value in patch.items():
        is_directive = key.startswith((_ORDER, _DELETE_FROM)) or key == _RETAIN_KEYS
        if value is not None and not is_directive and key not in retained:
            raise BadObject(_BAD_RETAIN_KEYS)
    return {key: value for key, value in target.items() if key in retained}


def _delete_from(merged: Tree, name: str, values: Value) -> None:
    current = merged.get(name)
    if isinstance(current, list) and isinstance(values, list):
        deleted = {_identity(value) for value in values}
        merged[name] = [value for value in current if _scalar_identity(value) not in deleted]


def _merge_ordered(merged: Tree, patch: Tree, name: str, order: Value, rule: _Rule) -> None:
    """Merge a list and sort it by `$setElementOrder`."""
    if not isinstance(order, list):
        raise _wrong_type([], order)
    current, changes = merged.get(name), patch.get(name)
    for side in (current, changes):
        if side is not None and not isinstance(side, list):
            raise _wrong_type([], side)
    key = rule.key or ""
    if current is None and changes is None:
        if name in patch:
            merged.pop(name, None)
        return
    _check_order(changes or [], order, key)
    if current is None:
        result = _without_directives(changes)
    elif changes is None:
        result = current
    elif rule.key is None:
        result = _without_directives(changes)
    else:
        result = _merge_list(current, changes, key, rule.below)
    merged[name] = _in_order(result, order=order, live=current or [], key=key)


def _check_order(changes: Sequence[Value], order: Sequence[Value], key: str) -> None:
    """Check that the items of the patch are in the given order."""
    if not changes or not order:
        return
    identities = iter([_item_identity(item, key) for item in order])
    for item in changes:
        if isinstance(item, dict) and _DIRECTIVE in item:
            continue
        identity = _item_identity(item, key)
        if not any(candidate == identity for candidate in identities):
            raise BadObject(
                f"The order in patch list:\n{go_value(list(changes))}\n doesn't match "
                f"$setElementOrder list:\n{go_value(list(order))}\n"
            )


def _merge_list(
    target: Sequence[Value], patch: Sequence[Value], key: str, schema: _Schema
) -> list[Value]:
    if not target and not patch:
        return []
    if not _all_objects(target, patch):
        merged = list({_identity(item): item for item in (*target, *patch)}.values())
        return _in_order(merged, order=patch, live=target, key="")
    if not key:
        raise BadObject("cannot merge lists without merge key for type struct")
    changes = [item for item in patch if _DIRECTIVE not in item]
    directives = [item for item in patch if _DIRECTIVE in item]
    if _has_replace_directive(directives):
        return [_without_directives(item) for item in changes]
    deleted = {_item_identity(item, key) for item in directives}
    merged_items = [item for item in target if _identity(item.get(key)) not in deleted]
    positions: dict[Any, int] = {}
    for position, item in enumerate(merged_items):
        positions.setdefault(_identity(item.get(key)), position)
    for item in changes:
        identity = _item_identity(item, key)
        if identity in positions:
            merged_items[positions[identity]] = _merge_map(
                merged_items[positions[identity]], item, schema
            )
        else:
            positions[identity] = len(merged_items)
            merged_items.append(_without_directives(item))
    return _in_order(merged_items, order=changes, live=target, key=key)


def _has_replace_directive(directives: Sequence[Tree]) -> bool:
    """Report whether an item replaces the whole list; all others must delete."""
    for item in directives:
        if item[_DIRECTIVE] == "merge":
            raise BadObject("merging lists cannot yet be specified in the patch")
        if item[_DIRECTIVE] not in ("replace", "delete"):
            raise _unknown_directive(item[_DIRECTIVE], item)
    return any(item[_DIRECTIVE] == "replace" for item in directives)


def _in_order(
    merged: Sequence[Value], *, order: Sequence[Value], live: Sequence[Value], key: str
) -> list[Value]:
    """Return the items, those of `order` in that order. The others keep the place that they have in
    the live list, before the items of `order` that they precede there."""
    ranks = _ranks(order, key)
    live_ranks = _ranks(live, key)
    named = [item for item in merged if _item_identity(item, key) in ranks]
    named.sort(key=lambda item: ranks[_item_identity(item, key)])
    unranked = [item for item in merged if _item_identity(item, key) not in ranks]
    result: list[Value] = []
    pending = iter(named)
    upcoming = next(pending, None)
    for remaining in unranked:
        rank = live_ranks.get(_item_identity(remaining, key))
        while upcoming is not None:
            upcoming_rank = live_ranks.get(_item_identity(upcoming, key))
            if rank is not None and upcoming_rank is not None and rank < upcoming_rank:
                break
            result.append(upcoming)
            upcoming = next(pending, None)
        result.append(remaining)
    if upcoming is not None:
        result.append(upcoming)
    return [*result, *pending]


def _ranks(items: Iterable[Value], key: str) -> dict[Any, int]:
    ranks: dict[Any, int] = {}
    for rank, item in enumerate(items):
        ranks.setdefault(_item_identity(item, key), rank)
    return ranks


def _all_objects(*lists: Sequence[Value]) -> bool:
    """Report whether the items are objects; all must have one type, and none may be a list."""
    kinds = {type(item) for items in lists for item in items}
    if list in kinds:
        raise PatchFailed("lists of lists are not supported")
    if len(kinds) > 1:
        lists_text = " ".join(go_value(list(items)) for items in lists)
        raise BadObject(f"list element types are not identical: [{lists_text}]")
    return kinds == {dict}


def _item_identity(item: Value, key: str) -> Any:
    if not key:
        return _identity(item)
    if not isinstance(item, dict):
        raise _wrong_type({}, item)
    if key not in item:
        raise BadObject(f"map: {go_value(item)} does not contain declared merge key: {key}")
    return _identity(item[key])


def _identity(value: Value) -> Any:
    """Return a key that is equal for scalars that are equal in Go: 1, 1.0 and true differ."""
    if isinstance(value, dict | list):
        raise BadObject(f"{go_value(value)} cannot be compared as a merge key")
    return _scalar_identity(value)


def _scalar_identity(value: Value) -> Any:
    return (type(value), value) if not isinstance(value, dict | list) else id(value)


def _without_directives(value: Value) -> Value:
    """Return the value of a patch without nulls in objects and without directives."""
    if isinstance(value, dict):
        return {
            key: _without_directives(below)
            for key, below in value.items()
            if below is not None and not _is_directed(below) and not _is_directive(key)
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directed(item)]
    return value


def _is_directed(value: Value) -> bool:
    """Whether a value is an object with a directive for the one that it is merged into."""
    return isinstance(value, dict) and _DIRECTIVE in value


def _is_directive(key: str) -> bool:
    return key in (_DIRECTIVE, _RETAIN_KEYS) or key.startswith((_ORDER, _DELETE_FROM))


def _unknown_directive(directive: Value, patch: Tree) -> BadObject:
    return BadObject(f"unknown patch type: {go_value(directive)} in map: {go_value(patch)}")


def _wrong_type(expected: Value, actual: Value) -> BadObject:
    return BadObject(f"expected a {go_type(expected)}, but received a {go_type(actual)}")
