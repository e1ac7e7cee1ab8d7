"""Structured merge: merging and comparing two values of one schema, and removing fields.

These are the operations of server-side apply. They read values by the nodes of `merge_schema` and
return fields as `fieldsets`. They know no manager, kind or version, and change no argument; results
may share parts with arguments. Mirrors the typed package of sigs.k8s.io/structured-merge-diff.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from kapiserver.api.apply.fieldsets import (
    END,
    SELF,
    Fields,
    Step,
    children,
    field_step,
    is_member,
    serialized_order,
    sort_steps,
    union,
)
from kapiserver.api.apply.merge_schema import (
    AnyNode,
    ListNode,
    MapNode,
    Node,
    ScalarNode,
    deduce,
)
from kapiserver.api.apply.typed_values import UNDECLARED, steps
from kapiserver.api.types import Value


class _Absent:
    """The type of ABSENT."""


ABSENT: Final = _Absent()

Unowned: TypeAlias = Mapping[str, "Unowned | None"]
"""Fields by name that are not looked at: None for a field, a map for fields within it."""
_NOTHING: Unowned = {}


class Comparison(Struct, frozen=True):
    """The differences between two values."""

    added: Fields
    modified: Fields
    removed: Fields


# Comparing.


def compare(node: Node, old: Value, new: Value, unowned: Unowned = _NOTHING) -> Comparison:
    """Return the differences of `new` from `old` without the fields of `unowned`, whose parents are
    maps in both."""
    added, modified, removed = _compare(node, old, new, unowned)
    return Comparison(
        added=children(added or END),
        modified=children(modified or END),
        removed=children(removed or END),
    )


_Diff: TypeAlias = tuple[Fields | None, Fields | None, Fields | None]
"""The fields added, modified and removed at one node; None for no field."""

_UNCHANGED: Final[_Diff] = (None, None, None)
_MODIFIED: Final[_Diff] = (None, END, None)


def _compare(node: Node, old: Any, new: Any, unowned: Unowned = _NOTHING) -> _Diff:
    if old is new or (old is not ABSENT and new is not ABSENT and _equal(old, new)):
        return _UNCHANGED
    if old is ABSENT:
        return _all_fields(node, new), None, None
    if new is ABSENT:
        return None, None, _all_fields(node, old)
    return _compare_unequal(node, old, new, unowned)


def _equal(left: Value, right: Value) -> bool:
    """Compare values; distinguishes True from 1 at this level only, which suffices for canonical
    trees."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _compare_unequal(node: Node, old: Value, new: Value, unowned: Unowned) -> _Diff:
    if node.__class__ is AnyNode:
        before, after = deduce(node, old), deduce(node, new)
        if before is not after and old is not None and new is not None:
            return _all_fields(after, new), END, _all_fields(before, old)
        node = after if new is not None else before
    if not isinstance(node, (MapNode, ListNode)) or node.atomic or not (old or new):
        return _MODIFIED
    if isinstance(node, MapNode):
        return _compare_maps(node, old or {}, new or {}, unowned)
    return _compare_lists(node, old or [], new or [])


def _compare_maps(
    node: MapNode, old: dict[str, Value], new: dict[str, Value], unowned: Unowned
) -> _Diff:
    added: Fields = {}
    modified: Fields = {}
    removed: Fields = {}
    declared, element = node.fields, node.element or UNDECLARED
    for name, old_value in old.items():
        if name in unowned and unowned[name] is None:
            continue
        new_value = new.get(name, ABSENT)
        # As `_equal`, without a call for most values.
        if old_value is new_value or (
            old_value == new_value
            and (old_value.__class__ is new_value.__class__ or _equal(old_value, new_value))
        ):
            continue
        child, step = declared.get(name, element), "f:" + name
        if new_value is ABSENT:
            removed[step] = _all_fields(child, old_value)
        elif child.__class__ is ScalarNode:
            modified[step] = END
        else:
            below = unowned.get(name) or _NOTHING
            diff = _compare_unequal(child, old_value, new_value, below)
            _add_diff(step, diff, added, modified, removed)
    if not new.keys() <= old.keys():
        for name, new_value in new.items():
            if name not in old and name not in unowned:
                added["f:" + name] = _all_fields(declared.get(name, element), new_value)
    return added or None, modified or None, removed or None


