"""What RFC 9113 and RFC 7541 demand of a server, case by case: the subjects of h2spec and more.

Each case sends bytes on a connection that is open, byte by byte and at once, and says what the
server does: it responds on a stream, resets one, or ends the connection.
"""

from __future__ import annotations

import pytest

from kapiserver.apiserver.serving.http2.limits import HEADER_LIST_BYTES, STREAM_WINDOW
from kapiserver.apiserver.serving.http2.protocol import State
from kapiserver.codecs.http2 import frames
from kapiserver.codecs.http2.frames import (
    ACK,
    COMPRESSION_ERROR,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    PADDED,
    PRIORITY_FLAG,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    frame,
    reset,
    settings,
    window_update,
)
from tests.apiserver.serving.http2.protocolkit import (
    GET,
    POST,
    START,
    Client,
    Frame,
    block,
    connected,
    continuation,
    data,
    headers,
)

PING = frame(frames.PING, 0, 0, b"12345678")
PRIORITY = frame(frames.PRIORITY, 0, 1, b"\0\0\0\3\xff")
GET_BLOCK = headers(1)[frames.HEADER.size :]
LONG_BLOCK = headers(1, [*GET, (b"x-long", b"y" * 40_000)])[frames.HEADER.size :]
OPEN = headers(1, POST, end=False)
"""A request whose body is still to come."""


def fields_of(*changed: tuple[bytes, bytes], without: bytes = b"") -> bytes:
    """A GET with other fields."""
    return headers(1, [*(field for field in GET if field[0] != without), *changed])


