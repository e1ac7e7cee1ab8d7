"""Watches: where they start, what they deliver, and how they end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.errors import InvalidObject
from kapiserver.api.selectors import parse
from kapiserver.api.types import Tree
from kapiserver.codecs.framing import CBOR_SEQUENCE, LENGTH_PREFIXED
from kapiserver.storage.cache.query import DeleteQuery, ListQuery
from kapiserver.storage.cache.watch_backlogs import MAX_BACKLOG_BYTES
from kapiserver.storage.cache.watch_cache import MIN_RECENT_EVENTS, RECENT_SECONDS
from kapiserver.storage.cache.watch_fanout import (
    BOOKMARK_SECONDS,
    MAX_PAUSE_SECONDS,
    pause_seconds,
)
from kapiserver.storage.errors import BadQuery, Unavailable
from kapiserver.storage.objects.object_store import ResourceStore
from tests.storage.objectkit import (
    CBOR,
    PROTOBUF,
    Client,
    StorageHarness,
    config_map,
    key,
    pod,
    run,
    watch,
)


async def label(store: ResourceStore, name: str, **labels: str) -> None:
    def change(current: Tree) -> Tree:
        metadata = {name: value for name, value in current["metadata"].items() if name != "labels"}
        return current | {"metadata": metadata | ({"labels": labels} if labels else {})}

    await store.update(key(name), change)


@pytest.mark.parametrize("version", ["", "0"])
def test_watch_without_a_version(version: str) -> None:
    """Without a version, or from "0", a watch first adds the existing objects."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        for name in "ba":
            await store.create(config_map(name))
        client = Client()
        await watch(store, client, resource_version=version)
        await client.count(2)
        await store.create(config_map("c"))
        await store.delete(key("a"), DeleteQuery())
        assert await client.count(4) == [
            ("ADDED", "a"),
            ("ADDED", "b"),
            ("ADDED", "c"),
            ("DELETED", "a"),
        ]

    run(test)


def test_watch_resumes_from_a_version() -> None:
    """A watch from a version delivers every later change once, in order, and nothing older."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        old = await harness.kv.current_revision()
        await store.create(config_map("b"))
        await label(store, "a", x="y")
        client = Client()
        await watch(store, client, resource_version=f"{old}")
        await client.count(2)
        await store.delete(key("b"), DeleteQuery())
        summary = await client.count(3)
        assert summary == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
        versions = [event["object"]["metadata"]["resourceVersion"] for event in client.events]
        assert versions == [str(old + 1), str(old + 2), str(old + 3)]

    run(test)


def test_deleted_event() -> None:
    """DELETED has the last state of the object, with the resourceVersion of the deletion."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", data={"k": "v"}))
        client = Client()
        await watch(store, client)
        await store.delete(key("a"), DeleteQuery())
        await client.count(2)
        deleted = client.events[1]["object"]
        assert deleted["data"] == {"k": "v"}
        assert deleted["metadata"]["resourceVersion"] == str(await harness.kv.current_revision())

    run(test)


def test_namespaces_and_names_are_kept_apart() -> None:
    """A watch of a namespace or of one object delivers no events of others."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        clients = {name: Client() for name in ("all", "x", "one", "anywhere")}
        await watch(store, clients["all"])
        await watch(store, clients["x"], namespace="x")
        name = parse("", "metadata.name=a")
        await watch(store, clients["one"], namespace="x", selection=name)
        await watch(store, clients["anywhere"], selection=name)
        for name_, namespace in (("a", "x"), ("b", "x"), ("a", "x-y"), ("c", "w")):
            await store.create(config_map(name_, namespace))
        assert len(await clients["all"].count(4)) == 4
        assert await clients["x"].count(2) == [("ADDED", "a"), ("ADDED", "b")]
        assert await clients["one"].count(1) == [("ADDED", "a")]
        assert await clients["anywhere"].count(2) == [("ADDED", "a"), ("ADDED", "a")]

    run(test)


def test_selectors_turn_changes_into_additions_and_deletions() -> None:
    """An object that starts or stops matching the selector is ADDED or DELETED."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", labels={"app": "x"}))
        await store.create(config_map("b"))
        client = Client()
        await watch(store, client, selection=parse("app=x", ""))
        await client.count(1)
        await label(store, "a", app="x", more="1")
        await label(store, "a", app="y")
        await label(store, "a", app="z")
        await label(store, "b", app="x")
        await label(store, "a", app="x")
        await store.delete(key("a"), DeleteQuery())
        await label(store, "b")
        await store.delete(key("b"), DeleteQuery())
        await store.create(config_map("end", labels={"app": "x"}))
        summary = await client.count(8)
        assert summary == [
            ("ADDED", "a"),
            ("MODIFIED", "a"),
            ("DELETED", "a"),
            ("ADDED", "b"),
            ("ADDED", "a"),
            ("DELETED", "a"),
            ("DELETED", "b"),
            ("ADDED", "end"),
        ]
        metadata = client.events[2]["object"]["metadata"]
        assert metadata["labels"] == {"app": "x", "more": "1"}
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in client.events]
        assert versions == sorted(set(versions))

    run(test)


