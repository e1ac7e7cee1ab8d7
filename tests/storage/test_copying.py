"""Copies of a store to another, over every pair of backends."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from kapiserver.storage.errors import Compacted, Corrupt, StorageError
from kapiserver.storage.kv import copying
from kapiserver.storage.kv.contract import KV, KeyValue, Revision
from kapiserver.storage.kv.copying import CopyRefused, KeepsRevisions, Plan, copy
from kapiserver.storage.sqlite.embedded_store import open_embedded
from tests.clock import ManualClock
from tests.storage.conftest import BACKENDS
from tests.storage.invariants import check_file
from tests.storage.recorder import Recorder

NAMES = [name for name in BACKENDS if name not in ("memory-on-loop",) and "gateway" not in name]
PAIRS = list(product(NAMES, NAMES))
FAST = [pair for pair in PAIRS if "file" in pair]
"""The pairs of `make test`."""

each_pair = pytest.mark.parametrize(
    ("source_name", "target_name"),
    [pytest.param(*pair, marks=[pytest.mark.slow] * (pair not in FAST)) for pair in PAIRS],
)


async def fill(store: KV) -> Revision:
    """Write a hundred keys, some of them again, and delete some."""
    revision = Revision(0)
    for number in range(100):
        revision = await store.create(f"/registry/pods/default/{number:03}", b"%d" % number)
        if number % 3 == 0:
            revision = await store.update(
                f"/registry/pods/default/{number:03}", b"new", expected=revision
            )
        if number % 7 == 0:
            await store.delete(f"/registry/pods/default/{number:03}", expected=revision)
    await store.create("/registry/example.com/databases/default/a", b"{}")
    await store.create("/registry/events/default/a", b"event", ttl=3600)
    await store.create("/registry/masterleases/a", b"", ttl=15)
    await store.create("/registry-clusters/templates/hash", b"template")
    await store.create("/registry-clusters/uid/pods/default/a", b"{}")
    await store.create("/registry-clusters/uid/events/default/a", b"event", ttl=3600)
    return await store.current_revision()


def plan(clock: ManualClock) -> Plan:
    return Plan(
        root="/registry",
        clusters_root="/registry-clusters",
        ttls={"events": 60},
        skipped=("/registry/masterleases/",),
        now=clock.now(),
    )


async def expected_items(store: KV) -> list[KeyValue]:
    pages = [await store.range(prefix) for prefix in ("/registry/", "/registry-clusters/")]
    items = [item for page in pages for item in page.items]
    return [item for item in items if "masterleases" not in item.key]


@each_pair
async def test_copy(source_name: str, target_name: str, clock: ManualClock, tmp_path: Path) -> None:
    """The target has the objects of the source, and their revisions if it can; Events expire."""
    (tmp_path / "source").mkdir()
    async with (
        BACKENDS[source_name](clock, tmp_path / "source") as source,
        BACKENDS[target_name](clock, tmp_path) as target,
    ):
        revision = await fill(source)
        steps: list[tuple[str, int, int]] = []
        result = await copy(source, target, plan(clock), lambda *step: steps.append(step))
        assert all(comparison.is_equal for comparison in result.comparisons)
        numbers = {each.resource: each.source[0] for each in result.comparisons}
        assert numbers == {
            "pods": 85,
            "example.com/databases": 1,
            "events": 1,
            "clusters/*/pods": 1,
            "clusters/*/events": 1,
            "clusters/templates": 1,
        }
        assert {step for step, _, _ in steps} >= {"copying", "comparing the target"}
        copied, original = await expected_items(target), await expected_items(source)
        if result.keeps_revisions:
            assert copied == original
            assert await target.current_revision() == revision == result.revision
            with pytest.raises(Compacted):
                await target.range("/registry/", revision=Revision(revision - 1))
            assert await target.create("/registry/pods/default/new", b"") == revision + 1
        else:
            assert [(i.key, i.value) for i in copied] == [(i.key, i.value) for i in original]
        if "etcd" not in target_name:
            recorder = Recorder()
            now = await target.current_revision()
            target.watch("/registry", after=now, sink=recorder)
            clock.advance(61)
            deleted = {event.key for event in await recorder.count(2) if event.value is None}
            assert deleted == {
                "/registry/events/default/a",
                "/registry-clusters/uid/events/default/a",
            }
        await copy_is_refused(source, target, clock)


async def test_keys_of_clusters_below_the_root(clock: ManualClock, tmp_path: Path) -> None:
    """With --etcd-prefix=/ the keys of logical clusters are below the root, and copied once."""
    (tmp_path / "source").mkdir()
    async with (
        BACKENDS["memory"](clock, tmp_path / "source") as source,
        BACKENDS["memory"](clock, tmp_path) as target,
    ):
        for key in ("/pods/default/a", "/-clusters/uid/pods/default/a", "/-clusters/open/uid"):
            await source.create(key, b"{}")
        steps: list[tuple[str, int, int]] = []
        everything = Plan(root="", clusters_root="/-clusters", now=clock.now())
        result = await copy(source, target, everything, lambda *step: steps.append(step))
        assert {each.resource: each.target[0] for each in result.comparisons} == {
            "pods": 1,
            "clusters/*/pods": 1,
            "clusters/open": 1,
        }
        assert ("copying", 3, 3) in steps


async def copy_is_refused(source: KV, target: KV, clock: ManualClock) -> None:
    """Check that a target with other objects is refused."""
    item = (await target.get("/registry/pods/default/001")).item
    assert item is not None
    await target.update(item.key, b"other", expected=item.revision)
    with pytest.raises(CopyRefused):
        await copy(source, target, plan(clock), lambda *_: None)


@pytest.mark.parametrize("target_name", [name for name in NAMES if name != "memory"])
async def test_interrupted_copy(
    target_name: str, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that was interrupted continues when it is repeated."""
    monkeypatch.setattr(copying, "PAGE", 10)
    async with (
        BACKENDS["memory"](clock, tmp_path) as source,
        BACKENDS[target_name](clock, tmp_path) as target,
    ):
        await fill(source)

        def interrupt(step: str, done: int, total: int) -> None:
            if done >= 30:
                raise StorageError("interrupted")

        with pytest.raises(StorageError, match="interrupted"):
            await copy(source, target, plan(clock), interrupt)
        if target_name == "file":
            await target.close()
            check_file(tmp_path / "store.db")
            async with BACKENDS["file"](clock, tmp_path) as opened_again:
                await check_complete(source, opened_again, clock)
        else:
            await check_complete(source, target, clock)


