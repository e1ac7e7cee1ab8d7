"""The front with aiohttp: exchanges of its server. Uses the public interface of aiohttp only.

A watch writes frames without waiting, while aiohttp writes with `await`. So frames wait in a queue,
and a task of the request writes them at the speed of the client. aiohttp cancels the task of a
request when the client disconnects, if its server has `handler_cancellation`; otherwise the next
write fails. A connection cannot change to a protocol that aiohttp does not know: only watches over
WebSocket change it. Knows no Kubernetes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from aiohttp import ClientError, web
from multidict import CIMultiDict

from kapiserver.apiserver.authentication.websocket_token import subprotocols
from kapiserver.apiserver.errors import BadRequest, BodyTooLarge
from kapiserver.apiserver.request import Outcome, Request, parse_target
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import (
    AnyResponse,
    Response,
    StreamResponse,
    UpgradeResponse,
    text_response,
)
from kapiserver.apiserver.serving.aiohttp.connection import AiohttpConnection
from kapiserver.apiserver.serving.exchange import Dispatcher
from kapiserver.apiserver.serving.http1 import exchange as http_exchange
from kapiserver.apiserver.serving.http1.errors import expects_continue
from kapiserver.apiserver.serving.http1.exchange import (
    cut,
    is_closed_within,
    parts_of,
    watch_subprotocol,
)
from kapiserver.apiserver.serving.http1.response_head import CONTINUE, REASONS
from kapiserver.apiserver.serving.http1.upgrade import write_upgrade
from kapiserver.apiserver.serving.tls.client_certificate import client_certificate
from kapiserver.apiserver.serving.tls.context import host_of_handshake
from kapiserver.apiserver.streaming.handshake import is_handshake
from kapiserver.apiserver.user import User

UNPAUSED_BYTES = 32 << 10
"""A transport that buffers less does not pause its writer: the limit of asyncio is 64 KiB."""

_log = logging.getLogger(__name__)

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Writes bytes to the client, and returns when most of them are written."""


