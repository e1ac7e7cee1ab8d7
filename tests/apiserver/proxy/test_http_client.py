"""The client of requests that the server sends to other servers."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs

from kapiserver.apiserver.byte_stream import MAX_UNREAD, Received
from kapiserver.apiserver.http_client import pool
from kapiserver.apiserver.http_client.addresses import Resolver, is_global_unicast
from kapiserver.apiserver.http_client.connection import MAX_HEADER_BYTES
from kapiserver.apiserver.http_client.errors import (
    AddressNotAllowed,
    ConnectTimeout,
    Disconnected,
    HostPort,
    ResponseTooLarge,
    UnknownHost,
    error_text,
)
from kapiserver.apiserver.http_client.pool import Origin
from kapiserver.apiserver.http_client.session import HttpRequest, StreamingClient
from kapiserver.apiserver.serving.http1.request_body import UNREAD_BYTES, RequestBody
from tests.apiserver.aggregation.aggregationkit import Authority


@asynccontextmanager
async def _server(*responses: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers the requests of each connection with the responses, in their order; it
    reads the heads of requests only."""
    heads: list[bytes] = []
    remaining = list(responses)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while remaining:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(remaining.pop(0))
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


def _get(url: str) -> HttpRequest:
    address, _, target = url.removeprefix("http://").partition("/")
    host, _, port = address.rpartition(":")
    origin = Origin(host.strip("[]"), int(port))
    return HttpRequest(method="GET", origin=origin, target=f"/{target}", headers=())


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\na: \xff\r\n\r\nhi"


def test_connections_are_kept() -> None:
    """Requests share a connection; headers keep their order, case and bytes."""

    async def run() -> None:
        client = StreamingClient()
        async with _server(OK, OK) as (url, heads):
            for path in ("/x", "/%2F?a=%zz"):
                response = await client.request(_get(url + path))
                assert response.headers[1:] == [("A", "b"), ("a", "\udcff")]
                assert [piece async for piece in response.pieces()] == [b"hi"]
                response.close()
        assert [head.split()[1] for head in heads] == [b"/x", b"/%2F?a=%zz"]
        assert heads[0].count(b"\r\n") == 3, "no header but Host is added"
        client.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("10.0.0.1", True),
        ("192.168.0.1", True),
        ("8.8.8.8", True),
        ("fd00::1", True),
        ("2001:db8::1", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:169.254.169.254", False),
        ("::ffff:10.0.0.1", True),
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("224.0.0.1", False),
        ("ff02::1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("255.255.255.255", False),
    ],
)
def test_guard(text: str, allowed: bool) -> None:
    """The guard allows what Go calls global unicast."""
    assert is_global_unicast(ipaddress.ip_address(text)) is allowed


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1", "0177.0.0.1", "2130706433", "localhost"],
)
def test_guarded_client(host: str) -> None:
    """No spelling of an address, and no name of it, gets around the guard."""

    async def run() -> None:
        client = StreamingClient(guard=is_global_unicast)
        async with _server(OK) as (url, heads):
            port = url.rpartition(":")[2]
            with pytest.raises(AddressNotAllowed):
                await client.request(_get(f"http://{host}:{port}/"))
        assert not heads
        client.close()

    asyncio.run(run())


def test_names_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client connects to the addresses that the guard has judged: a name server that gives
    another address the second time is not asked again. One bad address refuses the name."""
    answers = [["10.1.1.1"], ["10.1.1.1", "127.0.0.1"]]

    def look_up(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, 0, 0, "", (each, 0)) for each in answers.pop(0)]

    async def run() -> None:
        resolver = Resolver(is_global_unicast)
        assert await resolver.addresses("name.example") == ["10.1.1.1"]
        with pytest.raises(AddressNotAllowed):
            await resolver.addresses("name.example")
        resolver.close()

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    asyncio.run(run())
    assert not answers


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Disconnected("x"), "EOF"),
        (UnknownHost("h"), "dial tcp: lookup h: no such host"),
        (ConnectTimeout("x"), "dial tcp h:1: i/o timeout"),
        (OSError(errno.ECONNREFUSED, "x"), "dial tcp h:1: connect: connection refused"),
        (OSError(errno.EHOSTUNREACH, "x"), "dial tcp h:1: connect: no route to host"),
        (OSError(errno.ENETUNREACH, "x"), "dial tcp h:1: connect: network is unreachable"),
        (
            ConnectionResetError(errno.ECONNRESET, "x"),
            "read tcp h:1: read: connection reset by peer",
        ),
        (ssl.SSLError(1, "[SSL] x"), "[SSL] x"),
        (ValueError(), "ValueError"),
    ],
)
def test_words_of_go(error: Exception, text: str) -> None:
    """Errors read as those of Go's client."""
    assert error_text(error, HostPort("h", 1)).endswith(text)
    assert str(HostPort("::1", 1)) == "[::1]:1"


