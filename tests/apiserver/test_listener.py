"""The HTTP listener: raw sockets against a handler of the test."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from kapiserver.apiserver.authentication.user import ANONYMOUS
from kapiserver.apiserver.errors import BadRequest, BodyTooLarge
from kapiserver.apiserver.request import Outcome, Request
from kapiserver.apiserver.response import AnyResponse, Response, StreamResponse, text_response
from kapiserver.apiserver.serving import listener as listener_module
from kapiserver.apiserver.serving.listener import LINE_LIMIT, Listener

Send = Callable[..., Awaitable[bytes]]


_OUTCOMES: list[Outcome | None] = []


class _Watch:
    """Stands for an open watch; counts cancellations."""

    cancelled = 0
    cancelled_event: asyncio.Event | None = None

    def cancel(self) -> None:
        _Watch.cancelled += 1
        if _Watch.cancelled_event is not None:
            _Watch.cancelled_event.set()


def _broken() -> Iterator[bytes]:
    yield b"a" * 10
    raise KeyError("secret")


def _large() -> Iterator[bytes]:
    try:
        for _ in range(100):
            yield b"x" * 1_000_000
    finally:
        assert _Watch.cancelled_event is not None
        _Watch.cancelled_event.set()


def _stream(request: Request) -> AnyResponse:
    sink = request.open_sink()
    request.on_complete(lambda _: _Watch().cancel())
    if request.path == "/refused":
        return text_response("no", status=409)
    if request.path == "/stream":
        sink.write(b"one\n")
        sink.write(b"two\n")
    if request.path != "/idle":
        sink.close()
    timeout = float(request.parameter("timeout") or 0)
    return StreamResponse(media_type="application/json", sink=sink, timeout=timeout)


async def _handle(request: Request) -> AnyResponse:
    request.on_complete(lambda completed_request: _OUTCOMES.append(completed_request.outcome))
    if request.path == "/slices":
        return Response(body=iter([b"a" * 10, b"", b"b" * 20]))
    if request.path == "/large":
        return Response(body=_large())
    if request.path == "/broken":
        return Response(body=_broken())
    if request.path == "/known":
        return Response(body=iter([b"a" * 10, b"b" * 20]), length=30)
    if request.path == "/body":
        try:
            return text_response(f"{len(await request.read_body(1000))}")
        except BodyTooLarge:
            return text_response("large", status=413)
        except BadRequest as error:
            return text_response(str(error), status=400)
    if request.path == "/disconnect":
        assert _Watch.cancelled_event is not None
        try:
            await request.read_body(1000)
        except BadRequest:
            _Watch.cancelled_event.set()
    if request.path in ("/stream", "/idle", "/over", "/refused"):
        return _stream(request)
    return text_response(f"{request.method} {request.path} {sorted(request.query.items())}")


def _error_response(request: Request, error: Exception) -> Response:
    return text_response(str(error), status=409)


@asynccontextmanager
async def _listening() -> AsyncIterator[tuple[Listener, Send]]:
    listener = Listener(_handle, _error_response, user=ANONYMOUS)
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def send(*pieces: bytes, until: bytes = b"") -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        try:
            async with asyncio.timeout(30):
                return await (reader.readuntil(until) if until else reader.read())
        finally:
            writer.close()

    listener.port = port
    try:
        yield listener, send
    finally:
        server.close()
        await listener.drain(1)


def _send(*pieces: bytes, until: bytes = b"") -> bytes:
    async def once() -> bytes:
        async with _listening() as (_, send):
            return await send(*pieces, until=until)

    return asyncio.run(once())


def _get(target: str, *headers: str) -> bytes:
    lines = [f"GET {target} HTTP/1.1", "Host: x", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


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
    response = _send(_get(target))
    head, _, response_body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" in head
    assert b"\r\nDate: " in head
    assert response_body.decode() == body


def test_slices() -> None:
    """Slices are sent chunked, or with a Content-Length if their total length is known."""
    chunked = _send(_get("/slices"))
    assert b"Transfer-Encoding: chunked\r\n" in chunked
    assert chunked.endswith(b"\r\n\r\na\r\naaaaaaaaaa\r\n14\r\n" + b"b" * 20 + b"\r\n0\r\n\r\n")
    response = _send(_get("/known"))
    assert b"Content-Length: 30\r\n" in response
    assert response.endswith(b"a" * 10 + b"b" * 20)
    old = _send(b"GET /slices HTTP/1.0\r\n\r\n")
    assert b"Transfer-Encoding" not in old
    assert old.endswith(b"a" * 10 + b"b" * 20)


def test_failing_body() -> None:
    """A response whose body fails half way has no last chunk: the client sees the failure."""

    async def request_twice() -> tuple[bytes, bytes]:
        async with _listening() as (_, send):
            try:
                first = await send(_get("/broken"))
            except ConnectionResetError:
                first = b""
            return first, await send(_get("/still"))

    first, second = asyncio.run(request_twice())
    assert not first.endswith(b"0\r\n\r\n")
    assert b"secret" not in first
    assert second.endswith(b"GET /still []")


def test_slow_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection of a client that reads nothing of a large response is aborted."""
    monkeypatch.setattr(listener_module, "SLOW_CLIENT_SECONDS", 0.01)

    async def send_and_wait() -> None:
        _Watch.cancelled_event = asyncio.Event()
        async with _listening() as (listener, _):
            # A reader with so small a limit stops reading at once.
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1)
            writer.write(_get("/large"))
            async with asyncio.timeout(30):
                await _Watch.cancelled_event.wait()
            writer.transport.abort()

    asyncio.run(send_and_wait())


