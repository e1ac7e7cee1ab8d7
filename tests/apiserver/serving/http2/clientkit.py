"""A client of HTTP/2 on a socket, by the library h2, and a listener with the handler of the tests
of listeners."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import h2.config
import h2.connection
import h2.events
from msgspec import Struct, field

from kapiserver.apiserver.serving.http2.connection import Http2Connection
from kapiserver.apiserver.serving.http2.settings import Http2Settings
from kapiserver.apiserver.serving.listener import Listener
from kapiserver.apiserver.user import ANONYMOUS
from tests.apiserver.serving.listenerkit import handle, refuse


class Answer(Struct):
    """What the server has sent on a stream.

    reset   the code of RST_STREAM
    """

    headers: dict[str, str] = field(default_factory=dict)
    informational: list[str] = field(default_factory=list)
    body: bytes = b""
    has_ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        return int(self.headers[":status"])

    @property
    def is_over(self) -> bool:
        return self.has_ended or self.reset is not None


class Client:
    """One connection of a client. Its waits end after 30 seconds at most.

    goaways     the GOAWAY frames of the server: error code and last stream
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        self.answers: dict[int, Answer] = {}
        self.goaways: list[tuple[int, int]] = []
        self.is_closed = False
        self._buffer = b""
        self.acknowledges = True

    async def start(self) -> Client:
        """Send the preface."""
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(1 << 30)
        await self.flush()
        return self

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def send(
        self,
        path: str,
        method: str = "GET",
        *headers: tuple[str, str],
        body: bytes | None = None,
        authority: str = "x",
    ) -> int:
        """Begin a request, whole without a body or with it; return its stream."""
        stream: int = self.h2.get_next_available_stream_id()
        fields = [
            (":method", method), (":scheme", "https"), (":path", path), (":authority", authority),
        ]  # fmt: skip
        self.h2.send_headers(stream, [*fields, *headers], end_stream=body is None)
        self.answers[stream] = Answer()
        if body:
            self.h2.send_data(stream, body, end_stream=True)
        await self.flush()
        return stream

    async def get(self, path: str, method: str = "GET", **options: Any) -> Answer:
        """Return the whole response to a request."""
        return await self.wait(await self.send(path, method, **options))

    async def wait(self, stream: int) -> Answer:
        """Return the response on a stream when it is over, or the connection is closed."""
        answer = self.answers[stream]
        while not answer.is_over and not self.is_closed:
            await self.read()
        return answer

    async def read(self) -> None:
        """Read and note what the server sends next."""
        async with asyncio.timeout(30):
            try:
                received = await self._reader.read(1 << 16)
            except ConnectionError:
                received = b""
        self.is_closed = not received
        self._buffer += received
        while len(self._buffer) >= 9:
            end = 9 + int.from_bytes(self._buffer[:3])
            if end > len(self._buffer):
                break
            frame, self._buffer = self._buffer[:end], self._buffer[end:]
            for event in self.h2.receive_data(frame):
                self._note(event)
        if not self.is_closed:
            await self.flush()

    def _note(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goaways.append((int(event.error_code), event.last_stream_id))
            # The library takes GOAWAY for the end of the connection, even if streams are open.
            self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
        answer = self.answers.get(getattr(event, "stream_id", 0) or 0, Answer())
        if isinstance(event, h2.events.ResponseReceived):
            answer.headers = dict(event.headers)
        elif isinstance(event, h2.events.InformationalResponseReceived):
            answer.informational.append(dict(event.headers)[":status"])
        elif isinstance(event, h2.events.DataReceived):
            answer.body += event.data
            if self.acknowledges:
                size = event.flow_controlled_length
                self.h2.acknowledge_received_data(size, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            answer.has_ended = True
        elif isinstance(event, h2.events.StreamReset):
            answer.reset = int(event.error_code)

    def abort(self) -> None:
        """Close the connection at once. A TLS close waits for the server's, and a loop that ends
        does not wait for that."""
        self.writer.transport.abort()

    async def end(self) -> None:
        """Return when the server has closed the connection."""
        while not self.is_closed:
            await self.read()


class Http2Listener(Listener):
    """A listener whose connections speak HTTP/2 without TLS. `last` is the newest connection."""

    settings = Http2Settings()
    port = 0
    last: Http2Connection

    def __call__(self) -> Http2Connection:
        self.last = Http2Connection(self, self.settings)
        return self.last


@asynccontextmanager
async def listening(
    settings: Http2Settings | None = None,
) -> AsyncIterator[tuple[Http2Listener, Client]]:
    """A listener, and a client that is connected to it."""
    listener = Http2Listener(handle, refuse, user=ANONYMOUS)
    listener.settings = settings or Http2Settings()
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    client = await connect(listener.port)
    try:
        yield listener, client
    finally:
        server.close()
        client.abort()
        await listener.drain(1)


async def connect(
    port: int, tls: ssl.SSLContext | None = None, server_name: str = "localhost"
) -> Client:
    """Return a client that is connected to a port, with TLS to a server of a name."""
    host = server_name if tls is not None else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=host)
    return await Client(reader, writer).start()
