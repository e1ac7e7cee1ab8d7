"""The pure core of HTTP/2 as a whole: with the library h2 as its client, and with any input."""

from __future__ import annotations

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.apiserver.serving.http2 import limits
from kapiserver.apiserver.serving.http2.events import StreamLost
from kapiserver.apiserver.serving.http2.protocol import ServerProtocol, State
from kapiserver.apiserver.serving.http2.request_fields import RefusedRequest, RequestReader
from kapiserver.codecs.http2 import frames
from kapiserver.codecs.http2.frames import ACK, END_STREAM, MAX_STREAM_ID, frame, reset
from kapiserver.codecs.http2.hpack import Field, encode
from tests.apiserver.serving.http2.protocolkit import (
    POST,
    START,
    Client,
    Frame,
    connected,
    data,
    headers,
    split_frames,
)

SIZES = st.sampled_from((0, 1, 5, 1000, 16384, 70_000, 300_000))


class Library:
    """The library h2 as the client of a ServerProtocol whose handler echoes bodies."""

    def __init__(self, window: int, frame_bytes: int, step: int, room: int) -> None:
        self.server = Client(answer=None)
        self._step, self._room = step, room
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self._client = h2.connection.H2Connection(config)
        self._client.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window,
                h2.settings.SettingCodes.MAX_FRAME_SIZE: frame_bytes,
            },
        )
        self._client.max_inbound_frame_size = frame_bytes
        self._client.initiate_connection()
        self.received: dict[int, bytes] = {}
        self.ended: set[int] = set()

    def exchange(self) -> bool:
        """Pass bytes in both directions; return whether there were any."""
        sent = self._client.data_to_send()
        protocol = self.server.protocol
        for start in range(0, len(sent), self._step):
            for event in protocol.receive(sent[start : start + self._step], 0):
                self.server.handle(event)
        output = protocol.take_output(self._room)
        for event in self._client.receive_data(output):
            if isinstance(event, h2.events.DataReceived):
                self.received[event.stream_id] += event.data
                size = event.flow_controlled_length
                self._client.acknowledge_received_data(size, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
        return bool(sent or output or protocol.has_output)

    def request(self, body_bytes: int, answer: bytes) -> int:
        """Begin a request with a body, and respond; return its stream."""
        client = self._client
        stream = client.get_next_available_stream_id()
        fields = [(":method", "POST"), (":scheme", "https"), (":path", f"/{stream}")]
        client.send_headers(stream, [*fields, (":authority", "x")], end_stream=not body_bytes)
        self.received[stream] = b""
        left = body_bytes
        while left:
            size = min(
                left, client.local_flow_control_window(stream), client.max_outbound_frame_size
            )
            if size:
                left -= size
                client.send_data(stream, bytes(size), end_stream=not left)
            self.exchange()
        while stream not in self.server.requests:
            self.exchange()
        assert len(self.server.bodies[stream]) == body_bytes
        event = self.server.requests[stream]
        head = b"\x88"
        self.server.protocol.send(event.stream, head=head, data=answer, is_last=True)
        self.server.protocol.running -= 1
        return stream


@settings(max_examples=30)
@given(
    exchanges=st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=5),
    window=st.sampled_from((1000, 65535, 1 << 20)),
    frame_bytes=st.sampled_from((16384, 100_000)),
    step=st.sampled_from((777, 1 << 20)),
    room=st.sampled_from((1, 5000, 1 << 20)),
)
def test_library(
    exchanges: list[tuple[int, int]], window: int, frame_bytes: int, step: int, room: int
) -> None:
    """Requests and responses of any sizes pass whole, within all windows."""
    library = Library(window, frame_bytes, step, room)
    library.exchange()
    answers = {library.request(size, b"r" * answer): answer for size, answer in exchanges}
    while library.exchange():
        pass
    assert {stream: len(body) for stream, body in library.received.items()} == answers
    assert library.ended == answers.keys()
    assert library.server.protocol.is_idle
    assert library.server.protocol.state is State.OPEN


