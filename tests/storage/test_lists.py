"""Lists: resource versions, pages, selectors, and their encodings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.errors import InvalidObject
from kapiserver.api.selectors import EVERYTHING, parse
from kapiserver.api.types import Tree
from kapiserver.storage.cache.query import DeleteQuery, ListQuery, ListResult
from kapiserver.storage.errors import BadQuery, Expired, NotFound, ResourceVersionTooLarge
from kapiserver.storage.objects.object_store import ResourceStore
from tests.storage.objectkit import StorageHarness, config_map, fill, key, named, pod, run


async def pages(store: ResourceStore, query: ListQuery) -> list[ListResult]:
    """All pages of a list."""
    listings = [await store.list(query)]
    while listings[-1].continue_token:
        following = ListQuery(
            namespace=query.namespace,
            selection=query.selection,
            limit=query.limit,
            continue_token=listings[-1].continue_token,
        )
        listings.append(await store.list(following))
    return listings


def test_list_is_sorted_and_scoped() -> None:
    """A list has the objects of one namespace, or of all, ordered by key."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        for name, namespace in (("b", "x"), ("a", "x-y"), ("a", "x"), ("c", "w")):
            await store.create(config_map(name, namespace))
        all_objects = await store.list(ListQuery())
        # In the store's byte order "-" precedes "/".
        assert [entry.key for entry in all_objects.entries] == [
            ("w", "c"), ("x-y", "a"), ("x", "a"), ("x", "b"),
        ]  # fmt: skip
        assert all_objects.revision == await harness.kv.current_revision()
        assert all_objects.remaining is None
        assert named((await store.list(ListQuery(namespace="x"))).entries) == ["a", "b"]
        assert (await store.list(ListQuery(namespace="none"))).entries == []

    run(test)


def test_pages_are_of_one_version() -> None:
    """Every page of a list shows the resource version of the first one."""

    async def test(harness: StorageHarness) -> None:
        store = await fill(harness)
        first = await store.list(ListQuery(limit=4))
        assert (named(first.entries), first.remaining) == (["c00", "c01", "c02", "c03"], 6)
        await store.create(config_map("c041"))
        await store.delete(key("c05"), DeleteQuery())
        await store.update(key("c06"), lambda current: current | {"data": {"k": "v"}})
        second = await store.list(ListQuery(limit=4, continue_token=first.continue_token))
        assert (named(second.entries), second.remaining) == (["c04", "c05", "c06", "c07"], 2)
        assert "data" not in second.entries[2].tree()
        third = await store.list(ListQuery(continue_token=second.continue_token))
        assert (named(third.entries), third.remaining) == (["c08", "c09"], None)
        assert third.continue_token == ""
        assert {first.revision, second.revision, third.revision} == {first.revision}

    run(test)


def test_old_pages_come_from_the_store() -> None:
    """A page at a version that the cache no longer has is read from the store, with its remaining
    count."""

    async def test(harness: StorageHarness) -> None:
        store = await fill(harness)
        odd = parse("odd", "")
        first = await store.list(ListQuery(limit=4))
        first_odd = await store.list(ListQuery(limit=2, selection=odd))
        await store.delete(key("c05"), DeleteQuery())
        harness.clock.advance(3600)
        second = await store.list(ListQuery(limit=4, continue_token=first.continue_token))
        assert (named(second.entries), second.remaining) == (["c04", "c05", "c06", "c07"], 2)
        query = ListQuery(limit=2, selection=odd, continue_token=first_odd.continue_token)
        third = await store.list(query)
        assert named(third.entries) == ["c05", "c07"]
        assert third.continue_token
        assert third.remaining is None

    run(test)


