"""The graph of owners and dependents, compared with a model that looks at every object."""

from __future__ import annotations

import itertools
import sys
from types import FrameType
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kapiserver.api.group import Resource
from kapiserver.controllers.deletion.owner_graph import OwnerGraph
from kapiserver.storage.objects.lifecycle import FOREGROUND, ORPHAN
from kapiserver.storage.objects.metadata_informer import DeletedObject, ObjectMetadata

RESOURCE = Resource(
    group="",
    name="configmaps",
    kind="ConfigMap",
    namespaced=True,
    versions=("v1",),
    storage_version="v1",
)
PATHS = tuple(f"/registry/configmaps/default/{name}" for name in "abcd")
MAX_DELETED = 3
MANY_OWNERS = 10_000

paths = st.sampled_from(PATHS)
finalizers = st.sets(st.sampled_from([FOREGROUND, ORPHAN, "example.com/other"])).map(tuple)
blocking = st.sampled_from([True, False, None])
owners = st.dictionaries(st.integers(0, 5), blocking, max_size=3)


def waits(observed: ObjectMetadata) -> bool:
    return observed.terminating and not {FOREGROUND, ORPHAN}.isdisjoint(observed.finalizers)


def names(dependent: ObjectMetadata, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in dependent.owners)


def blocks(dependent: ObjectMetadata, uid: str) -> bool:
    return any(
        owner["uid"] == uid and owner.get("blockOwnerDeletion") is True
        for owner in dependent.owners
    )


