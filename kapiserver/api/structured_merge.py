"""Two values of one schema laid over each other: merged, compared, cut, and seen as sets of fields.

The operations server-side apply is made of. They read by the nodes of `merge_schema` and speak of
fields as `fieldsets` does; they know no manager, kind or version, and change no value they were
given: what comes out may share parts with what went in. Mirrors the typed package of
sigs.k8s.io/structured-merge-diff.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kapiserver.api.fieldsets import (
    END,
    SELF,
    Fields,
    Step,
    children,
    field_step,
    is_member,
)
from kapiserver.api.merge_schema import (
    AnyNode,
    ListNode,
    MapNode,
    Node,
    ScalarNode,
    deduce,
)
from kapiserver.api.typed_values import UNDECLARED, steps
from kapiserver.api.types import Value


class _Absent:
    """What stands for a value that is not there, which null is not."""


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one value differs from another."""

    added: Fields
    modified: Fields
    removed: Fields


# Comparing.


def compare(node: Node, old: Value, new: Value) -> Comparison:
    """How `new` differs from `old`."""
    added, modified, removed = _compare(node, old, new)
    return Comparison(
        added=children(added or {}),
        modified=children(modified or {}),
        removed=children(removed or {}),
    )


_Diff: TypeAlias = tuple[Fields | None, Fields | None, Fields | None]
"""What was added, modified and removed at one place; None where nothing was."""

_SAME: Final[_Diff] = (None, None, None)
_MODIFIED: Final[_Diff] = (None, END, None)


def _compare(node: Node, old: Any, new: Any) -> _Diff:
    if old is new or (old is not ABSENT and new is not ABSENT and _equal(old, new)):
        return _SAME
    if old is ABSENT:
        return _all(deduce(node, new), new), None, None
    if new is ABSENT:
        return None, None, _all(deduce(node, old), old)
    before, after = deduce(node, old), deduce(node, new)
    if before is not after and old is not None and new is not None:
        return _all(after, new), END, _all(before, old)
    return _compare_inside(after if new is not None else before, old, new)


def _equal(one: Value, other: Value) -> bool:
    """Equality that tells True from 1 where it is seen at once; inside, canonical trees do."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _compare_inside(node: Node, old: Value, new: Value) -> _Diff:
    if not isinstance(node, MapNode | ListNode) or node.atomic or not (old or new):
        return _MODIFIED
    if isinstance(node, MapNode):
        return _compare_maps(node, old or {}, new or {})
    return _compare_lists(node, old or [], new or [])


def _compare_maps(node: MapNode, old: dict[str, Value], new: dict[str, Value]) -> _Diff:
    added: Fields = {}
    modified: Fields = {}
    removed: Fields = {}
    for name, one in old.items():
        other = new.get(name, ABSENT)
        if one is other:
            continue
        if other is ABSENT:
            child = deduce(node.child(name) or UNDECLARED, one)
            removed[field_step(name)] = _all(child, one)
        else:
            found = _compare(node.child(name) or UNDECLARED, one, other)
            if found is not _SAME:
                _put(field_step(name), found, added, modified, removed)
    for name, other in new.items():
        if name not in old:
            child = deduce(node.child(name) or UNDECLARED, other)
            added[field_step(name)] = _all(child, other)
    return added or None, modified or None, removed or None


def _put(step: Step, found: _Diff, added: Fields, modified: Fields, removed: Fields) -> None:
    came, changed, went = found
    if came is not None:
        added[step] = came
    if changed is not None:
        modified[step] = changed
    if went is not None:
        removed[step] = went


def _compare_lists(node: ListNode, old: list[Value], new: list[Value]) -> _Diff:
    added: Fields = {}
    modified: Fields = {}
    removed: Fields = {}
    before, after = _gathered(node, old), _gathered(node, new)
    for step in {**before, **after}:
        ones, others = before.get(step, []), after.get(step, [])
        if len(ones) <= 1 and len(others) <= 1:
            found = _compare(node.item, _only(ones), _only(others))
        else:
            # Items that share a step are one piece.
            found = _compare(_PIECE, ones or ABSENT, others or ABSENT)
        if found is not _SAME:
            _put(step, found, added, modified, removed)
    return added or None, modified or None, removed or None


def _only(items: list[Value]) -> Any:
    return items[0] if items else ABSENT


_PIECE: Final = ListNode(AnyNode())


def _gathered(node: ListNode, items: list[Value]) -> dict[Step, list[Value]]:
    found: dict[Step, list[Value]] = {}
    for step, item in steps(node, items):
        found.setdefault(step, []).append(item)
    return found


def _all(node: Node, value: Value) -> Fields:
    """The node of a value that came or went as a whole: it and all that lies in it."""
    if node.__class__ is ScalarNode or not value:
        return END
    found: Fields = {SELF: END}
    if isinstance(node, MapNode) and not node.atomic:
        for name, below in value.items():
            found[field_step(name)] = _all(deduce(node.child(name) or UNDECLARED, below), below)
        return found
    if isinstance(node, ListNode) and not node.atomic:
        for step, items in _gathered(node, value).items():
            item = items[0]
            found[step] = _all(deduce(node.item, item), item) if len(items) == 1 else END
        return found
    return END


# Merging.


def merge(node: Node, live: Value, config: Value) -> Value:
    """The live value with what the configuration says laid over it; itself where nothing
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
    out = live
    for name, value in config.items():
        before = live.get(name, ABSENT)
        merged = _merge(node.child(name) or UNDECLARED, before, value)
        if merged is before:
            continue
        if out is live:
            out = dict(live)
        if merged is ABSENT:
            out.pop(name, None)
        else:
            out[name] = merged
    return out


