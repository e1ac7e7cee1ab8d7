"""Workers that share the bytes of what their caches have alike."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.api.group import GroupVersion
from kapiserver.storage.backends import open_store
from kapiserver.storage.cache import sharing
from kapiserver.storage.cache.entry import Encoding, Entry, Part
from kapiserver.storage.cache.query import DeleteQuery, ListQuery
from kapiserver.storage.cache.segments import Item, Segment, can_share, map_segment, write_segment
from kapiserver.storage.cache.sharing import ASK_SECONDS, LOOK_SECONDS, MemorySharing
from tests.storage.objectkit import (
    JSON,
    PROTOBUF,
    StorageHarness,
    config_map,
    joined,
    key,
    put,
)

pytestmark = pytest.mark.skipif(not can_share(), reason="needs files in memory (Linux)")

COUNT = 40
SIZE = 2000


class Worker:
    """The storage of one worker, and how it reaches the others."""

    def __init__(
        self, harness: StorageHarness, workers: list[Worker], *, is_publisher: bool
    ) -> None:
        self.harness = harness
        self.store = harness.of("configmaps")
        self.workers = workers
        self.asked = 0
        self.sharing = MemorySharing(
            lambda: [each.cache for each in harness.stores.in_use()],
            self,
            harness.clock,
            is_publisher=is_publisher,
        )

    def announce(self, segment: int) -> None:
        for other in self.workers:
            if other is not self:
                other.sharing.receive(os.dup(segment))

    def ask(self) -> None:
        self.asked += 1
        self.workers[0].sharing.publish_for_others()

    async def list(self) -> list[Entry]:
        """The entries of all ConfigMaps."""
        return list((await self.store.list(ListQuery())).entries)

    async def json(self) -> bytes:
        """The list of all ConfigMaps in JSON, which caches each one's encoding."""
        listing = await self.store.list(ListQuery())
        return await joined(self.store.encoder.encode_list(listing, JSON))