def _add_diff(step: Step, diff: _Diff, added: Fields, modified: Fields, removed: Fields) -> None:
    added_fields, modified_fields, removed_fields = diff
    if added_fields is not None:
        added[step] = added_fields
    if modified_fields is not None:
        modified[step] = modified_fields
    if removed_fields is not None:
        removed[step] = removed_fields


def _compare_lists(node: ListNode, old: list[Value], new: list[Value]) -> _Diff:
    added: Fields = {}
    modified: Fields = {}
    removed: Fields = {}
    before, after = _items_by_step(node, old), _items_by_step(node, new)
    for step in {**before, **after}:
        old_items, new_items = before.get(step, []), after.get(step, [])
        if len(old_items) <= 1 and len(new_items) <= 1:
            diff = _compare(node.item, _only(old_items), _only(new_items))
        else:
            # Items that share a step are compared as an atomic list.
            diff = _compare(_ATOMIC_LIST, old_items or ABSENT, new_items or ABSENT)
        if diff is not _UNCHANGED:
            _add_diff(step, diff, added, modified, removed)
    return added or None, modified or None, removed or None


def _only(items: list[Value]) -> Any:
    return items[0] if items else ABSENT


_ATOMIC_LIST: Final = ListNode(AnyNode())


def _items_by_step(node: ListNode, items: list[Value]) -> dict[Step, list[Value]]:
    items_by_step: dict[Step, list[Value]] = {}
    for step, item in steps(node, items):
        items_by_step.setdefault(step, []).append(item)
    return items_by_step


def fields_of_new(
    node: MapNode, empty: dict[str, Value], new: dict[str, Value], unowned: Unowned
) -> Fields:
    """Return the fields of a new object that have owners, with their steps in the order in which
    they are serialized: those which `compare` says are added or modified since the empty object,
    without the fields of `unowned`, whose parents the empty object has."""
    fields: Fields = {}
    declared, element = node.fields, node.element or UNDECLARED
    for name in sorted(new):
        if name in unowned and unowned[name] is None:
            continue
        step, value, old = "f:" + name, new[name], empty.get(name, ABSENT)
        child = declared.get(name, element)
        if old is ABSENT:
            fields[step] = _all_fields(child, value)
        elif (
            isinstance(child, MapNode)
            and not child.atomic
            and isinstance(old, dict)
            and isinstance(value, dict)
        ):
            if below := fields_of_new(child, old, value, unowned.get(name) or _NOTHING):
                fields[step] = below
        else:
            added, modified, _ = _compare(child, old, value)
            if added is not None or modified is not None:
                fields[step] = sort_steps(union(added or END, modified or END))
    return fields


def _all_fields(node: Node, value: Value) -> Fields:
    """Return the fields of a value that was added or removed as a whole, with their steps in the
    order in which they are serialized."""
    if node.__class__ is ScalarNode or not value:
        return END
    node = deduce(node, value)
    fields: Fields = {SELF: END}
    if isinstance(node, MapNode) and not node.atomic:
        declared, element = node.fields, node.element or UNDECLARED
        for name in sorted(value):
            child, nested = declared.get(name, element), value[name]
            is_leaf = child.__class__ is ScalarNode or not nested
            fields["f:" + name] = END if is_leaf else _all_fields(child, nested)
        return fields
    if isinstance(node, ListNode) and not node.atomic:
        items_by_step = _items_by_step(node, value)
        for step in serialized_order(items_by_step):
            items = items_by_step[step]
            fields[step] = _all_fields(node.item, items[0]) if len(items) == 1 else END
        return fields
    return END


# Merging.


def merge(node: Node, live: Value, config: Value) -> Value:
    """Merge a configuration into the live value. Returns the live value itself if nothing
    changes."""
    merged = _merge(node, live, config)
    return None if merged is ABSENT else merged