class _Source:
    """Counts how often a body pauses and resumes its connection."""

    paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def send_continue(self) -> None:
        pass


def test_back_pressure_of_streamed_bodies() -> None:
    """While the pieces of a body are not taken, the connection reads a bounded number of bytes."""

    async def run() -> None:
        source = _Source()
        body = RequestBody(source, length=None, expects_continue=False)
        pieces = body.pieces()
        body.add(b"x" * UNREAD_BYTES)
        assert not source.paused
        body.add(b"x")
        assert source.paused
        assert len(await anext(pieces)) == UNREAD_BYTES + 1
        assert not source.paused
        for _ in range(3):  # the bound counts unread bytes, not those of the whole body
            body.add(b"y" * UNREAD_BYTES)
            assert not source.paused
            assert len(await anext(pieces)) == UNREAD_BYTES
        body.complete()
        assert [piece async for piece in pieces] == []

    asyncio.run(run())


def test_discarded_while_streamed() -> None:
    """The end of a task that streams a body does not hide the body's end from `discard`."""

    async def run() -> None:
        body = RequestBody(_Source(), length=None, expects_continue=False)
        streaming = asyncio.create_task(anext(body.pieces()))
        await asyncio.sleep(0)
        discarding = asyncio.create_task(body.discard(limit=1))
        streaming.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        body.complete()
        await discarding
        assert streaming.cancelled()

    asyncio.run(run())


def test_back_pressure_of_upgraded_connections() -> None:
    """While what arrived is not read, the connection receives a bounded number of bytes."""

    async def run() -> None:
        source = _Source()
        received = Received(source.pause_reading, source.resume_reading)
        received.add(b"x" * MAX_UNREAD)
        assert not source.paused
        received.add(b"x")
        assert source.paused
        assert len(await received.read()) == MAX_UNREAD + 1
        assert not source.paused
        received.end()
        assert await received.read() == b""

    asyncio.run(run())