FRAMES = st.builds(
    frame,
    st.integers(0, 11),
    st.sampled_from((0, 1, 4, 5, 8, 9, 12, 13, 0x20, 0x25, 0xFF)),
    st.sampled_from((0, 1, 2, 3, 5, 7)),
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from((headers(1)[9:], bytes(4), bytes(5), bytes(8), b"\0\0\0\1")),
        st.tuples(st.integers(0, 8), st.integers(0, (1 << 32) - 1)).map(
            lambda setting: frames.SETTING.pack(*setting)
        ),
    ),
)
SENSIBLE = st.sampled_from((
    headers(1), headers(3, POST, end=False), headers(5), headers(7, POST, end=False),
    data(3, b"body"), data(3, b"", end=True), data(7, bytes(500), end=True), reset(3, 8),
    frames.window_update(0, 9), frames.window_update(3, 1 << 20), frames.settings({4: 3}),
    frame(frames.PING, 0, 0, bytes(8)), frame(frames.PING, ACK, 0, b"shutdown"),
))  # fmt: skip
INPUT = st.lists(st.one_of(SENSIBLE, FRAMES, st.binary(max_size=20)), max_size=12).map(b"".join)


@given(received=INPUT, step=st.integers(1, 100), leaves_at=st.integers(0, 9))
def test_any_input(received: bytes, step: int, leaves_at: int) -> None:
    """No input raises, all output is whole frames, and each request ends."""
    client = Client()
    client.send(START)
    for number, start in enumerate(range(0, len(received), step)):
        client.send(received[start : start + step])
        if number == leaves_at:
            client.protocol.shut_down()
    client.protocol.fail(frames.NO_ERROR, "the end")
    client.take()
    assert client.sent[-1].kind == frames.GOAWAY
    assert client.protocol.is_idle
    assert all(event.stream.is_closed for event in client.requests.values())


@given(received=INPUT, step=st.integers(1, 100))
def test_any_pieces(received: bytes, step: int) -> None:
    """The pieces in which bytes arrive make no difference."""
    results = []
    for size in (step, len(received) or 1):
        client = connected(answer=None)
        for start in range(0, len(received), size):
            client.send(received[start : start + size])
        results.append((client.bodies, client.lost, client.sent, client.protocol.state))
    assert results[0] == results[1]


def test_body_behind_its_headers() -> None:
    """A body in the bytes of its headers belongs to its request alone."""
    client = connected()
    sent = headers(1, POST, end=False) + data(1, b"one", end=True) + headers(3)
    client.send(sent + headers(5, POST, end=False) + data(5, b"two", end=True))
    assert client.bodies == {1: b"one", 3: b"", 5: b"two"}
    assert [client.requests[stream].has_body for stream in (1, 3, 5)] == [True, False, True]


def test_shutdown() -> None:
    """Requests that the client sends before it knows of the shutdown are served; the connection
    ends with the last stream."""
    client = connected(answer=None)
    client.send(headers(1, POST, end=False))
    client.protocol.shut_down()
    goaway, ping = client.take()
    assert (goaway.kind, goaway.number) == (frames.GOAWAY, MAX_STREAM_ID)
    client.send(headers(3))
    assert client.protocol.state is State.LEAVING
    last = client.send(frame(frames.PING, ACK, 0, ping.payload))[-1]
    assert (last.kind, last.number) == (frames.GOAWAY, 3)
    assert client.send(headers(5), headers(7, POST, end=False), data(7, b"x" * 99)) == []
    assert set(client.requests) == {1, 3}
    client.answer = b"ok"
    client.respond(client.requests[3])
    client.send(data(1, b"body", end=True))
    assert client.take() == []
    ends = [each.stream for each in client.sent if each.flags & END_STREAM and not each.kind]
    assert ends == [3, 1]
    assert client.bodies[1] == b"body"
    assert client.protocol.is_finished


def test_goaway_of_the_client() -> None:
    """A client that leaves gets its responses; then the connection ends."""
    client = connected(answer=None)
    client.send(headers(1), frame(frames.GOAWAY, 0, 0, bytes(8)))
    assert not client.protocol.is_finished
    client.answer = b"ok"
    client.respond(client.requests[1])
    client.take()
    assert client.protocol.is_finished


