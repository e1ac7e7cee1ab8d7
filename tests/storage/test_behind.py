"""A server whose cache is behind what another server wrote to the same store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kapiserver.storage.errors import NotFound, ObjectConflict
from kapiserver.storage.kv import KV, EventSink, KVEvent, Revision, Watch
from kapiserver.storage.query import DeleteQuery, Preconditions
from tests.storage.objectkit import StorageHarness, config_map, key, put, run


class DelayedKV:
    """A store as a distant server sees it: what others write comes only when it is let through."""

    def __init__(self, kv: KV) -> None:
        self._kv = kv
        self._sinks: list[_DelayedSink] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        delayed = _DelayedSink(sink)
        self._sinks.append(delayed)
        return self._kv.watch(prefix, after=after, sink=delayed)

    def let_through(self) -> None:
        """Show all that happened."""
        for sink in self._sinks:
            sink.let_through()


class _DelayedSink:
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
        pending, self._waiting = self._waiting, []
        if pending:
            self._sink.on_events(pending)


@pytest.fixture
def run_on_pair() -> Any:
    """Runs a test with a server that is up to date, and one that is not."""

    def run_pair(test: Any) -> None:
        async def inside(harness: StorageHarness) -> None:
            delayed = DelayedKV(harness.kv)
            behind = StorageHarness(delayed)  # type: ignore[arg-type]
            await harness.of("configmaps").create(config_map("a", data={"k": "old"}))
            await behind.of("configmaps").get(key("a"))
            try:
                await test(harness.of("configmaps"), behind.of("configmaps"), delayed)
            finally:
                behind.stores.stop()

        run(inside)

    return run_pair


def test_putting_back_what_the_cache_still_has(run_on_pair: Any) -> None:
    """An update to the value that the cache still has, but the store has no more, is written."""

    async def test(up_to_date: Any, behind: Any, _late: DelayedKV) -> None:
        changed = await put(up_to_date, "a", "data", to={"k": "new"})
        back = await put(behind, "a", "data", to={"k": "old"})
        assert back.outcome == "updated"
        assert back.entry.revision > changed.entry.revision
        assert (await up_to_date.get(key("a"))).tree()["data"] == {"k": "old"}

    run_on_pair(test)


def test_changing_nothing_of_what_is_gone(run_on_pair: Any) -> None:
    """An update that changes nothing of an object that was deleted elsewhere says so."""

    async def test(up_to_date: Any, behind: Any, _late: DelayedKV) -> None:
        await up_to_date.delete(key("a"), DeleteQuery())
        with pytest.raises(NotFound):
            await behind.update(key("a"), lambda current: current)

    run_on_pair(test)


def test_changing_nothing_of_what_was_replaced(run_on_pair: Any) -> None:
    """An update of an object that was replaced elsewhere fails by its uid, as by any server."""

    async def test(up_to_date: Any, behind: Any, _late: DelayedKV) -> None:
        old = (await up_to_date.get(key("a"))).tree()["metadata"]["uid"]
        await up_to_date.delete(key("a"), DeleteQuery())
        await up_to_date.create(config_map("a", data={"k": "old"}))
        by_uid = Preconditions(uid=old)
        with pytest.raises(ObjectConflict):
            await behind.update(key("a"), lambda current: current, preconditions=by_uid)

    run_on_pair(test)


def test_an_update_of_what_the_cache_does_not_have_yet(run_on_pair: Any) -> None:
    """A version that only the other server has seen is the right one, and an old one is not."""

    async def test(up_to_date: Any, behind: Any, delayed: DelayedKV) -> None:
        version = str((await put(up_to_date, "a", "data", to={"k": "new"})).entry.revision)
        write = await put(behind, "a", "metadata", "resourceVersion", to=version)
        assert write.outcome == "unchanged"
        assert write.entry.tree()["data"] == {"k": "new"}
        delayed.let_through()
        assert (await behind.get(key("a"))).tree()["data"] == {"k": "new"}

    run_on_pair(test)