def test_compacted_pages_are_expired() -> None:
    """A token of a compacted version is 410, with a token for an inconsistent continuation."""

    async def test(harness: StorageHarness) -> None:
        store = await fill(harness)
        first = await store.list(ListQuery(limit=4))
        await store.create(config_map("c041"))
        await harness.kv.compact(await harness.kv.current_revision())
        harness.clock.advance(3600)
        with pytest.raises(Expired) as caught:
            await store.list(ListQuery(limit=4, continue_token=first.continue_token))
        assert str(caught.value).startswith("The provided continue parameter is too old to display")
        consistent = await store.list(ListQuery(continue_token=caught.value.continue_token))
        assert named(consistent.entries)[:3] == ["c04", "c041", "c05"]
        assert consistent.revision == await harness.kv.current_revision()

    run(test)


def test_pages_expire_though_nothing_of_their_resource_changed() -> None:
    """A token is 410 after compaction, whatever moved the revision, although the cache still knows
    the objects at its version."""

    async def test(harness: StorageHarness) -> None:
        store = await fill(harness)
        first = await store.list(ListQuery(limit=4))
        exactly = ListQuery(resource_version=str(first.revision), match="Exact")
        assert len((await store.list(exactly)).entries) == 10
        await harness.kv.compact(await harness.kv.create("/other", b""))
        with pytest.raises(Expired) as caught:
            await store.list(ListQuery(limit=4, continue_token=first.continue_token))
        rest = await store.list(ListQuery(continue_token=caught.value.continue_token))
        assert named(rest.entries)[0] == "c04"
        with pytest.raises(Expired):
            await store.list(exactly)

    run(test)


def test_selectors_and_limits() -> None:
    """A page is filled with matching objects; with a selector the remaining count is omitted."""

    async def test(harness: StorageHarness) -> None:
        store = await fill(harness)
        odd = parse("odd", "")
        listings = await pages(store, ListQuery(selection=odd, limit=2))
        names = [named(page.entries) for page in listings]
        assert names == [["c01", "c03"], ["c05", "c07"], ["c09"]]
        assert {page.remaining for page in listings} == {None}
        assert named((await store.list(ListQuery(selection=odd))).entries) == [
            "c01", "c03", "c05", "c07", "c09",
        ]  # fmt: skip
        for name, expected in (("c03", ["c03"]), ("c3", [])):
            by_name = parse("", f"metadata.name={name}")
            assert named((await store.list(ListQuery(selection=by_name))).entries) == expected
            query = ListQuery(namespace="default", selection=by_name)
            assert named((await store.list(query)).entries) == expected

    run(test)


def test_fields_of_pods() -> None:
    """Pods are selectable by node, phase and host network, from their stored bytes."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("pods")
        await store.create(pod("a", node="n1"))
        await store.create(pod("b", node="n2"))
        cases = (
            ("spec.nodeName=n1", ["a"]),
            ("spec.nodeName!=n1", ["b"]),
            ("status.phase=Pending", ["a", "b"]),
            ("spec.hostNetwork=false,spec.nodeName=n2", ["b"]),
            ("status.podIP=1.2.3.4", []),
        )
        for _ in range(2):
            for text, expected in cases:
                query = ListQuery(selection=parse("", text, store.resource))
                assert named((await store.list(query)).entries) == expected, text
            for entry in (await store.list(ListQuery())).entries:
                entry.drop_tree()
                entry._selectable = None

    run(test)


def test_versions_of_lists() -> None:
    """resourceVersion "0" accepts any state, another version means not older than it, Exact means
    this state, and so does a limit."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        old = await harness.kv.current_revision()
        await store.create(config_map("b"))
        new = await harness.kv.current_revision()
        cases: list[tuple[dict[str, Any], list[str], int]] = [
            ({}, ["a", "b"], new),
            ({"resource_version": "0"}, ["a", "b"], new),
            ({"resource_version": "0", "limit": 1}, ["a", "b"], new),
            ({"resource_version": "0", "match": "NotOlderThan"}, ["a", "b"], new),
            ({"resource_version": f"{old}"}, ["a", "b"], new),
            ({"resource_version": f"{old}", "match": "NotOlderThan", "limit": 5}, ["a", "b"], new),
            ({"resource_version": f"{old}", "match": "Exact"}, ["a"], old),
            ({"resource_version": f"{old}", "limit": 5}, ["a"], old),
            ({"resource_version": f"{new}", "match": "Exact"}, ["a", "b"], new),
        ]
        for query, names, revision in cases:
            listings = await store.list(ListQuery(**query))
            assert (named(listings.entries), listings.revision) == (names, revision), query

    run(test)


