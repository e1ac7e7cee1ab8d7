"""Updates through a server whose watch cache is behind the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kapiserver.storage.cache.query import DeleteQuery, Preconditions, Write
from kapiserver.storage.errors import NotFound, ObjectConflict
from kapiserver.storage.kv.contract import KV, EventSink, GetResult, KVEvent, Revision, Watch
from tests.storage.objectkit import StorageHarness, config_map, key, put, run, setting


class DelayedKV:
    """A store whose watches deliver events only when the test calls `let_through`, and that counts
    the gets."""

    def __init__(self, kv: KV) -> None:
        self._kv = kv
        self.gets = 0
        self._sinks: list[_DelayedSink] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        self.gets += 1
        return await self._kv.get(key, revision=revision)

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        delayed = _DelayedSink(sink)
        self._sinks.append(delayed)
        return self._kv.watch(prefix, after=after, sink=delayed)

    def let_through(self) -> None:
        """Deliver all pending events."""
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
    """Returns a function that runs a test with an up-to-date store and one that is behind."""

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


def test_conflict_costs_no_read(run_on_pair: Any) -> None:
    """An update and a delete that conflict with another server's write start again from the value
    that the conflict brought."""

    async def test(up_to_date: Any, behind: Any, delayed: DelayedKV) -> None:
        await put(up_to_date, "a", "data", to={"k": "new"})
        write = await behind.update(key("a"), setting("metadata", "labels", to={"x": "y"}))
        assert (write.outcome, write.entry.tree()["data"]) == ("updated", {"k": "new"})
        await put(up_to_date, "a", "data", to={"k": "newer"})
        deletion = await behind.delete(key("a"), DeleteQuery())
        assert deletion.entry.tree()["data"] == {"k": "newer"}
        assert delayed.gets == 0

    run_on_pair(test)


def test_another_server_wrote_the_same_before(run_on_pair: Any) -> None:
    """An update has its own revision, though the event of another server's earlier write of the
    same bytes arrives while it is written."""

    async def test(up_to_date: Any, behind: Any, delayed: Any) -> None:
        await put(up_to_date, "a", "data", to={"k": "same"})
        await put(up_to_date, "a", "data", to={"k": "other"})
        update = delayed.update

        async def update_and_deliver(*arguments: Any, **options: Any) -> Revision:
            revision: Revision = await update(*arguments, **options)
            delayed.let_through()
            return revision

        delayed.update = update_and_deliver
        entry = (await put(behind, "a", "data", to={"k": "same"})).entry
        newest = await up_to_date.get(key("a"))
        assert entry.revision == newest.revision
        assert entry.tree()["metadata"]["resourceVersion"] == str(newest.revision)
        assert (await behind.get(key("a"))).revision == newest.revision

    run_on_pair(test)


def test_update_of_a_deleted_object(run_on_pair: Any) -> None:
    """An update and a delete raise NotFound if another server deleted the object."""

    async def test(up_to_date: Any, behind: Any, _late: DelayedKV) -> None:
        await up_to_date.delete(key("a"), DeleteQuery())
        with pytest.raises(NotFound):
            await behind.update(key("a"), setting("data", to={"k": "new"}))
        with pytest.raises(NotFound):
            await behind.delete(key("a"), DeleteQuery())

    run_on_pair(test)


def test_update_to_the_cached_value(run_on_pair: Any) -> None:
    """An update is written if its value equals the cached object but not the stored one."""

    async def test(up_to_date: Any, behind: Any, _late: DelayedKV) -> None:
        changed = await put(up_to_date, "a", "data", to={"k": "new"})
        back = await put(behind, "a", "data", to={"k": "old"})
        assert back.outcome == "updated"
        assert back.entry.revision > changed.entry.revision
        assert (await up_to_date.get(key("a"))).tree()["data"] == {"k": "old"}

    run_on_pair(test)


def test_empty_update_of_a_deleted_object(run_on_pair: Any) -> None:
    """An update without changes raises NotFound if another server deleted the object."""

    async def test(up_to_date: Any, behind: Any, _late: DelayedKV) -> None:
        await up_to_date.delete(key("a"), DeleteQuery())
        with pytest.raises(NotFound):
            await behind.update(key("a"), lambda current: current)

    run_on_pair(test)


def test_empty_update_of_a_replaced_object(run_on_pair: Any) -> None:
    """An update without changes fails its uid precondition if another server replaced the
    object."""

    async def test(up_to_date: Any, behind: Any, _late: DelayedKV) -> None:
        old = (await up_to_date.get(key("a"))).tree()["metadata"]["uid"]
        await up_to_date.delete(key("a"), DeleteQuery())
        await up_to_date.create(config_map("a", data={"k": "old"}))
        by_uid = Preconditions(uid=old)
        with pytest.raises(ObjectConflict):
            await behind.update(key("a"), lambda current: current, Write(preconditions=by_uid))

    run_on_pair(test)


def test_update_of_a_version_beyond_the_cache(run_on_pair: Any) -> None:
    """An update of the current version succeeds, and one of an old version conflicts, even if the
    cache has not seen the current version."""

    async def test(up_to_date: Any, behind: Any, delayed: DelayedKV) -> None:
        version = str((await put(up_to_date, "a", "data", to={"k": "new"})).entry.revision)
        write = await put(behind, "a", "metadata", "resourceVersion", to=version)
        assert write.outcome == "unchanged"
        assert write.entry.tree()["data"] == {"k": "new"}
        delayed.let_through()
        assert (await behind.get(key("a"))).tree()["data"] == {"k": "new"}

    run_on_pair(test)
