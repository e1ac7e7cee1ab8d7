"""Many concurrent clients on every backend: none waits forever, none gets a locking error."""

from __future__ import annotations

import asyncio
import random

from kapiserver.storage.errors import Conflict
from kapiserver.storage.kv.contract import KV
from tests.storage.recorder import Recorder

CLIENTS = 1000


async def test_a_thousand_clients(store: KV) -> None:
    """1,000 clients that create, read, list, update and delete finish without an error, and watches
    receive each write once, in order."""
    start_revision = await store.current_revision()
    early_recorder, late_recorder = Recorder(), Recorder()
    store.watch("/clients/", after=start_revision, sink=early_recorder)

    async def client(number: int) -> None:
        key = f"/clients/{number % 50}/{number}"
        first = await store.create(key, b"1" * 500)
        await store.range(f"/clients/{number % 50}/", limit=20)
        second = await store.update(key, b"2" * 500, expected=first)
        assert (await store.get(key)).revision >= second
        assert (await store.get(key, revision=first)).revision == first
        if number == CLIENTS // 2:
            store.watch("/clients/", after=start_revision, sink=late_recorder)
        if number % 2:
            await store.delete(key, expected=second)

    async with asyncio.timeout(60):
        await asyncio.gather(*(client(number) for number in range(CLIENTS)))
        await early_recorder.count(CLIENTS * 5 // 2)
        await late_recorder.count(CLIENTS * 5 // 2)
    assert early_recorder.seen == late_recorder.seen
    revisions = [event.revision for event in early_recorder.seen]
    assert revisions == sorted(set(revisions))
    assert len((await store.range("/clients/")).items) == CLIENTS // 2


async def test_reads_are_consistent(store: KV) -> None:
    """A range never shows the second of two sequential writes without the first."""
    left_revision = await store.create("/pair/left", b"0")
    right = await store.create("/pair/right", b"0")
    finished = False

    async def write() -> None:
        nonlocal left_revision, right, finished
        for number in range(1, 100):
            value = str(number).encode()
            left_revision = await store.update("/pair/left", value, expected=left_revision)
            right = await store.update("/pair/right", value, expected=right)
        finished = True

    async def read() -> None:
        while not finished:
            left_item, right_item = (await store.range("/pair/")).items
            assert 0 <= int(left_item.value) - int(right_item.value) <= 1

    await asyncio.gather(write(), *(read() for _ in range(4)))


async def test_a_race_for_one_key(store: KV) -> None:
    """Each successful compare-and-swap builds on the previous value, and all writers make
    progress."""
    await store.create("/race", b"")
    rng = random.Random(1)

    async def race(name: int) -> int:
        own_wins = 0
        for _ in range(10):
            item = (await store.get("/race")).item
            assert item is not None
            if rng.random() < 0.3:
                await asyncio.sleep(0)
            try:
                value = item.value + bytes([name])
                await store.update("/race", value, expected=item.revision)
                own_wins += 1
            except Conflict:
                continue
        return own_wins

    wins = await asyncio.gather(*(race(name) for name in range(20)))
    item = (await store.get("/race")).item
    assert item is not None
    assert [item.value.count(bytes([name])) for name in range(20)] == wins