class Model(RuleBasedStateMachine):
    """Changes objects at a few paths, as events of the store do. Each object that is created has a
    new uid, and references may name objects that do not exist yet."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = OwnerGraph(MAX_DELETED)
        self.objects: dict[str, ObjectMetadata] = {}
        """All objects, by path."""
        self.numbers = itertools.count()
        self.deleted: list[str] = []
        self.taken: set[str] = set()

    # The model.

    def dependents(self, uid: str) -> set[str]:
        return {each.path for each in self.objects.values() if names(each, uid)}

    def waiting_owners(self, dependent: ObjectMetadata | None) -> set[str]:
        if dependent is None:
            return set()
        return {
            each.path
            for each in self.objects.values()
            if waits(each) and names(dependent, each.uid)
        }

    # Changes.

    def observe(self, path: str, uid: str, **fields: Any) -> None:
        before = self.objects.get(path)
        observed = ObjectMetadata(resource=RESOURCE, path=path, uid=uid, **fields)
        self.objects[path] = observed
        self.taken.discard(uid)
        self.deleted = [each for each in self.deleted if each != uid]
        expected = self.waiting_owners(before)
        old_owners = before.owners if before is not None else ()
        if waits(observed) or (observed.owners and observed.owners != old_owners):
            expected.add(path)
        assert set(self.graph.upsert(observed)) == expected

    @rule(path=paths, owners=owners, finalizers=finalizers, terminating=st.booleans())
    def write(self, path: str, owners: Any, finalizers: Any, terminating: bool) -> None:
        """Create an object, or change all that the graph sees of it."""
        before = self.objects.get(path)
        references = []
        for number, blocking in owners.items():
            reference: dict[str, Any] = {"uid": f"uid-{number}"}
            if blocking is not None:
                reference["blockOwnerDeletion"] = blocking
            references.append(reference)
        uid = f"uid-{next(self.numbers)}" if before is None else before.uid
        fields = {"owners": tuple(references), "finalizers": finalizers, "terminating": terminating}
        self.observe(path, uid, **fields)

    @rule(path=paths)
    def write_same(self, path: str) -> None:
        """Change what the graph does not see, such as a label."""
        before = self.objects.get(path)
        if before is not None:
            fields = {"finalizers": before.finalizers, "terminating": before.terminating}
            self.observe(path, before.uid, owners=before.owners, **fields)

    @rule(path=paths, has_uid=st.booleans())
    def delete(self, path: str, has_uid: bool) -> None:
        """Delete an object; the uid of one that could not be decoded is not known."""
        before = self.objects.pop(path, None)
        uid = before.uid if before is not None and has_uid else ""
        is_known = before is not None and (before.owners or waits(before))
        last_uid = before.uid if before is not None and is_known else uid
        self.taken.discard(last_uid)
        expected = self.waiting_owners(before)
        if last_uid:
            self.deleted = [*self.deleted, last_uid][-MAX_DELETED:]
            expected |= self.dependents(last_uid)
        assert set(self.graph.delete(DeletedObject(RESOURCE, path, uid))) == expected

    @rule(path=paths)
    def restore(self, path: str) -> None:
        """Restore an object that was deleted, with its uid."""
        if self.deleted and path not in self.objects:
            self.observe(path, self.deleted[0])

    @rule(path=paths)
    def take(self, path: str) -> None:
        """Take the dependents of an object for deletion; only a waiting one has any, once."""
        obj = self.objects.get(path)
        if obj is None:
            return
        expected = set()
        if waits(obj) and obj.uid not in self.taken:
            self.taken.add(obj.uid)
            expected = {
                each.path
                for each in self.objects.values()
                if blocks(each, obj.uid) and not waits(each)
            }
        assert set(self.graph.take_blocking_dependents(obj.uid)) == expected

    @rule()
    def clear(self) -> None:
        """Forget everything, as before all objects are listed again."""
        self.graph.clear()
        self.objects.clear()
        self.deleted.clear()
        self.taken.clear()

    # Queries.

    @invariant()
    def same_objects(self) -> None:
        """The graph has the objects with owners, and those that wait."""
        for path in PATHS:
            obj = self.objects.get(path)
            is_known = obj is not None and (obj.owners or waits(obj))
            assert self.graph.get(path) == (obj if is_known else None)

    @invariant()
    def same_answers(self) -> None:
        """The graph answers as the model, about every uid that was used."""
        waiting = {each.uid for each in self.objects.values() if waits(each)}
        for uid in {f"uid-{number}" for number in range(12)} | waiting | set(self.deleted):
            dependents = self.dependents(uid)
            assert set(self.graph.dependents(uid)) == dependents
            assert self.graph.has_dependents(uid) == bool(dependents)
            blocking = {path for path in dependents if blocks(self.objects[path], uid)}
            assert self.graph.has_blocking_dependents(uid) == bool(blocking)
            waiting_dependents = {self.objects[path].uid for path in dependents} & waiting
            assert self.graph.has_waiting_dependents(uid) == bool(waiting_dependents)
            assert self.graph.is_waiting(uid) == (uid in waiting)
            assert self.graph.is_deleted(uid) == (uid in self.deleted)

    def teardown(self) -> None:
        """Nothing is left in a graph whose objects are deleted."""
        for path in list(self.objects):
            self.delete(path, True)
        empty = OwnerGraph()
        for name, part in vars(self.graph).items():
            if name not in ("_max_deleted_uids", "_deleted_uids"):
                assert part == getattr(empty, name), name


def test_graph_agrees_with_the_model() -> None:
    """After any changes the graph has the same objects and gives the same answers as a model that
    looks at every object."""
    run_state_machine_as_test(
        Model, settings=settings(max_examples=100, stateful_step_count=30, deadline=None)
    )


def test_very_many_owners() -> None:
    """A change of an object with very many owners makes few function calls: it happens on the event
    loop."""
    many = tuple({"uid": f"uid-{number}"} for number in range(MANY_OWNERS))
    graph, calls = OwnerGraph(), 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    path = PATHS[0]
    sys.setprofile(count)
    try:
        for owners_of_object in (many, many[1:]):
            graph.upsert(
                ObjectMetadata(resource=RESOURCE, path=path, uid="own", owners=owners_of_object)
            )
        graph.delete(DeletedObject(RESOURCE, path, "own"))
    finally:
        sys.setprofile(None)
    assert calls < 100