def _merge(node: Node, live: Any, config: Any) -> Any:
    if config is ABSENT:
        return live
    if live is ABSENT or live is None:
        return config
    if node.__class__ is ScalarNode:
        return live if _equal(live, config) else config
    node = deduce(node, config if config is not None else live)
    if not isinstance(node, MapNode | ListNode) or node.atomic or (not live and not config):
        return live if _equal(live, config) else config
    if isinstance(node, MapNode):
        if isinstance(live, dict) and isinstance(config, dict | None):
            return _merge_map(node, live, config or {})
    elif isinstance(live, list) and isinstance(config, list | None):
        return _merge_list(node, live, config or []) or ABSENT
    return config


def _merge_map(node: MapNode, live: dict[str, Value], config: dict[str, Value]) -> Any:
    merged_map = live
    for name, value in config.items():
        live_value = live.get(name, ABSENT)
        merged = _merge(node.child(name) or UNDECLARED, live_value, value)
        if merged is live_value:
            continue
        if merged_map is live:
            merged_map = dict(live)
        if merged is ABSENT:
            merged_map.pop(name, None)
        else:
            merged_map[name] = merged
    return merged_map


def _merge_list(node: ListNode, live: list[Value], config: list[Value]) -> list[Value]:
    """Return the items in the configuration's order, with other live items at their places in
    between."""
    live_items, config_items = list(steps(node, live)), list(steps(node, config))
    live_by_step = _first_items(live_items)
    config_by_step = dict(config_items)
    shared = iter([step for step, _ in config_items if step in live_by_step])
    next_shared = next(shared, None)
    merged: list[Value] = []
    merged_steps: set[Step] = set()
    left = right = 0
    while left < len(live_items) or right < len(config_items):
        if left < len(live_items):
            step, item = live_items[left]
            if right < len(config_items) and step == config_items[right][0]:
                merged.append(_merge(node.item, live_by_step[step], config_by_step[step]))
                merged_steps.add(step)
                left, right, next_shared = left + 1, right + 1, next(shared, None)
                continue
            if (
                right < len(config_items)
                and step in config_by_step
                and next_shared is not None
                and next_shared != step
            ):
                left += 1  # merged at its place in the configuration
                continue
            if step not in config_by_step:
                merged.append(item)
                left += 1
                continue
            if step in merged_steps:
                left += 1
        if right < len(config_items):
            step, item = config_items[right]
            merged.append(_merge(node.item, live_by_step.get(step, ABSENT), item))
            merged_steps.add(step)
            right += 1
            if next_shared == step:
                next_shared = next(shared, None)
    is_unchanged = len(merged) == len(live) and all(map(operator.is_, merged, live))
    return live if is_unchanged else merged


def _first_items(pairs: list[tuple[Step, Value]]) -> dict[Step, Any]:
    """Return the item of each step; ABSENT if several share the step, so that they are replaced."""
    items: dict[Step, Any] = {}
    for step, item in pairs:
        items[step] = ABSENT if step in items else item
    return items


# Removing.


def remove(node: Node, value: Value, fields: Fields) -> Value:
    """Return the value without the fields of the set and without the fields below them."""
    if not fields:
        return value
    node = deduce(node, value)
    if isinstance(node, ListNode) and isinstance(value, list) and not node.atomic:
        remaining = [
            item if below is None else remove(node.item, item, below)
            for item, below in _remaining(steps(node, value), fields, lambda step: step)
        ]
        return remaining or None
    if isinstance(node, MapNode) and isinstance(value, dict) and not node.atomic:
        remaining_fields = {
            name: value[name]
            if below is None
            else remove(node.child(name) or UNDECLARED, value[name], below)
            for name, below in _remaining(((name, name) for name in value), fields, field_step)
        }
        return remaining_fields or None
    return value


def _remaining(
    pairs: Any, fields: Fields, step_of: Callable[[str], Step]
) -> Iterator[tuple[Any, Fields | None]]:
    """Yield the remaining items with the part of the set below them; None if there is none."""
    for name, item in pairs:
        below = fields.get(step_of(name))
        if below is None:
            yield item, None
        elif not is_member(below):
            yield item, below
