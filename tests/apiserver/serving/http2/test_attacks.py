"""Clients that attack the server by HTTP/2: each is sent away, and what it makes the server hold
and do is bounded."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import pytest

from kapiserver.apiserver.serving.http2 import limits
from kapiserver.apiserver.serving.http2.events import StreamLost
from kapiserver.apiserver.serving.http2.protocol import ServerProtocol, State
from kapiserver.apiserver.serving.http2.settings import MAX_STREAMS
from kapiserver.codecs.http2 import frames
from kapiserver.codecs.http2.frames import (
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    frame,
    reset,
    settings,
    window_update,
)
from kapiserver.codecs.http2.hpack import encode_integer
from tests.apiserver.serving.http2.protocolkit import (
    GET,
    POST,
    Client,
    block,
    connected,
    continuation,
    data,
    headers,
)
from tests.traced_memory import trace

MEMORY = 4 << 20
"""The most that a connection may hold in any attack."""
STREAMS = range(1, 1 << 20, 2)
LARGE_FIELD = b"\x40\1n" + encode_integer(4000, 0x7F, 0) + b"v" * 4000


def rapid_reset() -> Iterator[bytes]:
    """CVE-2023-44487."""
    for stream in STREAMS:
        yield headers(stream) + reset(stream, frames.CANCEL)


def resets_by_faults() -> Iterator[bytes]:
    """CVE-2025-8671: the client makes the server reset the streams."""
    for stream in STREAMS:
        yield headers(stream, POST, end=False) + window_update(stream, 0)


def malformed_requests() -> Iterator[bytes]:
    for stream in STREAMS:
        yield headers(stream, [(b":path", b"x")])


def refused_headers() -> Iterator[bytes]:
    for stream in STREAMS:
        yield headers(stream, [*GET, (b"connection", b"close")])


def too_many_streams() -> Iterator[bytes]:
    for stream in STREAMS:
        yield headers(stream, POST, end=False)


def continuations() -> Iterator[bytes]:
    """CVE-2024-27316."""
    yield block(1, b"", 0)
    while True:
        yield continuation(1, b"\x10\1a\1b" * 3000, end=False)


def empty_continuations() -> Iterator[bytes]:
    """CVE-2019-9518."""
    yield block(1, b"", 0)
    yield from itertools.repeat(continuation(1, b"", end=False))


def empty_data() -> Iterator[bytes]:
    """CVE-2019-9518."""
    yield headers(1, POST, end=False)
    yield from itertools.repeat(data(1))


def padded_data() -> Iterator[bytes]:
    yield headers(1, POST, end=False)
    yield from itertools.repeat(frame(frames.DATA, frames.PADDED, 1, b"\xff" + bytes(255)))


def data_of_reset_streams() -> Iterator[bytes]:
    yield headers(1, POST, end=False) + reset(1, frames.CANCEL)
    yield from itertools.repeat(data(1, bytes(100)))


def settings_flood() -> Iterator[bytes]:
    """CVE-2019-9515."""
    yield from itertools.repeat(settings({}))


def long_settings() -> Iterator[bytes]:
    yield frame(frames.SETTINGS, 0, 0, frames.SETTING.pack(0xFF, 1) * 1000)


def windows_by_settings() -> Iterator[bytes]:
    yield b"".join(headers(stream, POST, end=False) for stream in STREAMS[:MAX_STREAMS])
    for size in itertools.count():
        yield settings({frames.INITIAL_WINDOW_SIZE: size % 100})


def pings() -> Iterator[bytes]:
    """CVE-2019-9512."""
    yield from itertools.repeat(frame(frames.PING, 0, 0, bytes(8)))


def ping_answers() -> Iterator[bytes]:
    yield from itertools.repeat(frame(frames.PING, frames.ACK, 0, bytes(8)))


def priorities() -> Iterator[bytes]:
    """CVE-2019-9513."""
    for stream in itertools.count(1):
        yield frame(frames.PRIORITY, 0, stream, bytes(5))


def unknown_frames() -> Iterator[bytes]:
    yield from itertools.repeat(frame(0xEE, 0, 0, bytes(100)))


def dribble() -> Iterator[bytes]:
    """CVE-2019-9511: windows that let the server send a byte at a time."""
    yield settings({frames.INITIAL_WINDOW_SIZE: 0}) + headers(1)
    yield from itertools.repeat(window_update(1, 1))


def windows_of_nothing() -> Iterator[bytes]:
    yield headers(1)
    yield from itertools.repeat(window_update(0, 1))


def windows_of_a_closed_stream() -> Iterator[bytes]:
    yield headers(1) + reset(1, frames.CANCEL)
    yield from itertools.repeat(window_update(1, 1 << 16))


def windows_of_the_connection() -> Iterator[bytes]:
    yield from itertools.repeat(window_update(0, 1 << 11))


def header_bomb() -> Iterator[bytes]:
    """A block that names a large field of its table again and again."""
    yield block(1, LARGE_FIELD + b"\xbe" * 10_000)


def header_bombs_with_names() -> Iterator[bytes]:
    large = b"\x40" + encode_integer(4000, 0x7F, 0) + b"v" * 4000 + b"\1x"
    yield block(1, large + b"\x7e\1y" * 4000)


def huffman_bomb() -> Iterator[bytes]:
    """Huffman codes of 5 bits, in a block as long as one may be."""
    part = b"\x00\1x" + encode_integer(10_000, 0x7F, 0x80) + b"\x00" * 10_000
    encoded = part * 20
    yield block(1, encoded[:16384], 0)
    for start in range(16384, len(encoded), 16384):
        is_last = start + 16384 >= len(encoded)
        yield continuation(1, encoded[start : start + 16384], end=is_last)


def empty_fields() -> Iterator[bytes]:
    """CVE-2019-9516: fields without a name and a value cost something, too."""
    yield block(1, (b"\x00\0\0" * 5400)) + block(3, b"\x00\0\0" * 5400)
    yield from (block(stream, b"\x00\0\0" * 5400) for stream in STREAMS[2:])


CALM: dict[str, Callable[[], Iterator[bytes]]] = {
    attack.__name__: attack
    for attack in (
        rapid_reset, resets_by_faults, malformed_requests, refused_headers, too_many_streams,
        continuations, empty_continuations, empty_data, padded_data, data_of_reset_streams,
        settings_flood, long_settings, windows_by_settings, pings, ping_answers, priorities,
        unknown_frames, dribble, windows_of_nothing, windows_of_a_closed_stream,
        windows_of_the_connection, header_bomb, header_bombs_with_names,
        huffman_bomb, empty_fields,
    )
}  # fmt: skip


def attack(client: Client, sent: Iterator[bytes]) -> int:
    """Send bytes until the server ends the connection; return how often it has read."""
    most_running = 0
    for count, piece in enumerate(sent):
        client.send(piece)
        most_running = max(most_running, client.protocol.running)
        if client.protocol.state is State.FAILED:
            assert most_running <= limits.RUNNING_PER_STREAM * MAX_STREAMS
            return count
        assert count < 10 * limits.ALLOWANCE, "the server goes on"
    raise AssertionError("the server goes on")


@pytest.mark.parametrize("sent", CALM.values(), ids=CALM)
def test_calm(sent: Callable[[], Iterator[bytes]]) -> None:
    """The connection ends with ENHANCE_YOUR_CALM."""
    client = connected(answer=bytes(1 << 20))
    attack(client, sent())
    last = client.sent[-1]
    assert (last.kind, int.from_bytes(last.payload[4:8])) == (frames.GOAWAY, ENHANCE_YOUR_CALM)


@pytest.mark.parametrize("sent", CALM.values(), ids=CALM)
def test_calm_without_reading(sent: Callable[[], Iterator[bytes]]) -> None:
    """The connection ends, too, if the client reads nothing: only frames about the connection go
    out then."""
    client = connected(answer=bytes(100_000))
    client.protocol.take_output(1 << 20)
    for piece in itertools.islice(sent(), 10 * limits.ALLOWANCE):
        client.send(piece, room=0)
        if client.protocol.state is State.FAILED:
            break
    assert client.protocol.state is State.FAILED
    assert sum(len(each.payload) for each in client.sent) < 100_000


@pytest.mark.slow  # tracemalloc
@pytest.mark.own_process
@pytest.mark.parametrize("room", [0, 1 << 20])
def test_memory(room: int) -> None:
    """No attack makes a connection hold much, whether the client reads or not."""
    for name, sent in CALM.items():
        client = connected(answer=None)

        def run(protocol: ServerProtocol, pieces: Iterator[bytes]) -> None:
            for piece in pieces:
                for event in protocol.receive(piece, 0):
                    if isinstance(event, StreamLost):
                        protocol.running -= 1
                protocol.take_output(room)
                if protocol.state is State.FAILED:
                    return

        pieces = itertools.islice(sent(), 10 * limits.ALLOWANCE)
        assert trace(functools.partial(run, client.protocol, pieces)).peak < MEMORY, name


def test_cancelled_requests_in_handlers() -> None:
    """Handlers that go on after a reset are counted: the next streams are refused."""
    client = connected(answer=None)
    for stream in STREAMS[: 2 * MAX_STREAMS]:
        client.send(headers(stream))
        client.send(reset(stream, frames.CANCEL))
        client.protocol.running += 1  # its handler goes on
    refused = client.send(headers(2001))
    assert [(each.kind, each.number) for each in refused] == [
        (frames.RST_STREAM, frames.REFUSED_STREAM)
    ]


@pytest.mark.parametrize("is_trusted", [False, True])
def test_bodies_that_no_handler_takes(is_trusted: bool) -> None:
    """A client that has not authenticated may send 1 MiB on all its streams; one that has, 256 KiB
    on each."""
    client = connected(answer=None)
    if is_trusted:
        client.protocol.trust()
    protocol = client.protocol
    sent = 0
    for stream in STREAMS[:MAX_STREAMS]:
        protocol.receive(headers(stream, POST, end=False), 0)
        for _ in range(limits.STREAM_WINDOW // 16384):
            protocol.receive(data(stream, bytes(16384)), 0)
            if protocol.state is State.FAILED:
                assert not is_trusted
                assert sent == limits.ANONYMOUS_WINDOW
                return
            sent += 16384
    assert is_trusted
    assert sent == MAX_STREAMS * limits.STREAM_WINDOW


def test_more_than_the_window_of_a_stream() -> None:
    """A stream with more bytes than its window is reset, and the connection goes on."""
    client = connected(answer=None)
    client.protocol.receive(headers(1, POST, end=False), 0)
    for _ in range(limits.STREAM_WINDOW // 16384 + 1):
        client.protocol.receive(data(1, bytes(16384)), 0)
    last = client.take()[-1]
    assert (last.kind, last.number) == (frames.RST_STREAM, FLOW_CONTROL_ERROR)
    assert client.protocol.state is State.OPEN


def test_allowance_comes_back() -> None:
    """A client may send PINGs for ever, if it takes its time."""
    client = connected()
    ping = frame(frames.PING, 0, 0, bytes(8))
    for _ in range(10):
        client.send(ping * (limits.ALLOWANCE - 100))
        client.now += limits.ALLOWANCE / limits.REFUND_PER_SECOND
    assert client.protocol.state is State.OPEN


def test_useful_windows() -> None:
    """A client may answer each event of a stream with two windows, and cancel what it has begun as
    long as it also lets the server respond."""
    client = connected(answer=None)
    client.send(headers(1))
    event = client.requests[1]
    for _ in range(5 * limits.ALLOWANCE):
        client.protocol.send(event.stream, data=b"event")
        client.send(window_update(1, 5), window_update(0, 5))
    assert client.protocol.state is State.OPEN
    client.answer = b"ok"
    for stream in STREAMS[1 : 5 * limits.ALLOWANCE]:
        client.send(headers(stream))
        client.send(window_update(0, 2), frame(frames.PING, 0, 0, bytes(8)))
    assert client.protocol.state is State.OPEN


def test_lists() -> None:
    """A client may read lists as client-go does: the stream has ended when it acknowledges each
    4 KiB, on the stream and on the connection."""
    size = 1 << 20
    client = connected(answer=bytes(size))
    client.send(settings({frames.INITIAL_WINDOW_SIZE: 4 << 20}), window_update(0, 1 << 30))
    for stream in STREAMS[:20]:
        client.send(headers(stream))
        client.send(*[window_update(stream, 4096) + window_update(0, 4096)] * (size // 4096))
    assert client.protocol.state is State.OPEN


def test_responses_that_wait() -> None:
    """While the transport is full, no response moves to it, however many requests arrive."""
    client = connected(answer=b"")
    client.protocol.take_output(1 << 20)
    for stream in STREAMS[: 10 * MAX_STREAMS]:
        client.send(headers(stream, [(b":method", b"HEAD"), *GET[1:]]), room=0)
    kinds = {each.kind for each in client.sent}
    assert frames.HEADERS not in kinds
    assert sum(len(each.payload) for each in client.sent) < 10_000