def test_response_before_the_request_is_whole() -> None:
    """The client is told that the rest of its request is not needed."""
    client = connected(answer=None)
    client.send(headers(1, POST, end=False))
    client.answer = b"ok"
    client.respond(client.requests[1])
    sent = client.take()
    assert sent[-2:] == [Frame(frames.DATA, END_STREAM, 1, b"ok"), Frame(3, 0, 1, bytes(4))]
    assert client.send(data(1, b"more")) == []
    assert client.protocol.state is State.OPEN


def test_continue() -> None:
    """100 Continue is a header block of its own, before that of the response."""
    client = connected(answer=None)
    client.send(headers(1, POST, end=False))
    client.protocol.send_continue(client.requests[1].stream)
    client.take()
    assert client.fields(1) == {":status": "100"}


def test_acknowledged_bodies() -> None:
    """The windows of a stream and of the connection come back when a handler has taken half."""
    client = connected(answer=None)
    client.send(headers(1, POST, end=False))
    updates = []
    for _ in range(64):
        updates += client.send(data(1, bytes(16384)))
    by_stream = {0: 0, 1: 0}
    for update in updates:
        assert update.kind == frames.WINDOW_UPDATE
        by_stream[update.stream] += update.number
    assert by_stream == {0: 1 << 20, 1: 1 << 20}
    assert len(updates) == 8 + 2


def test_fairness() -> None:
    """A long response does not hold up a short one: they take turns, a frame each."""
    client = connected(answer=bytes(60_000))
    client.send(headers(1), room=1)
    client.answer = b"short"
    sent = client.send(headers(3), room=1 << 20)
    streams = [each.stream for each in sent if each.kind == frames.DATA]
    assert streams.index(3) < 2
    assert streams.count(1) >= 2


FIELDS = st.sampled_from([
    (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/a"), (b":path", b"/b"),
    (b":path", b"*"), (b":path", b"/%"), (b":scheme", b"https"), (b":authority", b"x"),
    (b"accept", b"a"), (b"accept", b"b"), (b"connection", b"x"), (b"content-length", b"1"),
])  # fmt: skip
VALID = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/a"), (b":authority", b"x")]


@given(
    blocks=st.lists(
        st.one_of(
            st.lists(FIELDS, max_size=6),
            st.permutations([*VALID, (b"accept", b"a")]),
            FIELDS.map(lambda field: [*VALID, field]),
            FIELDS.map(lambda field: [*VALID[:2], field, VALID[3]]),
        ),
        max_size=6,
    )
)
def test_known_requests(blocks: list[list[Field]]) -> None:
    """A reader that has read other requests reads each as one that has read none."""

    def read(reader: RequestReader, fields: list[Field]) -> object:
        try:
            request = reader.read(fields)
        except RefusedRequest as error:
            return error.status, error.code, str(error)
        return request.method, request.target, list(request.headers.items()), request.length

    reader = RequestReader()
    for fields in blocks:
        assert read(reader, [*fields]) == read(RequestReader(), [*fields])


@pytest.mark.parametrize("count", [1, 60_000])
def test_long_response_headers(count: int) -> None:
    """A header block that needs several frames is continued."""
    client = connected(answer=None)
    client.send(headers(1))
    block = encode([(b":status", b"200"), (b"x", b"y" * count)])
    client.protocol.send(client.requests[1].stream, head=block, is_last=True)
    sent = client.take()
    assert sent[0].kind == frames.HEADERS
    assert sent[0].flags & END_STREAM
    assert all(each.kind == frames.CONTINUATION for each in sent[1:])
    assert bool(sent[-1].flags & frames.END_HEADERS)
    assert b"".join(each.payload for each in sent) == b"\x20" + block


def test_streams_are_lost_with_the_connection() -> None:
    """Every request in progress is reported as lost, once."""
    protocol = ServerProtocol()
    protocol.receive(START + headers(1) + headers(3, POST, end=False), 0)
    lost = protocol.receive(frame(frames.PING, 0, 1, bytes(8)), 0)
    assert [event.stream.id for event in lost if isinstance(event, StreamLost)] == [1, 3]
    assert split_frames(protocol.take_output(limits.STREAM_WINDOW))[-1].kind == frames.GOAWAY