@asynccontextmanager
async def running_workers(count: int) -> AsyncIterator[list[Worker]]:
    """Workers over one store that has COUNT ConfigMaps."""
    kv = await open_store("sqlite::memory:")
    workers: list[Worker] = []
    with ExitStack() as stack:
        for _ in range(count):
            workers.append(Worker(StorageHarness(kv), workers, is_publisher=not workers))
            stack.enter_context(workers[-1].sharing.running())
        for number in range(COUNT):
            await workers[0].store.create(config_map(f"c{number}", data={"x": "x" * SIZE}))
        for worker in workers:
            await worker.json()
        yield workers
    for worker in workers:
        worker.harness.stores.stop()
    await kv.close()


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MIN_PUBLISHED_BYTES", SIZE)
    monkeypatch.setattr(sharing, "SEGMENT_ITEMS", COUNT // 2)
    gc.collect()  # the workers of a test refer to each other
    assert not mapped()


async def look(workers: list[Worker], *, times: int = 1) -> None:
    """Let each worker look at its caches, and finish what that starts."""
    for _ in range(times):
        for worker in workers:
            worker.harness.clock.advance(LOOK_SECONDS)
            while tasks := asyncio.all_tasks() & {
                task for each in workers for task in each.sharing._tasks
            }:
                await asyncio.wait(tasks)


def segments(entry: Entry) -> list[object]:
    """The segments of the parts of an entry; None for a part with bytes of its own."""
    return [None if isinstance(data, bytes) else data.mapping for _, data in entry.parts()]


def mapped() -> set[str]:
    """The segments that are mapped in this process, which all workers of a test are in."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if "memfd:kapiserver" in line}


def descriptors() -> int:
    """The number of open descriptors of segments, without those of mappings."""
    links = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    return sum("memfd:kapiserver" in link for link in links) - len(mapped())


def shared_count(entries: list[Entry]) -> int:
    return sum(part is not None for entry in entries for part in segments(entry))


async def test_workers_share_what_has_not_changed() -> None:
    """Values and encodings of unchanged objects are in segments after two looks, with the same
    bytes, and those of an object that changes are its worker's own again."""
    async with running_workers(3) as workers:
        before = [await each.json() for each in workers]
        values = {entry.path: entry.value for entry in await workers[0].list()}
        await look(workers)
        assert not any([shared_count(await each.list()) for each in workers])
        await look(workers)
        for worker, text in zip(workers, before, strict=True):
            entries = await worker.list()
            assert shared_count(entries) == 2 * COUNT
            assert {entry.path: entry.value for entry in entries} == values
            assert all(entry.size == len(entry.value) for entry in entries)
            assert await worker.json() == text
        await put(workers[1].store, "c0", "data", to={"x": "y" * SIZE})
        for worker in workers:
            entry = await worker.store.get(key("c0"))
            assert entry.tree()["data"] == {"x": "y" * SIZE}
            assert segments(entry) == [None]


async def test_unneeded_segments_are_freed() -> None:
    """What is left of a segment after most of its objects have changed is published again, and a
    segment without a user is freed in all workers."""
    async with running_workers(2) as workers:
        await look(workers, times=2)
        first = mapped()
        await workers[0].store.create(config_map("last"))
        assert len(first) == 4  # 2 parts of COUNT entries, COUNT / 2 items in each
        for name in [f"c{number}" for number in range(COUNT) if number % 4]:
            await put(workers[0].store, name, "data", to={"x": "z" * SIZE})
        assert mapped() <= first
        assert mapped()
        await look(workers, times=2)
        assert not mapped() & first
        for worker in workers:
            assert shared_count(await worker.list()) == COUNT + COUNT // 4
        for number in range(COUNT):
            await workers[0].store.delete(key(f"c{number}"), DeleteQuery())
        for worker in workers:
            assert [each.key.name for each in await worker.list()] == ["last"]
        assert not mapped()
        assert not descriptors()


async def test_a_worker_that_starts_again() -> None:
    """A new worker asks the publisher, and uses the segments that exist; it does not ask again and
    again. A new publisher publishes anew, and all workers use its segments."""
    async with running_workers(2) as workers:
        await look(workers, times=2)
        first = mapped()
        kv = workers[0].harness.kv
        workers.append(Worker(StorageHarness(kv), workers, is_publisher=False))
        with workers[2].sharing.running():
            await workers[2].json()
            await look(workers, times=2)
            assert workers[2].asked == 1
            assert shared_count(await workers[2].list()) == 2 * COUNT
            assert mapped() == first

            workers[0].harness.stores.stop()
            workers[0] = Worker(StorageHarness(kv), workers, is_publisher=True)
            with workers[0].sharing.running():
                await workers[0].json()
                await look(workers, times=2)
                assert not mapped() & first
                for worker in workers:
                    assert shared_count(await worker.list()) == 2 * COUNT
                    assert all(None not in segments(entry) for entry in await worker.list())


async def test_a_worker_asks_rarely() -> None:
    """A worker asks again for what the publisher does not have, but not at each look."""
    async with running_workers(2) as workers:
        workers[0].store.stop()
        await look(workers, times=4)
        assert workers[1].asked == 1
        workers[1].harness.clock.advance(ASK_SECONDS)
        await look(workers)
        assert workers[1].asked == 2


async def test_other_bytes_stay(caplog: pytest.LogCaptureFixture) -> None:
    """A worker whose bytes of a key differ from those of a segment keeps its own, and one that
    cannot have a segment keeps all."""
    async with running_workers(2) as workers:
        items = [
            Item(entry.path, None, b"?" * entry.size if at % 2 else entry.value)
            for at, entry in enumerate(await workers[1].list())
        ]
        workers[1].sharing.receive(write_segment([*items, Item("/elsewhere", None, b"!")]))
        read_end, write_end = os.pipe()
        os.close(write_end)
        workers[1].sharing.receive(read_end)
        await look(workers)
        entries = await workers[1].list()
        assert [segments(entry)[0] is not None for entry in entries] == [True, False] * (COUNT // 2)
        assert not {b"?" * entry.size for entry in entries} & {entry.value for entry in entries}
        assert "memory of another worker cannot be shared" in caplog.text


async def test_no_memory_for_segments(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Objects are served without segments when there can be no more."""
    async with running_workers(2) as workers:
        monkeypatch.setattr(sharing, "MAX_SEGMENTS", 1)
        await look(workers, times=2)
        assert len(mapped()) == 1
        assert "of 1 segments are shared, and no more" in caplog.text
        monkeypatch.setattr(sharing, "MAX_SEGMENTS", 9)
        monkeypatch.setattr(os, "memfd_create", refuse)
        await look(workers)
        assert "memory cannot be shared with other workers: none left" in caplog.text
        assert len(await workers[1].list()) == COUNT


def refuse(*_: object) -> int:
    """Fail as a system call does that finds no memory."""
    raise OSError("none left")


@given(
    st.lists(
        st.tuples(
            st.text(),
            st.sampled_from([None, JSON, PROTOBUF, Encoding(GroupVersion("a.b", "v2"), "cbor")]),
            st.binary(),
        )
    )
)
def test_segments(items: list[tuple[str, Part, bytes]]) -> None:
    """A segment has the items that were written, and nobody can change it."""
    descriptor = write_segment([Item(*item) for item in items])
    mapping = map_segment(descriptor)
    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"!", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)
    assert [(path, part, bytes(data)) for path, part, data in Segment(mapping).items()] == items