class AiohttpExchange:
    """One request of an aiohttp server, and the way to its response. An Exchange."""

    __slots__ = ("_connection", "_on_gone", "_request", "_response", "_sink", "_target")

    def __init__(
        self, request: web.BaseRequest, target: str, connection: AiohttpConnection | None
    ) -> None:
        """`target` is the path and the query as handlers see them. `connection` is None for an
        application that another server runs."""
        self._request = request
        self._target = target
        self._connection = connection
        self._sink: AiohttpSink | None = None
        self._on_gone: Callable[[], object] | None = None
        self._response: web.StreamResponse | None = None

    def make_request(self, user: User) -> Request:
        """Return the request as filters and handlers see it."""
        request = self._request
        target = parse_target(self._target)
        made = Request(
            method=request.method,
            path=target.path,
            query=target.query,
            headers=request.headers,
            info=parse_request_info(request.method, target.path, target.query),
            read_body=self._read_body,
            stream_body=self._stream_body,
            remote=request.remote or "",
            uri=self._target,
            certificate=client_certificate(request.transport),
            tls_host=host_of_handshake(request.transport),
            open_sink=self._open_sink,
            has_gone=self._has_gone,
            on_gone=self._call_when_gone,
            user=user,
        )
        if self._connection is not None:
            made.on_authenticated = self._connection.on_authenticated
            self._connection.call_when_lost(self.end)
        return made

    async def run(self, dispatcher: Dispatcher) -> web.StreamResponse:
        """Let the dispatcher respond, and return the response that was written."""
        try:
            await dispatcher.dispatch(self)
        except asyncio.CancelledError:  # the client has disconnected
            self.end()
            raise
        finally:
            self._sink = self._on_gone = None  # they may refer to this task
        return self._response or web.Response(status=500)  # the connection was aborted

    async def respond(self, response: AnyResponse, *, is_last: bool) -> Outcome:
        """Write a response, and return how it ended."""
        if isinstance(response, UpgradeResponse):
            if self._connection is not None:
                outcome = await write_upgrade(self._connection, response)
                if self._connection.transport is not None:
                    self._connection.transport.close()
                return outcome
            response.peer.abort()
            response = text_response("this server cannot change the protocol\n", status=501)
        try:
            if isinstance(response, StreamResponse):
                return await self._write_stream(response, is_last=is_last)
            return await self._write_response(response, is_last=is_last)
        except (ConnectionError, ClientError):
            pass
        except TimeoutError:
            remote = self._request.remote
            _log.info("client %s reads its response too slowly; connection aborted", remote)
        except Exception:
            method, target = self._request.method, self._target
            _log.exception("%s %s: writing the response failed", method, target)
        self.abort()
        bytes_sent = self._sink.bytes_sent if self._sink is not None else 0
        return Outcome(status=response.status, bytes_sent=bytes_sent, finished=False)

    def close_stream(self) -> None:
        """End the stream that the request has opened, if it has."""
        if self._sink is not None:
            self._sink.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def end(self) -> None:
        """End what waits for the client, which has disconnected."""
        self.close_stream()
        if self._on_gone is not None:
            self._on_gone()

    def _has_gone(self) -> bool:
        transport = self._request.transport
        return transport is None or transport.is_closing()

    def _call_when_gone(self, callback: Callable[[], object]) -> None:
        self._on_gone = callback
        if self._has_gone():
            callback()

    # The body of the request.

    async def _read_body(self, limit: int) -> bytes:
        """Return the whole body. Raises BodyTooLarge, and BadRequest for a malformed body."""
        if (self._request.content_length or 0) > limit:
            raise BodyTooLarge(limit)
        pieces: list[bytes] = []
        size = 0
        async for piece in self._stream_body():
            size += len(piece)
            if size > limit:
                raise BodyTooLarge(limit)
            pieces.append(piece)
        return b"".join(pieces)

    async def _stream_body(self) -> AsyncIterator[bytes]:
        request = self._request
        if not request.can_read_body:
            return
        # An Application answers the header Expect before it calls its handler.
        if not isinstance(request, web.Request) and expects_continue(request.headers):
            await request.writer.write(CONTINUE)
        try:
            async for piece in request.content.iter_any():
                yield piece
        except (web.RequestPayloadError, ClientError, ConnectionError) as error:
            raise BadRequest(str(error) or "unexpected EOF") from None

    # The response.

    async def _write_response(self, response: Response, *, is_last: bool) -> Outcome:
        written = self._response = web.StreamResponse(
            status=response.status,
            reason=REASONS.get(response.status, "Unknown"),
            headers=_headers_of(response),
        )
        body = response.body
        written.content_length = len(body) if isinstance(body, bytes) else response.length
        if is_last:
            written.force_close()
        await written.prepare(self._request)
        bytes_sent = 0
        if self._request.method == "HEAD" or response.status in (204, 304):
            await written.write_eof()
        elif isinstance(body, bytes) and self._is_taken_at_once(len(body)):
            await written.write_eof(body)
            bytes_sent = len(body)
        else:
            async for part in parts_of(body):
                bytes_sent += len(part)
                await _within_limit(written.write(part))
            await _within_limit(written.write_eof())
        return Outcome(status=response.status, bytes_sent=bytes_sent, finished=True)

    def _is_taken_at_once(self, size: int) -> bool:
        """Whether the transport takes this many bytes without waiting for the client."""
        transport = self._request.transport
        if transport is None:
            raise ConnectionResetError
        return size + transport.get_write_buffer_size() <= UNPAUSED_BYTES

    async def _write_stream(self, response: StreamResponse, *, is_last: bool) -> Outcome:
        """Write the head of a stream, and its frames until it ends."""
        sink, request = self._sink, self._request
        assert sink is not None, "a stream writes to the sink of its request"
        reading: asyncio.Task[None] | None = None
        if is_handshake(request.method, request.headers):
            websocket = web.WebSocketResponse(
                protocols=subprotocols(request.headers), compress=False
            )
            websocket.headers.extend(response.headers)
            self._response = websocket
            send: Send = _message_sender(websocket)
        else:
            self._response = web.StreamResponse(
                status=response.status, headers=_headers_of(response)
            )
            websocket, send = None, _frame_sender(self._response)
        if is_last:
            self._response.force_close()
        await self._response.prepare(request)
        if websocket is not None:
            reading = asyncio.create_task(_read_until_closed(websocket, sink))
        writing = asyncio.create_task(sink.write_to(send))
        try:
            if not await is_closed_within(sink.closed, response.timeout):
                response.on_timeout()
            sink.close()
            await _within_limit(writing)
            await response.before_end()
            await _within_limit(self._response.write_eof())
        finally:
            writing.cancel()
            if reading is not None:
                reading.cancel()
        return Outcome(
            status=response.status, bytes_sent=sink.bytes_sent, finished=not self._has_gone()
        )

    def _open_sink(self) -> AiohttpSink:
        if is_handshake(self._request.method, self._request.headers):
            watch_subprotocol(self._request.headers)  # refuse several before the watch begins
        if self._request.transport is None:
            raise ConnectionResetError
        self._sink = AiohttpSink(self._request.transport)
        return self._sink


