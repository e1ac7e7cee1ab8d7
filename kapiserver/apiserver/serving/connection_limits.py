"""Limits of what clients may hold before they authenticate: connections, and bytes of headers.

Both limits close the connection that costs most instead of refusing the newest, so that a client
that holds many connections does not keep others out. Knows no socket and no HTTP.
"""

from __future__ import annotations

import socket
from typing import Protocol

from msgspec import Struct, field

MAX_UNAUTHENTICATED_BY_ADDRESS = 1024
MAX_UNAUTHENTICATED = 2048
"""Connections on which no request has authenticated yet, from one address and in all. A connection
over TLS takes 70 KB of memory. Clients that authenticate may open any number of connections."""
HEADER_BYTES = 1 << 20
"""The maximum size of the request line and headers, as DefaultMaxHeaderBytes of net/http."""
ALL_HEADER_BYTES = 32 << 20
"""The maximum size of the incomplete headers of all connections, without small ones."""
SMALL_HEADER_BYTES = 16 << 10


class Connection(Protocol):
    """A connection that can be closed without a response."""

    def abort(self) -> None:
        """Close the connection at once."""


class UnauthenticatedConnections:
    """The open connections on which no request has authenticated yet, by client address.

    count               how many there are
    failed_handshakes   TLS handshakes that failed since the start
    """

    def __init__(
        self, *, by_address: int = MAX_UNAUTHENTICATED_BY_ADDRESS, total: int = MAX_UNAUTHENTICATED
    ) -> None:
        self._limit_by_address = by_address
        self._limit = total
        self._connections: dict[str, dict[Connection, None]] = {}
        self.count = 0
        self.failed_handshakes = 0

    def add(self, address: str, connection: Connection) -> None:
        """Add a new connection. Over a limit, close the oldest connection of its address, or of
        the address that has most."""
        connections = self._connections.setdefault(client_network(address), {})
        connections[connection] = None
        self.count += 1
        if len(connections) > self._limit_by_address:
            self._close_oldest(connections)
        elif self.count > self._limit:
            self.close_oldest()

    def discard(self, address: str, connection: Connection) -> None:
        """Remove a connection that was closed or has authenticated."""
        network = client_network(address)
        connections = self._connections.get(network)
        if connections is None or connection not in connections:
            return
        del connections[connection]
        self.count -= 1
        if not connections:
            del self._connections[network]

    def close_oldest(self) -> None:
        """Close the oldest connection of the address that has most, if there is any."""
        if self._connections:
            self._close_oldest(max(self._connections.values(), key=len))

    def close_half(self) -> None:
        """Close half of the connections, the oldest of the addresses that have most first."""
        for _ in range(self.count // 2):
            self.close_oldest()

    def _close_oldest(self, connections: dict[Connection, None]) -> None:
        oldest = next(iter(connections))
        oldest.abort()  # discards the connection, now or when the transport is closed
        if connections.pop(oldest, self) is None:
            self.count -= 1


def client_network(address: str) -> str:
    """Return the network that one client controls: an IPv4 address itself, the /64 network of an
    IPv6 address."""
    if ":" not in address:
        return address
    packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    if packed.startswith(b"\0" * 10 + b"\xff\xff"):  # an IPv4 address
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8))


class IncompleteHeaders:
    """The bytes of incomplete headers that connections hold."""

    def __init__(self, *, limit: int = ALL_HEADER_BYTES) -> None:
        self._limit = limit
        self._sizes: dict[Connection, int] = {}
        self.size = 0

    def set(self, connection: Connection, size: int) -> None:
        """Set the size that a connection holds, 0 for none. Over the limit, close the connection
        that holds most."""
        self.size -= self._sizes.pop(connection, 0)
        if size <= SMALL_HEADER_BYTES:
            return
        self._sizes[connection] = size
        self.size += size
        if self.size > self._limit:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self.size -= self._sizes.pop(largest)
            largest.abort()


class ConnectionLimits(Struct, frozen=True):
    """The limits of one process, whose servers share them."""

    unauthenticated: UnauthenticatedConnections = field(default_factory=UnauthenticatedConnections)
    incomplete_headers: IncompleteHeaders = field(default_factory=IncompleteHeaders)