ACCEPTED: dict[str, bytes] = {
    "5.1 PRIORITY of an idle stream": PRIORITY + headers(1),
    "5.1 PRIORITY of a higher idle stream": frame(frames.PRIORITY, 0, 9, bytes(5)) + headers(1),
    "5.1 PRIORITY of an open stream": OPEN + PRIORITY + data(1, end=True),
    "5.1 PRIORITY of a closed stream": headers(1) + PRIORITY,
    "5.1 WINDOW_UPDATE of a closed stream": headers(1) + window_update(1, 1),
    "5.1 RST_STREAM of a closed stream": OPEN + reset(1, 8) + reset(1, 8) + headers(3),
    "4.1 a frame of an unknown type": frame(0x20, 0, 0, b"x" * 8) + headers(1),
    "4.1 undefined flags": frame(frames.PING, 0x16, 0, bytes(8)) + headers(1),
    "4.1 the reserved bit": frame(frames.PING, 0, 1 << 31, bytes(8)) + headers(1),
    "4.2 a DATA frame of 16384 bytes": OPEN + data(1, bytes(16384), end=True),
    "5.5 an extension": frame(0x16, 0, 0, b"x" * 8) + headers(1),
    "6.1 several DATA frames": OPEN + data(1, b"test") + data(1, b"test", end=True),
    "6.1 DATA with padding": OPEN
    + frame(frames.DATA, PADDED | END_STREAM, 1, b"\6test" + bytes(6)),
    "6.1 DATA that is padding only": OPEN
    + frame(frames.DATA, PADDED | END_STREAM, 1, b"\6" + bytes(6)),
    "6.2 HEADERS with padding": block(
        1, b"\6" + GET_BLOCK + bytes(6), END_HEADERS | END_STREAM | PADDED
    ),
    "6.2 HEADERS with a priority": block(
        1, b"\0\0\0\0\xff" + GET_BLOCK, END_HEADERS | END_STREAM | PRIORITY_FLAG
    ),
    "6.2 HEADERS with both": block(
        1,
        b"\6\x80\0\0\3\xff" + GET_BLOCK + bytes(6),
        END_HEADERS | END_STREAM | PRIORITY_FLAG | PADDED,
    ),
    "6.2 HEADERS with both, in several frames": block(
        1, b"\3\0\0\0\0\xff" + GET_BLOCK[:4] + bytes(3), END_STREAM | PRIORITY_FLAG | PADDED
    )
    + continuation(1, GET_BLOCK[4:]),
    "6.3 PRIORITY, exclusive": frame(frames.PRIORITY, 0, 1, b"\x80\0\0\3\1") + headers(1),
    "6.5 SETTINGS": settings({frames.MAX_CONCURRENT_STREAMS: 100}) + headers(1),
    "6.5.2 an unknown setting": settings({0xFF: 1}) + headers(1),
    "6.5.2 no push": settings({frames.ENABLE_PUSH: 0}) + headers(1),
    "6.5.2 the largest frame": settings({frames.MAX_FRAME_SIZE: (1 << 24) - 1}) + headers(1),
    "6.7 PING with ACK": frame(frames.PING, ACK, 0, b"invented") + headers(1),
    "6.9 WINDOW_UPDATE of the connection": window_update(0, 1) + headers(1),
    "6.9 WINDOW_UPDATE of a stream": OPEN + window_update(1, 1) + data(1, end=True),
    "6.9.1 the largest windows": OPEN
    + window_update(1, frames.MAX_WINDOW - frames.DEFAULT_WINDOW)
    + window_update(0, frames.MAX_WINDOW - frames.DEFAULT_WINDOW)
    + data(1, end=True),
    "6.10 CONTINUATION": block(1, GET_BLOCK[:3], END_STREAM) + continuation(1, GET_BLOCK[3:]),
    "6.10 several CONTINUATION": block(1, b"", END_STREAM)
    + continuation(1, GET_BLOCK[:3], end=False)
    + continuation(1, b"", end=False)
    + continuation(1, GET_BLOCK[3:]),
    "6.10 a block of 40 KB": block(1, LONG_BLOCK[:16384], END_STREAM)
    + continuation(1, LONG_BLOCK[16384:32768], end=False)
    + continuation(1, LONG_BLOCK[32768:]),
    "7 an unknown error code in RST_STREAM": headers(3, POST, end=False)
    + reset(3, 0xFF)
    + headers(5)
    + PING,
    "8.1 HEAD": headers(1, [(b":method", b"HEAD"), *GET[1:]]),
    "8.1 POST": OPEN + data(1, b"test", end=True),
    "8.1 trailers": OPEN + data(1, b"test") + headers(1, [(b"x-check", b"1")]),
    "8.1 trailers instead of a body": OPEN + headers(1, [(b"x-check", b"1")]),
    "8.2.2 TE: trailers": fields_of((b"te", b"trailers")),
    "8.3.1 OPTIONS *": headers(1, [(b":method", b"OPTIONS"), GET[1], (b":path", b"*")]),
    "8.5 CONNECT": headers(1, [(b":method", b"CONNECT"), (b":authority", b"x:1")]),
    "8.1.1 the length of a body": headers(1, [*POST, (b"content-length", b"4")], end=False)
    + data(1, b"te")
    + data(1, b"st", end=True),
    "HPACK 6.2.1 a field for the table": block(1, GET_BLOCK + b"\x40\4name\5value")
    + block(3, GET_BLOCK + b"\xbe"),
    "HPACK 6.2.1 in Huffman code": block(1, GET_BLOCK + b"\x58\x85\xaec\x71\x4b\x3f"),
    "HPACK 6.2.2 without indexing": block(1, GET_BLOCK + b"\x00\4name\5value"),
    "HPACK 6.2.3 never indexed": block(1, GET_BLOCK + b"\x10\4name\5value"),
    "HPACK 6.3 the size of the table": block(1, b"\x20" + GET_BLOCK),
    "HPACK 6.3 several sizes": block(1, b"\x20\x3f\x1f\x20" + GET_BLOCK),
}


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("sent", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(sent: bytes, step: int) -> None:
    """The server responds with status 200."""
    client = connected()
    client.send(sent, step=step)
    responded = [each.stream for each in client.sent if each.kind == frames.HEADERS]
    assert responded
    assert client.fields(responded[0])[":status"] == "200"
    assert client.protocol.state is State.OPEN
    assert client.protocol.is_idle
    assert client.protocol.running == 0


STREAM_ERRORS: dict[str, tuple[bytes, int]] = {
    "5.1 DATA of a half-closed stream": (headers(1) + data(1, b"test"), STREAM_CLOSED),
    "5.1 HEADERS of a half-closed stream": (headers(1) + headers(1), STREAM_CLOSED),
    "5.1 CONTINUATION of a half-closed stream": (
        headers(1) + block(1, b"", 0) + continuation(1),
        STREAM_CLOSED,
    ),
    "5.1 DATA after RST_STREAM": (OPEN + reset(1, 8) + data(1, b"test"), STREAM_CLOSED),
    "5.1 HEADERS after RST_STREAM": (OPEN + reset(1, 8) + headers(1), STREAM_CLOSED),
    "5.3.1 HEADERS that depend on themselves": (
        block(1, b"\0\0\0\1\xff" + GET_BLOCK, END_HEADERS | END_STREAM | PRIORITY_FLAG),
        PROTOCOL_ERROR,
    ),
    "5.3.1 PRIORITY that depends on itself": (
        OPEN + frame(frames.PRIORITY, 0, 1, b"\0\0\0\1\xff"),
        PROTOCOL_ERROR,
    ),
    "6.3 PRIORITY of a wrong length": (OPEN + frame(frames.PRIORITY, 0, 1, b""), FRAME_SIZE_ERROR),
    "6.9 WINDOW_UPDATE of 0": (OPEN + window_update(1, 0), PROTOCOL_ERROR),
    "6.9.1 a window that is too large": (
        OPEN + window_update(1, frames.MAX_WINDOW),
        FLOW_CONTROL_ERROR,
    ),
    "8.1 a second HEADERS without END_STREAM": (OPEN + headers(1, end=False), PROTOCOL_ERROR),
    "8.1 pseudo-headers in trailers": (OPEN + headers(1), PROTOCOL_ERROR),
    "8.1.1 a body that is too long": (
        headers(1, [*POST, (b"content-length", b"1")], end=False) + data(1, b"test", end=True),
        PROTOCOL_ERROR,
    ),
    "8.1.1 bodies that are too short": (
        headers(1, [*POST, (b"content-length", b"9")], end=False)
        + data(1, b"test")
        + data(1, b"test", end=True),
        PROTOCOL_ERROR,
    ),
    "8.1.1 no body, but a length": (fields_of((b"content-length", b"1")), PROTOCOL_ERROR),
    "8.1.1 two lengths": (
        fields_of((b"content-length", b"0"), (b"content-length", b"1")),
        PROTOCOL_ERROR,
    ),
    "8.1.1 no length": (fields_of((b"content-length", b"-1")), PROTOCOL_ERROR),
    "8.2 upper case": (fields_of((b"X-Test", b"ok")), PROTOCOL_ERROR),
    "8.2.1 an empty name": (fields_of((b"", b"x")), PROTOCOL_ERROR),
    "8.2.1 a name with a space": (fields_of((b"a b", b"x")), PROTOCOL_ERROR),
    "8.2.1 a value with a line end": (fields_of((b"a", b"x\r\nb: c")), PROTOCOL_ERROR),
    "8.2.1 a value with a NUL": (fields_of((b"a", b"\0")), PROTOCOL_ERROR),
    "8.2.1 a value that begins with a space": (fields_of((b"a", b" x")), PROTOCOL_ERROR),
    "8.3 an unknown pseudo-header": (headers(1, [(b":test", b"x"), *GET]), PROTOCOL_ERROR),
    "8.3 one of responses": (headers(1, [(b":status", b"200"), *GET]), PROTOCOL_ERROR),
    "8.3 one behind a header": (headers(1, [(b"a", b"b"), *GET]), PROTOCOL_ERROR),
    "8.3.1 an empty path": (fields_of((b":path", b""), without=b":path"), PROTOCOL_ERROR),
    "8.3.1 a path without a slash": (fields_of((b":path", b"x"), without=b":path"), PROTOCOL_ERROR),
    "8.3.1 a bad escape": (fields_of((b":path", b"/%zz"), without=b":path"), PROTOCOL_ERROR),
    "8.3.1 GET *": (fields_of((b":path", b"*"), without=b":path"), PROTOCOL_ERROR),
    "8.3.1 no method": (fields_of(without=b":method"), PROTOCOL_ERROR),
    "8.3.1 no scheme": (fields_of(without=b":scheme"), PROTOCOL_ERROR),
    "8.3.1 no path": (fields_of(without=b":path"), PROTOCOL_ERROR),
    "8.3.1 two methods": (headers(1, [GET[0], *GET]), PROTOCOL_ERROR),
    "8.3.1 two schemes": (headers(1, [GET[1], *GET]), PROTOCOL_ERROR),
    "8.3.1 two paths": (headers(1, [GET[2], *GET]), PROTOCOL_ERROR),
    "8.3.1 a method that is none": (
        fields_of((b":method", b"G T"), without=b":method"),
        PROTOCOL_ERROR,
    ),
    "8.5 CONNECT with a path": (
        fields_of((b":method", b"CONNECT"), without=b":method"),
        PROTOCOL_ERROR,
    ),
    "RFC 8441: CONNECT of WebSocket": (
        headers(1, [(b":method", b"CONNECT"), (b":protocol", b"websocket"), *GET[1:]]),
        PROTOCOL_ERROR,
    ),
}  # fmt: skip


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(("sent", "code"), STREAM_ERRORS.values(), ids=STREAM_ERRORS)
def test_stream_errors(sent: bytes, code: int, step: int) -> None:
    """The stream is reset with the code, and the connection goes on."""
    client = connected(answer=None)
    client.send(sent, step=step)
    resets = [each for each in client.sent if each.kind == frames.RST_STREAM]
    assert [(each.stream, each.number) for each in resets] == [(1, code)]
    assert client.protocol.state is State.OPEN
    assert client.protocol.is_idle
    client.answer = b"ok"
    client.send(headers(99))
    assert client.sent[-1].stream == 99


CONNECTION_ERRORS: dict[str, tuple[bytes, int]] = {
    "4.2 a long DATA frame": (OPEN + data(1, bytes(16385)), FRAME_SIZE_ERROR),
    "4.2 a long HEADERS frame": (block(1, bytes(16385)), FRAME_SIZE_ERROR),
    "4.3 an invalid block": (block(1, b"\xff\xff\xff\xff\xff\xff"), COMPRESSION_ERROR),
    "4.3 PRIORITY in a block": (block(1, GET_BLOCK, 0) + PRIORITY, PROTOCOL_ERROR),
    "4.3 other HEADERS in a block": (block(1, GET_BLOCK, 0) + headers(3), PROTOCOL_ERROR),
    "5.1 DATA of an idle stream": (data(1, b"test"), PROTOCOL_ERROR),
    "5.1 RST_STREAM of an idle stream": (reset(1, 8), PROTOCOL_ERROR),
    "5.1 WINDOW_UPDATE of an idle stream": (window_update(1, 100), PROTOCOL_ERROR),
    "5.1 CONTINUATION of an idle stream": (continuation(1, GET_BLOCK), PROTOCOL_ERROR),
    "5.1.1 an even stream": (headers(2), PROTOCOL_ERROR),
    "5.1.1 a lower stream": (headers(5) + headers(3), PROTOCOL_ERROR),
    "5.3.1 a wrong PRIORITY of an idle stream": (
        frame(frames.PRIORITY, 0, 1, b"\0\0\0\1\1"),
        PROTOCOL_ERROR,
    ),
    "5.4.1 a wrong PING": (frame(frames.PING, 0, 3, bytes(8)), PROTOCOL_ERROR),
    "5.5 an extension in a block": (block(1, GET_BLOCK, 0) + frame(0x16, 0, 0), PROTOCOL_ERROR),
    "6.1 DATA of stream 0": (data(0, b"test"), PROTOCOL_ERROR),
    "6.1 DATA with long padding": (OPEN + frame(frames.DATA, PADDED, 1, b"\x07test"), 1),
    "6.1 DATA without its padding": (OPEN + frame(frames.DATA, PADDED, 1, b""), PROTOCOL_ERROR),
    "6.2 HEADERS of stream 0": (headers(0), PROTOCOL_ERROR),
    "6.2 HEADERS with long padding": (
        block(1, b"\xff" + GET_BLOCK, END_HEADERS | END_STREAM | PADDED),
        PROTOCOL_ERROR,
    ),
    "6.2 a block with long padding": (block(1, b"\xff", PADDED), PROTOCOL_ERROR),
    "6.2 HEADERS without their priority": (block(1, b"\0", 0x25), PROTOCOL_ERROR),
    "6.3 PRIORITY of stream 0": (frame(frames.PRIORITY, 0, 0, bytes(5)), PROTOCOL_ERROR),
    "6.4 RST_STREAM of stream 0": (reset(0, 8), PROTOCOL_ERROR),
    "6.4 RST_STREAM of a wrong length": (
        OPEN + frame(frames.RST_STREAM, 0, 1, b"\0"),
        FRAME_SIZE_ERROR,
    ),
    "6.5 ACK with a payload": (frame(frames.SETTINGS, ACK, 0, bytes(6)), FRAME_SIZE_ERROR),
    "6.5 SETTINGS of a stream": (frame(frames.SETTINGS, 0, 1, bytes(6)), PROTOCOL_ERROR),
    "6.5 SETTINGS of a wrong length": (frame(frames.SETTINGS, 0, 0, bytes(3)), FRAME_SIZE_ERROR),
    "6.5.2 ENABLE_PUSH": (settings({frames.ENABLE_PUSH: 2}), PROTOCOL_ERROR),
    "6.5.2 INITIAL_WINDOW_SIZE": (
        settings({frames.INITIAL_WINDOW_SIZE: 1 << 31}),
        FLOW_CONTROL_ERROR,
    ),
    "6.5.2 a small MAX_FRAME_SIZE": (settings({frames.MAX_FRAME_SIZE: 16383}), PROTOCOL_ERROR),
    "6.5.2 a large MAX_FRAME_SIZE": (settings({frames.MAX_FRAME_SIZE: 1 << 24}), PROTOCOL_ERROR),
    "6.6 PUSH_PROMISE": (frame(frames.PUSH_PROMISE, END_HEADERS, 1, bytes(4)), PROTOCOL_ERROR),
    "6.7 PING of a stream": (frame(frames.PING, 0, 1, bytes(8)), PROTOCOL_ERROR),
    "6.7 PING of a wrong length": (frame(frames.PING, 0, 0, bytes(6)), FRAME_SIZE_ERROR),
    "6.8 GOAWAY of a stream": (frame(frames.GOAWAY, 0, 1, bytes(8)), PROTOCOL_ERROR),
    "6.8 a short GOAWAY": (frame(frames.GOAWAY, 0, 0, bytes(4)), FRAME_SIZE_ERROR),
    "6.9 WINDOW_UPDATE of 0": (window_update(0, 0), PROTOCOL_ERROR),
    "6.9 WINDOW_UPDATE of a wrong length": (
        frame(frames.WINDOW_UPDATE, 0, 0, bytes(3)),
        FRAME_SIZE_ERROR,
    ),
    "6.9.1 a window that is too large": (window_update(0, frames.MAX_WINDOW), FLOW_CONTROL_ERROR),
    "6.9.2 a window that becomes too large": (
        OPEN
        + window_update(1, frames.MAX_WINDOW - frames.DEFAULT_WINDOW)
        + settings({frames.INITIAL_WINDOW_SIZE: frames.DEFAULT_WINDOW + 1}),
        FLOW_CONTROL_ERROR,
    ),
    "6.10 DATA in a block": (block(1, GET_BLOCK, 0) + data(1, b"x"), PROTOCOL_ERROR),
    "6.10 CONTINUATION of stream 0": (
        block(1, GET_BLOCK, 0) + continuation(0, b""),
        PROTOCOL_ERROR,
    ),
    "6.10 CONTINUATION behind END_HEADERS": (headers(1) + continuation(1), PROTOCOL_ERROR),
    "6.10 CONTINUATION behind the last one": (
        block(1, GET_BLOCK, END_STREAM) + continuation(1) + continuation(1),
        PROTOCOL_ERROR,
    ),
    "6.10 CONTINUATION behind DATA": (OPEN + data(1) + continuation(1), PROTOCOL_ERROR),
    "HPACK 2.3.3 an invalid index": (block(1, b"\xfe"), COMPRESSION_ERROR),
    "HPACK 2.3.3 the name of an invalid index": (block(1, b"\x7f\x0f\1x"), COMPRESSION_ERROR),
    "HPACK 4.2 a size at the end": (block(1, GET_BLOCK + b"\x20"), COMPRESSION_ERROR),
    "HPACK 5.2 long Huffman padding": (block(1, b"\x00\x81\x1f\x82\x1f\xff"), COMPRESSION_ERROR),
    "HPACK 5.2 Huffman padding of zeros": (block(1, b"\x00\x81\x18\1x"), COMPRESSION_ERROR),
    "HPACK 5.2 EOS": (block(1, b"\x00\x84\xff\xff\xff\xff\1x"), COMPRESSION_ERROR),
    "HPACK 6.1 index 0": (block(1, b"\x80"), COMPRESSION_ERROR),
    "HPACK 6.3 a size above the limit": (block(1, b"\x3f\xe2\x1f"), COMPRESSION_ERROR),
}  # fmt: skip


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(("sent", "code"), CONNECTION_ERRORS.values(), ids=CONNECTION_ERRORS)
def test_connection_errors(sent: bytes, code: int, step: int) -> None:
    """The connection ends with GOAWAY and the code, its streams are lost, and nothing follows."""
    client = connected(answer=None)
    client.send(sent, step=step)
    last = client.sent[-1]
    assert (last.kind, int.from_bytes(last.payload[4:8])) == (frames.GOAWAY, code)
    assert client.protocol.is_finished
    assert client.protocol.running == 0
    assert client.send(headers(7), PING) == []


CLOSED_STREAMS: dict[str, bytes] = {
    "DATA": data(1, b"test"),
    "HEADERS": headers(1),
    "CONTINUATION": block(1, b"", 0) + continuation(1),
}


@pytest.mark.parametrize("sent", CLOSED_STREAMS.values(), ids=CLOSED_STREAMS)
def test_closed_stream(sent: bytes) -> None:
    """5.1: a stream that has ended in both directions takes no more frames."""
    client = connected()
    client.send(headers(1))
    last = client.send(sent)[-1]
    assert (last.kind, int.from_bytes(last.payload[4:8])) == (frames.GOAWAY, STREAM_CLOSED)


@pytest.mark.parametrize("sent", CLOSED_STREAMS.values(), ids=CLOSED_STREAMS)
def test_stream_that_the_server_has_reset(sent: bytes) -> None:
    """5.1: what the client has sent before it knew of RST_STREAM is ignored."""
    client = connected()
    client.send(fields_of((b"A", b"b")))
    assert client.send(sent) == []
    assert client.protocol.state is State.OPEN


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        frames.PREFACE[:-1] + b"x",
        frames.PREFACE + headers(1),
        frames.PREFACE + frame(frames.SETTINGS, ACK, 0),
        frames.PREFACE + window_update(0, 1),
    ],
)
def test_preface(start: bytes) -> None:
    """3.4: the preface and SETTINGS come first; the server's first frame is its SETTINGS."""
    client = Client()
    client.send(start)
    assert client.sent[0].kind == frames.SETTINGS
    last = client.sent[-1]
    assert (last.kind, int.from_bytes(last.payload[4:8])) == (frames.GOAWAY, PROTOCOL_ERROR)


