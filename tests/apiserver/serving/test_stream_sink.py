"""A stream gives its connection the bytes of frames in pieces, at the speed of the client."""

import asyncio
import itertools
from typing import Any

from kapiserver.apiserver.serving.http1.stream_sink import PIECE_BYTES, StreamSink
from kapiserver.storage.concurrency.requester import REQUESTER, Requester


class _Transport(asyncio.WriteTransport):
    """A connection whose client reads when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = b""
        self.received = b""
        self.is_closed = False
        self.read = asyncio.Event()

    def write(self, data: Any) -> None:
        self.buffer += data

    def get_write_buffer_size(self) -> int:
        return len(self.buffer)

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        self.is_closed = True
        self.read.set()

    async def drain(self) -> None:
        while len(self.buffer) > PIECE_BYTES and not self.is_closed:
            await self.read.wait()
            self.read.clear()

    def take_all(self) -> None:
        """The client reads all that was written."""
        self.received, self.buffer = self.received + self.buffer, b""
        self.read.set()


def _started() -> tuple[_Transport, StreamSink]:
    transport = _Transport()
    sink = StreamSink(transport, transport.drain, chunked=False)
    sink.start(b"head ")
    return transport, sink


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_small_frames_are_written_at_once() -> None:
    """Frames before the head wait for it; later ones are written at once."""

    async def check() -> None:
        transport = _Transport()
        sink = StreamSink(transport, transport.drain, chunked=True)
        sink.write(b"one")
        assert (transport.buffer, sink.backlog()) == (b"", 3)
        sink.start(b"head ")
        sink.write(b"two")
        assert transport.buffer == b"head 3\r\none\r\n3\r\ntwo\r\n"
        assert sink.bytes_sent == 6

    asyncio.run(check())


def test_slow_client() -> None:
    """The connection of a client that does not read holds two pieces; the rest waits in the sink,
    and arrives in order."""

    async def check() -> None:
        transport, sink = _started()
        large = b"a" * (10 * PIECE_BYTES)
        sink.write(large)
        sink.write(b"small")
        await _settle()
        assert len(transport.buffer) <= 2 * PIECE_BYTES + len(b"head ")
        assert sink.backlog() == len(b"head ") + len(large) + len(b"small")
        sink.close()
        flushed = asyncio.create_task(sink.flush())
        while not flushed.done():
            transport.take_all()
            await asyncio.sleep(0)
        transport.take_all()
        assert transport.received == b"head " + large + b"small"
        assert sink.backlog() == 0

    asyncio.run(check())


def test_abort_drops_what_waits() -> None:
    """An aborted stream keeps no frames and ends its waiters."""

    async def check() -> None:
        transport, sink = _started()
        sink.write(b"a" * (10 * PIECE_BYTES))
        drained = asyncio.create_task(sink.wait_drained())
        await _settle()
        assert not drained.done()
        sink.abort()
        await drained
        assert sink.backlog() == len(transport.buffer)
        assert sink.closed.done()

    asyncio.run(check())


def test_streams_take_turns() -> None:
    """In one round of the event loop one stream writes a piece, and users take turns: many streams
    with much to send hold up nobody."""

    class FastClient(_Transport):
        def __init__(self, name: str, log: list[tuple[int, str]]) -> None:
            super().__init__()
            self.name, self.log = name, log

        def write(self, data: Any) -> None:
            self.log.append((rounds[-1], self.name))

    rounds = [0]

    async def check() -> list[tuple[int, str]]:
        log: list[tuple[int, str]] = []
        sinks = []
        for user, number in (("busy", 3), ("other", 1)):
            REQUESTER.set(Requester(user))
            for _ in range(number):
                client = FastClient(user, log)
                sinks.append(StreamSink(client, client.drain, chunked=False))
        for sink in sinks:
            sink.start(b"head")
        log.clear()
        for sink in sinks:
            sink.write(bytes(3 * PIECE_BYTES))
        for number in range(40):
            rounds.append(number)
            await asyncio.sleep(0)
        return log

    log = asyncio.run(check())
    written, users = zip(*log, strict=True)
    assert len(log) == 12
    assert all(earlier < later for earlier, later in itertools.pairwise(written))
    assert users[:6] == ("busy", "other", "busy", "other", "busy", "other")
