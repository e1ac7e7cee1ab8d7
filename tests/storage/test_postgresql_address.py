"""What each parameter of libpq means in the address of a PostgreSQL store."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from kapiserver.storage.errors import Refused, Unavailable
from kapiserver.storage.postgresql.address import (
    ASYNCPG_PARAMETERS,
    ONLY_VALUES,
    OWN_PARAMETERS,
    parse_address,
)
from tests.storage.postgresql_server import binaries, shared_postgresql
from tests.storage.postgresqlkit import Open, opened, schema, tables

__all__ = ["opened", "schema", "tables"]
needs_server = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed")

PARAMETERS = [
    *("host", "hostaddr", "port", "dbname", "user", "password", "passfile", "require_auth"),
    *("channel_binding", "connect_timeout", "client_encoding", "options", "application_name"),
    *("fallback_application_name", "keepalives", "keepalives_idle", "keepalives_interval"),
    *("keepalives_count", "tcp_user_timeout", "replication", "gssencmode", "sslmode"),
    *("requiressl", "sslnegotiation", "sslcompression", "sslcert", "sslkey", "sslkeylogfile"),
    *("sslpassword", "sslcertmode", "sslrootcert", "sslcrl", "sslcrldir", "sslsni"),
    *("requirepeer", "ssl_min_protocol_version", "ssl_max_protocol_version"),
    *("min_protocol_version", "max_protocol_version", "krbsrvname", "gsslib"),
    *("gssdelegation", "scram_client_key", "scram_server_key", "service", "servicefile"),
    *("target_session_attrs", "load_balance_hosts", "oauth_issuer", "oauth_client_id"),
    *("oauth_client_secret", "oauth_scope"),
]
"""Those of PostgreSQL 18."""


def test_each_parameter() -> None:
    """Each parameter of libpq is implemented or refused; none becomes a setting by mistake."""
    assert sorted(ASYNCPG_PARAMETERS | OWN_PARAMETERS | ONLY_VALUES.keys()) == sorted(PARAMETERS)


@pytest.mark.parametrize("name", sorted(ONLY_VALUES))
def test_refused_parameters(name: str) -> None:
    """A parameter that nothing implements is refused by name, except at values that change
    nothing."""
    with pytest.raises(ValueError, match=f"{name}=other is not supported, (want|remove)"):
        parse_address(f"postgresql://h/db?{name}=other")
    for value in ONLY_VALUES[name]:
        assert name not in parse_address(f"postgresql://h/db?{name}={value}").settings


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("postgresql://u@h:1/db?connect_timeout=7", {"options": {"timeout": 7.0}}),
        ("postgresql://u@h/db?connect_timeout=0", {"options": {"timeout": 5.0}}),
        ("postgresql://u@h/db?work_mem=8MB", {"settings": {"work_mem": "8MB"}}),
        ("postgresql://u@h/db?options=-c%20geqo%3Doff", {"settings": {"options": "-c geqo=off"}}),
        (
            "postgresql://h/db?fallback_application_name=f",
            {"settings": {"application_name": "f"}},
        ),
        (
            "postgresql://h/db?fallback_application_name=f&application_name=a",
            {"settings": {"application_name": "a"}},
        ),
        ("postgresql://h/db", {"settings": {"application_name": "kapiserver"}, "hosts": []}),
        (
            "postgresql://u:p@one:1,two/db",
            {
                "hosts": [{"host": "one", "port": 1}, {"host": "two", "port": None}],
                "options": {"target_session_attrs": "read-write"},
            },
        ),
        (
            "postgresql://[::1]:1,%2Frun%2Fpostgresql/db?target_session_attrs=any",
            {"hosts": [{"host": "::1", "port": 1}, {"host": "/run/postgresql", "port": None}]},
        ),
        (
            "postgresql:///db?host=one,two",
            {"hosts": [{"host": "one", "port": None}, {"host": "two", "port": None}]},
        ),
        (
            "postgresql:///db?host=one,two&port=1,2",
            {"hosts": [{"host": "one", "port": 1}, {"host": "two", "port": 2}]},
        ),
        (
            "postgresql://one:1,two/db?port=2",
            {"hosts": [{"host": "one", "port": 1}, {"host": "two", "port": 2}]},
        ),
        ("postgresql://?service=s&servicefile=f", {"options": {"servicefile": "f"}}),
    ],
)
def test_addresses(address: str, expected: dict[str, Any]) -> None:
    """Parameters become options of a connection or settings of the session."""
    parsed = parse_address(address)
    for field, value in expected.items():
        actual = getattr(parsed, field)
        assert actual == value if isinstance(value, list) else actual.items() >= value.items()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mysql://h/db", "want postgresql://"),
        ("postgresql://h/db?connect_timeout=soon", "connect_timeout=soon is not a number"),
        ("postgresql://h:one,two/db", "port one: want a number below 65536"),
        ("postgresql://[::1]:one/db", "port one: want a number below 65536"),
        ("postgresql://h/db?port=65536", "port 65536: want a number below 65536"),
        ("postgresql://one,two/db?port=1,2,3", "port=1,2,3 for 2 hosts"),
        ("postgresql://h/db?sslrootcert=system&sslmode=require", "want verify-full"),
    ],
)
def test_errors(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_address(address)


def test_authorities_of_the_system() -> None:
    """`sslrootcert=system` verifies the server against the authorities of this machine."""
    file = ssl.get_default_verify_paths().cafile
    if file is None:
        pytest.skip("this machine has no file of authorities")
    url = parse_address("postgresql://h/db?sslrootcert=system").url
    assert "sslmode=verify-full" in url
    assert file.rpartition("/")[2] in url


@needs_server
async def test_service(opened: Open, tmp_path: Path) -> None:
    """A service of a service file says where the database is."""
    server = shared_postgresql()
    file = tmp_path / "services"
    file.write_text(
        f"[store]\nhost=127.0.0.1\nport={server.port}\ndbname=postgres\nuser=postgres\n"
    )
    async with opened(f"postgresql://?service=store&servicefile={file}") as view:
        await view.create("/a/x", b"")


@needs_server
@pytest.mark.parametrize(
    ("attributes", "is_opened"),
    [
        *(("any", True), ("read-write", True), ("primary", True), ("prefer-standby", True)),
        *(("standby", False), ("read-only", False)),
    ],
)
async def test_target_session_attrs(opened: Open, attributes: str, is_opened: bool) -> None:
    """The server must have the attributes that are asked for."""
    url = f"{shared_postgresql().url}?target_session_attrs={attributes}"
    if is_opened:
        async with opened(url) as view:
            await view.create("/a/x", b"")
    else:
        with pytest.raises(Unavailable, match="target attribute"):
            async with opened(url):
                pass


@needs_server
async def test_options(opened: Open) -> None:
    """`options` change settings of the session, except those that the store depends on."""
    options = "-c default_transaction_read_only=on -c search_path=public -c synchronous_commit=off"
    async with opened() as view:
        await view.create("/a/x", b"")
    async with opened(f"{shared_postgresql().url}?options={options.replace(' ', '%20')}") as view:
        with pytest.raises(Refused, match="read-only transaction"):
            await view.create("/a/y", b"")
        (row,) = await view._connections.read(
            "SELECT current_setting('search_path') AS path, "
            "current_setting('synchronous_commit') AS commit"
        )
        assert tuple(row) == ("pg_catalog", "on")


@needs_server
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"database": "none"}, 'database "none" does not exist; create the database'),
        ({"user": "none"}, 'role "none" does not exist; create the role'),
        ({"database": "postgres?none=1"}, 'parameter "none"; correct the parameters'),
        ({"database": "postgres?work_mem=x"}, "work_mem.*; correct the parameters"),
        ({"database": "postgres?sslmode=require"}, "127.0.0.1:[0-9]+ has no TLS: set ssl=on"),
        ({"host": "none.invalid"}, "none.invalid:[0-9]+: "),
        ({"host": "127.0.0.1:1,127.0.0.1"}, "127.0.0.1:1: "),
    ],
)
async def test_an_error_says_what_to_do(
    opened: Open, changed: dict[str, str], message: str
) -> None:
    """The error of a start names the server, or what to do."""
    parts = {"user": "postgres", "host": "127.0.0.1", "database": "postgres"} | changed
    port = 1 if "," in parts["host"] else shared_postgresql().port
    address = "postgresql://{user}@{host}:{port}/{database}".format(port=port, **parts)
    with pytest.raises(Unavailable, match=message):
        async with opened(address):
            pass


@needs_server
async def test_too_few_connections(opened: Open) -> None:
    """A limit of connections that is too low is refused."""
    with pytest.raises(ValueError, match="--postgresql-max-connections=2: want 3 or more"):
        async with opened(max_connections=2):
            pass