def test_settings_of_the_server() -> None:
    """6.5.2: what the server announces."""
    sent = Client(max_streams=7).send(START)
    assert dict(frames.SETTING.iter_unpack(sent[0].payload)) == {
        frames.MAX_CONCURRENT_STREAMS: 7,
        frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        frames.MAX_HEADER_LIST_SIZE: HEADER_LIST_BYTES,
    }
    assert sent[-1] == Frame(frames.SETTINGS, ACK, 0, b"")


def test_ping() -> None:
    """6.7: a PING is answered with its payload."""
    assert connected().send(PING) == [Frame(frames.PING, ACK, 0, b"12345678")]


def test_too_many_streams() -> None:
    """5.1.2: a stream above the limit is refused, and its fields are still decoded."""
    client = connected(answer=None, max_streams=1)
    client.send(OPEN)
    client.send(block(3, GET_BLOCK + b"\x40\4name\5value"))
    assert client.sent[-1] == Frame(frames.RST_STREAM, 0, 3, REFUSED_STREAM.to_bytes(4))
    client.send(reset(1, 8), block(5, GET_BLOCK + b"\xbe"))
    assert client.requests[5].request.headers["Name"] == "value"


def test_small_windows() -> None:
    """6.9.1: no DATA frame exceeds a window; 6.9.2: a change of the initial window counts for open
    streams, and a window may become negative."""
    client = connected(answer=b"abcdefgh")
    client.send(settings({frames.INITIAL_WINDOW_SIZE: 3}), headers(1))
    assert client.sent[-1] == Frame(frames.DATA, 0, 1, b"abc")
    assert client.send(settings({frames.INITIAL_WINDOW_SIZE: 2}))[1:] == []
    assert client.send(window_update(1, 1)) == []
    assert client.send(window_update(1, 2)) == [Frame(frames.DATA, 0, 1, b"de")]
    answers = client.send(settings({frames.INITIAL_WINDOW_SIZE: 100}))
    assert answers[-1] == Frame(frames.DATA, END_STREAM, 1, b"fgh")
    several = settings({frames.INITIAL_WINDOW_SIZE: 100}) + settings(
        {frames.INITIAL_WINDOW_SIZE: 1}
    )
    assert client.send(several, headers(3))[-1] == Frame(frames.DATA, 0, 3, b"a")


