"""The state that a workload leaves behind, without what differs between runs. Pure.

Three plain runs say what differs: fields that differ are not compared, and names by their pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from kapiserver.api.types import Tree
from kapiserver.exploring.history import OTHER_ANNOTATION, History, ObjectRef
from kapiserver.exploring.names import Names, learn_names
from kapiserver.testing.history.diffs import Change, changes
from kapiserver.testing.state.dumps import normalised

State = Mapping[ObjectRef, Tree]
"""Normalised objects, by their normalised references."""

_COUNTER = re.compile(
    r"(observed|last)?generation|.*(restart|retry|retries|attempt|reconcile|sync|update|observe)"
    r"(s|_?count|number)?",
    re.IGNORECASE,
)
"""Names of numbers that count what an operator does, in a status or an annotation."""
_ADDRESSES = ("podIP", "podIPs")
"""Fields of pods that say which of a node's addresses were free."""
_SETS = ("finalizers", "ownerReferences")
"""Lists whose order means nothing."""


def normal_state(objects: Mapping[ObjectRef, Tree], names: Names) -> dict[ObjectRef, Tree]:
    """Return the objects without what differs between runs. Objects whose names have the same
    pattern are numbered in the order of their contents."""
    normal = {reference: names.normalise(reference) for reference in objects}
    texts = {
        reference.name: other.name for reference, other in normal.items() if other != reference
    }
    grouped: dict[ObjectRef, list[Tree]] = {}
    for reference, obj in objects.items():
        tree = _compared(normalised(obj, texts))
        _drop_other_annotation(tree)
        tree.get("metadata", {}).pop("generation", None)
        grouped.setdefault(normal[reference], []).append(tree)
    state = {}
    for reference, trees in grouped.items():
        if len(trees) > 1:
            trees.sort(key=repr)
        for number, tree in enumerate(trees, 1):
            name = reference.name if number == 1 else f"{reference.name}#{number}"
            state[ObjectRef(reference.resource, reference.namespace, name)] = tree
    return state


def _drop_other_annotation(tree: Tree) -> None:
    annotations = tree.get("metadata", {}).get("annotations", {})
    if OTHER_ANNOTATION in annotations:
        del annotations[OTHER_ANNOTATION]
        if not annotations:
            del tree["metadata"]["annotations"]


def _compared(value: Any) -> Any:
    """Return a value without counters and addresses, and with sets in the order of their items."""
    if isinstance(value, dict):
        return {
            key: sorted(item, key=repr)
            if key in _SETS and isinstance(item, list)
            else _compared(item)
            for key, item in value.items()
            if key not in _ADDRESSES and not (_is_number(item) and _COUNTER.fullmatch(key))
        }
    return [_compared(item) for item in value] if isinstance(value, list) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and value.isdigit())


class Difference(Struct, frozen=True):
    """What differs in one object: the whole object is missing or unexpected, or fields differ."""

    object: ObjectRef
    text: str
    fields: tuple[Change, ...] = ()

    def __str__(self) -> str:
        lines = "".join(f"\n  {change}" for change in self.fields)
        return f"{self.object}: {self.text}{lines}"


MISSING, UNEXPECTED, DIFFERENT = "is missing", "is unexpected", "differs"


def differences(expected: State, actual: State) -> list[Difference]:
    """Return what differs in the order of the objects."""
    result = []
    for reference in sorted({*expected, *actual}):
        if reference not in actual:
            result.append(Difference(reference, MISSING))
        elif reference not in expected:
            result.append(Difference(reference, UNEXPECTED))
        elif expected[reference] == actual[reference]:
            continue
        elif fields := changes(expected[reference], actual[reference]):
            result.append(Difference(reference, DIFFERENT, tuple(fields)))
    return result


class Expectation(Struct, frozen=True, kw_only=True):
    """The state that a run has to reach.

    objects             the objects of the first plain run
    ignored_objects     objects that only some plain runs have at the end
    ignored_fields      paths of fields that differ between plain runs, by object
    """

    names: Names
    objects: Mapping[ObjectRef, Tree]
    state: State
    ignored_objects: frozenset[ObjectRef] = frozenset()
    ignored_fields: Mapping[ObjectRef, frozenset[str]] = {}

    def with_objects(self, objects: Mapping[ObjectRef, Tree]) -> Expectation:
        """Return the expectation of other objects, without the same fields."""
        state = normal_state(objects, self.names)
        return structs.replace(self, objects=objects, state=state)

    def differences(self, objects: Mapping[ObjectRef, Tree]) -> list[Difference]:
        """Return what differs from the expected state."""
        result = []
        for difference in differences(self.state, normal_state(objects, self.names)):
            if difference.object in self.ignored_objects:
                continue
            if difference.text != DIFFERENT:
                result.append(difference)
                continue
            ignored = self.ignored_fields.get(difference.object, frozenset())
            fields = tuple(
                item
                for item in difference.fields
                if not _is_below(item.path, ignored) and not _has_seen_other_writer(item)
            )
            if fields:
                result.append(Difference(difference.object, DIFFERENT, fields))
        return result


def _has_seen_other_writer(change: Change) -> bool:
    """Whether a field records what an operator saw, such as kopf's last-handled-configuration, and
    that had the annotation of another writer."""
    return isinstance(change.new, str) and OTHER_ANNOTATION in change.new


def _is_below(path: str, ignored: Iterable[str]) -> bool:
    return any(path == item or path.startswith((f"{item}.", f"{item}[")) for item in ignored)


def learn_expectation(histories: Sequence[History]) -> Expectation:
    """Return the expectation that plain runs agree on."""
    names = learn_names(histories)
    first, *others = [normal_state(history.final, names) for history in histories]
    objects: set[ObjectRef] = set()
    fields: dict[ObjectRef, set[str]] = {}
    for other in others:
        for difference in differences(first, other):
            if difference.text == DIFFERENT:
                paths = {change.path for change in difference.fields}
                fields.setdefault(difference.object, set()).update(paths)
            else:
                objects.add(difference.object)
    return Expectation(
        names=names,
        objects=histories[0].final,
        state=first,
        ignored_objects=frozenset(objects),
        ignored_fields={key: frozenset(paths) for key, paths in fields.items()},
    )
