"""The PostgreSQL store over a primary and a streaming standby: promotion, and a standby alone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kapiserver.storage.errors import OutcomeUnknown, Refused, Unavailable
from kapiserver.storage.postgresql import connector, listener
from kapiserver.storage.postgresql.store import PostgresqlStore
from tests.storage.postgresql_server import Server, binaries
from tests.storage.postgresqlkit import Open, opened, run_sql, schema, tables
from tests.storage.recorder import Recorder

__all__ = ["opened", "schema", "tables"]
pytestmark = [
    pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed"),
    pytest.mark.slow,
]

WAIT_SECONDS = 60.0
_IS_SYNCHRONOUS = "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'"


@pytest.fixture
def primary() -> Iterator[Server]:
    server = Server()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def standby(primary: Server) -> Iterator[Server]:
    """A standby that has all writes that the primary acknowledges."""
    server = Server(primary=primary)
    server.start()
    yield server
    server.remove()


def both(primary: Server, standby: Server) -> str:
    """The address of both servers."""
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    return f"postgresql://postgres@{hosts}/postgres"


async def synchronize(primary: Server) -> None:
    """Let the primary acknowledge only what the standby has."""
    await run_sql("ALTER SYSTEM SET synchronous_standby_names = '*'", url=primary.url)
    await run_sql("SELECT pg_reload_conf()", url=primary.url)
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            if await run_sql(_IS_SYNCHRONOUS, url=primary.url):
                return
            await asyncio.sleep(0.01)


async def write_until(view: PostgresqlStore, stop: asyncio.Event, name: str) -> dict[str, bool]:
    """Create keys until told to stop. Return whether each was acknowledged; keys whose outcome is
    unknown are left out."""
    outcomes: dict[str, bool] = {}
    number = 0
    while not stop.is_set():
        key = f"/a/{name}-{number}"
        number += 1
        try:
            await view.create(key, b"x" * 500)
            outcomes[key] = True
        except OutcomeUnknown:
            pass
        except Unavailable:
            outcomes[key] = False
    return outcomes


@pytest.mark.parametrize("end", [signal.SIGQUIT, signal.SIGKILL])
async def test_promotion(
    opened: Open, primary: Server, standby: Server, end: signal.Signals
) -> None:
    """When a synchronous standby takes over under load, each acknowledged write is there and none
    that failed, and a watch goes on without a gap."""
    await synchronize(primary)
    async with opened(both(primary, standby)) as view:
        recorder = Recorder()
        view.watch("/a/", after=await view.current_revision(), sink=recorder)
        stop = asyncio.Event()
        writers = [asyncio.create_task(write_until(view, stop, name)) for name in "abcdefgh"]
        await recorder.count(200)
        await asyncio.to_thread(primary.stop, end)
        await run_sql("SELECT pg_promote()", url=standby.url)
        await run_sql("ALTER SYSTEM RESET synchronous_standby_names", url=standby.url)
        await run_sql("SELECT pg_reload_conf()", url=standby.url)
        number = len(recorder.seen)
        await recorder.count(number + 200)
        stop.set()
        outcomes: dict[str, bool] = {}
        for writer in writers:
            outcomes |= await writer
        stored = [item.key for item in (await view.range("/a/")).items]
        assert {key for key, is_made in outcomes.items() if is_made} <= set(stored)
        assert not {key for key, is_made in outcomes.items() if not is_made} & set(stored)
        events = await recorder.count(len(stored))
        assert sorted(event.key for event in events) == sorted(stored)
        assert [event.revision for event in events] == sorted(e.revision for e in events)
        assert not recorder.ends


async def test_a_silent_primary(
    opened: Open, primary: Server, standby: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A primary that accepts connections and says nothing does not hide the one that took over."""
    monkeypatch.setattr(connector, "CALL_SECONDS", 1.0)
    async with opened(f"{both(primary, standby)}?connect_timeout=1") as view:
        await view.create("/a/x", b"")
        await run_sql("SELECT pg_promote()", url=standby.url)
        primary.pause()
        with pytest.raises(OutcomeUnknown, match="no answer in time"):
            await view.create("/a/y", b"")
        await view.create("/a/z", b"")
        keys = [item.key for item in (await view.range("/a/")).items]
        assert keys == ["/a/x", "/a/z"]


async def test_a_standby_alone(
    opened: Open, primary: Server, standby: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby serves reads, lists and watches, and refuses writes with PostgreSQL's message; once
    it is promoted, it serves writes and sends notifications."""
    monkeypatch.setattr(listener, "STANDBY_SECONDS", 0.05)
    async with opened(primary.url) as view:
        revision = await view.create("/a/x", b"one")
        await synchronize(primary)
        async with opened(standby.url) as copy:
            recorder = Recorder()
            copy.watch("/a/", after=await copy.current_revision(), sink=recorder)
            await view.update("/a/x", b"two", expected=revision)
            assert [event.value for event in await recorder.count(1)] == [b"two"]
            assert [item.value for item in (await copy.range("/a/")).items] == [b"two"]
            with pytest.raises(Refused, match="read-only transaction"):
                await copy.create("/a/y", b"")
            with pytest.raises(Refused):
                await copy.writable()
            await asyncio.to_thread(primary.stop, signal.SIGQUIT)
            assert [item.value for item in (await copy.range("/a/")).items] == [b"two"]
            await run_sql("SELECT pg_promote()", url=standby.url)
            with suppress(Unavailable):  # the connection of the refused write has ended
                await copy.create("/a/y", b"")
            await copy.writable()
            async with opened(standby.url) as other:
                await other.create("/a/z", b"")
            assert [event.key for event in await recorder.count(3)] == ["/a/x", "/a/y", "/a/z"]
