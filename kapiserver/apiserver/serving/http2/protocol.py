"""The server's end of one HTTP/2 connection: bytes in, events and bytes out. Pure.

`receive` takes what the client sends, in any pieces, and returns events: requests, pieces of their
bodies, lost streams. `send` takes responses, and `take_output` returns what to send. Time is a
parameter. The shell in `connection.py` has the socket, and `stream.py` the states of a stream. The
states of the connection:

    state       what happens                                            next state
    preface     the client's preface and its SETTINGS arrive            open
    open        `shut_down`: GOAWAY that names no stream, and a PING    leaving
    leaving     the client answers the PING: GOAWAY with the last one   left
    left        the last stream ends                                    finished
    open        GOAWAY of the client, and the last stream ends          finished
    any         the client breaks the protocol: GOAWAY with an error    failed

In `leaving` the server still takes requests: the client may have sent them before it had read of
GOAWAY. Its answer to the PING follows them, so from `left` on it knows which streams are served,
and sends others on a new connection. So no request is lost. In `failed` all streams are lost, and
what the client sends is ignored.

A fault of a stream (StreamFault) resets that stream; a fault of the connection (ConnectionFault)
ends it. Mirrors RFC 9113; limits are in `limits.py`. Knows no socket, no clock and no handler.
"""

from __future__ import annotations

from enum import Enum

from kapiserver.apiserver.serving.http2 import limits
from kapiserver.apiserver.serving.http2.events import (
    BodyEnded,
    BodyReceived,
    Event,
    Requested,
    StreamLost,
)
from kapiserver.apiserver.serving.http2.frame_reader import FrameReader, unpad
from kapiserver.apiserver.serving.http2.limits import (
    Allowance,
    ConnectionFault,
    StreamFault,
    check_frame,
)
from kapiserver.apiserver.serving.http2.outgoing import Outgoing
from kapiserver.apiserver.serving.http2.receive_window import ReceiveWindow
from kapiserver.apiserver.serving.http2.request_fields import (
    RefusedRequest,
    RequestReader,
    check_trailers,
)
from kapiserver.apiserver.serving.http2.settings import MAX_STREAMS
from kapiserver.apiserver.serving.http2.stream import ClosedStreams, End, Stream
from kapiserver.codecs.http2 import frames
from kapiserver.codecs.http2.frames import ACK, END_STREAM, MAX_STREAM_ID
from kapiserver.codecs.http2.hpack import Decoder, Field, HeaderListTooLarge, HpackError, encode

_SHUTDOWN_PING = b"shutdown"


class State(Enum):
    """What the connection does."""

    PREFACE = "preface"
    OPEN = "open"
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


