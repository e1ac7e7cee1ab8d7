"""The client of requests that the server sends to other servers."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kapiserver.apiserver.byte_stream import MAX_UNREAD, Received
from kapiserver.apiserver.http_client.addresses import Resolver, is_global_unicast
from kapiserver.apiserver.http_client.errors import (
    AddressNotAllowed,
    ConnectTimeout,
    Dialled,
    Disconnected,
    UnknownHost,
    error_text,
)
from kapiserver.apiserver.http_client.pool import Origin
from kapiserver.apiserver.http_client.session import HttpRequest, StreamingClient
from kapiserver.apiserver.serving.request_body import UNREAD_BYTES, RequestBody


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
    assert error_text(error, Dialled("h", 1)).endswith(text)
    assert str(Dialled("::1", 1)) == "[::1]:1"


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
