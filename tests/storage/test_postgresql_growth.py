"""The troubles that kine is known for, each a test of the PostgreSQL store: kine #213, k3s #9256,
#10619 and #11269."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kapiserver.storage.kv.compaction import Compactor
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.postgresql.store import COMPACTION_STEP, PostgresqlStore
from tests.clock import ManualClock
from tests.storage.postgresql_server import binaries, shared_postgresql
from tests.storage.postgresqlkit import Open, opened, run_sql, schema, tables

__all__ = ["opened", "schema", "tables"]

asyncpg = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed")

KEYS = 50
WAIT_SECONDS = 60.0


async def rewrite(view: PostgresqlStore, rounds: int, prefix: str) -> Revision:
    """Create keys, update each some times, and delete half of them."""
    revisions = await asyncio.gather(
        *(view.create(f"{prefix}{n:03}", b"x" * 500) for n in range(KEYS))
    )
    for _ in range(rounds):
        revisions = await asyncio.gather(
            *(
                view.update(f"{prefix}{n:03}", b"y" * 500, expected=revision)
                for n, revision in enumerate(revisions)
            )
        )
    await asyncio.gather(
        *(view.delete(f"{prefix}{n:03}", expected=revisions[n]) for n in range(0, KEYS, 2))
    )
    return await view.current_revision()


async def number_of_rows(tables: str, table: str = "log") -> int:
    ((number,),) = await run_sql(f"SELECT count(*) FROM {tables}.{table}")
    assert isinstance(number, int)
    return number


async def check_compacted(tables: str) -> None:
    """Check that the log has a row for each key, and only one more: the deletion at the revision to
    which it was compacted, which the next compaction removes."""
    assert await number_of_rows(tables) - await number_of_rows(tables, "current") <= 1


@pytest.mark.slow
async def test_old_versions_leave_the_tables(opened: Open, tables: str) -> None:
    """kine #213: old versions and deleted keys stay, and the table grows. Here compaction leaves a
    row per key, and the space of the others is used again."""
    async with opened() as view:
        sizes: list[Any] = []
        for number in range(6):
            await view.compact(await rewrite(view, 20, f"/a/{number}-"))
            await check_compacted(tables)
            await run_sql(f"VACUUM {tables}.log")
            ((size,),) = await run_sql("SELECT pg_table_size($1::regclass)", f"{tables}.log")
            sizes.append(size)
        assert sizes[-1] - sizes[0] < sizes[0] / 4  # the keys that were added


async def test_no_statement_reads_a_whole_table(opened: Open, tables: str, schema: str) -> None:
    """k3s #9256: a list reads all rows of the table, because its collation keeps the index from
    being used. Here each statement reads about as many rows as it returns. The table of the newest
    revision has many versions of its row while another session holds an old snapshot."""
    async with opened(f"{shared_postgresql().url}?application_name=scans") as view:
        revision = await rewrite(view, 3, "/a/")
        revision = await rewrite(view, 3, "/b/")
        for at_revision in (None, Revision(revision - 1)):
            await view.get("/b/001", revision=at_revision)
            await view.range("/b/", limit=2, start="/b/003", revision=at_revision)
        await view.range("/c/")
        await view.history("/b/", Revision(revision - 5), revision, 10, previous=True)
        await view.update("/b/001", b"", expected=(await view.range("/b/")).items[0].revision)
        await view.compact(Revision(revision - 300))
    async with asyncio.timeout(WAIT_SECONDS):
        while True:  # sessions report their numbers when they end
            if not await run_sql("SELECT FROM pg_stat_activity WHERE application_name = 'scans'"):
                break
            await asyncio.sleep(0.01)
    ((scanned, indexed),) = await run_sql(
        "SELECT sum(seq_tup_read), sum(idx_tup_fetch) FROM pg_stat_user_tables "
        "WHERE schemaname = $1 AND relname IN ('log', 'current', 'expiry', 'state')",
        schema,
    )
    assert scanned <= 1  # the index of the newest revision was made of one row
    assert indexed


async def test_one_compaction_catches_up(opened: Open, tables: str) -> None:
    """k3s #10619: compaction does a fixed number of revisions and falls behind, and gaps between
    revisions are rows of their own. Here a compaction ends at its target, and there are no gaps."""
    async with opened() as view:
        start = await view.current_revision()
        end = await rewrite(view, 3 * COMPACTION_STEP // KEYS, "/a/")
        assert end - start > 3 * COMPACTION_STEP
        assert await number_of_rows(tables) == end - start
        await view.compact(end)
        assert view.compacted == end
        await check_compacted(tables)


async def test_a_failed_compaction_is_not_lost(
    opened: Open, tables: str, clock: ManualClock
) -> None:
    """k3s #11269: after a compaction that failed, the next one is skipped. Here the next one does
    the work of both."""
    async with opened() as view:
        await rewrite(view, 5, "/a/")
        compactor = Compactor(view, clock, 300)
        compactor.start()
        await run(compactor)
        target = await view.current_revision()
        admin = await asyncpg.connect(shared_postgresql().url)
        async with admin.transaction():
            await admin.execute(f"SELECT * FROM {tables}.compaction FOR UPDATE")
            clock.advance(300)
            await asyncio.gather(run(compactor), end_compaction(tables))
        await admin.close()
        assert view.compacted == 0
        await rewrite(view, 5, "/b/")
        clock.advance(300)
        await run(compactor)
        assert view.compacted == target
        compactor.stop()


async def run(compactor: Compactor) -> None:
    """Wait until the compaction that has started ends."""
    assert compactor._task is not None
    await compactor._task


async def end_compaction(tables: str) -> None:
    """End the session that waits to compact."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            ended = await run_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND query LIKE $1",
                f"%{tables}.compact(%",
            )
            if ended:
                return
            await asyncio.sleep(0.01)