class AiohttpSink:
    """The stream of a client: frames wait in a queue until aiohttp has written them. A WatchSink.

    closed      done when the stream is closed
    bytes_sent  bytes of frames
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._changed = asyncio.Event()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.bytes_sent = 0

    def write(self, frames: bytes) -> int:
        """Queue one or more whole frames of the stream, and return the backlog."""
        if frames and not self.closed.done():
            self.bytes_sent += len(frames)
            self._queued_bytes += len(frames)
            self._queue.append(frames)
            self._changed.set()
        return self._queued_bytes

    def backlog(self) -> int:
        """Return the number of bytes that wait for the client."""
        return self._queued_bytes

    async def wait_drained(self) -> None:
        """Return when all frames are written, or the client has disconnected."""
        while self._queue:
            self._changed.clear()
            await self._changed.wait()

    def close(self) -> None:
        """End the stream; the frames in the queue are still written."""
        if not self.closed.done():
            self.closed.set_result(None)
        self._changed.set()

    def abort(self) -> None:
        """Close the connection at once, and drop the queue."""
        self._drop_queue()
        self._transport.abort()
        self.close()

    async def write_to(self, send: Send) -> None:
        """Write frames until the stream is closed and the queue is empty."""
        try:
            while self._queue or not self.closed.done():
                if self._queue:
                    frames = self._queue[0]
                    await send(frames)
                    if self._queue:  # an abort has emptied it
                        self._queue.popleft()
                        self._queued_bytes -= len(frames)
                else:
                    self._changed.clear()
                    await self._changed.wait()
                self._changed.set()
        except (ConnectionError, ClientError):
            self._drop_queue()
            self.close()

    def _drop_queue(self) -> None:
        self._queue.clear()
        self._queued_bytes = 0


def _headers_of(response: Response | StreamResponse) -> CIMultiDict[str]:
    headers = CIMultiDict(response.headers)
    if response.media_type:
        headers["Content-Type"] = response.media_type
    return headers


async def _within_limit(work: Awaitable[None]) -> None:
    """Wait for a write. Raises TimeoutError if the client reads nothing for too long."""
    async with asyncio.timeout(http_exchange.SLOW_CLIENT_SECONDS):
        await work


def _frame_sender(response: web.StreamResponse) -> Send:
    async def send(frames: bytes) -> None:
        for part in cut(frames):
            await response.write(part)

    return send


def _message_sender(websocket: web.WebSocketResponse) -> Send:
    """Return a function that sends each event of a JSON stream, a line, as a text message. Other
    encodings have binary messages of one or more whole events."""

    async def send(frames: bytes) -> None:
        if frames[:1] == b"{" and frames[-1:] == b"\n":
            for line in frames.splitlines(keepends=True):
                await websocket.send_str(line.decode())
        else:
            await websocket.send_bytes(frames)

    return send


async def _read_until_closed(websocket: web.WebSocketResponse, sink: AiohttpSink) -> None:
    """Ignore the client's messages, and close the stream at its close frame. aiohttp answers its
    pings."""
    async for _message in websocket:
        pass
    sink.close()