def _merge_list(node: ListNode, live: list[Value], config: list[Value]) -> list[Value]:
    """Items in the configuration's order, those it does not name kept between them where they
    were."""
    ours, theirs = list(steps(node, live)), list(steps(node, config))
    known = _first_items(ours)
    wanted = dict(theirs)
    shared = iter([step for step, _ in theirs if step in known])
    due = next(shared, None)
    out: list[Value] = []
    taken: set[Step] = set()
    left = right = 0
    while left < len(ours) or right < len(theirs):
        if left < len(ours):
            step, item = ours[left]
            if right < len(theirs) and step == theirs[right][0]:
                out.append(_merge(node.item, known[step], wanted[step]))
                taken.add(step)
                left, right, due = left + 1, right + 1, next(shared, None)
                continue
            if right < len(theirs) and step in wanted and due is not None and due != step:
                left += 1  # its turn comes with the configuration's
                continue
            if step not in wanted:
                out.append(item)
                left += 1
                continue
            if step in taken:
                left += 1
        if right < len(theirs):
            step, item = theirs[right]
            out.append(_merge(node.item, known.get(step, ABSENT), item))
            taken.add(step)
            right += 1
            if due == step:
                due = next(shared, None)
    same = len(out) == len(live) and all(map(operator.is_, out, live))
    return live if same else out


def _first_items(pairs: list[tuple[Step, Value]]) -> dict[Step, Any]:
    """The item of each step; ABSENT where several share it, which the configuration replaces."""
    found: dict[Step, Any] = {}
    for step, item in pairs:
        found[step] = ABSENT if step in found else item
    return found


# Cutting.


def remove(node: Node, value: Value, fields: Fields) -> Value:
    """The value without the items and fields of the set, and without what lies below them."""
    if not fields:
        return value
    node = deduce(node, value)
    if isinstance(node, ListNode) and isinstance(value, list) and not node.atomic:
        kept = [
            item if below is None else remove(node.item, item, below)
            for item, below in _kept(steps(node, value), fields, lambda step: step)
        ]
        return kept or None
    if isinstance(node, MapNode) and isinstance(value, dict) and not node.atomic:
        cut = {
            name: value[name]
            if below is None
            else remove(node.child(name) or UNDECLARED, value[name], below)
            for name, below in _kept(((name, name) for name in value), fields, field_step)
        }
        return cut or None
    return value


def _kept(
    pairs: Any, fields: Fields, step_of: Callable[[str], Step]
) -> Iterator[tuple[Any, Fields | None]]:
    """What stays, with the part of the set that lies below it (None: nothing does)."""
    for name, item in pairs:
        below = fields.get(step_of(name))
        if below is None:
            yield item, None
        elif not is_member(below):
            yield item, below
