"""Users, rights, passwords and TLS of the PostgreSQL store."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from kapiserver.storage.errors import Refused, Unavailable
from tests.storage.certificates import Certificates
from tests.storage.postgresql_server import (
    Server,
    binaries,
    binaries_with_tls,
    shared_postgresql,
)
from tests.storage.postgresqlkit import Open, opened, run_sql, schema, tables

__all__ = ["opened", "schema", "tables"]
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed")


async def test_least_rights(opened: Open, tables: str) -> None:
    """The owner of a schema needs no other right; a role without one is refused."""
    role = f"r{uuid.uuid4().hex[:8]}"
    url = shared_postgresql().url.replace("postgres@", f"{role}@")
    await run_sql(f"CREATE ROLE {role} LOGIN")
    with pytest.raises(
        Refused, match=f'permission denied.*CREATE SCHEMA .* AUTHORIZATION "{role}"'
    ):
        async with opened(url):
            pass
    await run_sql(f"CREATE SCHEMA {tables} AUTHORIZATION {role}")
    async with opened(url) as view:
        await view.create("/a/x", b"")
        await view.compact(await view.current_revision())


async def test_tls(opened: Open, tmp_path: Path) -> None:
    """Both sides verify certificates; a server of another authority, and a client without a
    certificate, are refused."""
    own, foreign = (
        Certificates(tmp_path, "ours"),
        Certificates(tmp_path, "theirs"),
    )
    if (programs := binaries_with_tls()) is None:
        pytest.skip("no PostgreSQL with TLS is installed")
    files = {"ssl_cert_file": "server.crt", "ssl_key_file": "server.key", "ssl_ca_file": "ca.crt"}
    settings = ["-c", "ssl=on"]
    for name, file in files.items():
        settings += ["-c", f"{name}={file}"]
    server = Server(settings, programs)
    server.add_file("server.crt", own.server.read_text())
    server.add_file("server.key", own.server.with_suffix(".key").read_text())
    server.add_file("ca.crt", own.ca.read_text())
    server.add_file("pg_hba.conf", "local all all trust\nhostssl all all 127.0.0.1/32 cert\n")
    server.start()
    try:
        await run_sql("CREATE ROLE client LOGIN SUPERUSER", url=server.local_url)
        url = server.url.replace("postgres@", "client@")
        client = f"sslcert={own.client}&sslkey={own.client.with_suffix('.key')}"
        verified = f"{url}?sslmode=verify-full&sslrootcert="
        async with opened(f"{verified}{own.ca}&{client}") as view:
            revision = await view.create("/a/x", b"")
            assert await view.current_revision() == revision
            session = view._connections._session
            assert session is not None
            assert await session.ask() == revision
        for mode in ("allow", "prefer", "require", "verify-ca"):
            version = "ssl_min_protocol_version=TLSv1.3"
            address = f"{url}?sslmode={mode}&sslrootcert={own.ca}&{client}&{version}"
            async with opened(address) as view:
                assert (await view.get("/a/x")).item is not None
        for address in (
            f"{verified}{foreign.ca}&{client}",
            f"{verified}{own.ca}",
            f"{url}?sslmode=disable",
        ):
            with pytest.raises(Unavailable):
                async with opened(address):
                    pass
        with pytest.raises(OSError, match="missing"):
            async with opened(f"{verified}{tmp_path / 'missing'}"):
                pass
    finally:
        server.remove()


async def test_passwords(opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password comes from a file or the environment; a wrong one is refused."""
    server = Server()
    server.add_file("pg_hba.conf", "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    server.start()
    try:
        await run_sql("ALTER ROLE postgres PASSWORD 'secret'", url=server.local_url)
        file = tmp_path / "passwords"
        file.write_text("*:*:*:*:secret\n")
        file.chmod(0o600)
        async with opened(f"{server.url}?passfile={file}") as view:
            await view.create("/a/x", b"")
        monkeypatch.setenv("PGPASSWORD", "wrong")
        with pytest.raises(Refused, match="password authentication failed"):
            async with opened(server.url):
                pass
    finally:
        server.remove()