def test_exact_of_a_compacted_version_is_expired() -> None:
    """Exact at a compacted version is 410, without a token."""

    async def test(harness: StorageHarness) -> None:
        store = await fill(harness, 3)
        await harness.kv.compact(await harness.kv.current_revision())
        with pytest.raises(Expired) as caught:
            await store.list(ListQuery(resource_version="2", match="Exact"))
        assert str(caught.value) == "The resourceVersion for the provided list is too old."
        assert caught.value.continue_token == ""

    run(test)


@pytest.mark.parametrize("match", ["", "NotOlderThan", "Exact"])
def test_future_versions_are_too_large(match: str) -> None:
    """A list at a future version waits, and then fails with 504."""

    async def test(harness: StorageHarness) -> None:
        store = await fill(harness, 1)
        current = await harness.kv.current_revision()
        reading = asyncio.ensure_future(
            store.list(ListQuery(resource_version=f"{current + 9}", match=match))
        )
        while not reading.done():
            await asyncio.sleep(0)
            harness.clock.advance(1)
        with pytest.raises(ResourceVersionTooLarge) as caught:
            reading.result()
        assert str(caught.value) == (
            f"Timeout: Too large resource version: {current + 9}, current: {current}"
        )

    run(test)


def test_waiting_for_a_version() -> None:
    """A list at a version that is about to be written waits for it."""

    async def test(harness: StorageHarness) -> None:
        store = await fill(harness, 1)
        current = await harness.kv.current_revision()
        reading = asyncio.ensure_future(store.get(key("c00"), resource_version=f"{current + 1}"))
        await asyncio.sleep(0)
        await harness.kv.create("/registry/other/x", b"elsewhere")
        harness.clock.advance(0.5)
        assert (await reading).key.name == "c00"

    run(test)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            {"resource_version": "abc"},
            'invalid resource version: resourceVersion: Invalid value: "abc": '
            'strconv.ParseUint: parsing "abc": invalid syntax',
        ),
        (
            {"resource_version": "-1"},
            'invalid resource version: resourceVersion: Invalid value: "-1": '
            'strconv.ParseUint: parsing "-1": invalid syntax',
        ),
        (
            {"resource_version": "18446744073709551616"},
            "invalid resource version: resourceVersion: Invalid value: "
            '"18446744073709551616": strconv.ParseUint: parsing "18446744073709551616": '
            "value out of range",
        ),
        ({"continue_token": "nonsense"}, "invalid continue token: continue key is not valid"),
        (
            {"continue_token": "x", "resource_version": "5"},
            "specifying resource version is not allowed when using continue",
        ),
    ],
)
def test_bad_queries(query: dict[str, Any], message: str) -> None:
    """Invalid versions and tokens are 400."""

    async def test(harness: StorageHarness) -> None:
        with pytest.raises(BadQuery) as caught:
            await (await fill(harness, 1)).list(ListQuery(**query))
        assert str(caught.value) == message

    run(test)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"match": "Exact"}, "is forbidden unless resourceVersion is provided"),
        (
            {"match": "Exact", "resource_version": "5", "continue_token": "x"},
            "is forbidden when continue is provided",
        ),
        ({"match": "Exact", "resource_version": "0"}, 'is forbidden for resourceVersion "0"'),
        ({"match": "Odd", "resource_version": "5"}, 'Unsupported value: "Odd"'),
    ],
)
def test_options_that_exclude_each_other(query: dict[str, Any], message: str) -> None:
    """Contradicting options make the ListOptions invalid."""

    async def test(harness: StorageHarness) -> None:
        with pytest.raises(InvalidObject) as caught:
            await harness.of("configmaps").list(ListQuery(**query))
        assert str(caught.value).startswith('ListOptions.meta.k8s.io "" is invalid: resourceV')
        assert message in str(caught.value)

    run(test)


