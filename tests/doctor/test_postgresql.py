"""The checks of a store in PostgreSQL, each by a real fault of a real server."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from kapiserver.doctor.checks import INSTALLATION_CHECKS
from kapiserver.doctor.finding import ERROR, WARNING
from kapiserver.doctor.installation import Installation
from kapiserver.doctor.stores import postgresql, postgresql_tables, sqlite
from tests.doctor.examined import installation, problems
from tests.storage.etcd_server import free_port
from tests.storage.postgresql_server import Server, binaries, shared_postgresql

pytest.importorskip("asyncpg")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed")


class Store:
    """A store of a role without other rights, in a schema of its own."""

    def __init__(self, folder: Path) -> None:
        self.role = f"r{uuid.uuid4().hex[:8]}"
        self._folder = folder
        self._flags = (
            f"--storage={shared_postgresql().url.replace('postgres@', f'{self.role}@')}",
            f"--postgresql-schema={self.role}",
        )
        self.sql(
            f"CREATE ROLE {self.role} LOGIN", f"CREATE SCHEMA {self.role} AUTHORIZATION {self.role}"
        )
        asyncio.run(self._write())

    async def _write(self) -> None:
        """Write 20 versions of an object."""
        from kapiserver.storage.postgresql.store import PostgresqlConfig, open_postgresql

        address = self._flags[0].removeprefix("--storage=")
        store = await open_postgresql(PostgresqlConfig(address=address, schema=self.role))
        key = "/registry/configmaps/default/a"
        revision = await store.create(key, b"0")
        for number in range(1, 20):
            revision = await store.update(key, b"%d" % number, expected=revision)
        await store.close()

    def sql(self, *statements: str) -> None:
        """Run statements as the administrator; `{}` in them is the role and the schema."""
        from tests.storage.postgresqlkit import run_sql

        for statement in statements:
            asyncio.run(run_sql(statement.format(self.role)))

    def examined(self, *flags: str, days: int = 0) -> Installation:
        return installation(self._folder, *self._flags, *flags, days=days)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_healthy_store(store: Store) -> None:
    """A new store has no problem, but that the tests' server does not wait for the disk; the sizes
    of its tables are figures."""
    examined = store.examined()
    for check in INSTALLATION_CHECKS:
        if check.name.startswith("postgresql-") and check.name != "postgresql-settings":
            assert list(check.run(examined)) == []
    (problem,) = problems("postgresql-settings", examined)
    assert problem.message == "fsync is off: a power failure may damage the database"
    figures = postgresql_tables.table_figures(examined)
    assert figures[f"bytes of {store.role}.log"] > 0


def test_silent_server(tmp_path: Path) -> None:
    """A server that does not answer is one error, which does not show the password."""
    port = free_port()
    flag = f"--storage=postgresql://user:secret@127.0.0.1:{port}/database"
    examined = installation(tmp_path, flag)
    messages = [
        problem
        for check in INSTALLATION_CHECKS
        if check.name.startswith("postgresql-")
        for problem in check.run(examined)
    ]
    assert [(each.severity, each.about) for each in messages] == [
        (ERROR, f"postgresql://127.0.0.1:{port}/database")
    ]
    assert problems("unsafe-settings", examined)[0].about == "--storage"
    assert "secret" not in str([*messages, *problems("unsafe-settings", examined)])


@pytest.mark.slow
def test_standby(tmp_path: Path) -> None:
    """A standby refuses writes."""
    server = Server()
    server.add_file("standby.signal", "")
    server.start()
    try:
        (problem,) = problems(
            "postgresql-server", installation(tmp_path, f"--storage={server.url}")
        )
        assert problem.message == "is a standby, which refuses writes"
    finally:
        server.remove()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "check", "message"),
    [
        (
            "ALTER ROLE {} SET default_transaction_read_only = on",
            "postgresql-server",
            "refuses writes: default_transaction_read_only is on",
        ),
        ("UPDATE {}.layout SET version = 99", "postgresql-schema", "was written by a newer"),
        ("DROP TABLE {}.layout", "postgresql-schema", "holds tables of another program"),
        ("REVOKE INSERT ON {0}.log FROM {0}", "postgresql-schema", "may not read and write"),
        ("DROP SCHEMA {} CASCADE", "postgresql-schema", "may not create its tables"),
        ("ALTER ROLE {} CREATEDB", "postgresql-rights", "no store needs: CREATEDB"),
        ("ALTER ROLE {} SUPERUSER", "postgresql-rights", "no store needs: SUPERUSER"),
        ("GRANT pg_read_server_files TO {}", "postgresql-rights", "needs: pg_read_server_files"),
        (
            "GRANT USAGE ON SCHEMA {0} TO PUBLIC; GRANT SELECT ON {0}.log TO PUBLIC",
            "postgresql-rights",
            "every role of the database may read its tables",
        ),
        ("ALTER ROLE {} CONNECTION LIMIT 4", "postgresql-connections", "allows 4 connections"),
        (
            "ALTER TABLE {}.log SET (autovacuum_enabled = false)",
            "postgresql-vacuum",
            "autovacuum is off for it",
        ),
    ],
)
def test_faults(store: Store, statement: str, check: str, message: str) -> None:
    """Faults of the role, the schema and the tables."""
    store.sql(*statement.split("; "))
    (problem,) = problems(check, store.examined())
    assert message in problem.message
    assert problem.remedy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "limit", "check", "message"),
    [
        (postgresql, "FIRST_YEAR", 1990, "postgresql-version", "gets no more fixes"),
        (postgresql, "FULL_SHARE", 0.0, "postgresql-connections", "connections are used"),
        (postgresql_tables, "SMALL_BYTES", 0, "postgresql-vacuum", "is bloated"),
        (postgresql_tables, "OLD_TRANSACTIONS", 0, "postgresql-blockers", "VACUUM FREEZE"),
        (sqlite, "VERSIONS", 20, "postgresql-history", ""),
    ],
)
def test_limits(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    limit: float,
    check: str,
    message: str,
) -> None:
    """What is above a limit is named."""
    if check == "postgresql-history":
        monkeypatch.setattr(sqlite, "VERSIONS_PER_OBJECT", 10)
        message = "20 versions of 1 objects"
    assert problems(check, store.examined()) == []
    monkeypatch.setattr(module, name, limit)
    first = problems(check, store.examined())[0]
    assert message in f"{first.message} {first.remedy}"


def test_dead_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are dead and were never vacuumed."""
    monkeypatch.setattr(postgresql_tables, "DEAD_ROWS", 10)
    store.sql("ALTER TABLE {}.log SET (autovacuum_enabled = false)")
    store.sql("DELETE FROM {}.log", "ANALYZE {}.log")
    vacuum_problems = problems("postgresql-vacuum", store.examined())
    messages = {each.about: each.message for each in vacuum_problems if "dead" in each.message}
    assert messages[f"table {store.role}.log"] == (
        "has 20 dead rows beside 0, and was never vacuumed"
    )


def test_blockers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replication slot that nobody reads."""
    monkeypatch.setattr(postgresql_tables, "SLOT_BYTES", -1)
    store.sql("SELECT pg_create_physical_replication_slot('{}', true)")
    try:
        blockers = problems("postgresql-blockers", store.examined())
    finally:
        store.sql("SELECT pg_drop_replication_slot('{}')")
    assert f"replication slot {store.role}" in [each.about for each in blockers]


def test_long_transaction(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that has been open for a long time."""
    monkeypatch.setattr(postgresql_tables, "LONG_SECONDS", -1.0)
    store.sql("ALTER ROLE {} SUPERUSER")
    (problem, *_) = problems("postgresql-blockers", store.examined())
    assert problem.about.startswith("session ")
    assert problem.severity == WARNING


def test_clock(store: Store) -> None:
    """Clocks that differ by more than a minute are an error."""
    (problem,) = problems("postgresql-clock", store.examined(days=1))
    assert problem.severity == ERROR
    assert "behind" in problem.message