async def check_complete(source: KV, target: KV, clock: ManualClock) -> None:
    result = await copy(source, target, plan(clock), lambda *_: None)
    assert all(comparison.is_equal for comparison in result.comparisons)
    assert result.keeps_revisions == isinstance(target, KeepsRevisions)
    assert len(await expected_items(target)) == 90


async def test_an_empty_source(clock: ManualClock, tmp_path: Path) -> None:
    """A source without keys is refused: its address or a flag is wrong."""
    async with (
        BACKENDS["memory"](clock, tmp_path) as source,
        BACKENDS["memory"](clock, tmp_path) as target,
    ):
        with pytest.raises(CopyRefused, match="no keys below /registry: check its address"):
            await copy(source, target, plan(clock), lambda *_: None)


async def test_a_damaged_target(clock: ManualClock, tmp_path: Path) -> None:
    """The error of a value that differs from its checksum names the store."""
    async with BACKENDS["memory"](clock, tmp_path) as source:
        await fill(source)
        async with BACKENDS["file"](clock, tmp_path) as target:
            await copy(source, target, plan(clock), lambda *_: None)
        with closing(sqlite3.connect(tmp_path / "store.db")) as sql, sql:
            sql.execute("UPDATE log SET value = x'00' WHERE key = '/registry/events/default/a'")
        target = await open_embedded(tmp_path / "store.db", clock=clock)
        try:
            with pytest.raises(Corrupt, match=r"the target is damaged: .*/events/default/a"):
                await copy(source, target, plan(clock), lambda *_: None)
        finally:
            await target.close()
