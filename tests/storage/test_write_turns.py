"""Writers of one key take turns: each starts from the result of the one before."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

import pytest

from kapiserver.api.accessors import copy_tree
from kapiserver.api.types import Tree
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.query import ADMITTED, Admission, DeleteQuery, Write
from kapiserver.storage.errors import ObjectConflict
from kapiserver.storage.kv.contract import KV, Revision
from kapiserver.storage.objects import write_turns
from kapiserver.storage.objects.object_store import ResourceStore
from kapiserver.storage.objects.write_turns import Turn, WriteTurns, give_up_turns
from tests.storage.objectkit import StorageHarness, config_map, key, run, setting

WRITERS = 30


async def spin(turns: int = 10) -> None:
    """Let other tasks run."""
    for _ in range(turns):
        await asyncio.sleep(0)


def counting(tries: Counter[str], name: str) -> Callable[[Tree], Tree]:
    """Return an update function that appends a name to the object, and counts its calls."""

    def change(current: Tree) -> Tree:
        tries[name] += 1
        current["data"] = {"writers": current["data"]["writers"] + f" {name}"}
        return current

    return change


async def write_many(store: ResourceStore, tries: Counter[str], prefix: str = "") -> None:
    """Update the object `a` WRITERS times at once."""
    names = [f"{prefix}{number}" for number in range(WRITERS)]
    await asyncio.gather(*(store.update(key("a"), counting(tries, name)) for name in names))


async def writers_of(store: ResourceStore) -> list[str]:
    """The names that were written to the object `a`, in order."""
    return list((await store.get(key("a"))).tree()["data"]["writers"].split())


async def test_writers_of_one_key_never_conflict(store: KV) -> None:
    """Of many writers of one key each needs one try, and they write in the order of arrival."""
    harness = StorageHarness(store)
    objects = harness.of("configmaps")
    await objects.create(config_map("a", data={"writers": "first"}))
    tries: Counter[str] = Counter()
    await write_many(objects, tries)
    assert set(tries.values()) == {1}
    assert await writers_of(objects) == ["first", *(str(number) for number in range(WRITERS))]
    assert not objects._turns._holders
    harness.stores.stop()


async def test_writers_of_two_servers(store: KV) -> None:
    """A write of another server makes the holder of a turn try again, not those behind it: no
    write is lost, and a try more is spent for each write of the other server at most."""
    harnesses = [StorageHarness(store), StorageHarness(store)]
    objects = [harness.of("configmaps") for harness in harnesses]
    await objects[0].create(config_map("a", data={"writers": "first"}))
    tries: Counter[str] = Counter()
    await asyncio.gather(
        *(write_many(server, tries, prefix) for server, prefix in zip(objects, "xy", strict=True))
    )
    written = await writers_of(objects[0])
    assert sorted(written) == sorted(["first", *tries])
    for prefix in "xy":
        order = [int(name[1:]) for name in written if name[0] == prefix]
        assert order == list(range(WRITERS))
    # Each failed try of a holder needs a write of the other server since it read the object.
    assert tries.total() <= 4 * WRITERS
    for harness in harnesses:
        harness.stores.stop()


def test_update_of_a_key_that_another_server_keeps_writing() -> None:
    """An unconditional update tries again as long as its request lives; there is no number of tries
    after which it conflicts."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", data={"writers": "first"}))
        other = StorageHarness(harness.kv)
        tries = 0

        async def overtake(_new: Tree | None, _old: Tree | None) -> Admission:
            nonlocal tries
            tries += 1
            if tries <= 150:
                change = setting("data", to={"writers": str(tries)})
                await other.of("configmaps").update(key("a"), change)
            return ADMITTED

        result = await store.update(key("a"), lambda _: config_map("a"), Write(admit=overtake))
        assert tries == 151
        assert result.outcome == "updated"
        other.stores.stop()

    run(test)


def test_delete_waits_for_its_turn() -> None:
    """A delete behind updates does not conflict with them; an update behind it finds nothing."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", data={"writers": "first"}))
        tries: Counter[str] = Counter()
        results = await asyncio.gather(
            store.update(key("a"), counting(tries, "1")),
            store.update(key("a"), counting(tries, "2")),
            store.delete(key("a"), DeleteQuery()),
            store.update(key("a"), counting(tries, "3")),
            return_exceptions=True,
        )
        deleted = results[2]
        assert not isinstance(deleted, BaseException)
        assert deleted.entry.tree()["data"] == {"writers": "first 1 2"}
        assert str(results[3]) == 'configmaps "a" not found'

    run(test)


def test_conditional_update_takes_no_turn() -> None:
    """A writer that names a version does not wait behind those that do not, after which it would
    always conflict."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        current = (await store.create(config_map("a", data={"writers": "first"}))).entry.tree()
        held = store._turns.turn(store.codec.path(key("a")))
        await held.take()
        waiting = asyncio.create_task(store.update(key("a"), counting(Counter(), "waiting")))
        await spin()
        body = current | {"data": {"writers": "conditional"}}
        await store.update(key("a"), lambda _: copy_tree(body), Write(conditional=True))
        with pytest.raises(ObjectConflict):
            await store.update(key("a"), lambda _: copy_tree(body), Write(conditional=True))
        dry = await store.update(key("a"), counting(Counter(), "dry"), Write(dry_run=True))
        assert dry.entry.tree()["data"] == {"writers": "conditional dry"}
        held.give_up()
        await waiting
        assert await writers_of(store) == ["conditional", "waiting"]

    run(test)


