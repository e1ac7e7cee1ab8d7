"""Informers: each handler receives every change once, in order, and ends in the state of the store,
whatever breaks in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

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

from kapiserver.api.accessors import labels_of
from kapiserver.storage.backends import open_store
from kapiserver.storage.cache.entry import LARGE_OBJECT_BYTES, Entry
from kapiserver.storage.cache.query import DeleteQuery
from kapiserver.storage.concurrency import time_slice
from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.kv.contract import KV, EventSink, Revision, Watch
from kapiserver.storage.objects.informer import (
    RETRY_SECONDS,
    Index,
    InformerSubscription,
    ObjectChange,
)
from kapiserver.storage.objects.object_store import ResourceStore
from tests.storage.objectkit import (
    TIMEOUT_SECONDS,
    StorageHarness,
    config_map,
    key,
    put,
    run,
)

State = dict[str, int]
"""Revisions of objects, by path."""


class BreakableStore:
    """A store whose watches end and whose ranges fail when a test says so."""

    def __init__(self, kv: KV) -> None:
        self._kv = kv
        self._watches: list[tuple[Watch, BreakableSink]] = []
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        """Watch; `break_watches` can end it."""
        breakable = BreakableSink(sink)
        watch = self._kv.watch(prefix, after=after, sink=breakable)
        self._watches.append((watch, breakable))
        return watch

    async def range(self, prefix: str, **options: Any) -> Any:
        """Read the range, or fail."""
        if self.fails:
            raise Unavailable("the test wants it so")
        return await self._kv.range(prefix, **options)

    def break_watches(self) -> None:
        """End all watches, as a broken connection does."""
        watches, self._watches = self._watches, []
        for watch, sink in watches:
            sink.error = Unavailable("the watch broke")
            watch.cancel()


class BreakableSink:
    """Passes events on, and replaces the reason of the end."""

    def __init__(self, sink: EventSink) -> None:
        self.error: Exception | None = None
        self._sink = sink
        self.on_events = sink.on_events
        self.on_progress = sink.on_progress

    def on_closed(self, error: Exception | None) -> None:
        """End the watch."""
        self._sink.on_closed(self.error or error)


class Handler:
    """Applies changes to its own state, and fails on a change that does not follow from it."""

    def __init__(self) -> None:
        self.state: State = {}
        self.errors: list[str] = []
        self.has_synced = False
        self.subscription: InformerSubscription | None = None

    def on_change(self, change: ObjectChange) -> None:
        """Apply one change."""
        path = change.last.path
        old_revision = None if change.old is None else int(change.old.revision)
        if self.state.get(path) != old_revision:
            self.errors.append(f"{path}: old is {old_revision}, seen was {self.state.get(path)}")
        if change.new is None:
            del self.state[path]
        else:
            if old_revision is not None and change.new.revision <= old_revision:
                self.errors.append(f"{path}: {change.new.revision} after {old_revision}")
            self.state[path] = int(change.new.revision)

    def on_changes(self, changes: Sequence[ObjectChange]) -> None:
        """Apply a batch of changes."""
        assert changes
        for change in changes:
            self.on_change(change)


NAMES = [f"c{number:02d}" for number in range(24)]
"""So many that a handler is still reading the list when the next write comes."""
names = st.sampled_from([*NAMES[:2], *NAMES[-2:]])


class Model(RuleBasedStateMachine):
    """Writes, breaks and subscriptions in random order, next to a dict of every past state."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.handlers: list[Handler] = []

    @initialize()
    def start(self) -> None:
        self.kv = self.run(open_store("sqlite::memory:"))
        self.breakable = BreakableStore(self.kv)
        self.harness = StorageHarness(self.breakable)  # type: ignore[arg-type]
        self.store = self.harness.of("configmaps")
        self.states: list[State] = [{}]
        self.stopped = False
        """Whether the cache was stopped, and waits for a reader."""
        for name in NAMES:
            self.run(self.store.create(config_map(name)))
        self.run(self.stop())
        self.remember()

    def run(self, operation: Any) -> Any:
        """Return the result of the call, or its storage error."""

        async def await_operation() -> Any:
            try:
                return await operation
            except StorageError as error:
                return error

        return self.runner.run(await_operation())

    def remember(self) -> None:
        """Record the store's current state, read without the cache."""

        async def read() -> State:
            page = await self.kv.range(self.store.codec.prefix)
            return {item.key: int(item.revision) for item in page.items}

        self.states.append(self.run(read()))

    def write(self, by_other_server: bool, change: Callable[[ResourceStore], Any]) -> None:
        """Write through this store, or directly to the backend as another server would."""
        store = StorageHarness(self.kv).of("configmaps") if by_other_server else self.store
        self.run(change(store))
        if by_other_server:
            store.stop()
        self.remember()

    @rule(name=names, by_other_server=st.booleans())
    def create(self, name: str, by_other_server: bool) -> None:
        self.write(by_other_server, lambda store: store.create(config_map(name)))

    @rule(name=names, value=st.integers(0, 3), by_other_server=st.booleans())
    def update(self, name: str, value: int, by_other_server: bool) -> None:
        self.write(by_other_server, lambda store: put(store, name, "data", to={"n": f"{value}"}))

    @rule(name=names, by_other_server=st.booleans())
    def delete(self, name: str, by_other_server: bool) -> None:
        self.write(by_other_server, lambda store: store.delete(key(name), DeleteQuery()))

    @rule(batches=st.booleans())
    def subscribe(self, batches: bool) -> None:
        async def subscribe() -> None:
            handler, informer = Handler(), self.store.informer
            self.handlers.append(handler)
            if batches:
                handler.subscription = informer.subscribe_batches(handler.on_changes)
            else:
                handler.subscription = informer.subscribe(handler.on_change)

        self.run(subscribe())

    @rule()
    def unsubscribe(self) -> None:
        if self.handlers:
            handler = self.handlers.pop(0)
            assert handler.subscription is not None
            handler.subscription.cancel()
            handler.subscription.cancel()
            last_state = dict(handler.state)
            self.settle()
            assert handler.state == last_state

    @rule()
    def break_watches(self) -> None:
        async def end() -> None:
            self.breakable.break_watches()

        self.run(end())

    @rule()
    def stop_cache(self) -> None:
        """Stop the cache; the next reader fills it again."""
        self.run(self.stop())

    async def stop(self) -> None:
        self.stopped = True
        self.store.stop()

    @rule()
    def fail_reads(self) -> None:
        self.breakable.fails = True

    @rule(turns=st.integers(1, 3))
    def turn(self, turns: int) -> None:
        """Run the event loop for a few turns, fewer than all work needs."""
        for _ in range(turns):
            self.run(asyncio.sleep(0))

    @rule()
    def settle(self) -> None:
        """Let the store recover; then every handler has its state."""
        self.breakable.fails = False
        self.remember()

        async def recover() -> None:
            self.harness.clock.advance(RETRY_SECONDS)
            if self.stopped:
                await self.store.cache.wait_ready()
                self.stopped = False
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not all(map(self.is_up_to_date, self.handlers)):  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0)

        self.runner.run(recover())
        if self.handlers:
            listing = self.store.informer.lister.list("default")
            assert {entry.path: int(entry.revision) for entry in listing} == self.states[-1]

    def is_up_to_date(self, handler: Handler) -> bool:
        """Whether a handler is synced and has the current state."""
        assert handler.subscription is not None
        return handler.subscription.synced and handler.state == self.states[-1]

    @invariant()
    def nothing_out_of_order(self) -> None:
        """No handler received a change twice, or one that does not follow from the previous one."""
        for handler in self.handlers:
            assert handler.errors == []

    @invariant()
    def lister_is_whole(self) -> None:
        """The list of a synced informer is a state that the store had."""
        for handler in self.handlers:
            handler.has_synced |= handler.subscription is not None and handler.subscription.synced
        if any(handler.has_synced for handler in self.handlers):
            listing = self.store.informer.lister.list()
            assert {entry.path: int(entry.revision) for entry in listing} in self.states

    def teardown(self) -> None:
        async def end() -> None:
            self.harness.stores.stop()
            await self.kv.close()

        self.run(end())
        self.runner.close()


