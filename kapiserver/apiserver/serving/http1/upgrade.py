"""Hands the client's connection over to another protocol, after a response with status 101.

Knows no Kubernetes. Mirrors UpgradeAwareHandler of pkg/util/proxy of k8s.io/apimachinery.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from kapiserver.apiserver.byte_stream import Received, join
from kapiserver.apiserver.request import Outcome
from kapiserver.apiserver.response import UpgradeResponse
from kapiserver.apiserver.serving.http1.response_head import switching_head

LAST_BYTES_SECONDS = 5.0
"""How long the last bytes may take to be written to the peer when either side has closed."""


class UpgradableConnection(Protocol):
    """The client's connection, as this module uses it.

    transport   None when the connection was closed
    """

    @property
    def transport(self) -> asyncio.Transport | None: ...

    def call_when_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the connection is lost during the running request."""

    def switch_protocol(self, receive: Callable[[bytes], None]) -> None:
        """Pass all further bytes of the client to `receive`."""

    def pause_reading(self) -> None:
        """Stop reading from the client."""

    def resume_reading(self) -> None:
        """Read from the client again."""

    async def wait_writable(self) -> None:
        """Return when the client has read most of the bytes. Raises ConnectionResetError."""


async def write_upgrade(connection: UpgradableConnection, response: UpgradeResponse) -> Outcome:
    """Write the response and pass bytes between the client and the peer until either has closed.
    Return the outcome; the connection cannot be used for requests any more."""
    client = _ClientStream(connection)
    peer = response.peer
    loop = asyncio.get_running_loop()

    def end() -> None:
        client.received.end()
        loop.call_later(LAST_BYTES_SECONDS, peer.abort)

    try:
        connection.call_when_lost(end)
        connection.switch_protocol(client.received.add)
        connection.resume_reading()
        await client.write(switching_head(response.headers))
        await join(client, peer)
    except ConnectionError:
        pass
    finally:
        peer.close()
        loop.call_later(LAST_BYTES_SECONDS, peer.abort)
    is_open = connection.transport is not None
    return Outcome(status=response.status, bytes_sent=client.bytes_sent, finished=is_open)


class _ClientStream:
    """The client's end of an upgraded connection. A ByteStream."""

    def __init__(self, connection: UpgradableConnection) -> None:
        self._connection = connection
        self.received = Received(connection.pause_reading, connection.resume_reading)
        self.bytes_sent = 0

    async def read(self) -> bytes:
        return await self.received.read()

    async def write(self, data: bytes) -> None:
        transport = self._connection.transport
        if transport is None:
            raise ConnectionResetError
        transport.write(data)
        self.bytes_sent += len(data)
        await self._connection.wait_writable()