def test_admission_may_update_the_same_object() -> None:
    """A write within the admission of another write of the object does not wait for that one."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", data={"writers": "first"}))
        tries: Counter[str] = Counter()

        async def admit(_new: Tree | None, _old: Tree | None) -> Admission:
            if not tries["inner"]:
                await store.update(key("a"), counting(tries, "inner"))
            return ADMITTED

        await store.update(key("a"), counting(tries, "outer"), Write(admit=admit))
        assert await writers_of(store) == ["first", "inner", "outer"]
        assert tries == {"inner": 1, "outer": 2}

    run(test)


def test_writes_that_admit_each_other_do_not_deadlock() -> None:
    """Two writes, each of which updates the other's object in its admission, both end."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        for name in "ab":
            await store.create(config_map(name, data={"writers": "first"}))
        tries: Counter[str] = Counter()
        both_admitted = asyncio.Barrier(2)

        async def write(name: str, other: str) -> None:
            async def admit(_new: Tree | None, _old: Tree | None) -> Admission:
                if tries[name] == 1:
                    await both_admitted.wait()
                    await store.update(key(other), counting(tries, f"for-{name}"))
                return ADMITTED

            await store.update(key(name), counting(tries, name), Write(admit=admit))

        await asyncio.gather(write("a", "b"), write("b", "a"))
        for name, other in ("ab", "ba"):
            data = (await store.get(key(name))).tree()["data"]
            assert sorted(data["writers"].split()) == sorted(["first", name, f"for-{other}"])

    run(test)


# Turns alone.


async def take(turns: WriteTurns, name: str, order: list[str], wait: asyncio.Event) -> None:
    with turns.turn("/k") as turn:
        await turn.take()
        order.append(name)
        await wait.wait()


async def test_cancelled_writers_are_left_out() -> None:
    """A writer that is cancelled while it waits, or just when it gets its turn, does not keep it
    from those behind."""
    turns, order, ended = WriteTurns(), list[str](), asyncio.Event()
    ended.set()
    first = turns.turn("/k")
    await first.take()
    names = ("waiting", "handed", "last")
    waiting, handed, last = (asyncio.create_task(take(turns, name, order, ended)) for name in names)
    await spin()
    waiting.cancel()
    await spin()
    first.give_up()
    handed.cancel()
    await last
    assert order == ["last"]
    assert waiting.cancelled()
    assert handed.cancelled()
    assert not turns._holders


async def test_writers_beyond_the_bound_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line at a key is bounded; further writers do not wait."""
    monkeypatch.setattr(write_turns, "MAX_WAITING", 2)
    turns, order, wait = WriteTurns(), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(take(turns, str(number), order, wait)) for number in range(5)]
    await spin()
    assert order == ["0", "3", "4"]
    wait.set()
    await asyncio.gather(*tasks)
    assert order == ["0", "3", "4", "1", "2"]
    assert not turns._holders


async def test_turns_are_given_up_before_a_request_to_another_program() -> None:
    """`give_up_turns` passes on the turns of all writes that the task is part of, also in tasks
    that it started; the next writer gets what the holder has read."""
    turns, entry = WriteTurns(), Entry(object(), "/a", b"", Revision(7))  # type: ignore[arg-type]
    order: list[Any] = []

    async def follow(path: str) -> None:
        with turns.turn(path) as turn:
            await turn.take()
            order.append((path, turn.latest))

    with turns.turn("/a") as outer, turns.turn("/b") as inner:
        await outer.take()
        await inner.take()
        outer.latest = entry
        # Not tasks of this write: those would give up its turns before they wait.
        followers = [asyncio.create_task(follow(path), context=Context()) for path in ("/a", "/b")]
        await spin()
        assert order == []
        await asyncio.gather(asyncio.to_thread(lambda: None), _request())
        await asyncio.gather(*followers)
        assert sorted(order, key=str) == [("/a", entry), ("/b", None)]
        await outer.take()  # it may take the turn again
    assert not turns._holders


async def _request() -> None:
    give_up_turns()


def test_tasks_of_a_write_do_not_keep_its_object() -> None:
    """A task that outlives the write that started it keeps neither the object nor the context of
    the request."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        contexts: list[Context] = []

        async def admit(_new: Tree | None, _old: Tree | None) -> Admission:
            contexts.append(copy_context())
            return ADMITTED

        for options in ({}, {"dry_run": True}, {"conditional": True}):
            await store.update(
                key("a"), setting("data", to={"k": str(options)}), Write(admit=admit, **options)
            )
        await store.delete(key("a"), DeleteQuery(), admit=admit)
        assert len(contexts) == 4
        for context in contexts:
            turn = next(value for value in context.values() if isinstance(value, Turn))
            assert (turn.latest, turn._outer, turn._token, turn._waiting) == (None,) * 4

    run(test)


async def test_random_writers_all_end() -> None:
    """Writers that are cancelled, give up and nest at random leave no turn behind."""
    turns, rng = WriteTurns(), random.Random(1)
    keys = ["/a", "/b", "/c"]

    async def write(depth: int) -> None:
        with turns.turn(rng.choice(keys)) as turn:
            await turn.take()
            await spin(rng.randrange(3))
            if rng.random() < 0.2:
                give_up_turns()
            if depth and rng.random() < 0.5:
                await write(depth - 1)
            await turn.take()

    tasks = [asyncio.create_task(write(3)) for _ in range(300)]
    for _ in range(60):
        await spin(2)
        rng.choice(tasks).cancel()
    async with asyncio.timeout(60):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert not turns._holders
    assert isinstance(turns.turn("/a"), Turn)