def test_handlers_end_in_the_state_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """After random writes, breaks and resyncs every handler has the state of the store."""
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    run_state_machine_as_test(
        Model, settings=settings(max_examples=40, stateful_step_count=30, deadline=None)
    )


def test_index() -> None:
    """An index follows updates and deletions."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", labels={"app": "x"}))
        index = Index(lambda entry: labels_of(entry.tree()).values())
        subscription = store.informer.subscribe(index.update)
        await subscription.wait_synced()
        await store.create(config_map("b", labels={"app": "x", "tier": "x"}))
        assert [entry.key.name for entry in index.get("x")] == ["a", "b"]
        await put(store, "a", "metadata", "labels", to={"app": "y"})
        assert [entry.key.name for entry in index.get("x")] == ["b"]
        assert [entry.key.name for entry in index.get("y")] == ["a"]
        await store.delete(key("b"), DeleteQuery())
        assert index.get("x") == []
        subscription.cancel()

    run(test)


def test_failing_handler() -> None:
    """A handler that raises affects neither other handlers nor the store."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        handler = Handler()

        def fail(_change: ObjectChange) -> None:
            raise ValueError("the test wants it so")

        failing = store.informer.subscribe(fail)
        working = store.informer.subscribe(handler.on_change)
        await working.wait_synced()
        create_result = await store.create(config_map("a"))
        assert handler.state == {create_result.entry.path: create_result.entry.revision}
        for subscription in (failing, working):
            subscription.cancel()

    run(test)


def test_no_subscription_no_listener() -> None:
    """Without subscriptions the informer neither listens to the cache nor fills it."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        assert not store.cache.is_filled
        listeners = list(store.cache._listeners)
        subscription = store.informer.subscribe(Handler().on_change)
        await subscription.wait_synced()
        assert store.cache.is_filled
        subscription.cancel()
        assert list(store.cache._listeners) == listeners

    run(test)


@pytest.mark.parametrize("text", ["x" * LARGE_OBJECT_BYTES, "x"])
def test_slow_objects_are_decoded_before_they_are_delivered(text: str) -> None:
    """A handler finds the tree of an object that another server wrote if it is large, or the first
    of its resource, whose decoder is not compiled. Changes keep their order, and the tree is not
    kept without an account."""

    async def scenario(harness: StorageHarness) -> None:
        seen: list[tuple[str, bool]] = []
        entries: list[Entry] = []
        done = asyncio.Event()

        def on_change(change: ObjectChange) -> None:
            seen.append((change.last.key.name, change.last.cached_tree is not None))
            entries.append(change.last)
            if change.last.key.name == "end":
                done.set()

        subscription = harness.of("configmaps").informer.subscribe(on_change)
        await subscription.wait_synced()
        other = StorageHarness(harness.kv).of("configmaps")
        await other.create(config_map("first", data={"text": text}))
        await other.create(config_map("small"))
        await other.create(config_map("third", data={"text": text}))
        await other.create(config_map("end"))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await done.wait()
        is_large = len(text) > 1
        assert seen == [("first", True), ("small", False), ("third", is_large), ("end", False)]
        assert all(entry.cached_tree is None for entry in entries)
        other.stop()

    run(scenario)