def test_window_of_the_connection() -> None:
    """6.9.1: all streams share the window of the connection; each gets its part."""
    client = connected(answer=bytes(60_000))
    client.send(headers(1), headers(3))
    sizes = [len(each.payload) for each in client.sent if each.kind == frames.DATA]
    assert sum(sizes) == frames.DEFAULT_WINDOW
    assert {each.stream for each in client.sent if each.kind == frames.DATA} == {1, 3}
    rest = client.send(window_update(0, 60_000))
    assert sum(len(each.payload) for each in rest) == 120_000 - frames.DEFAULT_WINDOW
    assert client.protocol.is_idle


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"connection", b"close"), (b"keep-alive", b"5"), (b"proxy-connection", b"close"),
        (b"transfer-encoding", b"chunked"), (b"upgrade", b"websocket"), (b"te", b"gzip"),
    ],
)  # fmt: skip
def test_headers_of_connections(name: bytes, value: bytes) -> None:
    """8.2.2: a header of HTTP/1.1's connections is malformed; Go's text comes before the reset."""
    client = connected()
    client.send(fields_of((name, value)))
    assert client.fields(1) == {
        ":status": "400",
        "content-type": "text/plain; charset=utf-8",
        "x-content-type-options": "nosniff",
    }
    text = client.sent[-2].payload
    assert text.startswith(b'request header "')
    assert text.endswith(b"in HTTP/2\n")
    assert client.sent[-1] == Frame(frames.RST_STREAM, 0, 1, PROTOCOL_ERROR.to_bytes(4))


@pytest.mark.parametrize(
    "fields",
    [
        [(b"x", b"%d" % number) for number in range(200)],
        [(b"x", b"y" * 70_000)],
    ],
)
def test_large_headers(fields: list[tuple[bytes, bytes]]) -> None:
    """Many and large headers get status 431, as in Go, and the connection goes on."""
    client = connected()
    encoded = headers(1, [*GET, *fields])[frames.HEADER.size :]
    parts = [encoded[start : start + 16384] for start in range(0, len(encoded), 16384)]
    sent = [block(1, parts[0], END_STREAM)]
    sent += [continuation(1, part, end=False) for part in parts[1:]]
    client.send(*sent, continuation(1))
    assert client.fields(1)[":status"] == "431"
    assert client.send(headers(3))[-1] == Frame(frames.DATA, END_STREAM, 3, b"ok")


def test_fields_of_a_request() -> None:
    """8.2.3 and 8.3.1: cookies become one header, the authority becomes Host."""
    client = connected()
    client.send(fields_of((b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"host", b"other")))
    headers_of_request = client.requests[1].request.headers
    assert headers_of_request["Cookie"] == "a=1; b=2"
    assert headers_of_request.getall("Host") == ["x"]