_SAME: dict[str, Any] = {"namespace": "default", "selection": parse("a=1,b=2", "")}


@pytest.mark.parametrize(
    "changed",
    [
        {"namespace": ""},
        {"namespace": "other"},
        {"selection": EVERYTHING},
        {"selection": parse("a=1", "")},
        {"selection": parse("a=1,b=2", "metadata.name!=x")},
        {"selection": parse("", "metadata.name!=x")},
    ],
)
def test_token_of_another_list_is_refused(changed: dict[str, Any]) -> None:
    """A token is valid only for the namespace and the selectors of its list, in any order of the
    selectors' terms."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        for name in "xyz":
            await store.create(config_map(name, labels={"a": "1", "b": "2"}))
        first = await store.list(ListQuery(limit=1, **_SAME))
        consistent = {**_SAME, "selection": parse("b = 2, a = 1", "")}
        second = await store.list(
            ListQuery(limit=2, continue_token=first.continue_token, **consistent)
        )
        assert named(second.entries) == ["y", "z"]
        with pytest.raises(BadQuery, match=r"^invalid continue token: continue key is not valid$"):
            await store.list(
                ListQuery(limit=1, continue_token=first.continue_token, **{**_SAME, **changed})
            )

    run(test)


def test_get_of_an_absent_object() -> None:
    """The NotFound error names the resource."""

    async def test(harness: StorageHarness) -> None:
        for version in ("", "0"):
            with pytest.raises(NotFound, match=r'^pods "a" not found$'):
                await harness.of("pods").get(key("a"), resource_version=version)

    run(test)


# Consistency, compared with a model.

_writes = st.lists(
    st.tuples(st.sampled_from("cud"), st.integers(0, 7), st.integers(0, 3)), max_size=40
)


@settings(max_examples=40)
@given(initial=_writes, after=_writes, limit=st.integers(1, 4), forget=st.booleans())
def test_pages_show_one_state_while_writers_run(
    initial: list[tuple[str, int, int]],
    after: list[tuple[str, int, int]],
    limit: int,
    forget: bool,
) -> None:
    """All pages together show the state of the first one, whatever is written between them."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        for write in initial:
            await _apply(store, write)
        expected = _state((await store.list(ListQuery())).entries)
        writes_left = iter(after)
        listing = await store.list(ListQuery(limit=limit))
        revision, state = listing.revision, list(listing.entries)
        while listing.continue_token:
            for write in writes_left:
                await _apply(store, write)
                break
            if forget:
                harness.clock.advance(120)
            listing = await store.list(
                ListQuery(limit=limit, continue_token=listing.continue_token)
            )
            assert listing.revision == revision
            state.extend(listing.entries)
        assert _state(state) == expected
        assert named(state) == sorted(named(state))

    run(test)


async def _apply(store: ResourceStore, write: tuple[str, int, int]) -> None:
    operation, number, value = write
    name = f"c{number}"
    exists = name in named((await store.list(ListQuery(resource_version="0"))).entries)
    if operation == "c" and not exists:
        await store.create(config_map(name, data={"n": str(value)}))
    elif operation == "u" and exists:
        await store.update(key(name), lambda current: current | {"data": {"n": str(value)}})
    elif operation == "d" and exists:
        await store.delete(key(name), DeleteQuery())


def _state(entries: Any) -> dict[str, Tree]:
    return {entry.key.name: entry.tree() for entry in entries}