class ServerProtocol:
    """One connection.

    state
    running     requests in handlers; the shell counts them down
    """

    def __init__(self, *, max_streams: int = MAX_STREAMS) -> None:
        self.state = State.PREFACE
        self.running = 0
        self._max_streams = max_streams
        self._reader = FrameReader()
        self._streams: dict[int, Stream] = {}
        self._closed = ClosedStreams(2 * max_streams)
        self._last_id = 0
        self._has_left = False
        """Whether the client has sent GOAWAY."""
        self._decoder = Decoder(list_bytes=limits.HEADER_LIST_BYTES)
        self._requests = RequestReader()
        self._receive_window = ReceiveWindow()
        self._now = 0.0
        self._allowance = Allowance()
        self._events: list[Event] = []
        self._out = Outgoing(self._allowance, self._on_sent)
        self._out.write(
            frames.settings({
                frames.MAX_CONCURRENT_STREAMS: max_streams,
                frames.INITIAL_WINDOW_SIZE: limits.STREAM_WINDOW,
                frames.MAX_HEADER_LIST_SIZE: limits.HEADER_LIST_BYTES,
            })
            + self._receive_window.begin()
        )  # fmt: skip

    # What the shell asks.

    @property
    def block_bytes(self) -> int:
        """Bytes of a header block that is incomplete."""
        return self._reader.block_bytes

    @property
    def is_finished(self) -> bool:
        """Whether the connection is to be closed when what waits is sent."""
        if self.state is State.FAILED:
            return True
        return (self.state is State.LEFT or self._has_left) and not self._streams

    @property
    def is_idle(self) -> bool:
        """Whether the connection is open and has no streams."""
        return not self._streams

    @property
    def has_output(self) -> bool:
        """Whether `take_output` returns bytes, given room."""
        return self._out.has_frames

    def take_output(self, room: int) -> bytes:
        """Return the next bytes for the client, of responses about `room`."""
        return self._out.take(room)

    def can_send(self, stream: Stream, size: int) -> bool:
        """Whether the windows of the client have room for bytes of a response."""
        return size <= min(stream.send_window, self._out.window)

    # What the shell does.

    def send(
        self, stream: Stream, *, head: bytes = b"", data: bytes = b"", is_last: bool = False
    ) -> None:
        """Send parts of a response: its header block, bytes of its body. `is_last` ends it."""
        if stream.is_closed:
            return
        if head:
            stream.head = head
        if data:
            stream.add(data)
        if is_last:
            stream.is_finishing = True
        self._out.send(stream)

    def send_continue(self, stream: Stream) -> None:
        """Send "100 Continue"."""
        if not stream.is_closed and not stream.head:
            self._out.write_head(stream, encode([(b":status", b"100")]), is_last=False)

    def reset(self, stream: Stream, code: int) -> None:
        """End a stream at once. What waits of its response is dropped."""
        if not stream.is_closed:
            self._out.write(frames.reset(stream.id, code))
            self._close(stream, End.RESET_BY_US)

    def acknowledge(self, stream: Stream, size: int) -> None:
        """Let the client send more: a handler has taken this many bytes of its request."""
        if stream.is_closed or not size:
            return
        self._acknowledge(size)
        stream.unread -= size
        used = limits.STREAM_WINDOW - stream.receive_window - stream.unread
        if used >= limits.STREAM_WINDOW // 2 and not stream.has_request:
            stream.receive_window += used
            self._out.write(frames.window_update(stream.id, used))

    def trust(self) -> None:
        """The client has authenticated: let it send on all its streams."""
        self._out.write(self._receive_window.widen(limits.STREAM_WINDOW * self._max_streams))

    def shut_down(self) -> None:
        """Let the client send its next requests on another connection."""
        if self.state in (State.PREFACE, State.OPEN):
            self.state = State.LEAVING
            self._out.write(frames.goaway(MAX_STREAM_ID, frames.NO_ERROR))
            self._out.write(frames.frame(frames.PING, 0, 0, _SHUTDOWN_PING))

    def leave(self) -> None:
        """Take no more streams."""
        if self.state not in (State.LEFT, State.FAILED):
            self.state = State.LEFT
            self._out.write(frames.goaway(self._last_id, frames.NO_ERROR))

    def fail(self, code: int, text: str) -> None:
        """End the connection: all its streams are lost."""
        if self.state is not State.FAILED:
            self.state = State.FAILED
            self._out.write(frames.goaway(self._last_id, code, text))
            self._reader.close()
            for stream in tuple(self._streams.values()):
                self._lose(stream, End.RESET_BY_US)

    # Receiving.

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Take bytes of the client, at a time in seconds. Return what has happened."""
        self._now = now
        if self.state is State.FAILED:
            return []
        try:
            for kind, flags, stream_id, payload in self._reader.read(data):
                try:
                    self._on_frame(kind, flags, stream_id, payload)
                except StreamFault as fault:
                    self._on_fault(fault)
        except ConnectionFault as fault:
            self.fail(fault.code, str(fault))
        if self.state is State.PREFACE and self._reader.has_preface:
            self.state = State.OPEN
        events, self._events = self._events, []
        return events

    def _on_frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == frames.HEADERS:
            self._on_headers(stream_id, flags, payload)
            return
        if kind == frames.DATA:
            self._on_data(stream_id, flags, payload)
            return
        if kind == frames.WINDOW_UPDATE:
            self._on_window_update(stream_id, payload)
            return
        self._allowance.spend(1, self._now)  # there may be a flood of any of them
        if kind == frames.RST_STREAM:
            self._on_reset(stream_id, payload)
        elif kind == frames.PING:
            self._on_ping(stream_id, flags, payload)
        elif kind == frames.SETTINGS:
            self._on_settings(stream_id, flags, payload)
        elif kind == frames.PRIORITY:
            self._on_priority(stream_id, payload)
        elif kind == frames.GOAWAY:
            check_frame(stream_id == 0, frames.PROTOCOL_ERROR)
            check_frame(len(payload) >= 8)
            self._has_left = True
        elif kind == frames.PUSH_PROMISE:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "a client does not push")

    def _on_fault(self, fault: StreamFault) -> None:
        self._allowance.spend(1, self._now)
        stream = self._streams.get(fault.stream_id)
        self._out.write(frames.reset(fault.stream_id, fault.code))
        if stream is not None:
            self._lose(stream, End.RESET_BY_US)
        else:
            self._closed.add(fault.stream_id, End.RESET_BY_US)

    def _acknowledge(self, size: int) -> None:
        """Let the client send this many bytes on any streams."""
        self._out.write(self._receive_window.acknowledge(size))

    # Frames about the connection.

    def _on_window_update(self, stream_id: int, payload: bytes) -> None:
        check_frame(len(payload) == 4)
        size = int.from_bytes(payload) & frames.MAX_WINDOW
        if not self._out.acknowledge(size):
            self._allowance.spend(1, self._now)
        stream = self._stream(stream_id) if stream_id else None
        if stream_id and stream is None:
            return
        if not size:
            if stream is None:
                raise ConnectionFault(frames.PROTOCOL_ERROR, "a window grows by nothing")
            raise StreamFault(stream_id, frames.PROTOCOL_ERROR)
        if stream is None:
            self._out.window += size
            if self._out.window > frames.MAX_WINDOW:
                raise ConnectionFault(frames.FLOW_CONTROL_ERROR, "the window is too large")
        else:
            stream.send_window += size
            if stream.send_window > frames.MAX_WINDOW:
                raise StreamFault(stream_id, frames.FLOW_CONTROL_ERROR)
        self._out.widen(stream)

    def _on_reset(self, stream_id: int, payload: bytes) -> None:
        check_frame(len(payload) == 4)
        stream = self._stream(stream_id)
        if stream is not None:
            self._lose(stream, End.RESET_BY_CLIENT)

    def _on_ping(self, stream_id: int, flags: int, payload: bytes) -> None:
        check_frame(len(payload) == 8)
        check_frame(stream_id == 0, frames.PROTOCOL_ERROR)
        if not flags & ACK:
            self._out.write(frames.frame(frames.PING, ACK, 0, payload))
        elif payload == _SHUTDOWN_PING and self.state is State.LEAVING:
            self.leave()

    def _on_settings(self, stream_id: int, flags: int, payload: bytes) -> None:
        check_frame(stream_id == 0, frames.PROTOCOL_ERROR)
        is_answer = bool(flags & ACK)
        check_frame(not payload if is_answer else len(payload) % frames.SETTING.size == 0)
        if is_answer:
            return
        values = tuple(frames.SETTING.iter_unpack(payload))
        if len(values) > limits.MAX_SETTINGS:
            raise ConnectionFault(frames.ENHANCE_YOUR_CALM, "too many settings")
        self._allowance.spend(len(values), self._now)
        for key, value in values:
            self._out.set(key, value, self._streams.values())
        self._out.write(frames.frame(frames.SETTINGS, ACK, 0))

    def _on_priority(self, stream_id: int, payload: bytes) -> None:
        check_frame(stream_id != 0, frames.PROTOCOL_ERROR)
        code = frames.NO_ERROR
        if len(payload) != 5:
            code = frames.FRAME_SIZE_ERROR
        elif int.from_bytes(payload[:4]) & MAX_STREAM_ID == stream_id:
            code = frames.PROTOCOL_ERROR
        if code and stream_id in self._streams:
            raise StreamFault(stream_id, code)
        if code:  # RST_STREAM of an idle stream is itself a fault
            raise ConnectionFault(code, "an invalid PRIORITY frame")

    # Streams.

    def _close(self, stream: Stream, end: End) -> None:
        """Both directions of a stream have ended."""
        del self._streams[stream.id]
        self._closed.add(stream.id, end)
        self._out.forget(stream)
        # What no handler takes any more counts as taken.
        unread, stream.unread = stream.unread, 0
        stream.close()
        if unread and self.state is not State.FAILED:
            self._acknowledge(unread)

    def _lose(self, stream: Stream, end: End) -> None:
        self._close(stream, end)
        if not stream.is_refused:
            self._events.append(StreamLost(stream))

    def _on_sent(self, stream: Stream) -> None:
        """A response is sent whole."""
        if stream.code is not None:
            self.reset(stream, stream.code)
        elif stream.has_request:
            self._allowance.refund(limits.REFUND_PER_FRAME)
            self._close(stream, End.WHOLE)
        else:
            self.reset(stream, frames.NO_ERROR)  # the rest of the request is not needed

    def _stream(self, stream_id: int) -> Stream | None:
        """Return the stream of a frame, None if it is closed, or will not be served. Raises
        ConnectionFault if it is idle."""
        stream = self._streams.get(stream_id)
        is_new = stream_id > self._last_id and self.state is not State.LEFT
        if stream is None and (not stream_id & 1 or is_new):
            raise ConnectionFault(frames.PROTOCOL_ERROR, "a frame of a stream that is idle")
        return stream

    # Header blocks.

    def _on_headers(self, stream_id: int, flags: int, block: bytes) -> None:
        is_own_parent = False
        if flags & (frames.PADDED | frames.PRIORITY_FLAG):
            if flags & frames.PRIORITY_FLAG:
                block = unpad(block, flags, keep_priority=True)
                flags &= ~frames.PADDED
                is_own_parent = int.from_bytes(block[:4]) & MAX_STREAM_ID == stream_id
            block = unpad(block, flags)
        try:
            fields = self._decoder.decode(block)  # always, because blocks change its table
        except HeaderListTooLarge as error:
            raise ConnectionFault(frames.ENHANCE_YOUR_CALM, str(error)) from None
        except HpackError as error:
            raise ConnectionFault(frames.COMPRESSION_ERROR, str(error)) from None
        is_last = bool(flags & END_STREAM)
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._on_trailers(stream, fields, is_last=is_last)
        elif stream_id <= self._last_id:
            self._closed.check(stream_id)
            self._allowance.spend(1, self._now)
        elif self.state is not State.LEFT:
            self._last_id = stream_id
            if is_own_parent:
                raise StreamFault(stream_id, frames.PROTOCOL_ERROR)
            self._on_request(stream_id, fields, has_request=is_last)

    def _on_request(self, stream_id: int, fields: list[Field], *, has_request: bool) -> None:
        is_full = self.running >= limits.RUNNING_PER_STREAM * self._max_streams
        if is_full or len(self._streams) >= self._max_streams:
            raise StreamFault(stream_id, frames.REFUSED_STREAM)
        stream = Stream(stream_id, self._out.initial_window)
        stream.has_request = has_request
        try:
            request = self._requests.read(fields)
        except RefusedRequest as error:
            self._refuse(stream, error)
            return
        stream.expected = request.length
        if stream.has_request and request.length:
            raise StreamFault(stream_id, frames.PROTOCOL_ERROR)
        self._streams[stream_id] = stream
        self.running += 1
        self._events.append(Requested(stream, request, not has_request))

    def _refuse(self, stream: Stream, error: RefusedRequest) -> None:
        """Respond to a request that reaches no handler, and reset its stream."""
        self._allowance.spend(1, self._now)
        if not error.status:
            raise StreamFault(stream.id, error.code)
        stream.is_refused = True
        is_malformed = error.code != frames.NO_ERROR
        if is_malformed:
            stream.code = error.code
        self._streams[stream.id] = stream
        media_type = b"text/plain; charset=utf-8" if is_malformed else b"text/html; charset=utf-8"
        fields = [(b":status", b"%d" % error.status), (b"content-type", media_type)]
        text = str(error)
        if is_malformed:  # as http.Error of Go
            fields.append((b"x-content-type-options", b"nosniff"))
            text += "\n"
        self.send(stream, head=encode(fields), data=text.encode(), is_last=True)

    def _on_trailers(self, stream: Stream, fields: list[Field], *, is_last: bool) -> None:
        if stream.has_request:
            raise StreamFault(stream.id, frames.STREAM_CLOSED)
        try:
            check_trailers(fields)
        except RefusedRequest:
            raise StreamFault(stream.id, frames.PROTOCOL_ERROR) from None
        if not is_last:
            raise StreamFault(stream.id, frames.PROTOCOL_ERROR)
        self._end_request(stream)

    # Bodies.

    def _on_data(self, stream_id: int, flags: int, payload: bytes) -> None:
        stream = self._stream(stream_id)
        size = len(payload)
        self._receive_window.use(size)
        data = unpad(payload, frames.PADDED) if flags & frames.PADDED else payload
        is_last = bool(flags & END_STREAM)
        if len(data) < limits.SMALL_DATA_BYTES and not is_last:
            self._allowance.spend(1, self._now)
        if stream is None or stream.is_refused:
            self._drop_data(stream_id, stream, size, is_last=is_last)
            return
        if stream.has_request or size > stream.receive_window:
            self._acknowledge(size)
            is_ended = stream.has_request
            code = frames.STREAM_CLOSED if is_ended else frames.FLOW_CONTROL_ERROR
            raise StreamFault(stream_id, code)
        stream.receive_window -= size
        stream.unread += size
        if stream.expected is not None:
            stream.expected -= len(data)
            if stream.expected < 0:
                raise StreamFault(stream_id, frames.PROTOCOL_ERROR)
        if size > len(data):
            self.acknowledge(stream, size - len(data))
        if data:
            self._events.append(BodyReceived(stream, data))
        if is_last:
            self._end_request(stream)

    def _drop_data(
        self, stream_id: int, stream: Stream | None, size: int, *, is_last: bool
    ) -> None:
        """Drop bytes that nobody takes, but let the client send as many on other streams."""
        self._acknowledge(size)
        if stream is not None:
            stream.has_request = stream.has_request or is_last
        elif stream_id <= self._last_id:
            self._closed.check(stream_id)
            self._allowance.spend(1, self._now)

    def _end_request(self, stream: Stream) -> None:
        if stream.expected:
            raise StreamFault(stream.id, frames.PROTOCOL_ERROR)
        stream.has_request = True
        if not stream.is_refused:
            self._events.append(BodyEnded(stream))
