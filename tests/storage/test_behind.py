"""A server whose cache is behind what another server wrote to the same store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kapiserver.storage.errors import NotFound, ObjectConflict
from kapiserver.storage.kv import KV, EventSink, KVEvent, Revision, Watch
from kapiserver.storage.query import DeleteQuery, Preconditions
from tests.storage.objectkit import House, config_map, key, put, run


class Late:
    """A store as a distant server sees it: what others write comes only when it is let through."""

    def __init__(self, kv: KV) -> None:
        self._kv = kv
        self._sinks: list[_LateSink] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        late = _LateSink(sink)
        self._sinks.append(late)
        return self._kv.watch(prefix, after=after, sink=late)

    def let_through(self) -> None:
        """Show all that happened."""
        for sink in self._sinks:
            sink.let_through()


class _LateSink:
    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._waiting: list[KVEvent] = []
        self.on_closed = sink.on_closed

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        self._waiting.extend(batch)

    def on_progress(self, revision: Revision) -> None:
        if not self._waiting:
            self._sink.on_progress(revision)

    def let_through(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._sink.on_events(waiting)


@pytest.fixture
def pair() -> Any:
    """Runs a test with a server that is up to date, and one that is not."""

    def run_pair(test: Any) -> None:
        async def inside(house: House) -> None:
            late = Late(house.kv)
            other = House(late)  # type: ignore[arg-type]
            await house.of("configmaps").create(config_map("a", data={"k": "old"}))
            await other.of("configmaps").get(key("a"))
            try:
                await test(house.of("configmaps"), other.of("configmaps"), late)
            finally:
                other.stores.stop()

        run(inside)

    return run_pair


def test_putting_back_what_the_cache_still_has(pair: Any) -> None:
    """An update to the value that the cache still has, but the store has no more, is written."""

    async def test(one: Any, behind: Any, _late: Late) -> None:
        changed = await put(one, "a", "data", to={"k": "new"})
        back = await put(behind, "a", "data", to={"k": "old"})
        assert back.outcome == "updated"
        assert back.entry.revision > changed.entry.revision
        assert (await one.get(key("a"))).tree()["data"] == {"k": "old"}

    pair(test)


def test_changing_nothing_of_what_is_gone(pair: Any) -> None:
    """An update that changes nothing of an object that was deleted elsewhere says so."""

    async def test(one: Any, behind: Any, _late: Late) -> None:
        await one.delete(key("a"), DeleteQuery())
        with pytest.raises(NotFound):
            await behind.update(key("a"), lambda current: current)

    pair(test)


def test_changing_nothing_of_what_was_replaced(pair: Any) -> None:
    """An update of an object that was replaced elsewhere fails by its uid, as by any server."""

    async def test(one: Any, behind: Any, _late: Late) -> None:
        old = (await one.get(key("a"))).tree()["metadata"]["uid"]
        await one.delete(key("a"), DeleteQuery())
        await one.create(config_map("a", data={"k": "old"}))
        mine = Preconditions(uid=old)
        with pytest.raises(ObjectConflict):
            await behind.update(key("a"), lambda current: current, preconditions=mine)

    pair(test)


def test_an_update_of_what_the_cache_does_not_have_yet(pair: Any) -> None:
    """A version that only the other server has seen is the right one, and an old one is not."""

    async def test(one: Any, behind: Any, late: Late) -> None:
        version = str((await put(one, "a", "data", to={"k": "new"})).entry.revision)
        written = await put(behind, "a", "metadata", "resourceVersion", to=version)
        assert written.outcome == "unchanged"
        assert written.entry.tree()["data"] == {"k": "new"}
        late.let_through()
        assert (await behind.get(key("a"))).tree()["data"] == {"k": "new"}

    pair(test)
