"""The client's end of a pure HTTP/2 connection, frame by frame, with a handler of the tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import hpack as reference

from kapiserver.apiserver.serving.http2.events import BodyEnded, BodyReceived, Event, Requested
from kapiserver.apiserver.serving.http2.protocol import ServerProtocol
from kapiserver.codecs.http2 import frames, hpack
from kapiserver.codecs.http2.frames import END_HEADERS, END_STREAM, frame

ROOM = 1 << 20
GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/"), (b":authority", b"x")]
POST = [(b":method", b"POST"), *GET[1:]]
START = frames.PREFACE + frames.settings({})


class Frame(NamedTuple):
    """One frame of the server."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def number(self) -> int:
        """The error code of RST_STREAM, the size of WINDOW_UPDATE."""
        return int.from_bytes(self.payload[:4])


def headers(
    stream: int,
    fields: Iterable[tuple[bytes, bytes]] = GET,
    *,
    end: bool = True,
    flags: int = END_HEADERS,
) -> bytes:
    """A HEADERS frame without a table."""
    flags |= END_STREAM if end else 0
    return frame(frames.HEADERS, flags, stream, hpack.encode(fields))


def block(stream: int, payload: bytes, flags: int = END_HEADERS | END_STREAM) -> bytes:
    """A HEADERS frame with a header block in bytes."""
    return frame(frames.HEADERS, flags, stream, payload)


def data(stream: int, content: bytes = b"", *, end: bool = False) -> bytes:
    """A DATA frame."""
    return frame(frames.DATA, END_STREAM if end else 0, stream, content)


def continuation(stream: int, content: bytes = b"", *, end: bool = True) -> bytes:
    """A CONTINUATION frame."""
    return frame(frames.CONTINUATION, END_HEADERS if end else 0, stream, content)


def split_frames(output: bytes) -> list[Frame]:
    """The frames in bytes of the server, which are whole."""
    found: list[Frame] = []
    while output:
        high, low, kind, flags, stream = frames.HEADER.unpack_from(output)
        end = frames.HEADER.size + (high << 8 | low)
        found.append(Frame(kind, flags, stream, output[frames.HEADER.size : end]))
        assert len(output) >= end
        output = output[end:]
    return found


class Client:
    """A client of a ServerProtocol whose handler responds `answer` to each request that is whole.

    answer      the body of the responses; None for no responses
    bodies      the bodies of requests, by stream
    sent        the frames of the server
    """

    def __init__(self, *, answer: bytes | None = b"ok", max_streams: int = 100) -> None:
        self.protocol = ServerProtocol(max_streams=max_streams)
        self.answer = answer
        self.now = 0.0
        self.bodies: dict[int, bytes] = {}
        self.requests: dict[int, Requested] = {}
        self.lost: list[int] = []
        self.sent: list[Frame] = []
        self._decoder = reference.Decoder()

    def send(self, *sent: bytes, step: int = 0, room: int = ROOM) -> list[Frame]:
        """Send bytes, `step` at once; return the frames that the server sends."""
        everything = b"".join(sent)
        for start in range(0, len(everything) or 1, step or len(everything) or 1):
            piece = everything[start : start + step] if step else everything
            for event in self.protocol.receive(piece, self.now):
                self.handle(event)
        return self.take(room)

    def take(self, room: int = ROOM) -> list[Frame]:
        """The frames that the server sends now."""
        taken = split_frames(self.protocol.take_output(room))
        self.sent += taken
        return taken

    def handle(self, event: Event) -> None:
        stream = event.stream
        if isinstance(event, Requested):
            self.requests[stream.id] = event
            self.bodies[stream.id] = b""
            if not event.has_body:
                self.respond(event)
        elif isinstance(event, BodyReceived):
            self.bodies[stream.id] += event.data
            self.protocol.acknowledge(stream, len(event.data))
        elif isinstance(event, BodyEnded):
            self.respond(self.requests[stream.id])
        else:
            self.lost.append(stream.id)
            self.protocol.running -= 1

    def respond(self, event: Requested) -> None:
        """Respond as a handler that needs no time."""
        if self.answer is not None:
            head = hpack.encode([(b":status", b"200")])
            self.protocol.send(event.stream, head=head, data=self.answer, is_last=True)
            self.protocol.running -= 1

    def fields(self, stream: int) -> dict[str, str]:
        """The fields of the response on a stream; call it once, in the order of the responses."""
        sent = next(
            each for each in self.sent if (each.kind, each.stream) == (frames.HEADERS, stream)
        )
        return dict(self._decoder.decode(sent.payload))


def connected(**options: bytes | int | None) -> Client:
    """A client that has exchanged settings with the server."""
    client = Client(**options)  # type: ignore[arg-type]
    client.send(START, frame(frames.SETTINGS, frames.ACK, 0))
    return client
