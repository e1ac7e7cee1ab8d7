"""The connection that a PostgreSQL store keeps to read its newest revision."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from kapiserver.storage.errors import Unavailable
from kapiserver.storage.postgresql import connector
from kapiserver.storage.postgresql.sessions import NumberSession
from kapiserver.storage.postgresql.store import PostgresqlStore
from tests.storage.postgresql_server import Server, binaries
from tests.storage.postgresqlkit import Open, opened, run_sql, schema, tables

__all__ = ["opened", "schema", "tables"]

pytest.importorskip("asyncpg")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed")


async def session_of(view: PostgresqlStore) -> NumberSession:
    """Return the connection that the store keeps."""
    await view.current_revision()
    session = view._connections._session
    assert session is not None
    return session


async def test_one_connection_is_kept(opened: Open) -> None:
    """Reads share a connection, and each includes the writes before it."""
    async with opened() as one, opened() as two:
        session = await session_of(two)
        for number in range(20):
            revision = await one.create(f"/a/{number}", b"")
            revisions = await asyncio.gather(*(two.current_revision() for _ in range(20)))
            assert set(revisions) == {revision}
        assert await session_of(two) is session


@pytest.mark.parametrize(
    "received",
    [
        b"S\0\0\0\x0fTimeZone\0UTC\0",  # a setting has changed
        b"2\0\0\0\4D\0\0\0\x12\0\1\0\0\0\x08\0\0\0\0\0\0\0\5C\0\0\0\x0dSELECT 1\0Z\0\0\0\5I",
    ],
    ids=["another message", "an answer to nobody"],
)
async def test_unexpected_messages(opened: Open, received: bytes) -> None:
    """A connection on which PostgreSQL says anything else is replaced, and no read fails."""
    async with opened() as view:
        revision = await view.create("/a/x", b"")
        session = await session_of(view)
        session.data_received(received)
        assert await view.current_revision() == revision
        assert await session_of(view) is not session


async def test_a_changed_setting(opened: Open) -> None:
    """PostgreSQL tells of a changed setting before its next answer: no read fails."""
    server = Server()
    server.start()
    try:
        async with opened(server.url) as view:
            revision = await view.create("/a/x", b"")
            session = await session_of(view)
            await run_sql("ALTER SYSTEM SET TimeZone = 'Asia/Tokyo'", url=server.url)
            await run_sql("SELECT pg_reload_conf()", url=server.url)
            async with asyncio.timeout(60):
                while view._connections._session is session:  # until its process has reloaded
                    assert await view.current_revision() == revision
    finally:
        server.remove()


async def test_an_answer_in_pieces(opened: Open) -> None:
    """An answer may arrive in pieces."""
    async with opened() as view:
        revision = await view.create("/a/x", b"")
        session = await session_of(view)
        receive = session.data_received

        def receive_bytes(data: bytes) -> None:
            for number in range(len(data)):
                receive(data[number : number + 1])

        session.data_received = receive_bytes  # type: ignore[method-assign]
        session._transport.set_protocol(session)  # the transport keeps the method
        assert await view.current_revision() == revision
        assert await session_of(view) is session


async def test_the_connection_ends(opened: Open, tables: str) -> None:
    """A read after the end of the connection uses another one."""
    async with opened() as view:
        revision = await view.create("/a/x", b"")
        session = await session_of(view)
        await run_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = $1",
            f"SELECT revision FROM {tables}.state ORDER BY revision DESC LIMIT 1",
        )
        assert await view.current_revision() == revision
        assert await session_of(view) is not session


async def test_the_connection_that_writes_ends(opened: Open, tables: str) -> None:
    """After a write has met another server, as after a failover, reads do so, too."""
    async with opened() as view:
        await view.create("/a/x", b"")
        session = await session_of(view)
        await run_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE $1",
            f"SELECT%{tables}.write_batch%",
        )
        with suppress(Unavailable):  # the end may be noticed before
            await view.create("/a/y", b"")
        await view.create("/a/z", b"")
        assert session.connection.is_closed()
        assert await session_of(view) is not session


async def test_a_silent_server(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without an answer in time is replaced."""
    async with opened() as view:
        revision = await view.create("/a/x", b"")
        session = await session_of(view)
        session._request = b""
        monkeypatch.setattr(connector, "CALL_SECONDS", 0.0)
        read = asyncio.create_task(view.current_revision())
        for _ in range(1000):
            if session._answer is not None:
                break
            await asyncio.sleep(0)
        monkeypatch.undo()
        assert await read == revision
        assert session.connection.is_closed()


async def test_a_cancelled_read(opened: Open) -> None:
    """The answer to a read that was cancelled goes to no other read."""
    async with opened() as view:
        await view.create("/a/x", b"")
        session = await session_of(view)
        read = asyncio.create_task(view._reader.revision())
        await asyncio.sleep(0)
        read.cancel()
        with pytest.raises(asyncio.CancelledError):
            await read
        revision = await view.create("/a/y", b"")
        assert await view.current_revision() == revision
        assert await session_of(view) is not session


async def test_few_connections(opened: Open) -> None:
    """Of three connections none is kept, and reads of the revision share the one that reads."""
    async with opened(max_connections=3) as view:
        revision = await view.create("/a/x", b"")
        assert await view.current_revision() == revision
        assert view._connections._session is None