def test_head() -> None:
    """A response to HEAD has the Content-Length and no body."""
    response = _send(b"HEAD /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"Content-Length: 10\r\n" in response
    assert response.endswith(b"\r\n\r\n")


def test_pipelined() -> None:
    """Requests sent without waiting are answered in order."""
    first = b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
    response = _send(first + _get("/2"))
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
    assert _send(head + pieces[0], *pieces[1:]).endswith(b"\r\n\r\n" + body)


def test_continue() -> None:
    """A client that sends `Expect: 100-continue` gets 100 Continue."""
    head = b"POST /body HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    assert _send(head, until=b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a%zz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a% HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=range(9),
)
def test_garbage(garbage: bytes) -> None:
    """Bytes that are not HTTP get a plain 400, and the server goes on."""

    async def request_twice() -> tuple[bytes, bytes]:
        async with _listening() as (_, send):
            return await send(garbage), await send(_get("/still"))

    first, second = asyncio.run(request_twice())
    assert first.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert first.endswith(b"\r\n\r\n400 Bad Request")
    assert second.endswith(b"GET /still []")


_TOO_LARGE = b"431 Request Header Fields Too Large"
_NO_HOST = b"400 Bad Request: missing required Host header"
_VERSION = b"505 HTTP Version Not Supported: unsupported protocol version"
_BAD_REQUEST = b"400 Bad Request"
_EXPECTATION_FAILED = b"417 Expectation Failed"
_POST = b"POST /body HTTP/1.1\r\nHost: x\r\n"
_POST_1_0 = b"POST /body HTTP/1.0\r\n"


