"""The index of objects by the values of labels and fields."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.selectors import Selection, parse
from kapiserver.storage.cache import value_index
from kapiserver.storage.cache.query import DeleteQuery, ListQuery
from kapiserver.storage.cache.value_index import BUILD_AFTER, KEEP_SECONDS, MAX_NAMES
from kapiserver.storage.objects.object_store import ResourceStore
from tests.storage.objectkit import (
    Client,
    StorageHarness,
    config_map,
    key,
    named,
    pod,
    put,
    run,
    watch,
)

TEXTS = (
    "app=a", "app=b", "app=", "app in (a,b)", "app in (b,c),tier", "app,tier=x", "app!=a", "!app",
    "tier=x,app=a",
)  # fmt: skip
_LABELS = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("", "a", "b", "x")))
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(("create", "label", "delete", "list")),
        st.integers(0, 5),
        _LABELS,
        st.sampled_from(TEXTS),
    ),
    max_size=25,
)


@pytest.fixture(autouse=True)
def _few_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_index, "MIN_OBJECTS", 1)


async def _ask(store: ResourceStore, text: str, times: int = BUILD_AFTER, **query: Any) -> Any:
    """List so often that the index is built; return the last list."""
    for _ in range(times):
        listing = await store.list(ListQuery(selection=_selection(store, text), **query))
    return listing


def _selection(store: ResourceStore, text: str) -> Selection:
    labels, _, fields = text.partition("&")
    return parse(labels, fields, store.resource)


def _candidates(store: ResourceStore, text: str) -> Sequence[str]:
    """The objects that the index leaves for a selection to try."""
    return named(store._index.entries(_selection(store, text), store.codec.scope("")))


async def _labelled(harness: StorageHarness, values: str) -> ResourceStore:
    """A store with a ConfigMap for each letter, which is the value of its label."""
    store = harness.of("configmaps")
    for number, value in enumerate(values):
        await store.create(config_map(f"c{number}", labels={"app": value}))
    await store.list(ListQuery())
    return store


@settings(max_examples=40, deadline=None)
@given(_STEPS)
def test_lists_with_and_without_index(steps):
    """Lists have the objects that their selection matches, whatever happened before, in the order
    of keys."""

    async def check(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        labels_of: dict[str, dict[str, str]] = {}
        for text in TEXTS:
            await _ask(store, text)
        for action, number, labels, text in steps:
            name = f"c{number}"
            if action == "create" and name not in labels_of:
                await store.create(config_map(name, labels=labels))
                labels_of[name] = labels
            elif action == "label" and name in labels_of:
                await put(store, name, "metadata", "labels", to=labels)
                labels_of[name] = labels
            elif action == "delete" and name in labels_of:
                await store.delete(key(name), DeleteQuery())
                del labels_of[name]
            listing = await _ask(store, text, 1)
            selection = parse(text, "")
            assert named(listing.entries) == [
                name for name in sorted(labels_of) if selection.matches(labels_of[name], {})
            ]

    run(check)


def test_few_are_tried():
    """When enough selections have asked for a label, only the objects with its value are tried,
    those in other namespaces left out."""

    async def check(harness: StorageHarness) -> None:
        store = await _labelled(harness, "abac")
        await store.create(config_map("other", "elsewhere", labels={"app": "a"}))
        await _ask(store, "app=a", BUILD_AFTER - 1)
        assert len(_candidates(store, "app=a")) == 5
        await _ask(store, "app=b", 1)
        assert _candidates(store, "app=a") == ["c0", "c2", "other"]
        assert _candidates(store, "app in (b,c)") == ["c1", "c3"]
        assert _candidates(store, "app=x") == []
        assert len(_candidates(store, "app!=a")) == 5
        listing = await _ask(store, "app=a", 1, namespace="elsewhere")
        assert named(listing.entries) == ["other"]

    run(check)


def test_fields():
    """Fields are indexed as labels; an object without the field has the value "". Names are not:
    the keys tell them."""

    async def check(harness: StorageHarness) -> None:
        store = harness.of("pods")
        for name, node in (("a", "one"), ("b", ""), ("c", "two"), ("d", "one")):
            await store.create(pod(name, node=node))
        await store.list(ListQuery())
        await _ask(store, "&spec.nodeName=one")
        assert _candidates(store, "&spec.nodeName=one") == ["a", "d"]
        assert _candidates(store, "&spec.nodeName=") == ["b"]
        await _ask(store, "&metadata.name=a")
        assert len(_candidates(store, "&metadata.name=a")) == 4

    run(check)


def test_pages():
    """A list by an indexed label has pages, whose last one has no continue token."""

    async def check(harness: StorageHarness) -> None:
        store = await _labelled(harness, "abaabab")
        page = await _ask(store, "app=a", limit=2)
        assert named(page.entries) == ["c0", "c2"]
        assert page.continue_token
        selection = parse("app=a", "")
        rest = ListQuery(selection=selection, limit=3, continue_token=page.continue_token)
        page = await store.list(rest)
        assert named(page.entries) == ["c3", "c5"]
        assert not page.continue_token

    run(check)


def test_changes_while_it_is_built(monkeypatch):
    """Objects that are created, changed and deleted while the index is built are in it as they are
    then."""

    async def check(harness: StorageHarness) -> None:
        store = await _labelled(harness, "aaaaaa")
        steps = 0

        class Slice:
            async def yield_if_expired(self) -> None:
                nonlocal steps
                steps += 1
                if steps == 2:
                    await put(store, "c0", "metadata", "labels", to={"app": "b"})
                    await put(store, "c4", "metadata", "labels", to={"app": "b"})
                    await store.delete(key("c1"), DeleteQuery())
                    await store.delete(key("c5"), DeleteQuery())
                    await store.create(config_map("c00", labels={"app": "a"}))

        monkeypatch.setattr(value_index, "TimeSlice", Slice)
        listings = await asyncio.gather(*(_ask(store, "app=a", 1) for _ in range(BUILD_AFTER + 2)))
        assert named(listings[-1].entries) == ["c00", "c2", "c3"]
        assert _candidates(store, "app=a") == ["c00", "c2", "c3"]
        assert _candidates(store, "app=b") == ["c0", "c4"]

    run(check)


def test_large_and_unreadable_objects():
    """Objects whose labels are not decoded at once are tried by each selection."""

    async def check(harness: StorageHarness) -> None:
        store = await _labelled(harness, "ab")
        await _ask(store, "app=x")
        data = {"text": "x" * store.codec.large_bytes}
        await store.create(config_map("large", labels={"app": "b"}, data=data))
        first = await store.get(key("c0"))
        damaged = first.path.replace("c0", "damaged")
        revision = await harness.kv.create(damaged, first.value[:-9] + b"\xff" * 9)
        await store.cache.wait_fresh()
        assert _candidates(store, "app=a") == ["c0", "damaged", "large"]
        await store.delete(key("large"), DeleteQuery())
        await harness.kv.delete(damaged, expected=revision)
        await store.cache.wait_fresh()
        assert _candidates(store, "app=a") == ["c0"]

    run(check)


def test_forgetting():
    """Labels that no selection asked for in a while are forgotten, and when there are many those
    that were not asked for the longest time. Then the cache has no listener of the index."""

    async def check(harness: StorageHarness) -> None:
        store = await _labelled(harness, "ab")
        listeners = len(store.cache._listeners)
        await _ask(store, "app=a")
        assert len(store.cache._listeners) == listeners + 1
        for number in range(MAX_NAMES):
            await _ask(store, f"other{number}=a", 1)
        assert len(_candidates(store, "app=a")) == 2
        await _ask(store, "app=a")
        assert _candidates(store, "app=a") == ["c0"]
        harness.clock.advance(KEEP_SECONDS + 1)
        await store.create(config_map("c5", labels={"app": "a"}))
        assert len(_candidates(store, "app=a")) == 3
        assert len(store.cache._listeners) == listeners

    run(check)


def test_emptied_cache():
    """A cache that is emptied and filled again has the objects of that time."""

    async def check(harness: StorageHarness) -> None:
        store = await _labelled(harness, "ab")
        await _ask(store, "app=a")
        store.cache.stop()
        first = await store.get(key("c0"))
        await harness.kv.delete(first.path, expected=first.revision)
        listing = await _ask(store, "app=a")
        assert named(listing.entries) == []

    run(check)


def test_watches_with_initial_events():
    """Watches start with the objects that they select."""

    async def check(harness: StorageHarness) -> None:
        store = await _labelled(harness, "aba")
        clients = [Client() for _ in range(BUILD_AFTER + 1)]
        for client in clients:
            await watch(store, client, selection=parse("app=a", ""))
        await store.create(config_map("c3", labels={"app": "a"}))
        for client in clients:
            names = ["c0", "c2", "c3"]
            assert await client.count(3) == [("ADDED", name) for name in names]
        assert _candidates(store, "app=a") == ["c0", "c2", "c3"]

    run(check)