def test_field_selectors_follow_the_status() -> None:
    """A watch by node name adds a pod when it is bound to the node."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("pods")
        await store.create(pod("a"))
        client = Client()
        of_node = parse("", "spec.nodeName=n", store.resource)
        await watch(store, client, selection=of_node, resource_version="1")
        await store.create(pod("b", node="n"))
        assert await client.count(1) == [("ADDED", "b")]
        await store.delete(key("b"), DeleteQuery(grace_period_seconds=0))
        summary = await client.count(3)
        assert summary == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]

    run(test)


def test_initial_events_end_with_a_bookmark() -> None:
    """sendInitialEvents delivers the existing objects, an annotated bookmark, and then changes."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        revision = await harness.kv.current_revision()
        query: dict[str, Any] = {"match": "NotOlderThan", "bookmarks": True}
        for version in ("", "0", f"{revision}"):
            client = Client()
            await watch(store, client, resource_version=version, initial_events=True, **query)
            assert await client.count(2) == [("ADDED", "a"), ("BOOKMARK", f"{revision}")]
            assert client.events[1]["object"] == {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {
                    "resourceVersion": f"{revision}",
                    "annotations": {"k8s.io/initial-events-end": "true"},
                },
            }
        client = Client()
        await watch(store, client, initial_events=False, **query)
        await store.create(config_map("b"))
        assert await client.count(1) == [("ADDED", "b")]

    run(test)


def test_bookmarks_come_by_the_clock() -> None:
    """A watch with allowWatchBookmarks gets the newest version every minute; others do not."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        bookmarked, plain = Client(), Client()
        await watch(store, bookmarked, bookmarks=True)
        await watch(store, plain)
        await bookmarked.count(1)
        await plain.count(1)
        await harness.kv.create("/registry/other/x", b"elsewhere")
        revision = await harness.kv.current_revision()
        for _ in range(2):  # the first bookmark asks the store for its revision
            harness.clock.advance(BOOKMARK_SECONDS)
            await asyncio.sleep(0)
        summary = await bookmarked.count(3)
        assert summary[-1] == ("BOOKMARK", f"{revision}")
        assert {kind for kind, _ in summary[1:]} == {"BOOKMARK"}
        await store.create(config_map("b"))
        assert await plain.count(2) == [("ADDED", "a"), ("ADDED", "b")]

    run(test)


def test_expired_version() -> None:
    """A watch from a version that neither the cache nor the store has ends with an ERROR event."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", data={"n": "0"}))
        for number in range(MIN_RECENT_EVENTS + 5):
            await store.update(
                key("a"), lambda current, n=number: current | {"data": {"n": f"{n + 1}"}}
            )
        harness.clock.advance(RECENT_SECONDS + 1)
        await store.create(config_map("b"))
        await harness.kv.compact(await harness.kv.current_revision())
        client = Client()
        await watch(store, client, resource_version="2")
        await client.wait_until(lambda: client.closed)
        assert client.summary == [("ERROR", "Expired")]
        message = client.events[0]["object"]["message"]
        assert message.startswith("too old resource version: 2 (")

    run(test)


