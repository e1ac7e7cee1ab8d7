"""An HTTP listener with a handler of the tests, and raw sockets to it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from kapiserver.apiserver.config import AIOHTTP, HTTPTOOLS
from kapiserver.apiserver.errors import BadRequest, BodyTooLarge
from kapiserver.apiserver.request import Outcome, Request
from kapiserver.apiserver.response import AnyResponse, Response, StreamResponse, text_response
from kapiserver.apiserver.serving.aiohttp.listener import AiohttpListener
from kapiserver.apiserver.serving.connection_limits import IncompleteHeaders
from kapiserver.apiserver.serving.listener import Listener
from kapiserver.apiserver.user import ANONYMOUS

Send = Callable[..., Awaitable[bytes]]


OUTCOMES: list[Outcome | None] = []


class Watch:
    """Stands for an open watch; counts cancellations."""

    cancelled = 0
    cancelled_event: asyncio.Event | None = None

    def cancel(self) -> None:
        Watch.cancelled += 1
        if Watch.cancelled_event is not None:
            Watch.cancelled_event.set()


async def _broken() -> AsyncIterator[bytes]:
    yield b"a" * 10
    raise KeyError("secret")


async def _slices(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def _large() -> AsyncIterator[bytes]:
    try:
        for _ in range(100):
            yield b"x" * 1_000_000
    finally:
        assert Watch.cancelled_event is not None
        Watch.cancelled_event.set()


def _stream(request: Request) -> AnyResponse:
    sink = request.open_sink()
    request.on_complete(lambda _: Watch().cancel())
    if request.path == "/refused":
        return text_response("no", status=409)
    if request.path == "/stream":
        sink.write(b"one\n")
        sink.write(b"two\n")
    if request.path != "/idle":
        sink.close()
    timeout = float(request.parameter("timeout") or 0)
    return StreamResponse(media_type="application/json", sink=sink, timeout=timeout)


async def handle(request: Request) -> AnyResponse:
    request.on_complete(lambda completed_request: OUTCOMES.append(completed_request.outcome))
    if request.path == "/slices":
        return Response(body=_slices(b"a" * 10, b"", b"b" * 20))
    if request.path == "/large":
        return Response(body=_large())
    if request.path == "/broken":
        return Response(body=_broken())
    if request.path == "/known":
        return Response(body=_slices(b"a" * 10, b"b" * 20), length=30)
    if request.path == "/body":
        try:
            return text_response(f"{len(await request.read_body(1000))}")
        except BodyTooLarge:
            return text_response("large", status=413)
        except BadRequest as error:
            return text_response(str(error), status=400)
    if request.path == "/disconnect":
        assert Watch.cancelled_event is not None
        try:
            await request.read_body(1000)
        except BadRequest:
            Watch.cancelled_event.set()
    if request.path == "/work":
        await request.read_body(1 << 20)
        while not request.has_gone():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
        assert Watch.cancelled_event is not None
        Watch.cancelled_event.set()
    if request.path in ("/stream", "/idle", "/over", "/refused"):
        return _stream(request)
    return text_response(f"{request.method} {request.path} {sorted(request.query.items())}")


def refuse(request: Request, error: Exception) -> Response:
    return text_response(str(error), status=409)


FRONT: ContextVar[str] = ContextVar("FRONT", default=HTTPTOOLS)
"""The library that parses the requests of `listening`."""


def _listener() -> Any:
    if FRONT.get() == AIOHTTP:
        return AiohttpListener(handle, user=ANONYMOUS, incomplete_headers=IncompleteHeaders())
    return Listener(handle, refuse, user=ANONYMOUS)


@asynccontextmanager
async def listening(
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[Any, Send]]:
    """A listener, and a function that sends bytes to it and returns the response."""
    listener = _listener()
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0, ssl=tls)
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


def send_once(*pieces: bytes, until: bytes = b"") -> bytes:
    """Send bytes to a new listener; return the response, whole or up to `until`."""

    async def exchange() -> bytes:
        async with listening() as (_, send):
            return await send(*pieces, until=until)

    return asyncio.run(exchange())


def get_request(target: str, *headers: str) -> bytes:
    """The bytes of a GET that closes its connection."""
    lines = [f"GET {target} HTTP/1.1", "Host: x", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
