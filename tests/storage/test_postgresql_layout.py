"""The layouts of the tables of a PostgreSQL store, and the steps to newer ones."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.storage.errors import Refused
from kapiserver.storage.postgresql import connections
from kapiserver.storage.postgresql.layout import LAYOUT
from tests.storage.postgresql_server import binaries, shared_postgresql
from tests.storage.postgresqlkit import Open, opened, run_sql, schema, tables

__all__ = ["opened", "schema", "tables"]

asyncpg = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed")

WAIT_SECONDS = 60.0


async def test_layouts(opened: Open, tables: str) -> None:
    """A newer layout and another program's tables are refused."""
    await run_sql(f"CREATE SCHEMA {tables}")
    await run_sql(f"CREATE TABLE {tables}.users (id int)")
    with pytest.raises(Refused, match="tables of another program"):
        async with opened():
            pass
    await run_sql(f"DROP TABLE {tables}.users")
    async with opened():
        await run_sql(f"UPDATE {tables}.layout SET version = $1", LAYOUT + 1)
    with pytest.raises(Refused, match="newer kapiserver"):
        async with opened():
            pass


async def test_an_older_layout(opened: Open, tables: str) -> None:
    """The functions and the index of an older layout are replaced, and the objects stay; a server
    that was open before goes on."""
    async with opened() as older:
        await older.create("/a/x", b"")
        await run_sql(f"DROP FUNCTION {tables}.write_batch")
        await run_sql(f"DROP INDEX {tables}.log_by_replaced_key, {tables}.state_by_revision")
        await run_sql(f"CREATE INDEX log_by_key ON {tables}.log (key, revision DESC)")
        await run_sql(f"UPDATE {tables}.layout SET version = 1")
        async with opened() as view:
            await view.create("/a/y", b"")
            await older.create("/a/z", b"")
            assert len((await view.range("/a/")).items) == 3
    assert await run_sql(f"SELECT version FROM {tables}.layout") == [(LAYOUT,)]
    indexes = await run_sql(
        "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = $1::regclass",
        f"{tables}.log",
    )
    assert {str(name).partition(".")[2] for (name,) in indexes} == {
        "log_pkey",
        "log_by_replaced_key",
    }


async def test_a_long_migration(opened: Open, tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step to a newer layout may take longer than other statements."""

    async def open_and_close() -> None:
        async with opened():
            pass

    await open_and_close()
    await run_sql(f"DROP INDEX {tables}.log_by_replaced_key")
    await run_sql(f"UPDATE {tables}.layout SET version = 3")
    admin = await asyncpg.connect(shared_postgresql().url)
    async with admin.transaction():
        await admin.execute(f"LOCK TABLE {tables}.log IN ROW EXCLUSIVE MODE")
        monkeypatch.setattr(connections, "STATEMENT_SECONDS", 0.1)
        opening = asyncio.create_task(open_and_close())
        async with asyncio.timeout(WAIT_SECONDS):
            while not await run_sql(
                "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1 "
                "AND clock_timestamp() > query_start + interval '0.2 s'",
                f"%CREATE INDEX%{tables}.log %",
            ):
                assert not opening.done()
    await admin.close()
    await opening
