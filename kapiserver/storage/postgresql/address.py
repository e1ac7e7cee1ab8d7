"""The address of a database, and what the parameters of libpq mean in it.

asyncpg implements most of libpq's parameters. A parameter that neither asyncpg nor this module
implements is refused by name, unless its value asks for what happens anyway: users must not believe
that a connection is safer than it is. Names that libpq does not know are settings of the session.
Source: section 34.1.2 of PostgreSQL's documentation, as of version 18.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from msgspec import Struct

CONNECT_SECONDS = 5.0
"""Seconds that a new connection may take, unless the address has a `connect_timeout`."""
ASYNCPG_PARAMETERS = {
    *("host", "port", "dbname", "user", "password", "passfile", "service"),
    *("sslmode", "sslnegotiation", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname", "gsslib"),
    "target_session_attrs",
}
"""The parameters that asyncpg implements."""
OWN_PARAMETERS = {
    *("application_name", "fallback_application_name", "options", "connect_timeout"),
    "servicefile",
}
"""The parameters that become options of a connection here, or settings of the session."""
ONLY_VALUES: Mapping[str, tuple[str, ...]] = {
    "channel_binding": ("prefer", "disable"),
    "client_encoding": ("auto", "utf8", "UTF8"),
    "gssencmode": ("prefer", "disable"),
    "keepalives": ("1",),
    "load_balance_hosts": ("disable",),
    "max_protocol_version": ("3.0", "latest"),
    "min_protocol_version": ("3.0",),
    "sslcertmode": ("allow",),
    "sslcompression": ("0",),
    "sslsni": ("1",),
    **dict.fromkeys(("gssdelegation", "replication", "requiressl"), ("0",)),
    **dict.fromkeys(
        (
            *("hostaddr", "requirepeer", "require_auth", "sslcrldir", "sslkeylogfile"),
            *("keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
            *("scram_client_key", "scram_server_key"),
            *("oauth_issuer", "oauth_client_id", "oauth_client_secret", "oauth_scope"),
        ),
        (),
    ),
}
"""The values of each other parameter that ask for what happens anyway; () if there is none."""
_FILES = {"sslcert", "sslkey", "sslrootcert", "sslcrl"}
"""Parameters that name a file, which must be readable."""


class Address(Struct, frozen=True, kw_only=True):
    """Where a database is.

    url       the address with the parameters that asyncpg implements
    server    what messages call the server, if there is one
    hosts     host and port of each server, if there are several; options of `asyncpg.connect`
    options   further options of `asyncpg.connect`
    settings  settings of the session
    """

    url: str
    server: str
    hosts: Sequence[Mapping[str, str | int | None]]
    options: dict[str, Any]
    settings: dict[str, str]


def parse_address(text: str) -> Address:
    """Parse `postgresql://...`. Raises ValueError for an address that names no PostgreSQL or has a
    parameter that is refused, OSError for files that cannot be read."""
    url = urlsplit(text)
    names_database = url.netloc or url.path.strip("/") or url.query
    if not text.startswith("postgresql://") or not names_database:
        raise ValueError(f"{text}: want postgresql://USER@HOST:PORT/DATABASE?PARAMETERS")
    parameters = dict(parse_qsl(url.query, keep_blank_values=True))
    if parameters.get("sslrootcert") == "system":
        parameters |= _system_authorities(parameters)
    _check(parameters)
    settings = {
        name: value
        for name, value in parameters.items()
        if name not in ASYNCPG_PARAMETERS | OWN_PARAMETERS | ONLY_VALUES.keys()
    }
    fallback = parameters.get("fallback_application_name", "kapiserver")
    settings["application_name"] = parameters.get("application_name", fallback)
    if "options" in parameters:
        settings["options"] = parameters["options"]
    names = url.netloc.rpartition("@")[2] or parameters.get("host", "")
    hosts = _hosts(names, parameters.get("port", ""))
    passed_on = {name: parameters[name] for name in ASYNCPG_PARAMETERS & parameters.keys()}
    return Address(
        url=urlunsplit(url._replace(query=urlencode(passed_on))),
        server=names or "the server",
        hosts=hosts,
        options=_options(parameters, has_hosts=bool(hosts)),
        settings=settings,
    )


def _system_authorities(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that `sslrootcert=system` stands for."""
    file = ssl.get_default_verify_paths().cafile
    if file is None:
        raise ValueError("--storage: sslrootcert=system: this machine has no file of authorities")
    mode = parameters.get("sslmode", "verify-full")
    if mode != "verify-full":
        raise ValueError(f"--storage: sslmode={mode} with sslrootcert=system, want verify-full")
    return {"sslrootcert": file, "sslmode": mode}


def _check(parameters: Mapping[str, str]) -> None:
    for name, value in parameters.items():
        values = ONLY_VALUES.get(name, (value,))
        if value not in values:
            remedy = f"want {' or '.join(values)}" if values else "remove it"
            raise ValueError(f"--storage: {name}={value} is not supported, {remedy}")
    for name in _FILES & parameters.keys():
        with Path(parameters[name]).open("rb"):  # asyncpg's error has no name of the file
            pass


def _hosts(text: str, ports: str) -> list[Mapping[str, str | int | None]]:
    """Return the servers of `HOST:PORT,HOST:PORT`, none if there is only one. `ports` are those of
    the parameter, one for all or one for each."""
    urls = [urlsplit(f"//{part}") for part in text.split(",")]
    host_ports = [_port(url.netloc.rpartition("]")[2].partition(":")[2]) for url in urls]
    listed_ports = [_port(port) for port in ports.split(",")]
    if len(urls) == 1:
        return []
    if len(listed_ports) == 1:
        listed_ports *= len(urls)
    if len(listed_ports) != len(urls):
        raise ValueError(f"--storage: port={ports} for {len(urls)} hosts")
    return [
        {"host": unquote(url.hostname or ""), "port": port or listed}
        for url, port, listed in zip(urls, host_ports, listed_ports, strict=True)
    ]


def _port(text: str) -> int | None:
    if text and not (text.isdecimal() and int(text) < 1 << 16):
        raise ValueError(f"--storage: port {text}: want a number below {1 << 16}")
    return int(text) if text else None


def _options(parameters: Mapping[str, str], *, has_hosts: bool) -> dict[str, Any]:
    seconds = parameters.get("connect_timeout") or "0"
    if not seconds.isdecimal():
        raise ValueError(f"--storage: connect_timeout={seconds} is not a number of seconds")
    options: dict[str, Any] = {"timeout": float(seconds) or CONNECT_SECONDS}
    if "servicefile" in parameters:
        options["servicefile"] = parameters["servicefile"]
    if has_hosts and "target_session_attrs" not in parameters:
        options["target_session_attrs"] = "read-write"  # after a failover, the new primary
    return options
