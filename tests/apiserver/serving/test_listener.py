"""The HTTP listener: raw sockets against a handler of the test.

Decision 115 says why aiohttp does not pass the tests that run with httptools only.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from kapiserver.apiserver.config import FRONTS, HTTPTOOLS
from kapiserver.apiserver.request import Outcome
from kapiserver.apiserver.serving.connection_limits import SMALL_HEADER_BYTES
from kapiserver.apiserver.serving.http1 import exchange as http_exchange
from kapiserver.apiserver.serving.http1.request_body import UNREAD_BYTES
from kapiserver.apiserver.serving.listener import Listener
from kapiserver.apiserver.user import ANONYMOUS
from tests.apiserver.serving.listenerkit import (
    FRONT,
    OUTCOMES,
    Watch,
    get_request,
    handle,
    listening,
    refuse,
    send_once,
)


@pytest.fixture(params=FRONTS, autouse=True)
def front(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test of this module runs over every front."""
    token = FRONT.set(request.param)
    yield request.param
    FRONT.reset(token)


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/a%20b?c=d%26e&c=f", "GET /a b [('c', ['d&e', 'f'])]"),
        ("http://host:1/a/b?c", "GET /a/b [('c', [''])]"),
        ("/%e4%bd%a0", "GET /你 []"),
        ("/%ff", "GET /\ufffd []"),
    ],
)
def test_targets(target: str, body: str) -> None:
    """Path and query of a request target arrive unquoted."""
    response = send_once(get_request(target))
    head, _, response_body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" in head
    assert b"\r\nDate: " in head
    assert response_body.decode() == body


def test_slices() -> None:
    """Slices are sent chunked, or with a Content-Length if their total length is known."""
    chunked = send_once(get_request("/slices"))
    assert b"Transfer-Encoding: chunked\r\n" in chunked
    assert chunked.endswith(b"\r\n\r\na\r\naaaaaaaaaa\r\n14\r\n" + b"b" * 20 + b"\r\n0\r\n\r\n")
    response = send_once(get_request("/known"))
    assert b"Content-Length: 30\r\n" in response
    assert response.endswith(b"a" * 10 + b"b" * 20)
    old = send_once(b"GET /slices HTTP/1.0\r\n\r\n")
    assert b"Transfer-Encoding" not in old
    assert old.endswith(b"a" * 10 + b"b" * 20)


def test_failing_body() -> None:
    """A response whose body fails half way has no last chunk: the client sees the failure."""

    async def request_twice() -> tuple[bytes, bytes]:
        async with listening() as (_, send):
            try:
                first = await send(get_request("/broken"))
            except ConnectionResetError:
                first = b""
            return first, await send(get_request("/still"))

    first, second = asyncio.run(request_twice())
    assert not first.endswith(b"0\r\n\r\n")
    assert b"secret" not in first
    assert second.endswith(b"GET /still []")


