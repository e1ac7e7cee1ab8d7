"""What imports modules or compiles codecs runs in threads."""

import asyncio
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from kapiserver.api.lazy import Lazy
from kapiserver.storage.cache.entry import Encoding, Entry
from kapiserver.storage.cache.offload import QUEUED, Offloader, first_use
from kapiserver.storage.cache.query import ListResult
from kapiserver.storage.kv.contract import Revision
from tests.storage.objectkit import CBOR, CORE, JSON, PROTOBUF, config_map, joined, open_harness
from tests.storage.test_offload import Gate, thread_of


async def test_work_of_a_first_use_is_offloaded() -> None:
    """Work of a small cost runs in a thread during a first use, however much is queued, and on the
    event loop after it, also in a task that began during the first use."""
    offloader, gate, has_ended = Offloader(), Gate(), asyncio.Event()

    async def run_after_the_end() -> int:
        await has_ended.wait()
        return await offloader.run(0, thread_of)

    with first_use():
        assert await offloader.run(0, thread_of) != threading.get_ident()
        works = [asyncio.create_task(offloader.run(0, gate.work("a"))) for _ in range(QUEUED + 1)]
        task = asyncio.create_task(run_after_the_end())
        await asyncio.sleep(0)
    gate.opened.set()
    assert set(await asyncio.gather(*works)) == {"a"}
    has_ended.set()
    assert await task == threading.get_ident()
    assert await offloader.run(0, thread_of) == threading.get_ident()


async def test_references_load_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference is resolved once, in a thread."""
    module = types.ModuleType("late")
    vars(module)["__getattr__"] = thread_of
    monkeypatch.setitem(sys.modules, "late", module)
    reference, offloader = Lazy[int]("late:thread"), Offloader()
    thread = await offloader.load(reference)
    assert thread != threading.get_ident()
    assert await offloader.load(reference) == reference() == reference.value == thread


class CountedThreads(Offloader):
    """An offloader that counts the work that it runs in threads."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    async def run_in_thread(self, *args: Any, **options: Any) -> Any:
        """Run work in a thread."""
        self.count += 1
        return await super().run_in_thread(*args, **options)


async def test_codecs_of_stored_objects_load_in_a_thread() -> None:
    """The first object of a resource that is decoded, or encoded in one encoding, is so in a
    thread, and the next ones on the event loop."""
    offloader = CountedThreads()
    async with open_harness(offloader=offloader) as harness:
        store = harness.of("configmaps")
        written = (await store.create(config_map("a"))).entry

        async def threads_of(read: Callable[[Entry], Any]) -> int:
            before = offloader.count
            await read(Entry(store.codec, written.path, written.value, written.revision))
            return offloader.count - before

        def encode_in(encoding: Encoding) -> Callable[[Entry], Any]:
            async def encode(entry: Entry) -> bytes:
                await offloader.prepare_encoding(entry, encoding)
                return store.encoder.encode_object(entry, encoding)

            return encode

        def list_in(encoding: Encoding) -> Callable[[Entry], Any]:
            return lambda entry: joined(
                store.encoder.encode_list(
                    ListResult(entries=[entry], revision=Revision(1)), encoding
                )
            )

        yaml = Encoding(CORE, "yaml")
        for read in (offloader.tree, encode_in(JSON), list_in(CBOR), encode_in(yaml)):
            assert [await threads_of(read) for _ in range(2)] == [1, 0]
        assert await threads_of(list_in(JSON)) == 0
        # It is spliced from stored bytes.
        assert await threads_of(encode_in(PROTOBUF)) == 0
