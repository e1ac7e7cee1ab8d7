"""Random operations on a store, compared with a dict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kapiserver.storage.errors import (
    Compacted,
    Conflict,
    FutureRevision,
    KeyExists,
    StorageError,
)
from kapiserver.storage.kv.contract import KV, KeyValue, Revision
from kapiserver.storage.sqlite.embedded_store import open_embedded
from tests.clock import ManualClock
from tests.storage.invariants import check_store
from tests.storage.recorder import Recorder

KEYS = [f"/{kind}/{name}" for kind in ("a", "ab", "b") for name in ("x", "y", "y/z", "ÿ")]

keys = st.sampled_from(KEYS)
prefixes = st.sampled_from(["/", "/a", "/a/", "/ab/", "/b/y", "/none/"])
values = st.binary(max_size=3)
back = st.integers(0, 12)
"""How many revisions back a read goes, or by how much a write's expected revision is wrong."""

State = dict[str, KeyValue]
Result = TypeVar("Result")


class Model(RuleBasedStateMachine):
    """A store and its model: every past state as a dict, by revision."""

    store: KV

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.watches: list[tuple[str, Revision, Recorder, Any]] = []

    @initialize()
    def start(self) -> None:
        self.store = self.run(open_embedded(None, clock=self.clock))
        self.first = self.now = self.run(self.store.current_revision())
        self.oldest = Revision(0)
        self.states: dict[int, State] = {self.now: {}}
        self.expiring: dict[str, tuple[Revision, float]] = {}

    def run(self, operation: Any) -> Any:
        """Return the result of an operation, or its storage error."""

        async def await_operation() -> Any:
            try:
                return await operation
            except StorageError as error:
                return error

        return self.runner.run(await_operation())

    def run_in_loop(self, function: Callable[[], Result]) -> Result:
        """Return the result of a function that is called while the event loop runs."""

        async def call() -> Result:
            return function()

        return self.runner.run(call())

    def state_at(self, revision: int) -> State:
        return self.states[max(r for r in self.states if r <= revision)]

    def wrote(self, revision: Any, key: str, value: bytes | None) -> None:
        assert revision == self.now + 1
        state = dict(self.states[self.now])
        if value is None:
            del state[key]
        else:
            state[key] = KeyValue(key, value, revision)
        self.now = revision
        self.states[revision] = state

    @rule(key=keys, value=values, ttl=st.sampled_from([0, 0, 5]))
    def create(self, key: str, value: bytes, ttl: int) -> None:
        outcome = self.run(self.store.create(key, value, ttl=ttl))
        if key in self.states[self.now]:
            assert isinstance(outcome, KeyExists)
        else:
            self.wrote(outcome, key, value)
            self.expires(key, ttl)

    @rule(
        key=keys, value=values, distance=st.sampled_from([0, 0, 0, 1]), ttl=st.sampled_from([0, 5])
    )
    def update(self, key: str, value: bytes, distance: int, ttl: int) -> None:
        present = self.states[self.now].get(key)
        expected = Revision((present.revision if present else 0) + distance)
        outcome = self.run(self.store.update(key, value, expected=expected, ttl=ttl))
        if present is None or distance:
            assert isinstance(outcome, Conflict)
        else:
            self.wrote(outcome, key, value)
            self.expires(key, ttl)

    @rule(key=keys, distance=st.sampled_from([0, 0, 0, 1]))
    def delete(self, key: str, distance: int) -> None:
        present = self.states[self.now].get(key)
        expected = Revision((present.revision if present else 0) + distance)
        outcome = self.run(self.store.delete(key, expected=expected))
        if present is None or distance:
            assert isinstance(outcome, Conflict)
        else:
            self.wrote(outcome, key, None)

    def expires(self, key: str, ttl: int) -> None:
        if ttl:
            self.expiring[key] = (self.now, self.clock.now() + ttl)

    @rule(seconds=st.integers(1, 6))
    def time_passes(self, seconds: int) -> None:
        self.run_in_loop(lambda: self.clock.advance(seconds))
        due = []
        for key, (revision, at) in sorted(self.expiring.items(), key=lambda item: item[1][1]):
            if at <= self.clock.now():
                del self.expiring[key]
                present = self.states[self.now].get(key)
                if present is not None and present.revision == revision:
                    due.append(key)
        recorder = Recorder()
        watch = self.store.watch("/", after=self.now, sink=recorder)
        events = self.run(recorder.count(len(due)))
        assert sorted(event.key for event in events) == sorted(due)
        for event in events:
            self.wrote(event.revision, event.key, event.value)
        watch.cancel()

    @rule(key=keys, ago=back)
    def get(self, key: str, ago: int) -> None:
        revision = self.now - ago
        if revision < self.first:
            return
        read = self.run(self.store.get(key, revision=Revision(revision) if ago else None))
        if revision < self.oldest:
            assert isinstance(read, Compacted)
        else:
            assert read.item == self.state_at(revision).get(key)
            assert read.revision == revision

    @rule(prefix=prefixes, start=st.just("") | keys, limit=st.integers(0, 4), ago=back)
    def range(self, prefix: str, start: str, limit: int, ago: int) -> None:
        revision = self.now - ago
        if revision < self.first:
            return
        at = Revision(revision) if ago else None
        page = self.run(self.store.range(prefix, start=start, limit=limit, revision=at))
        if revision < self.oldest:
            assert isinstance(page, Compacted)
            return
        state = self.state_at(revision)
        expected = [state[key] for key in sorted(state) if key.startswith(prefix) and key >= start]
        limited = expected[:limit] if limit else expected
        assert list(page.items) == limited
        assert page.remaining == len(expected) - len(limited)
        assert page.revision == revision

    @rule(distance=st.integers(1, 3))
    def read_ahead(self, distance: int) -> None:
        revision = Revision(self.now + distance)
        assert isinstance(self.run(self.store.get("/a/x", revision=revision)), FutureRevision)
        assert isinstance(self.run(self.store.compact(revision)), FutureRevision)

    @rule(ago=back)
    def compact(self, ago: int) -> None:
        revision = Revision(max(self.now - ago, 1))
        assert self.run(self.store.compact(revision)) is None
        self.oldest = max(self.oldest, revision)

    @rule(prefix=prefixes, ago=back)
    def watch(self, prefix: str, ago: int) -> None:
        after = Revision(max(self.now - ago, self.first))
        recorder = Recorder()
        watch = self.run_in_loop(lambda: self.store.watch(prefix, after=after, sink=recorder))
        if after < self.oldest:
            assert isinstance(self.run(recorder.end()), Compacted)
        elif len(self.watches) < 5:
            # The watch must have read its history before that is compacted.
            watch.request_progress()
            self.run(recorder.wait_until(lambda: recorder.progressed))
            self.watches.append((prefix, after, recorder, watch))
        else:
            watch.cancel()

    @invariant()
    def watches_saw_everything(self) -> None:
        for prefix, after, recorder, _ in self.watches:
            changes = [self.state_change(revision) for revision in self.changed(after, prefix)]
            expected = [change[:3] for change in changes]
            self.run(recorder.count(len(expected)))
            assert [(e.revision, e.key, e.value) for e in recorder.seen] == expected

    def changed(self, after: int, prefix: str) -> list[int]:
        revisions = [revision for revision in self.states if revision > after]
        return [r for r in revisions if self.state_change(r)[1].startswith(prefix)]

    def state_change(self, revision: int) -> tuple[int, str, bytes | None, bytes | None]:
        old_state, new_state = self.states[revision - 1], self.states[revision]
        (key,) = {
            k for k in old_state.keys() | new_state.keys() if old_state.get(k) != new_state.get(k)
        }
        old_value, new_value = old_state.get(key), new_state.get(key)
        return (revision, key, new_value and new_value.value, old_value and old_value.value)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.runner.run(check_store(self.store, self.first))
            self.runner.run(self.store.close())
        self.runner.close()


@pytest.mark.parametrize("examples", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_store_is_its_model(examples: int) -> None:
    """The embedded store returns what the model returns, after any operations in any order."""
    model_settings = settings(max_examples=examples, stateful_step_count=30)
    run_state_machine_as_test(Model, settings=model_settings)
