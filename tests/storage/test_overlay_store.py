"""An overlay store, compared with a plain store that has the base rows as rows of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from kapiserver.storage.errors import Conflict, KeyExists
from kapiserver.storage.kv.contract import KV, KeyValue, KVEvent, Revision
from kapiserver.storage.sqlite.embedded_store import open_embedded
from kapiserver.storage.wrappers.overlay_store import TOMBSTONE, BaseRows, OverlayStore
from tests.clock import ManualClock
from tests.storage.recorder import Recorder

ROOT = "/clusters/one"
BASE = {"/a/x": b"x", "/a/y": b"y", "/ab/y": b"z"}


async def _overlay(store: KV, root: str = ROOT) -> OverlayStore:
    return OverlayStore(store, BaseRows(await store.current_revision(), BASE), root=root)


async def test_base_rows_are_read(store: KV) -> None:
    """Gets, ranges and pages show base rows at the revision of the base, between own rows."""
    overlay = await _overlay(store)
    revision = await store.current_revision()
    own = await overlay.create(f"{ROOT}/a/xx", b"own")
    assert (await overlay.get(f"{ROOT}/a/x")).item == KeyValue(f"{ROOT}/a/x", b"x", revision)
    items = [
        KeyValue(f"{ROOT}/a/x", b"x", revision),
        KeyValue(f"{ROOT}/a/xx", b"own", own),
        KeyValue(f"{ROOT}/a/y", b"y", revision),
    ]
    page = await overlay.range(f"{ROOT}/a/")
    assert (list(page.items), page.remaining) == (items, 0)
    for limit in (1, 2, 3):
        page = await overlay.range(f"{ROOT}/a/", limit=limit)
        assert (list(page.items), page.remaining) == (items[:limit], 3 - limit)
    assert (await overlay.range(f"{ROOT}/b/")).items == []


async def test_base_rows_take_no_rows(store: KV) -> None:
    """Base rows are in no row of the store, and two overlays of one base do not see each other's
    writes."""
    one, two = await _overlay(store), await _overlay(store, "/clusters/two")
    revision = await store.current_revision()
    await one.update(f"{ROOT}/a/x", b"changed", expected=revision)
    await one.delete(f"{ROOT}/a/y", expected=revision)
    assert (await two.get("/clusters/two/a/x")).item is not None
    assert [item.value for item in (await two.range("/clusters/two/")).items] == [b"x", b"y", b"z"]
    assert [item.value for item in (await store.range("/clusters/")).items] == [
        b"changed",
        TOMBSTONE,
    ]


async def test_writes_of_base_rows(store: KV) -> None:
    """A base row is updated and deleted at its revision alone; deleted, it can be created again."""
    overlay = await _overlay(store)
    key, revision = f"{ROOT}/a/x", await store.current_revision()
    for expected in (Revision(0), Revision(revision + 1)):
        with pytest.raises(Conflict) as caught:
            await overlay.update(key, b"new", expected=expected)
        assert (caught.value.current, caught.value.value) == (revision, b"x")
    with pytest.raises(KeyExists):
        await overlay.create(key, b"new")
    updated = await overlay.update(key, b"new", expected=revision)
    with pytest.raises(Conflict) as caught:
        await overlay.delete(key, expected=revision)
    assert (caught.value.current, caught.value.value) == (updated, b"new")
    deleted = await overlay.delete(key, expected=updated)
    with pytest.raises(Conflict) as caught:
        await overlay.update(key, b"new", expected=updated)
    assert (caught.value.current, caught.value.value) == (None, None)
    assert (await overlay.get(key)).item is None
    assert (await overlay.get(key, revision=updated)).item == KeyValue(key, b"new", updated)
    assert (await overlay.get(key, revision=revision)).item == KeyValue(key, b"x", revision)
    created = await overlay.create(key, b"again")
    assert created > deleted
    assert (await overlay.get(key)).item == KeyValue(key, b"again", created)


async def test_events_of_base_rows(store: KV) -> None:
    """A watch and the history show the life of a base row: an update, a deletion, a creation."""
    overlay = await _overlay(store)
    key, revision = f"{ROOT}/a/x", await store.current_revision()
    recorder = Recorder()
    watch = overlay.watch(f"{ROOT}/a/", after=revision, sink=recorder)
    first = await overlay.update(key, b"new", expected=revision)
    second = await overlay.delete(key, expected=first)
    third = await overlay.create(key, b"again")
    events = [
        KVEvent(key, first, b"new", b"x"),
        KVEvent(key, second, None, b"new"),
        KVEvent(key, third, b"again", None),
    ]
    seen = await recorder.count(3)
    assert [(event.revision, event.value) for event in seen] == [
        (event.revision, event.value) for event in events
    ]
    page = await overlay.history(f"{ROOT}/a/", revision, third, 9, previous=True)
    assert page.events == events
    watch.cancel()


async def test_a_page_of_deleted_rows(store: KV) -> None:
    """A page whose rows are all tombstones is no end of the list."""
    overlay = await _overlay(store)
    revision = await store.current_revision()
    for name in ("x", "y"):
        await overlay.delete(f"{ROOT}/a/{name}", expected=revision)
    await overlay.create(f"{ROOT}/a/z", b"own")
    page = await overlay.range(f"{ROOT}/a/", limit=1)
    assert [item.key for item in page.items] == [f"{ROOT}/a/z"]
    assert page.remaining == 0


class Comparison(RuleBasedStateMachine):
    """An overlay beside a dict: the visible rows after random writes, and pages of them."""

    keys = st.sampled_from([f"/{kind}/{name}" for kind in ("a", "ab") for name in ("x", "xx", "y")])

    @initialize()
    def start(self) -> None:
        self.runner = asyncio.Runner()
        self.below: Any = self.runner.run(open_embedded(None, clock=ManualClock()))
        revision = self.runner.run(self.below.current_revision())
        self.overlay = OverlayStore(self.below, BaseRows(revision, BASE), root=ROOT)
        self.rows = {key: (value, revision) for key, value in BASE.items()}

    @rule(key=keys)
    def create(self, key: str) -> None:
        if key in self.rows:
            with pytest.raises(KeyExists):
                self.runner.run(self.overlay.create(ROOT + key, b"new"))
        else:
            self.rows[key] = (b"new", self.runner.run(self.overlay.create(ROOT + key, b"new")))

    @rule(key=keys, distance=st.sampled_from([0, 0, 1]))
    def update(self, key: str, distance: int) -> None:
        value, revision = self.rows.get(key, (None, 0))
        write = self.overlay.update(ROOT + key, b"changed", expected=Revision(revision + distance))
        if value is None or distance:
            self.conflicts(write, key)
        else:
            self.rows[key] = (b"changed", self.runner.run(write))

    @rule(key=keys, distance=st.sampled_from([0, 0, 1]))
    def delete(self, key: str, distance: int) -> None:
        value, revision = self.rows.get(key, (None, 0))
        write = self.overlay.delete(ROOT + key, expected=Revision(revision + distance))
        if value is None or distance:
            self.conflicts(write, key)
        else:
            self.runner.run(write)
            del self.rows[key]

    def conflicts(self, write: Any, key: str) -> None:
        with pytest.raises(Conflict) as caught:
            self.runner.run(write)
        value, revision = self.rows.get(key, (None, None))
        assert (caught.value.value, caught.value.current) == (value, revision)

    @rule(prefix=st.sampled_from(["/", "/a/", "/ab/"]), limit=st.integers(0, 3))
    def read_pages(self, prefix: str, limit: int) -> None:
        expected = [
            KeyValue(ROOT + key, *self.rows[key])
            for key in sorted(self.rows)
            if key.startswith(prefix)
        ]
        items: list[KeyValue] = []
        start = ""
        while True:
            page = self.runner.run(self.overlay.range(ROOT + prefix, start=start, limit=limit))
            items += page.items
            assert page.remaining >= len(expected) - len(items)
            if not page.remaining or not page.items:
                break
            start = page.items[-1].key + "\0"
        assert items == expected

    def teardown(self) -> None:
        self.runner.run(self.below.close())
        self.runner.close()


def test_random_writes() -> None:
    """After any writes, an overlay shows the rows that a dict with the base rows would have."""
    run_state_machine_as_test(
        Comparison, settings=settings(max_examples=25, stateful_step_count=30, deadline=None)
    )