@asynccontextmanager
async def _scripted(
    *connections: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server that runs a function for each connection, in their order."""
    remaining = list(connections)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await remaining.pop(0)(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    assert not remaining


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request, and close the connection when the client is about to send another."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(OK)


def test_closed_idle_connections() -> None:
    """A request that changes nothing is sent again if an idle connection turns out to be closed;
    one with a body fails."""

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer(reader, writer)
        await reader.readuntil(b"\r\n\r\n")  # and no answer

    async def run() -> None:
        client = StreamingClient()
        async with _scripted(answer_once, answer_once) as url:
            request = _get(f"{url}/")
            for _ in range(2):
                assert await (await client.request(request)).read(9) == b"hi"
            with pytest.raises(Disconnected):
                await client.request(structs.replace(request, method="POST", body=b"x"))
        client.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("method", "response", "body"),
    [
        ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", b"x"),
        ("GET", b"HTTP/1.1 100 Continue\r\nC: d\r\n\r\n" + OK, b"hi"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b""),
    ],
)
def test_framing(method: str, response: bytes, body: bytes) -> None:
    """The end of each response is known, and the connection is used again."""

    async def run() -> None:
        client = StreamingClient()
        async with _server(response, OK) as (url, heads):
            request = structs.replace(_get(f"{url}/"), method=method)
            first = await client.request(request)
            assert await first.read(9) == body
            assert ("C", "d") not in first.headers
            assert await (await client.request(_get(f"{url}/"))).read(9) == b"hi"
        assert len(heads) == 2
        client.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", Disconnected),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", Disconnected),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", ResponseTooLarge),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * MAX_HEADER_BYTES + b"\r\n\r\n", ResponseTooLarge),
        (b"SMTP\r\n\r\n", ValueError),
        (b"", Disconnected),
    ],
)
def test_ends_of_connections(response: bytes, expected: bytes | type[Exception]) -> None:
    """A body without a length ends with the connection; one that is cut off is an error."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)

    async def run() -> bytes:
        client = StreamingClient()
        async with _scripted(answer) as url:
            try:
                reply = await client.request(_get(f"{url}/"))
                return await reply.read(9)
            finally:
                client.close()

    if isinstance(expected, bytes):
        assert asyncio.run(run()) == expected
    else:
        with pytest.raises(expected):
            asyncio.run(run())


def test_streams() -> None:
    """Both bodies pass at the speed of their reader, chunked or with a length."""
    size, seen = 4 << 20, bytearray()
    taken = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        while (length := int(await reader.readline(), 16)) > 0:
            seen.extend(await reader.readexactly(length))
            await reader.readline()
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(64):
            writer.write(b"z" * (size // 64))
            await writer.drain()

    async def body() -> AsyncIterator[bytes]:
        for number in range(100):
            yield b"%d" % number

    async def run() -> None:
        nonlocal taken
        client = StreamingClient()
        async with _scripted(answer) as url:
            request = structs.replace(_get(f"{url}/"), method="POST", body=body())
            response = await client.request(request)
            async for piece in response.pieces():
                assert len(piece) <= 2 * MAX_UNREAD
                taken += len(piece)
        client.close()

    asyncio.run(run())
    assert bytes(seen) == b"".join(b"%d" % number for number in range(100))
    assert taken == size


def test_failing_bodies() -> None:
    """If the source of a body fails, the request fails with its error. A server may answer before
    the body is sent; its connection is not used again."""

    async def fails() -> AsyncIterator[bytes]:
        yield b"x"
        raise ValueError("the source")

    async def stalls() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async def read(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def run() -> None:
        client = StreamingClient()
        async with _scripted(read, _answer, _answer) as url:
            request = structs.replace(_get(f"{url}/"), method="POST", body=fails())
            with pytest.raises(ValueError, match="the source"):
                await client.request(request)
            early = await client.request(structs.replace(request, body=stalls()))
            assert await early.read(9) == b"hi"
            assert await (await client.request(_get(f"{url}/"))).read(9) == b"hi"
        client.close()

    asyncio.run(run())


def test_idle_connections_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that nobody uses closes."""
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.001)
    closed = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer(reader, writer)
        assert await reader.read() == b""
        closed.set()

    async def run() -> None:
        client = StreamingClient()
        async with _scripted(answer) as url:
            assert await (await client.request(_get(f"{url}/"))).read(9) == b"hi"
            await closed.wait()
        client.close()

    asyncio.run(run())


@pytest.mark.parametrize("status", [200, 403])
def test_tunnel(status: int, tmp_path: Path) -> None:
    """HTTPS by way of a proxy is a tunnel, in which TLS is with the origin; the proxy gets the
    credentials of its URL."""
    authority = Authority(tmp_path)
    pair = authority.issue("hooks.example.com")
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(pair.certificate, pair.key)
    client_context = ssl.create_default_context(cadata=authority.pem)
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 %d X\r\n\r\n" % status)
        if status == 200:
            await writer.start_tls(server_context)
            await _answer(reader, writer)

    async def run() -> bytes:
        client = StreamingClient()
        async with _scripted(serve) as url:
            proxy = url.replace("//", "//me:%40x@")
            origin = Origin("hooks.example.com", 443, client_context, proxy=proxy)
            try:
                return await (
                    await client.request(structs.replace(_get("http://x:1/"), origin=origin))
                ).read(9)
            finally:
                client.close()

    if status == 200:
        assert asyncio.run(run()) == b"hi"
    else:
        with pytest.raises(ValueError, match="Forbidden"):
            asyncio.run(run())
    assert heads[0].startswith(b"CONNECT hooks.example.com:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6QHg=\r\n" in heads[0]