def test_watches_resume_after_a_restart(tmp_path: Path) -> None:
    """After a restart a watch gets older events from the store's history."""
    spec = f"sqlite:{tmp_path / 'objects.db'}"

    async def write(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", labels={"x": "1"}))
        await label(store, "a", x="2")
        await store.create(config_map("b", labels={"x": "1"}))
        await store.delete(key("b"), DeleteQuery())

    async def resume(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        client, last = Client(), Client()
        selection = parse("x=1", "")
        await watch(store, client, resource_version="1", selection=selection)
        await watch(store, last, resource_version=f"{await harness.kv.current_revision() - 1}")
        await store.create(config_map("c", labels={"x": "1"}))
        assert await client.count(5) == [
            ("ADDED", "a"),
            ("DELETED", "a"),
            ("ADDED", "b"),
            ("DELETED", "b"),
            ("ADDED", "c"),
        ]
        assert await last.count(2) == [("DELETED", "b"), ("ADDED", "c")]
        assert client.events[1]["object"]["metadata"]["labels"] == {"x": "1"}

    run(write, spec)
    run(resume, spec)


def test_bad_versions_and_options() -> None:
    """Invalid versions and options are refused before anything is written."""

    async def test(harness: StorageHarness) -> None:
        store, client = harness.of("configmaps"), Client()
        with pytest.raises(BadQuery):
            await watch(store, client, resource_version="x")
        cases: list[tuple[dict[str, Any], str]] = [
            ({"match": "NotOlderThan"}, "unless sendInitialEvents is provided"),
            ({"initial_events": True}, "requires setting resourceVersionMatch to NotOlderThan"),
            ({"initial_events": True, "match": "Exact"}, 'Unsupported value: "Exact"'),
        ]
        for query, message in cases:
            with pytest.raises(InvalidObject, match=message):
                await watch(store, client, **query)
        assert client.frames == []

    run(test)


def test_slow_watchers_are_ended() -> None:
    """The stream of a client that does not read is closed; others are not affected."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        slow, fast = Client(), Client()
        for client in (slow, fast):
            await watch(store, client)
        await store.create(config_map("a"))
        await slow.count(1)
        slow.stuck = MAX_BACKLOG_BYTES + 1
        await store.create(config_map("b"))
        await slow.wait_until(lambda: slow.closed)
        assert slow.summary == [("ADDED", "a"), ("ADDED", "b")]
        assert await fast.count(2) == [("ADDED", "a"), ("ADDED", "b")]

    run(test)


def test_cancelled_watches_see_nothing_more() -> None:
    """After cancel nothing is written, and the sink is not closed."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        cancelled, open_client, early_client = Client(), Client(), Client()
        watching = await watch(store, cancelled)
        await watch(store, open_client)
        (await watch(store, early_client)).cancel()
        await store.create(config_map("a"))
        await cancelled.count(1)
        watching.cancel()
        watching.cancel()
        await store.create(config_map("b"))
        await open_client.count(2)
        assert cancelled.summary == [("ADDED", "a")]
        assert early_client.frames == []
        assert not cancelled.closed

    run(test)


def test_frames_are_made_once_and_shared() -> None:
    """A hundred watchers get the same bytes objects, joined if several events arrive together."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        clients = [Client() for _ in range(250)]
        for client in clients:
            await watch(store, client, resource_version="1")
        await asyncio.sleep(0)
        await asyncio.gather(*(store.create(config_map(f"c{number}")) for number in range(20)))
        for client in clients:
            assert len(await client.count(20)) == 20
        assert len({id(client.frames[-1]) for client in clients}) == 1
        assert len(clients[0].frames) < 20

    run(test)


def test_protobuf_and_cbor_streams() -> None:
    """Protobuf and CBOR streams frame the same events in their own way."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        for encoding, framing in ((PROTOBUF, LENGTH_PREFIXED), (CBOR, CBOR_SEQUENCE)):
            client = Client()
            query = {"initial_events": True, "match": "NotOlderThan", "bookmarks": True}
            await watch(store, client, encoding=encoding, **query)
            reader, bodies = framing.make_reader(), 0
            await client.wait_until(lambda c=client: len(c.frames) >= 2)
            for chunk in client.frames:
                bodies += len(reader.feed(chunk))
            reader.close()
            assert bodies == 2

    run(test)


def test_closed_store_ends_streams() -> None:
    """When the store closes, streams end and reads raise."""

    async def test(harness: StorageHarness) -> None:
        store, client = harness.of("configmaps"), Client()
        await store.create(config_map("a"))
        await watch(store, client)
        await client.count(1)
        await harness.kv.close()
        await client.wait_until(lambda: client.closed)
        with pytest.raises(Unavailable):
            await store.list(ListQuery())

    run(test)


# Compared with a model.

_writes = st.lists(
    st.tuples(st.sampled_from("cuuld"), st.integers(0, 4), st.integers(0, 2)), max_size=30
)
_SELECTORS = ("", "n=1", "n!=1", "n in (0,2)", "!n")


@settings(max_examples=40)
@given(initial=_writes, after=_writes, selector=st.sampled_from(_SELECTORS), resumes=st.booleans())
def test_a_watch_replays_to_the_final_list(
    initial: list[tuple[str, int, int]],
    after: list[tuple[str, int, int]],
    selector: str,
    resumes: bool,
) -> None:
    """The events of a watch, applied to the list it started from, give the final list, and each
    event fits the state before it."""

    async def test(harness: StorageHarness) -> None:
        store, client = harness.of("configmaps"), Client()
        selection = parse(selector, "")
        for write in initial:
            await _apply(store, write)
        listing = await store.list(ListQuery(selection=selection))
        state = {entry.key.name: entry.tree() for entry in listing.entries}
        query = {"resource_version": f"{listing.revision}", "selection": selection}
        if not resumes:
            await watch(store, client, **query)
        for write in after:
            await _apply(store, write)
        if resumes:
            await watch(store, client, **query)
        labels = {"n": "1"} if selector != "!n" and selector != "n!=1" else {}
        labels = {"n": "0"} if selector == "n in (0,2)" else labels
        await store.create(config_map("end", **({"labels": labels} if labels else {})))
        await client.wait_until(lambda: b'"end"' in b"".join(client.frames))
        for event in client.events:
            obj, name = event["object"], event["object"]["metadata"]["name"]
            assert (event["type"] == "ADDED") == (name not in state)
            if event["type"] == "DELETED":
                del state[name]
            else:
                state[name] = obj
        final = await store.list(ListQuery(selection=selection))
        assert state == {entry.key.name: entry.tree() for entry in final.entries}

    run(test)


async def _apply(store: ResourceStore, write: tuple[str, int, int]) -> None:
    operation, number, value = write
    name = f"c{number}"
    exists = name in [e.key.name for e in (await store.list(ListQuery())).entries]
    if operation == "c" and not exists:
        await store.create(config_map(name, labels={"n": str(value)}))
    elif operation == "u" and exists:
        await label(store, name, n=str(value))
    elif operation == "l" and exists:
        await label(store, name)
    elif operation == "d" and exists:
        await store.delete(key(name), DeleteQuery())


@given(st.floats(0.0001, 2 * MAX_PAUSE_SECONDS), st.integers(1, 64))
def test_events_of_workers_arrive_as_soon(whole: float, workers: int) -> None:
    """An event waits for the end of a round and a pause at most, and for half of them in the mean;
    then a round writes it to the watchers. The sums are those of one process, whose rounds are as
    long as those of all workers together, unless the limit of a pause makes them less."""

    def longest_and_mean(round_seconds: float, pause: float) -> tuple[float, float]:
        return pause + 2 * round_seconds, (pause + 2 * round_seconds) / 2

    pauses = longest_and_mean(whole, pause_seconds(whole, 1))
    worker = longest_and_mean(whole / workers, pause_seconds(whole / workers, workers))
    if whole <= MAX_PAUSE_SECONDS:
        assert worker == pytest.approx(pauses)
    assert worker <= pauses or worker == pytest.approx(pauses)