def test_slow_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection of a client that reads nothing of a large response is aborted."""
    monkeypatch.setattr(http_exchange, "SLOW_CLIENT_SECONDS", 0.01)

    async def send_and_wait() -> None:
        Watch.cancelled_event = asyncio.Event()
        async with listening() as (listener, _):
            # A reader with so small a limit stops reading at once.
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1)
            writer.write(get_request("/large"))
            async with asyncio.timeout(30):
                await Watch.cancelled_event.wait()
            writer.transport.abort()

    asyncio.run(send_and_wait())


def test_head() -> None:
    """A response to HEAD has the Content-Length and no body."""
    response = send_once(b"HEAD /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"Content-Length: 10\r\n" in response
    assert response.endswith(b"\r\n\r\n")


def test_pipelined() -> None:
    """Requests sent without waiting are answered in order."""
    first = b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
    response = send_once(first + get_request("/2"))
    assert response.index(b"GET /1") < response.index(b"GET /2")


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([b"Content-Length: 5\r\n\r\nhello"], b"5"),
        ([b"Transfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n"], b"5"),
        ([b"Content-Length: 1001\r\n\r\n", b"x" * 1001], b"large"),
        ([b"Transfer-Encoding: chunked\r\n\r\n5dc\r\n" + b"x" * 1500 + b"\r\n0\r\n\r\n"], b"large"),
        ([b"\r\n"], b"0"),
    ],
)
def test_bodies(pieces: list[bytes], body: bytes) -> None:
    """Bodies of either framing are read whole, up to the limit."""
    head = b"POST /body HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    assert send_once(head + pieces[0], *pieces[1:]).endswith(b"\r\n\r\n" + body)


def test_continue() -> None:
    """A client that sends `Expect: 100-continue` gets 100 Continue."""
    head = b"POST /body HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    assert send_once(head, until=b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_stream() -> None:
    """Each frame is a chunk; the stream ends with the last chunk, and the watch is cancelled."""
    before = Watch.cancelled
    response = send_once(get_request("/stream"))
    assert response.endswith(b"\r\n\r\n4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n")
    assert Watch.cancelled == before + 1
    assert send_once(b"GET /stream HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\none\ntwo\n")


def test_stream_head_is_sent_first() -> None:
    """The head is sent before any event, so that the client knows that the watch is open."""
    head = send_once(b"GET /idle HTTP/1.1\r\nHost: x\r\n\r\n", until=b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")


def test_stream_closed_before_start() -> None:
    """A stream closed before it starts is a complete response without events: a draining server
    closes streams that are just being opened."""
    response = send_once(get_request("/over"))
    assert response.startswith(b"HTTP/1.1 200 OK\r\n")
    assert response.endswith(b"\r\n\r\n0\r\n\r\n")


def test_stream_timeout() -> None:
    """A stream ends after its timeout."""
    assert send_once(get_request("/idle?timeout=0.01")).endswith(b"\r\n\r\n0\r\n\r\n")


def test_stream_error() -> None:
    """An error before the first frame is an ordinary response."""
    response = send_once(get_request("/refused"))
    assert response.startswith(b"HTTP/1.1 409 Conflict\r\n")
    assert response.endswith(b"\r\n\r\nno")


def test_streams_end_cleanly() -> None:
    """A draining server ends every stream with the last chunk."""

    async def drain() -> bytes:
        async with listening() as (listener, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(get_request("/idle"))
            await reader.readuntil(b"\r\n\r\n")
            await listener.drain(5)
            try:
                return await reader.read()
            finally:
                writer.close()

    assert asyncio.run(drain()).endswith(b"0\r\n\r\n")


def test_connection_after_drain() -> None:
    """A connection that arrives after the others were closed is closed too."""

    async def connect() -> bytes:
        async with listening() as (listener, _):
            await listener.drain(1)
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            try:
                async with asyncio.timeout(30):
                    return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(connect()) == b""


class _LateConnection:
    """A connection that closes in the next turn of the event loop when it is stopped."""

    awaits_head = False

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.is_aborted = False

    def shut_down(self) -> None:
        pass

    def stop(self) -> None:
        asyncio.get_running_loop().call_soon(self._listener.connection_lost, self)

    def abort(self) -> None:
        self.is_aborted = True


def test_drain_waits_for_late_connections() -> None:
    """A connection that comes when all others are closed, while the server drains, gets time to
    close."""

    async def drain() -> bool:
        listener = Listener(handle, refuse, user=ANONYMOUS)
        await listener.finish_requests(0, 0)
        first, late = _LateConnection(listener), _LateConnection(listener)
        listener.connection_made(first)
        listener.connection_lost(first)
        listener.connection_made(late)
        await listener.drain(1)
        return late.is_aborted

    assert not asyncio.run(drain())


def test_drain_finishes_requests() -> None:
    """A request in flight is read to its end and gets its response before the server closes."""

    async def upload() -> bytes:
        async with listening() as (listener, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            head = b"POST /body HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
            writer.write(head + b"Content-Length: 5\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            draining = asyncio.ensure_future(listener.drain(5))
            writer.write(b"hello")
            response = await reader.read()
            await draining
            writer.close()
            return response

    assert asyncio.run(upload()).endswith(b"\r\n\r\n5")


@pytest.mark.parametrize(
    "request_line",
    [
        "GET /x HTTP/1.1",
        "HEAD /x HTTP/1.1",
        "GET /slices HTTP/1.1",
        "GET /known HTTP/1.1",
        "GET /refused HTTP/1.1",
        "GET /stream HTTP/1.1",
        "GET /idle HTTP/1.1",
        "GET /%zz HTTP/1.1",
    ],
)
def test_drain_closes_connections(request_line: str) -> None:
    """While the server drains, a connection that was idle gets the response to one more request,
    which says that the connection closes; the drain ends when all connections are closed."""
    head = asyncio.run(_response_while_draining(request_line)).partition(b"\r\n\r\n")[0]
    assert head.startswith(b"HTTP/1.1 ")
    assert head.count(b"Connection: close") == 1


@pytest.mark.parametrize("front", [HTTPTOOLS], indirect=True)
def test_malformed_request_while_draining() -> None:
    """So does a malformed request."""
    response = asyncio.run(_response_while_draining("GET\0 /x HTTP/1.1"))
    assert response.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert response.count(b"Connection: close") == 1


async def _response_while_draining(request_line: str) -> bytes:
    async with listening() as (listener, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        first = await reader.readuntil(b"GET /x []")
        assert b"Connection: close" not in first
        draining = asyncio.ensure_future(listener.drain(30))
        writer.write(f"{request_line}\r\nHost: x\r\n\r\n".encode())
        response = await reader.read()
        writer.close()
        await draining
        return response


def test_client_disconnects() -> None:
    """A stream is cancelled when its client disconnects."""

    async def disconnect() -> None:
        Watch.cancelled_event = asyncio.Event()
        async with listening() as (_, send):
            await send(b"GET /idle HTTP/1.1\r\nHost: x\r\n\r\n", until=b"\r\n\r\n")
            async with asyncio.timeout(30):
                await Watch.cancelled_event.wait()

    before = Watch.cancelled
    asyncio.run(disconnect())
    assert Watch.cancelled == before + 1


def test_client_disconnects_in_body() -> None:
    """A client that disconnects while it sends the body causes BadRequest, no server error."""

    async def disconnect() -> None:
        Watch.cancelled_event = asyncio.Event()
        async with listening() as (listener, _):
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(b"POST /disconnect HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            await writer.drain()
            writer.close()
            async with asyncio.timeout(30):
                await Watch.cancelled_event.wait()

    asyncio.run(disconnect())


@pytest.mark.parametrize(
    ("path", "status", "bytes_sent", "finished"),
    [
        ("/x", 200, len("GET /x []"), True),
        ("/known", 200, 30, True),
        ("/broken", 200, 0, False),
        ("/stream", 200, len("one\ntwo\n"), True),
        ("/refused", 409, 2, True),
    ],
)
def test_outcomes(path: str, status: int, bytes_sent: int, finished: bool) -> None:
    """A request completes once, with the status, size and completeness of its response."""
    OUTCOMES.clear()
    send_once(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert [Outcome(status=status, bytes_sent=bytes_sent, finished=finished)] == OUTCOMES


def test_many_pipelined() -> None:
    """Any number of requests may be sent without waiting; the server parses them as it responds."""
    requests = b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(3000))
    response = send_once(requests + get_request("/last"))
    assert response.count(b"HTTP/1.1 200 OK\r\n") == 3001
    assert response.endswith(b"GET /last []")


@pytest.mark.parametrize("front", [HTTPTOOLS], indirect=True)
def test_error_after_requests() -> None:
    """A malformed request does not take away the responses to the requests before it."""
    response = send_once(b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n" * 2 + b"G@T / HTTP/1.1\r\n\r\n")
    assert response.count(b"GET /1 []HTTP/1.1 ") == 2
    assert response.endswith(b"\r\n\r\n400 Bad Request")


@pytest.mark.parametrize("front", [HTTPTOOLS], indirect=True)
@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"Content-Length: 5", b"hello"),
        (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"),
    ],
)
def test_upgrades_are_not_followed(protocol: bytes, framing: bytes, body: bytes) -> None:
    """A request for another protocol is an ordinary one: its body is read, and others follow."""
    upgrade = b"Host: x\r\nConnection: Upgrade\r\nUpgrade: %b\r\n" % protocol
    first = b"POST /body HTTP/1.1\r\n%b%b\r\n\r\n%b" % (upgrade, framing, body)
    second = b"GET /2 HTTP/1.1\r\n%b\r\n" % upgrade
    response = send_once(first + second + get_request("/3"))
    assert [response.count(text) for text in (b"\r\n\r\n5", b"GET /2 []", b"GET /3 []")] == [1] * 3


@pytest.mark.parametrize("front", [HTTPTOOLS], indirect=True)
def test_trailers_are_dropped() -> None:
    """The trailers of a body are not headers of the next request."""
    chunked = b"POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    response = send_once(chunked + b"Host: y\r\n\r\n" + get_request("/2"))
    assert response.endswith(b"GET /2 []")


@pytest.mark.parametrize("front", [HTTPTOOLS], indirect=True)
def test_unread_body() -> None:
    """A client is not read further while nobody reads its body, and the rest of it is dropped."""

    async def upload() -> bytes:
        async with listening() as (listener, send):
            size = 64 << 20
            head = b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
            response = await send(head, *[bytes(1 << 20)] * 64, get_request("/next"))
            assert not listener.connections
            return response

    response = asyncio.run(upload())
    assert response.startswith(b"HTTP/1.1 200 OK\r\n")
    assert response.endswith(b"GET /next []")


@asynccontextmanager
async def _received(
    path: bytes, *pieces: int
) -> AsyncIterator[tuple[Listener, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which a body of such pieces arrived whole, before its handler ran."""
    head = b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path, sum(pieces))
    async with listening() as (listener, _), asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        while not listener.connections:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        (connection,) = listener.connections
        for size in pieces:
            connection.data_received(head + bytes(size))
            head = b""
        try:
            yield listener, reader, writer
        finally:
            writer.close()


@pytest.mark.parametrize("path", [b"/unread", b"/body"])
def test_request_after_a_large_body(path: bytes) -> None:
    """A large body that arrives whole before its handler reads it, or does not, does not keep the
    next request from being read."""

    async def send_another() -> bytes:
        async with _received(path, UNREAD_BYTES + 1) as (_, reader, writer):
            writer.write(get_request("/next"))
            return await reader.read()

    assert asyncio.run(send_another()).endswith(b"GET /next []")


def test_client_disconnects_after_a_large_body() -> None:
    """The handler of a large body that arrived whole learns that the client is gone."""

    async def disconnect() -> None:
        Watch.cancelled_event = asyncio.Event()
        async with _received(b"/work", UNREAD_BYTES + 1) as (_, _, writer):
            writer.close()
            await Watch.cancelled_event.wait()

    asyncio.run(disconnect())


def test_body_in_pieces_is_no_header() -> None:
    """A body that arrives in pieces before its handler runs does not count as headers later."""

    async def count() -> int:
        async with _received(b"/body", SMALL_HEADER_BYTES, 1) as (listener, reader, _):
            await reader.readuntil(b"large")
            return listener.incomplete_headers.size

    assert asyncio.run(count()) == 0