@pytest.mark.parametrize(
    ("request_", "line", "text"),
    [
        (b"GET /" + b"a" * (LINE_LIMIT + 10) + b" HTTP/1.1\r\n\r\n", _TOO_LARGE, _TOO_LARGE),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n", _TOO_LARGE, _TOO_LARGE),
        (b"GET / HTTP/1.1\r\n\r\n", _NO_HOST, _NO_HOST),
        (b"GET / HTTP/9.9\r\n\r\n", _VERSION, _VERSION),
        *(
            (_POST + b"Transfer-Encoding: " + encoding + b"\r\n\r\n0\r\n\r\n",
             b"501 Not Implemented", b"Unsupported transfer encoding")
            for encoding in (b"gzip", b"gzip, chunked", b"identity, chunked",
                             b"chunked\r\nTransfer-Encoding: chunked")
        ),
        (_POST_1_0 + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", *[_BAD_REQUEST] * 2),
        (_POST + b"Expect: x\r\nContent-Length: 1\r\n\r\na", *[_EXPECTATION_FAILED] * 2),
        (b"CONNECT x:1%zz HTTP/1.1\r\nHost: x:1\r\n\r\n", *[_BAD_REQUEST] * 2),
    ],
    ids=range(11),
)  # fmt: skip
def test_errors_of_go_server(request_: bytes, line: bytes, text: bytes) -> None:
    """Errors that Go's HTTP server handles by itself get the same plain text."""
    assert _send(request_) == (
        b"HTTP/1.1 " + line + b"\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Connection: close\r\n\r\n" + text
    )


def test_refused_requests_end_their_connection() -> None:
    """The bytes after a request that is refused are never read as another request."""
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    for refused in (
        _POST_1_0 + b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        _POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        _POST + b"Expect: x\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",
    ):
        assert b"smuggled" not in _send(refused + smuggled)


def test_no_continue_in_http_1_0() -> None:
    """HTTP/1.0 has no status 100."""
    head = _POST_1_0 + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\na"
    assert _send(head).startswith(b"HTTP/1.1 200 OK\r\n")


_CHUNKS = _POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (b"zz\r\n", "invalid byte in chunk length"),
        (b"2\r\nabX", "malformed chunked encoding"),
        (b"f" * 20 + b"\r\n", "http chunk length too large"),
    ],
    ids=range(3),
)
@pytest.mark.parametrize("late", [False, True])
def test_broken_chunks(broken: bytes, message: str, late: bool) -> None:
    """A malformed chunk, early or late in the body, is reported at once as an error of its request,
    and the connection is closed."""

    async def scenario() -> bytes:
        async with _listening() as (listener, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(_CHUNKS + (b"" if late else broken))
            if late:
                while not any(connection.body for connection in listener.connections):  # noqa: ASYNC110
                    await asyncio.sleep(0)
                writer.write(broken)
            response = await reader.read()
            writer.close()
            return response

    assert asyncio.run(asyncio.wait_for(scenario(), 30)).endswith(message.encode())


@pytest.mark.parametrize(
    ("request_", "line", "message"),
    [
        ("FOO /api/v1/pods", "405 Method Not Allowed", "the server does not allow this method on"),
        ("CONNECT x:1", "405 Method Not Allowed", "the server does not allow this method on"),
        ("CONNECT /api", "405 Method Not Allowed", "the server does not allow this method on"),
        ("get /api/v1/pods", "405 Method Not Allowed", "the server does not allow this method on"),
        ("POST /api/v1/namespaces", "400 Bad Request", "invalid byte in chunk length"),
    ],
)
def test_http_errors_are_statuses(api, request_: str, line: str, message: str) -> None:
    """An unknown method and a malformed body get a Status."""
    text = f"{request_} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as connection:
        connection.sendall(text.encode())
        head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {line}\r\n".encode())
    assert b"Content-Type: application/json\r\n" in head
    status = json.loads(body)
    assert (status["kind"], status["code"]) == ("Status", int(line[:3]))
    assert status["message"].startswith(message)


def test_stream() -> None:
    """Each frame is a chunk; the stream ends with the last chunk, and the watch is cancelled."""
    before = _Watch.cancelled
    response = _send(_get("/stream"))
    assert response.endswith(b"\r\n\r\n4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n")
    assert _Watch.cancelled == before + 1
    assert _send(b"GET /stream HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\none\ntwo\n")


def test_stream_head_is_sent_first() -> None:
    """The head is sent before any event, so that the client knows that the watch is open."""
    head = _send(b"GET /idle HTTP/1.1\r\nHost: x\r\n\r\n", until=b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")


def test_stream_closed_before_start() -> None:
    """A stream closed before it starts is a complete response without events: a draining server
    closes streams that are just being opened."""
    response = _send(_get("/over"))
    assert response.startswith(b"HTTP/1.1 200 OK\r\n")
    assert response.endswith(b"\r\n\r\n0\r\n\r\n")


def test_stream_timeout() -> None:
    """A stream ends after its timeout."""
    assert _send(_get("/idle?timeout=0.01")).endswith(b"\r\n\r\n0\r\n\r\n")


def test_stream_error() -> None:
    """An error before the first frame is an ordinary response."""
    response = _send(_get("/refused"))
    assert response.startswith(b"HTTP/1.1 409 Conflict\r\n")
    assert response.endswith(b"\r\n\r\nno")


def test_streams_end_cleanly() -> None:
    """A draining server ends every stream with the last chunk."""

    async def drain() -> bytes:
        async with _listening() as (listener, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(_get("/idle"))
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
        async with _listening() as (listener, _):
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


def test_drain_finishes_requests() -> None:
    """A request in flight is read to its end and gets its response before the server closes."""

    async def upload() -> bytes:
        async with _listening() as (listener, _):
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
        "GET\0 /x HTTP/1.1",
    ],
)
def test_drain_closes_connections(request_line: str) -> None:
    """While the server drains, a connection that was idle gets the response to one more request,
    which says that the connection closes; the drain ends when all connections are closed."""

    async def drain() -> bytes:
        async with _listening() as (listener, _):
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

    head = asyncio.run(drain()).partition(b"\r\n\r\n")[0]
    assert head.startswith(b"HTTP/1.1 ")
    assert head.count(b"Connection: close") == 1


def test_client_disconnects() -> None:
    """A stream is cancelled when its client disconnects."""

    async def disconnect() -> None:
        _Watch.cancelled_event = asyncio.Event()
        async with _listening() as (_, send):
            await send(b"GET /idle HTTP/1.1\r\nHost: x\r\n\r\n", until=b"\r\n\r\n")
            async with asyncio.timeout(30):
                await _Watch.cancelled_event.wait()

    before = _Watch.cancelled
    asyncio.run(disconnect())
    assert _Watch.cancelled == before + 1


def test_client_disconnects_in_body() -> None:
    """A client that disconnects while it sends the body causes BadRequest, no server error."""

    async def disconnect() -> None:
        _Watch.cancelled_event = asyncio.Event()
        async with _listening() as (listener, _):
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(b"POST /disconnect HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            await writer.drain()
            writer.close()
            async with asyncio.timeout(30):
                await _Watch.cancelled_event.wait()

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
    _OUTCOMES.clear()
    _send(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert [Outcome(status=status, bytes_sent=bytes_sent, finished=finished)] == _OUTCOMES
