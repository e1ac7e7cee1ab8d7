"""Limits on clients before they authenticate: connections, handshakes and headers."""

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response, StreamResponse, text_response
from kapiserver.apiserver.serving import acceptor as acceptor_module
from kapiserver.apiserver.serving.acceptor import Acceptor
from kapiserver.apiserver.serving.connection_limits import (
    HEADER_BYTES,
    SMALL_HEADER_BYTES,
    IncompleteHeaders,
    UnauthenticatedConnections,
    client_network,
)
from kapiserver.apiserver.serving.http1 import connection as connection_module
from kapiserver.apiserver.serving.http1 import exchange as http_exchange
from kapiserver.apiserver.serving.http1.connection import Connection
from kapiserver.apiserver.serving.listener import Listener
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.apiserver.user import ANONYMOUS

_GET = b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n"


class _Connection:
    def __init__(self, name: str) -> None:
        self.name = name
        self.on_abort: Callable[[], None] = lambda: None
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True
        self.on_abort()


@pytest.mark.parametrize("at_once", [True, False], ids=["discarded at once", "discarded later"])
def test_oldest_connection_is_closed(at_once: bool) -> None:
    """Over the limit of an address its oldest connection is closed, over the limit of all the
    oldest of the address that has most."""
    connections = UnauthenticatedConnections(by_address=3, total=5)
    opened: list[_Connection] = []

    def open_one(address: str) -> None:
        connection = _Connection(address)
        if at_once:
            connection.on_abort = lambda: connections.discard(address, connection)
        opened.append(connection)
        connections.add(address, connection)

    def closed() -> list[int]:
        return [number for number, connection in enumerate(opened) if connection.aborted]

    for address in ("1.1.1.1", "2.2.2.2", "1.1.1.1", "1.1.1.1"):
        open_one(address)
    assert closed() == []
    open_one("1.1.1.1")
    assert closed() == [0]
    open_one("3.3.3.3")
    assert connections.count == 5
    open_one("4.4.4.4")
    assert closed() == [0, 2]
    connections.discard("4.4.4.4", opened[-1])
    connections.discard("4.4.4.4", opened[-1])
    connections.discard("9.9.9.9", opened[-1])
    assert connections.count == 4
    connections.close_half()
    assert connections.count == 2
    for address, connection in zip(("2.2.2.2", "1.1.1.1"), opened[1:], strict=False):
        connections.discard(address, connection)


def test_networks() -> None:
    """A client controls an IPv4 address, and a /64 network of IPv6 addresses."""
    assert client_network("10.0.0.1") == "10.0.0.1"
    assert client_network("::ffff:10.0.0.1") == "10.0.0.1"
    assert client_network("2001:db8::1:2:3:4") == client_network("2001:db8::9")
    assert client_network("2001:db8:0:1::1") != client_network("2001:db8::1")
    assert client_network("fe80::1%eth0") == client_network("fe80::2")


def test_largest_headers_are_closed() -> None:
    """Over the limit of all incomplete headers the connection that holds most is closed."""
    headers = IncompleteHeaders(limit=10 * SMALL_HEADER_BYTES)
    first, second, third = (_Connection(name) for name in "abc")
    headers.set(first, 6 * SMALL_HEADER_BYTES)
    headers.set(second, 3 * SMALL_HEADER_BYTES)
    headers.set(third, SMALL_HEADER_BYTES)  # small: not counted
    assert headers.size == 9 * SMALL_HEADER_BYTES
    headers.set(second, 5 * SMALL_HEADER_BYTES)
    assert [first.aborted, second.aborted, third.aborted] == [True, False, False]
    headers.set(first, 0)
    headers.set(second, 0)
    assert headers.size == 0


class _Connections(UnauthenticatedConnections):
    """Tells when a number of connections is left."""

    def __init__(self, **limits: int) -> None:
        super().__init__(**limits)
        self.discarded = asyncio.Event()

    def discard(self, address: str, connection: object) -> None:
        super().discard(address, connection)
        self.discarded.set()

    async def wait_for_count(self, count: int) -> None:
        async with asyncio.timeout(60):
            while self.count != count:
                self.discarded.clear()
                await self.discarded.wait()


async def _handle(request: Request) -> Response | StreamResponse:
    if request.path == "/login":
        request.on_authenticated()
    if request.path == "/body":
        return text_response(str(len(await request.read_body(1 << 20))))
    if request.path == "/stream":
        return StreamResponse(media_type="text/plain", sink=request.open_sink(), timeout=0)
    return text_response(request.path)


