"""A client's HTTP/2 connection: many streams over one socket, with flow control in both directions.

Frames of one iteration of the event loop are written together. A request that exceeds the server's
windows waits for more window; a request beyond the server's limit of streams waits for the end of
another. A connection that receives nothing sends a PING, and is dropped if no answer arrives. Knows
no gRPC and no etcd. Mirrors RFC 9113; Go's HTTP/2 servers use the same subset.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

from kapiserver.codecs.http2 import frames
from kapiserver.codecs.http2.frames import MAX_STREAM_ID, ProtocolError
from kapiserver.codecs.http2.hpack import Decoder, HpackError
from kapiserver.storage.etcd.http2_stream import NEVER, Stream

STREAM_WINDOW = 4 << 20
"""Bytes that the server may send on a stream before they are acknowledged."""
CONNECTION_WINDOW = 1 << 30
MAX_HEADER_BLOCK_BYTES = 64 << 10
MAX_HEADER_LIST_BYTES = 64 << 10
MAX_CONTINUATIONS = 32
"""Limits of a header block: its bytes, those of its decoded headers, and its CONTINUATION
frames."""
ASSUMED_MAX_STREAMS = 100
"""Maximum concurrent streams until the server announces its own."""
MAX_WAITING_REQUESTS = 10_000
"""Requests that wait until the server accepts more streams."""
WRITE_BUFFER_BYTES = 4 << 20
MAX_UNREAD_REPLIES = 1000
"""The maximum number of replies to PING and SETTINGS frames that the server has not read."""
KEEPALIVE_SECONDS = 10.0
"""Seconds without a byte before a PING is sent. etcd accepts an interval of 5 s or more
(--grpc-keepalive-min-time)."""
KEEPALIVE_TIMEOUT_SECONDS = 5.0
_HEADER_BYTES = frames.HEADER.size
_read_header = frames.HEADER.unpack_from


class Connection(asyncio.Protocol):
    """One connection.

    usable      whether it accepts requests
    closed      whether its socket is closed
    """

    def __init__(self) -> None:
        self.usable = True
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._buffer = b""
        self._streams: dict[int, Stream] = {}
        self._waiting: deque[tuple[Stream, bytes, bytes, bool]] = deque()
        self._blocked: dict[int, tuple[Stream, bool]] = {}
        self._next_id = 1
        self._max_streams = ASSUMED_MAX_STREAMS
        self._send_window = self._initial_send_window = frames.DEFAULT_WINDOW
        self._unacknowledged = 0
        self._decoder = Decoder(list_bytes=MAX_HEADER_LIST_BYTES)
        self._block: tuple[int, int, bytearray, int] | None = None
        self._reading_paused = False
        self._unread_replies = 0
        self._last_received = 0.0
        self._pinged_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._check_at = NEVER

    @property
    def application_protocol(self) -> str | None:
        """The protocol that TLS has negotiated (ALPN)."""
        assert self._transport is not None
        tls = self._transport.get_extra_info("ssl_object")
        return None if tls is None else cast("str | None", tls.selected_alpn_protocol())

    # Requests.

    def request(self, stream: Stream, headers: bytes, body: bytes, *, end: bool) -> None:
        """Send a request: an encoded header block, and a body.

        end     whether the body is complete; else the client's side of the stream stays open

        Raises ProtocolError if the request was not sent and will not be.
        """
        if not self.usable:
            raise ProtocolError("the connection is closed")
        if len(headers) > frames.FRAME_BYTES:
            raise ProtocolError("the headers of a request are too long")
        if len(self._streams) < self._max_streams:
            self._open(stream, headers, body, end)
            return
        if len(self._waiting) >= MAX_WAITING_REQUESTS:
            raise ProtocolError("too many requests wait for a stream")
        self._waiting.append((stream, headers, body, end))
        self._set_timer(stream.deadline)

    def cancel(self, stream: Stream) -> None:
        """Forget a stream: its response is not needed. Idempotent."""
        if stream.ended:
            return
        stream.ended = True
        if self._streams.get(stream.id) is stream:
            self._write(frames.reset(stream.id, frames.CANCEL))
            self._forget(stream)

    def acknowledge(self, stream: Stream) -> None:
        """Let the server send as much as was received on a stream."""
        size = stream.unacknowledged
        if size and not stream.ended:
            stream.unacknowledged = 0
            self._write(frames.window_update(stream.id, size))

    def drain(self) -> None:
        """Stop accepting requests, and close the connection after the last response."""
        self.usable = False
        self._close_if_drained()

    def close(self, reason: str = "the connection is closed") -> None:
        """Close the connection; all streams are lost. Idempotent."""
        self.usable = False
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for stream, *_ in waiting:
            self._lose(stream, reason, processed=False)
        for stream in tuple(self._streams.values()):
            self._lose(stream, reason, processed=True)

    def _open(self, stream: Stream, headers: bytes, body: bytes, end: bool) -> None:
        stream.id = self._next_id
        self._next_id += 2
        if self._next_id > MAX_STREAM_ID:
            self.usable = False
        if not self._streams:
            self._last_received = self._loop.time()
        self._streams[stream.id] = stream
        stream.send_window = self._initial_send_window
        self._set_timer(min(stream.deadline, self._last_received + KEEPALIVE_SECONDS))
        self._write(frames.frame(frames.HEADERS, frames.END_HEADERS, stream.id, headers))
        size = len(body)
        if size <= frames.FRAME_BYTES and size <= stream.send_window and size <= self._send_window:
            self._send_data(stream, body, end)
            return
        stream.unsent = body
        self._blocked[stream.id] = stream, end
        self._send_blocked()

    def _send_data(self, stream: Stream, data: bytes, end: bool) -> None:
        stream.send_window -= len(data)
        self._send_window -= len(data)
        self._write(frames.frame(frames.DATA, frames.END_STREAM if end else 0, stream.id, data))

    def _send_blocked(self) -> None:
        """Send as much of the waiting bodies as the windows allow."""
        for stream, end in tuple(self._blocked.values()):
            body, start = stream.unsent, 0
            while start < len(body):
                size = min(
                    frames.FRAME_BYTES, stream.send_window, self._send_window, len(body) - start
                )
                if size <= 0:
                    break
                self._send_data(
                    stream, body[start : start + size], end and start + size == len(body)
                )
                start += size
            stream.unsent = body[start:] if start else body
            if not stream.unsent:
                del self._blocked[stream.id]
            if self._send_window <= 0:
                return

    def _write(self, data: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def _reply(self, data: bytes) -> None:
        """Answer a frame of the server; a server that reads no answers is dropped."""
        if self._reading_paused:
            self._unread_replies += 1
            if self._unread_replies > MAX_UNREAD_REPLIES:
                raise ProtocolError("the server reads no answers")
        self._write(data)

    # Streams.

    def _forget(self, stream: Stream) -> None:
        stream.ended = True
        stream.unsent = b""
        self._streams.pop(stream.id, None)
        self._blocked.pop(stream.id, None)
        if self._waiting:
            self._open_waiting()
        if not self.usable:
            self._close_if_drained()

    def _open_waiting(self) -> None:
        while self._waiting and len(self._streams) < self._max_streams:
            stream, headers, body, end = self._waiting.popleft()
            if stream.ended:
                continue
            if self.usable:
                self._open(stream, headers, body, end)
            else:
                stream.ended = True
                stream.on_lost("the server is going away", processed=False)

    def _close_if_drained(self) -> None:
        if not self.usable and not self._streams and self._transport is not None:
            self._transport.close()

    def _lose(self, stream: Stream, reason: str, *, processed: bool) -> None:
        if not stream.ended:
            self._forget(stream)
            stream.on_lost(reason, processed=processed)

    # Time: deadlines of streams, and PINGs.

    def _set_timer(self, at: float) -> None:
        """Check deadlines at a time, or at most KEEPALIVE_SECONDS from now."""
        if at >= self._check_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._check_at = min(at, self._loop.time() + KEEPALIVE_SECONDS)
        self._timer = self._loop.call_at(self._check_at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._check_at = None, NEVER
        now = self._loop.time()
        for stream in [stream for stream in self._streams.values() if stream.deadline <= now]:
            # An answer may never come on this connection; later requests open another.
            self.usable = False
            self._write(frames.reset(stream.id, frames.CANCEL))
            self._lose(stream, "no answer in time", processed=True)
        for stream in [waiter for waiter, *_ in self._waiting if waiter.deadline <= now]:
            self._lose(stream, "no stream was free in time", processed=False)
        if self._streams:
            self._keep_alive(now)
        deadlines = [stream.deadline for stream in self._streams.values()]
        deadlines += [stream.deadline for stream, *_ in self._waiting]
        if deadlines:
            self._set_timer(min(deadlines))

    def _keep_alive(self, now: float) -> None:
        if self._pinged_at is not None:
            if now >= self._pinged_at + KEEPALIVE_TIMEOUT_SECONDS:
                self.close("the server answers no PING")
                return
        elif now >= self._last_received + KEEPALIVE_SECONDS:
            self._pinged_at = now
            self._write(frames.frame(frames.PING, 0, 0, bytes(8)))
        if self._pinged_at is None:
            self._set_timer(self._last_received + KEEPALIVE_SECONDS)
        else:
            self._set_timer(self._pinged_at + KEEPALIVE_TIMEOUT_SECONDS)

    # The transport's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._transport.write(
            frames.PREFACE
            + frames.settings(
                {
                    frames.HEADER_TABLE_SIZE: 0,
                    frames.ENABLE_PUSH: 0,
                    frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                }
            )
            + frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.close(str(exc or "the connection was closed"))

    def pause_writing(self) -> None:
        self._reading_paused = True

    def resume_writing(self) -> None:
        self._reading_paused = False
        self._unread_replies = 0

    def data_received(self, data: bytes) -> None:
        self._last_received = self._loop.time()
        self._pinged_at = None
        if self._buffer:
            data = self._buffer + data
        try:
            start = self._parse(data)
        except ProtocolError as error:
            self.close(str(error))
            return
        self._buffer = data[start:]

    # Receiving.

    def _parse(self, data: bytes) -> int:
        """Handle all complete frames; return the offset after them."""
        start, size = 0, len(data)
        while (begin := start + _HEADER_BYTES) <= size:
            high, low, kind, flags, stream_id = _read_header(data, start)
            length = high << 8 | low
            if length > frames.FRAME_BYTES:
                raise ProtocolError("a frame is too long")
            end = begin + length
            if end > size:
                break
            if self._block is not None and kind != frames.CONTINUATION:
                raise ProtocolError("a header block is not continued")
            on_frame = _ON_FRAME.get(kind)
            if on_frame is not None:
                on_frame(self, stream_id & MAX_STREAM_ID, flags, data[begin:end])
            start = end
        return start

    def _stream(self, stream_id: int) -> Stream | None:
        """Return the stream of a frame, None if it has ended. Raises ProtocolError if it was never
        opened."""
        stream = self._streams.get(stream_id)
        if stream is None and (not stream_id & 1 or stream_id >= self._next_id):
            raise ProtocolError("a frame of a stream that is not open")
        return stream

    def _on_data(self, stream_id: int, flags: int, payload: bytes) -> None:
        size = len(payload)
        self._unacknowledged += size
        if self._unacknowledged > CONNECTION_WINDOW // 2:
            self._write(frames.window_update(0, self._unacknowledged))
            self._unacknowledged = 0
        stream = self._streams.get(stream_id) or self._stream(stream_id)
        if stream is None:
            return
        stream.unacknowledged += size
        if stream.unacknowledged > STREAM_WINDOW:
            raise ProtocolError("the server exceeds the window of a stream")
        if flags & frames.PADDED:
            payload = frames.unpad(payload, frames.PADDED)
        stream.on_data(payload)
        if flags & frames.END_STREAM:
            self._lose(stream, "the answer ended without a status", processed=True)
        elif stream.unacknowledged > STREAM_WINDOW // 2 and not stream.paused:
            self.acknowledge(stream)

    def _on_headers(self, stream_id: int, flags: int, payload: bytes) -> None:
        if flags & (frames.PADDED | frames.PRIORITY_FLAG):
            payload = frames.unpad(payload, flags)
        if flags & frames.END_HEADERS:
            self._on_header_block(stream_id, flags, payload)
        else:
            self._block = stream_id, flags, bytearray(payload), MAX_CONTINUATIONS

    def _on_continuation(self, stream_id: int, flags: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != stream_id:
            raise ProtocolError("a CONTINUATION frame continues nothing")
        _, first_flags, block, frames_left = self._block
        block += payload
        if len(block) > MAX_HEADER_BLOCK_BYTES or not frames_left:
            raise ProtocolError("the headers of an answer are too long")
        self._block = stream_id, first_flags, block, frames_left - 1
        if flags & frames.END_HEADERS:
            self._block = None
            self._on_header_block(stream_id, first_flags, bytes(block))

    def _on_header_block(self, stream_id: int, flags: int, block: bytes) -> None:
        try:
            headers = dict(self._decoder.decode(block))
        except HpackError as error:
            raise ProtocolError(f"invalid headers: {error}") from error
        stream = self._streams.get(stream_id) or self._stream(stream_id)
        if stream is None:
            return
        end = bool(flags & frames.END_STREAM)
        if end:
            if stream.unsent:  # the server does not need the rest of the request
                self._write(frames.reset(stream_id, frames.CANCEL))
            self._forget(stream)
        stream.on_headers(headers, end=end)

    def _on_window_update(self, stream_id: int, _flags: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ProtocolError("a WINDOW_UPDATE frame of a wrong size")
        size = int.from_bytes(payload) & MAX_STREAM_ID
        if not stream_id:
            self._send_window += size
            if self._send_window > frames.MAX_WINDOW:
                raise ProtocolError("the window of the connection is too large")
        else:
            stream = self._stream(stream_id)
            if stream is None:
                return
            stream.send_window += size
            if stream.send_window > frames.MAX_WINDOW:
                raise ProtocolError("the window of a stream is too large")
        if self._blocked:
            self._send_blocked()

    def _on_ping(self, stream_id: int, flags: int, payload: bytes) -> None:
        if len(payload) != 8 or stream_id:
            raise ProtocolError("an invalid PING frame")
        if not flags & frames.ACK:
            self._reply(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _on_reset(self, stream_id: int, _flags: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ProtocolError("a RST_STREAM frame of a wrong size")
        stream = self._stream(stream_id)
        if stream is not None:
            code = int.from_bytes(payload)
            processed = code != frames.REFUSED_STREAM
            self._lose(stream, f"the server reset the stream: {code}", processed=processed)

    def _on_push(self, _stream_id: int, _flags: int, _payload: bytes) -> None:
        raise ProtocolError("the server pushes")

    def _on_settings(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id or len(payload) % frames.SETTING.size:
            raise ProtocolError("an invalid SETTINGS frame")
        if flags & frames.ACK:
            self._decoder.forbid_table()
            return
        for key, value in frames.SETTING.iter_unpack(payload):
            if key == frames.MAX_CONCURRENT_STREAMS:
                self._max_streams = value
                self._open_waiting()
            elif key == frames.INITIAL_WINDOW_SIZE:
                self._set_initial_window(value)
        self._reply(frames.frame(frames.SETTINGS, frames.ACK, 0))

    def _set_initial_window(self, size: int) -> None:
        if size > frames.MAX_WINDOW:
            raise ProtocolError("the initial window is too large")
        change = size - self._initial_send_window
        self._initial_send_window = size
        for stream in self._streams.values():
            stream.send_window += change
        if self._blocked:
            self._send_blocked()

    def _on_goaway(self, stream_id: int, _flags: int, payload: bytes) -> None:
        if stream_id or len(payload) < 8:
            raise ProtocolError("an invalid GOAWAY frame")
        self.usable = False
        last_id = int.from_bytes(payload[:4]) & MAX_STREAM_ID
        for stream in tuple(self._streams.values()):
            if stream.id > last_id:
                self._lose(stream, "the server is going away", processed=False)
        self._close_if_drained()


_ON_FRAME: dict[int, Callable[[Connection, int, int, bytes], None]] = {
    frames.DATA: Connection._on_data,
    frames.HEADERS: Connection._on_headers,
    frames.CONTINUATION: Connection._on_continuation,
    frames.WINDOW_UPDATE: Connection._on_window_update,
    frames.PING: Connection._on_ping,
    frames.RST_STREAM: Connection._on_reset,
    frames.SETTINGS: Connection._on_settings,
    frames.GOAWAY: Connection._on_goaway,
    frames.PUSH_PROMISE: Connection._on_push,
}
"""What handles a frame, by its type: called with its stream, its flags and its payload. Frames of
other types are ignored."""
