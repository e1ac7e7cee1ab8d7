"""Makes connections to the first host of an address that answers.

Each host has the whole `connect_timeout`, as in libpq; asyncpg gives it to all of them together, so
that a host which is silent hides the next. Knows no SQL.
"""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg

from kapiserver.storage.postgresql.address import parse_address

CALL_SECONDS = 10.0
"""Seconds that a statement may take."""
_NEXT_HOST = (
    OSError,
    asyncpg.CannotConnectNowError,
    asyncpg.TargetServerAttributeNotMatched,
)
"""Errors of a host after which the next one is tried: it is down, starts, or is not the primary."""


class Connector:
    """Makes connections to one database."""

    def __init__(self, address: str) -> None:
        """Take `postgresql://...`. Raises ValueError for an address or parameter that is refused,
        OSError for certificate files that cannot be read."""
        self._address = parse_address(address)
        self._hosts = list(self._address.hosts)
        """The servers, the one that answered last first; empty if there is one."""

    async def connect(self) -> asyncpg.Connection:
        """Return a connection. Raises ValueError if asyncpg refuses the address, and asyncpg's
        errors."""
        problem: Exception | None = None
        for host in self._hosts or [{}]:
            try:
                connection = await asyncpg.connect(
                    self._address.url,
                    **host,
                    **self._address.options,
                    command_timeout=CALL_SECONDS,
                    server_settings=self._address.settings,
                )
            except asyncpg.exceptions.ClientConfigurationError as error:
                raise ValueError(f"--storage: {error}") from error
            except _NEXT_HOST as error:
                problem = problem or _named(error, self._name(host))
            else:
                self._hosts = sorted(self._hosts, key=lambda other: other is not host)
                return connection
        assert problem is not None
        raise problem

    def _name(self, host: Mapping[str, str | int | None]) -> str:
        if not host:
            return self._address.server
        return f"{host['host']}:{host['port']}" if host["port"] else str(host["host"])


def _named(error: Exception, server: str) -> Exception:
    """Return an error of the network with the server that it is of; asyncpg names none."""
    if isinstance(error, TimeoutError):
        return TimeoutError(f"{server}: no connection in time")
    if not isinstance(error, OSError):
        return error
    if "rejected SSL upgrade" in str(error):
        return ConnectionError(f"{server} has no TLS: set ssl=on there, or another sslmode")
    return ConnectionError(f"{server}: {error.strerror or error}")