def _error_response(request: Request, error: Exception) -> Response:
    return text_response(str(error), status=400)


@asynccontextmanager
async def _accepting(
    context: ssl.SSLContext | None = None, *, by_address: int = 100, total: int = 100
) -> AsyncIterator[tuple[int, _Connections, Listener]]:
    unauthenticated = _Connections(by_address=by_address, total=total)
    listener = Listener(_handle, _error_response, user=ANONYMOUS)
    acceptor = Acceptor(listener, unauthenticated, context)
    await acceptor.listen("127.0.0.1", 0, reuse_port=False)
    try:
        yield acceptor.port, unauthenticated, listener
    finally:
        acceptor.stop()
        await listener.drain(1)
        await acceptor.close()


async def _send(port: int, *pieces: bytes) -> bytes:
    """All that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = bytearray()
    try:
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
            with contextlib.suppress(ConnectionError):
                while piece := await reader.read(1 << 16):
                    received += piece
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return bytes(received)


def _fields(size: int) -> list[bytes]:
    value = b"a" * 60_000
    return [b"X-%d: %b\r\n" % (number, value) for number in range(size // len(value))]


def test_headers_too_large() -> None:
    """Headers of more than 1 MiB in all get 431; one request's headers do not add to the next."""

    async def check() -> None:
        async with _accepting() as (port, _, listener):
            begin = b"GET /x HTTP/1.1\r\nHost: x\r\n"
            refused = await _send(port, begin, *_fields(3 * HEADER_BYTES))
            assert refused == b"" or refused.startswith(b"HTTP/1.1 431 Request Header Fields")
            large = [begin, *_fields(HEADER_BYTES // 2)]
            again = await _send(port, *large, b"\r\n", *large, b"\r\n", *large, _CLOSE)
            assert again.count(b"200 OK") == 3
            assert listener.incomplete_headers.size == 0

    asyncio.run(check())


_CLOSE = b"Connection: close\r\n\r\n"


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param([b"0\r\n", *[b"X: " + b"a" * 60_000 + b"\r\n"] * 60], id="trailers"),
        pytest.param([b"1;", *[b"a" * 60_000] * 60], id="chunk extension"),
    ],
)
def test_bytes_beside_the_body(endless: list[bytes]) -> None:
    """Trailers and chunk extensions count as headers; the bytes of a body do not."""

    async def check() -> None:
        async with _accepting() as (port, _, listener):
            begin = b"POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            chunks = [b"ea60\r\n" + b"a" * 60_000 + b"\r\n"] * 17
            answer = await _send(port, begin + _CLOSE, *chunks, b"0\r\n\r\n")
            assert answer.endswith(b"\r\n\r\n1020000")
            assert b"200 OK" not in await _send(port, begin + b"\r\n", *endless)
            assert listener.incomplete_headers.size == 0

    asyncio.run(check())


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nHost:"], ids=["idle", "begun"])
def test_header_timeout(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    """A new connection is closed when the headers of its first request take too long."""
    monkeypatch.setattr(connection_module, "HEADER_SECONDS", 0.01)

    async def check() -> None:
        async with _accepting() as (port, unauthenticated, _):
            assert await _send(port, begin) == b""
            await unauthenticated.wait_for_count(0)

    asyncio.run(check())


def test_header_timeout_of_second_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds for every request of a connection, and not between requests."""

    async def check() -> None:
        async with _accepting() as (port, _, _):
            clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for reader, writer in clients:
                writer.write(_GET % b"a")
                await reader.readuntil(b"/a")
            monkeypatch.setattr(connection_module, "HEADER_SECONDS", 0.01)
            (slow, slow_writer), (idle, idle_writer) = clients
            slow_writer.write(b"GET /b HTTP/1.1\r\n")
            assert await slow.read() == b""
            idle_writer.write(_GET % b"b")
            await idle.readuntil(b"/b")
            slow_writer.close()
            idle_writer.close()

    asyncio.run(check())


def test_no_header_timeout_after_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a body does not start the time for the next headers: a request that takes longer
    would be cut."""
    head = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"

    async def check() -> None:
        async with _accepting() as (port, _, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            slow, slow_writer = await asyncio.open_connection("127.0.0.1", port)
            slow_writer.write(_GET % b"a")
            await slow.readuntil(b"/a")
            writer.write(head)
            await reader.readuntil(b"100 Continue\r\n\r\n")
            monkeypatch.setattr(connection_module, "HEADER_SECONDS", 0.01)
            writer.write(b"ab")
            await reader.readuntil(b"\r\n\r\n2")
            slow_writer.write(b"GET /b HTTP/1.1\r\n")
            assert await slow.read() == b""
            writer.write(_GET % b"b")
            await reader.readuntil(b"/b")
            slow_writer.close()
            writer.close()

    asyncio.run(check())


def test_authenticated_connections_are_not_counted() -> None:
    """Connections count until a request authenticates, or until they are closed."""

    async def check() -> None:
        async with _accepting(by_address=2) as (port, unauthenticated, _):
            connections = []
            for _ in range(4):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(_GET % b"login")
                await reader.readuntil(b"/login")
                connections.append((reader, writer))
            assert unauthenticated.count == 0
            strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            assert await strangers[0][0].read() == b""  # the oldest of three
            assert unauthenticated.count == 2
            for reader, writer in [*connections, *strangers[1:]]:
                writer.write(_GET % b"again")
                await reader.readuntil(b"/again")
            for _, writer in [*connections, *strangers]:
                writer.close()
            await unauthenticated.wait_for_count(0)

    asyncio.run(check())


def test_incomplete_handshakes_count(tmp_path: Path) -> None:
    """Connections that never complete their TLS handshake count, too."""
    context = ensure_certificates(Config(), tmp_path).server_context()

    async def check() -> None:
        async with _accepting(context, by_address=2) as (port, unauthenticated, _):
            strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            assert await strangers[0][0].read() == b""
            assert unauthenticated.count == 2
            strangers[1][1].write(b"GET / HTTP/1.1\r\n\r\n")  # no TLS
            await strangers[1][0].read()
            await unauthenticated.wait_for_count(1)
            client = ssl.create_default_context(cafile=tmp_path / "ca.crt")
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            writer.write(_GET % b"a")
            await reader.readuntil(b"/a")
            assert unauthenticated.count == 2
            for _, each in [*strangers, (reader, writer)]:
                each.transport.abort()  # a TLS close would wait for the server
            await unauthenticated.wait_for_count(0)

    asyncio.run(check())


class _LoopWithoutReaders(asyncio.SelectorEventLoop):
    """An event loop that lacks what that of Windows lacks."""

    def add_reader(self, *_: object) -> None:
        raise NotImplementedError


@pytest.mark.own_process
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, _LoopWithoutReaders])
def test_out_of_file_descriptors(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Without file descriptors the server pauses, closes an unauthenticated connection, and then
    accepts again."""
    monkeypatch.setattr(acceptor_module, "PAUSE_SECONDS", 0.01)

    async def check() -> None:
        async with _accepting() as (port, _, _):
            idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
            idle_writer.write(_GET % b"a")
            await idle.readuntil(b"/a")
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            with socket.socket() as client:
                client.setblocking(False)
                resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() - 1, limits[1]))
                try:
                    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
                    assert await idle.read() == b""
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
                assert "cannot accept a connection: Too many open files" in caplog.text
                await asyncio.get_running_loop().sock_sendall(client, _GET % b"b")
                answer = await asyncio.get_running_loop().sock_recv(client, 1000)
                assert b"200 OK" in answer
            idle_writer.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(check())


class _Closing(Listener):
    """Tells when a connection is closed."""

    def __init__(self, handle: Handler) -> None:
        super().__init__(handle, _error_response, user=ANONYMOUS)
        self.closed = asyncio.Event()

    def connection_lost(self, connection: Connection) -> None:
        super().connection_lost(connection)
        self.closed.set()


@pytest.mark.parametrize("ended", ["close", "abort"])
def test_unread_stream_is_dropped(monkeypatch: pytest.MonkeyPatch, ended: str) -> None:
    """The backlog of a stream that has ended is dropped if the client does not read it, and at once
    if the stream is aborted."""
    if ended == "close":
        monkeypatch.setattr(http_exchange, "SLOW_CLIENT_SECONDS", 0.01)

    async def handle(request: Request) -> StreamResponse:
        sink = request.open_sink()
        sink.write(b"x" * (32 << 20))
        asyncio.get_running_loop().call_soon(getattr(sink, ended))
        return StreamResponse(media_type="text/plain", sink=sink, timeout=0)

    async def check() -> None:
        listener = _Closing(handle)
        server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            client.sendall(_GET % b"stream")
            async with asyncio.timeout(60):
                await listener.closed.wait()
        server.close()
        await listener.drain(1)

    asyncio.run(check())
