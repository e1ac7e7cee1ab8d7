"""The PostgreSQL store: several servers on one schema, broken connections, restarts and failovers,
and rights. The contract is in test_kv.py."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kapiserver.storage.backends import BackendSections, open_store
from kapiserver.storage.errors import (
    Compacted,
    Conflict,
    Corrupt,
    KeyExists,
    OutcomeUnknown,
    Refused,
    StorageError,
    Unavailable,
    ValueTooLarge,
)
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.postgresql import connections, connector, listener, write_queue
from kapiserver.storage.postgresql.config import PostgresqlSettings
from kapiserver.storage.postgresql.store import (
    EXPIRY_CHECK_SECONDS,
    PostgresqlStore,
)
from tests.clock import ManualClock
from tests.storage.postgresql_server import (
    Server,
    binaries,
    shared_postgresql,
)
from tests.storage.postgresqlkit import Open, opened, run_sql, schema, tables
from tests.storage.recorder import Recorder

__all__ = ["opened", "schema", "tables"]

asyncpg = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed")

WAIT_SECONDS = 60.0


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of one test, which may restart or replace it."""
    server = Server()
    server.start()
    yield server
    server.remove()


async def answers(view: PostgresqlStore) -> None:
    """Return when PostgreSQL answers again."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            with suppress(Unavailable):
                await view.get("/a/x")
                return
            await asyncio.sleep(0.01)


async def test_servers_share_a_store(opened: Open) -> None:
    """Watches of two servers receive the writes of both, all in the order of their revisions."""
    async with opened() as one, opened() as two:
        start = await one.current_revision()
        recorders = [Recorder(), Recorder()]
        for view, recorder in zip((one, two), recorders, strict=True):
            view.watch("/a/", after=start, sink=recorder)
        revisions = await asyncio.gather(
            *(
                view.create(f"/a/{view is one}-{number}", b"")
                for number in range(300)
                for view in (one, two)
            )
        )
        assert sorted(revisions) == list(range(start + 1, start + 601))
        for recorder in recorders:
            events = await recorder.count(600)
            assert [event.revision for event in events] == sorted(revisions)


async def test_one_of_two_servers_wins(opened: Open) -> None:
    """Of concurrent writes of one key by two servers, exactly one succeeds."""
    async with opened() as one, opened() as two:
        for number in range(20):
            outcomes = await asyncio.gather(
                one.create(f"/a/{number}", b"one"),
                two.create(f"/a/{number}", b"two"),
                return_exceptions=True,
            )
            winner = next(o for o in outcomes if isinstance(o, int))
            assert sum(isinstance(outcome, KeyExists) for outcome in outcomes) == 1
            outcomes = await asyncio.gather(
                one.update(f"/a/{number}", b"three", expected=Revision(winner)),
                two.delete(f"/a/{number}", expected=Revision(winner)),
                return_exceptions=True,
            )
            assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 1


async def test_expired_keys_of_a_server_that_died(opened: Open, clock: ManualClock) -> None:
    """Another server deletes what a server wrote with a time to live before it died."""
    async with opened() as two:
        recorder = Recorder()
        two.watch("/a/", after=await two.current_revision(), sink=recorder)
        async with opened() as one:
            await one.create("/a/x", b"", ttl=5)
        await recorder.count(1)
        clock.advance(EXPIRY_CHECK_SECONDS)
        assert (await recorder.count(2))[1].value is None


@pytest.mark.parametrize("place", ["listening", "any"])
async def test_broken_connections(opened: Open, tables: str, place: str) -> None:
    """A watch continues without a gap when PostgreSQL ends connections."""
    async with opened() as one, opened() as two:
        recorder = Recorder()
        start = await one.current_revision()
        one.watch("/a/", after=start, sink=recorder)
        await two.create("/a/0", b"")
        await recorder.count(1)
        condition = "query LIKE 'LISTEN%' AND query LIKE $1" if place == "listening" else "$1 = $1"
        await run_sql(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE application_name = 'kapiserver' AND {condition}",
            f"%{tables}%",
        )
        for number in range(1, 20):
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    try:
                        await two.create(f"/a/{number}", b"")
                        break
                    except Unavailable:
                        await asyncio.sleep(0.01)
                    except KeyExists:
                        break
        events = await recorder.count(20)
        assert [event.key for event in events] == [f"/a/{number}" for number in range(20)]
        assert not recorder.ends


async def test_unknown_outcome(opened: Open, tables: str) -> None:
    """A write whose connection ends meanwhile says that its outcome is unknown."""
    async with opened() as view:
        admin = await asyncpg.connect(shared_postgresql().url)
        async with admin.transaction():
            await admin.execute(f"SELECT * FROM {tables}.state FOR UPDATE")
            writing = asyncio.create_task(view.create("/a/x", b""))
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    ended = await run_sql(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                        "wait_event_type = 'Lock' AND query LIKE $1",
                        f"%{tables}.write_batch%",
                    )
                    if ended:
                        break
            with pytest.raises(OutcomeUnknown, match=OutcomeUnknown.MESSAGE):
                await writing
            await view.get("/a/x")  # reads need no lock
        await admin.close()
        await answers(view)


async def test_compaction_and_writers_do_not_wait(opened: Open, tables: str) -> None:
    """Compaction ends while a writer's transaction is open, and a write while another compacts."""
    async with opened() as view:
        revision = await view.create("/a/x", b"")
        for number in range(5):
            revision = await view.update("/a/x", b"%d" % number, expected=revision)
        admin = await asyncpg.connect(shared_postgresql().url)
        async with admin.transaction():
            await admin.execute(f"SELECT * FROM {tables}.state FOR UPDATE")
            await view.compact(Revision(revision - 1))
        async with admin.transaction():
            await admin.execute(f"SELECT * FROM {tables}.compaction FOR UPDATE")
            await view.create("/a/y", b"")
        await admin.close()


async def test_restart(
    opened: Open,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While PostgreSQL is down reads and writes fail clearly, and it is known that no write was
    made; afterwards all goes on, and watches miss nothing. The log has a line at the beginning of
    the outage and one at its end, for each store."""
    monkeypatch.setattr(connections, "RETRY_SECONDS", 0.0)
    async with opened(server.url) as one, opened(server.url) as two:
        recorder = Recorder()
        one.watch("/a/", after=await one.current_revision(), sink=recorder)
        await two.create("/a/x", b"")
        server.stop()
        for call in (one.get, lambda key: one.create(key, b""), lambda _: one.current_revision()):
            with pytest.raises(Unavailable, match="postgresql: ") as raised:
                await call("/a/y")
            assert not isinstance(raised.value, OutcomeUnknown)
        server.start()
        await answers(two)
        await two.create("/a/z", b"")
        assert [event.key for event in await recorder.count(2)] == ["/a/x", "/a/z"]
        for _ in range(6000):
            if "PostgreSQL answers again" in caplog.messages:
                break
            await asyncio.sleep(0.01)
    assert "PostgreSQL answers again" in caplog.messages
    assert len(caplog.messages) <= 6, caplog.messages  # one is of a notification before the end


async def test_crash(opened: Open, server: Server) -> None:
    """No acknowledged write is lost when PostgreSQL crashes under load."""
    async with opened(server.url) as view:
        acknowledged: set[str] = set()
        enough, stopped = asyncio.Event(), asyncio.Event()

        async def write(name: str) -> None:
            for number in range(10_000):
                if stopped.is_set():
                    return
                with suppress(StorageError):
                    await view.create(f"/a/{name}-{number}", b"x" * 500)
                    acknowledged.add(f"/a/{name}-{number}")
                if len(acknowledged) >= 500:
                    enough.set()

        async with asyncio.TaskGroup() as tasks:
            for name in "abcdefgh":
                tasks.create_task(write(name))
            await enough.wait()
            await asyncio.to_thread(server.crash)
            stopped.set()
        await answers(view)
        stored = {item.key for item in (await view.range("/a/")).items}
        assert acknowledged <= stored


async def test_failover_that_loses_writes(opened: Open, server: Server) -> None:
    """After a failover to a server without the last writes, watches end, even if other servers have
    written as many revisions since; new reads and watches see the new history."""
    async with opened(server.url) as view:
        await view.create("/a/old", b"")
    server.stop()
    shutil.copytree(server.data, server.data.with_name("replica"))
    server.start()
    async with opened(server.url) as view:
        recorder = Recorder()
        view.watch("/a/", after=await view.current_revision(), sink=recorder)
        lost = await view.create("/a/lost", b"")
        await recorder.count(1)
        server.stop()
        server.replace_data(server.data.with_name("replica"))
        server.start()
        await answers(view)
        async with opened(server.url) as other:
            assert await other.create("/a/new", b"") == lost
            ended = await recorder.end()
            assert isinstance(ended, Compacted)
            fresh = Recorder()
            view.watch("/a/", after=await view.current_revision(), sink=fresh)
            await other.create("/a/newer", b"")
            assert [event.key for event in await fresh.count(1)] == ["/a/newer"]
        keys = [item.key for item in (await view.range("/a/")).items]
        assert keys == ["/a/new", "/a/newer", "/a/old"]


async def test_own_writes_after_a_failover_that_loses_writes(
    opened: Open, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watches end before a server's own writes take the revisions of the lost ones, even if it has
    not begun to listen again."""
    monkeypatch.setattr(listener, "RETRY_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr(listener, "MAX_RETRY_SECONDS", WAIT_SECONDS)
    async with opened(server.url) as view:
        await view.create("/a/old", b"")
    server.stop()
    shutil.copytree(server.data, server.data.with_name("replica"))
    server.start()
    async with opened(server.url) as view:
        recorder, fresh = Recorder(), Recorder()
        view.watch("/a/", after=await view.current_revision(), sink=recorder)
        lost = await view.create("/a/lost", b"")
        await asyncio.to_thread(server.stop)
        for _ in range(6000):
            if view._listener._connection is None:  # it has failed to connect, and pauses
                break
            await asyncio.sleep(0.01)
        server.replace_data(server.data.with_name("replica"))
        server.start()
        while True:
            with suppress(Unavailable):
                assert await view.create("/a/new", b"") == lost
                break
        assert isinstance(await recorder.end(), Compacted)
        assert [event.key for event in recorder.seen] == ["/a/lost"]
        view.watch("/a/", after=lost, sink=fresh)
        await view.create("/a/newer", b"")
        assert [event.key for event in await fresh.count(1)] == ["/a/newer"]


async def test_skipped_revisions(opened: Open, tables: str) -> None:
    """The statements of docs/how-to/postgresql.md make all older revisions count as compacted, and
    later revisions greater than any that a client has seen."""
    async with opened() as view:
        first = await view.create("/a/x", b"1")
        await view.update("/a/x", b"2", expected=first)
    await run_sql(f"UPDATE {tables}.state SET revision = revision + 1000000000")
    await run_sql(f"SELECT {tables}.compact(revision, revision) FROM {tables}.state")
    async with opened() as view:
        recorder = Recorder()
        view.watch("/a/", after=Revision(first), sink=recorder)
        assert isinstance(await recorder.end(), Compacted)
        item = (await view.get("/a/x")).item
        assert item is not None
        assert item.value == b"2"
        assert await view.create("/a/y", b"") > 1_000_000_000
    assert await run_sql(f"SELECT count(*) FROM {tables}.log") == [(2,)]


async def test_a_server_that_only_reads(opened: Open, server: Server) -> None:
    """A standby refuses writes with PostgreSQL's message, and serves reads and watches."""
    async with opened(server.url) as view:
        await view.create("/a/x", b"")
    await run_sql("ALTER DATABASE postgres SET default_transaction_read_only = on", url=server.url)
    async with opened(server.url) as view:
        assert (await view.get("/a/x")).item is not None
        await view.writable()
        with pytest.raises(Refused, match="read-only transaction"):
            await view.create("/a/y", b"")
        with pytest.raises(Refused, match="read-only transaction"):
            await view.writable()


async def test_servers_that_start_together(opened: Open) -> None:
    """Servers that create the tables at the same time take turns."""
    async with opened() as one, opened() as two, opened() as three:
        await one.create("/a/x", b"")
        for view in (two, three):
            assert (await view.get("/a/x")).item is not None


async def test_a_changed_row_is_found(opened: Open, tables: str) -> None:
    """A value that differs from its checksum is an error in reads, lists and history."""
    async with opened() as view:
        revision = await view.create("/a/x", b"one")
        await run_sql(f"UPDATE {tables}.log SET value = 'two' WHERE revision = $1", revision)
        before = Revision(revision - 1)
        for call in (
            view.get("/a/x"),
            view.range("/a/"),
            view.history("/a/", before, revision, 9, previous=True),
        ):
            with pytest.raises(Corrupt, match="/a/x at revision"):
                await call


async def test_limits(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long keys and too many waiting writes are refused; a large batch is divided."""
    async with opened() as view:
        with pytest.raises(ValueTooLarge):
            await view.create("/a/" + secrets.token_hex(8000), b"")
        monkeypatch.setattr(write_queue, "MAX_BATCH_BYTES", 1000)
        await asyncio.gather(*(view.create(f"/a/{n}", b"x" * 900) for n in range(5)))
        monkeypatch.setattr(write_queue, "MAX_PENDING", 3)
        outcomes = await asyncio.gather(
            *(view.create(f"/b/{n}", b"") for n in range(9)), return_exceptions=True
        )
        assert any(isinstance(outcome, Unavailable) for outcome in outcomes)
        assert any(isinstance(outcome, int) for outcome in outcomes)


async def test_slow_statements(opened: Open, tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL ends a statement that takes too long, so that its outcome is known; if it does not
    answer, the outcome is unknown."""
    monkeypatch.setattr(connections, "STATEMENT_SECONDS", 0.2)
    async with opened() as view:
        admin = await asyncpg.connect(shared_postgresql().url)
        async with admin.transaction():
            await admin.execute(f"SELECT * FROM {tables}.state FOR UPDATE")
            with pytest.raises(Unavailable, match="statement timeout") as raised:
                await view.create("/a/x", b"")
            assert not isinstance(raised.value, OutcomeUnknown)
        monkeypatch.setattr(connections, "STATEMENT_SECONDS", 60)
        async with opened() as silent, admin.transaction():
            monkeypatch.setattr(connector, "CALL_SECONDS", 0.2)
            await admin.execute(f"SELECT * FROM {tables}.state FOR UPDATE")
            with pytest.raises(OutcomeUnknown, match="no answer in time"):
                await silent.create("/a/y", b"")
        await admin.close()
        await view.create("/a/z", b"")


@pytest.mark.parametrize(
    "address", ["postgresql:x", "postgresql:/", "postgresql://", "postgresql://h/?sslmode=what"]
)
async def test_addresses(address: str) -> None:
    """An address that names no PostgreSQL is a ValueError."""
    with pytest.raises(ValueError, match=r"postgresql|sslmode"):
        await open_store(f"--storage={address}".partition("=")[2])


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
async def test_the_flag(schema: str, scheme: str) -> None:
    """`--storage` and the flags of the backend open a store; parameters of libpq are kept. Both
    schemes that libpq knows select the backend."""
    sections = BackendSections(
        postgresql=PostgresqlSettings(postgresql_schema=schema, postgresql_max_connections=3)
    )
    url = shared_postgresql().url.replace("postgresql:", f"{scheme}:", 1)
    address = f"{url}?application_name=mine&connect_timeout=7"
    view = await open_store(address, sections=sections)
    await view.create("/a/x", b"")
    names = await run_sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mine'")
    assert names == [(3,)]
    await view.close()
    for name in ("", "x" * 60):
        settings = BackendSections(postgresql=PostgresqlSettings(postgresql_schema=name))
        with pytest.raises(ValueError, match="postgresql-schema"):
            await open_store(address, sections=settings)


async def test_a_silent_connection(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that gets no notification reads the events at its next check."""
    monkeypatch.setattr(listener, "CHECK_SECONDS", 0.05)
    async with opened() as one, opened() as two:
        recorder = Recorder()
        one.watch("/a/", after=await one.current_revision(), sink=recorder)
        monkeypatch.setattr(one._listener, "_learn_of", lambda _: None)  # all messages are lost
        await two.create("/a/x", b"")
        await recorder.count(1)


async def test_close_during_a_check(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store closes while it checks its connections."""
    monkeypatch.setattr(listener, "CHECK_SECONDS", 0.0)
    for _ in range(5):
        async with asyncio.timeout(WAIT_SECONDS), opened() as view:
            for _ in range(1_000_000):
                if view._revision_reads._callers:  # a check reads the revision
                    break
                await asyncio.sleep(0)
