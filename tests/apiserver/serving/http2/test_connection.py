"""HTTP/2 on sockets: requests, bodies, watches, slow clients and drains, by the library h2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace

import pytest

from kapiserver.apiserver.config import AIOHTTP, ServingSettings
from kapiserver.apiserver.serving.http1 import exchange as http_exchange
from kapiserver.apiserver.serving.http1.connection import HEADER_SECONDS, IDLE_SECONDS
from kapiserver.apiserver.serving.http2.connection import Http2Connection, is_adequate
from kapiserver.apiserver.serving.http2.settings import Http2Settings, http2_settings
from kapiserver.codecs.http2 import frames
from kapiserver.codecs.http2.frames import CANCEL, INTERNAL_ERROR, MAX_STREAM_ID, NO_ERROR
from tests.apiserver.serving.http2.clientkit import connect, listening
from tests.apiserver.serving.http2.protocolkit import block
from tests.apiserver.serving.listenerkit import OUTCOMES, Watch


async def until(condition: Callable[[], object]) -> None:
    """Return when a condition holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("path", "status", "body", "length"),
    [
        ("/a%20b?c=d%26e&c=f", 200, b"GET /a b [('c', ['d&e', 'f'])]", "30"),
        ("/slices", 200, b"a" * 10 + b"b" * 20, None),
        ("/known", 200, b"a" * 10 + b"b" * 20, "30"),
        ("/stream", 200, b"one\ntwo\n", None),
        ("/over", 200, b"", None),
        ("/idle?timeout=0.01", 200, b"", None),
        ("/refused", 409, b"no", "2"),
    ],
)
async def test_responses(path: str, status: int, body: bytes, length: str | None) -> None:
    """Responses and streams arrive whole, with the lengths that are known."""
    async with listening() as (_, client):
        answer = await client.get(path)
    assert (answer.status, answer.body, answer.has_ended) == (status, body, True)
    assert answer.headers.get("content-length") == length
    assert "date" in answer.headers
    assert "connection" not in answer.headers


async def test_head() -> None:
    """A response to HEAD has the Content-Length and no body."""
    async with listening() as (_, client):
        answer = await client.get("/x", "HEAD")
    assert (answer.headers["content-length"], answer.body) == ("10", b"")


@pytest.mark.parametrize(
    ("sizes", "body"), [((5,), b"5"), ((3, 2), b"5"), ((0,), b"0"), ((600, 600), b"large")]
)
async def test_bodies(sizes: tuple[int, ...], body: bytes) -> None:
    """Bodies are read whole, up to the limit."""
    async with listening() as (_, client):
        stream = await client.send("/body", "POST", body=b"")
        for number, size in enumerate(sizes, 1):
            client.h2.send_data(stream, bytes(size), end_stream=number == len(sizes))
            await client.flush()
        assert (await client.wait(stream)).body == body


async def test_large_bodies_of_many_streams() -> None:
    """Bodies larger than the windows pass, several at once."""
    async with listening() as (listener, client):
        Watch.cancelled_event = asyncio.Event()
        streams = [await client.send("/work", "POST", body=b"") for _ in range(4)]
        for stream in streams:
            left = 1 << 20
            while left:
                size = min(client.h2.local_flow_control_window(stream), 16384, left)
                if size:
                    left -= size
                    client.h2.send_data(stream, bytes(size), end_stream=not left)
                    await client.flush()
                else:
                    await client.read()
        assert len(listener.last._tasks) == 4
        client.abort()
        await asyncio.wait_for(Watch.cancelled_event.wait(), 30)


async def test_continue() -> None:
    """A client that waits for 100 Continue gets it when a handler reads the body."""
    async with listening() as (_, client):
        stream = await client.send("/body", "POST", ("expect", "100-continue"), body=b"")
        while not client.answers[stream].informational:
            await client.read()
        client.h2.send_data(stream, b"hello", end_stream=True)
        await client.flush()
        answer = await client.wait(stream)
    assert (answer.informational, answer.body) == (["100"], b"5")


async def test_many_streams() -> None:
    """Responses do not wait for earlier requests."""
    async with listening() as (_, client):
        idle = await client.send("/idle")
        streams = [await client.send(f"/{number}") for number in range(50)]
        bodies = [(await client.wait(stream)).body for stream in streams]
        assert not client.answers[idle].is_over
    assert bodies == [f"GET /{number} []".encode() for number in range(50)]


async def test_failing_body() -> None:
    """A response whose body fails half way is reset, and others go on."""
    async with listening() as (_, client):
        answer = await client.get("/broken")
        assert (answer.body, answer.reset) == (b"a" * 10, INTERNAL_ERROR)
        assert (await client.get("/still")).body == b"GET /still []"


async def test_reset_of_a_watch() -> None:
    """A watch ends when the client resets its stream; its request has ended unfinished."""
    async with listening() as (listener, client):
        before = Watch.cancelled
        OUTCOMES.clear()
        stream = await client.send("/idle")
        while not client.answers[stream].headers:
            await client.read()
        client.h2.reset_stream(stream, CANCEL)
        await client.flush()
        await until(lambda: Watch.cancelled > before and OUTCOMES)
        assert OUTCOMES[0] is not None
        assert not OUTCOMES[0].finished
        await until(lambda: not listener.last._tasks)
        assert listener.last.protocol.running == 0


async def test_reset_in_a_body() -> None:
    """A handler that reads a body learns that the client has reset the stream."""
    async with listening() as (_, client):
        Watch.cancelled_event = asyncio.Event()
        stream = await client.send("/disconnect", "POST", body=b"")
        client.h2.reset_stream(stream, CANCEL)
        await client.flush()
        await asyncio.wait_for(Watch.cancelled_event.wait(), 30)


async def test_slow_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose client lets no more be sent is reset; the other streams go on."""
    monkeypatch.setattr(http_exchange, "SLOW_CLIENT_SECONDS", 0.01)
    async with listening() as (_, client):
        Watch.cancelled_event = asyncio.Event()
        client.acknowledges = False
        answer = await client.get("/large")
        assert answer.reset == INTERNAL_ERROR
        assert len(answer.body) == frames.DEFAULT_WINDOW
        assert (await client.get("/still")).body == b"GET /still []"


async def test_client_that_reads_nothing() -> None:
    """A client that reads nothing pauses its responses, and is gone after a while."""
    async with listening() as (listener, client):
        Watch.cancelled_event = asyncio.Event()
        client.h2.update_settings({frames.INITIAL_WINDOW_SIZE: 1 << 30})
        client.writer.transport.pause_reading()
        for _ in range(10):
            await client.send("/large")
        connection = listener.last
        await until(lambda: connection.is_writing_paused)
        assert connection.transport is not None
        assert connection.transport.get_write_buffer_size() < 4 * http_exchange.WRITE_BYTES
        connection.check(connection._paused_since + http_exchange.SLOW_CLIENT_SECONDS)
        await until(lambda: connection.transport is None and not connection._tasks)


async def test_incomplete_preface_and_headers() -> None:
    """A client that does not complete its preface or a header block is gone after a while."""
    async with listening() as (listener, client):
        connection = listener.last
        await client.get("/")
        now = asyncio.get_running_loop().time()
        client.writer.write(block(3, b"", 0))
        await until(lambda: connection._incomplete_since is not None)
        connection.check(now)
        assert connection.transport is not None
        connection.check(now + HEADER_SECONDS + 30)
        await client.end()
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        await until(lambda: listener.last is not connection and listener.last.transport)
        listener.last.check(asyncio.get_running_loop().time() + HEADER_SECONDS)
        await until(lambda: listener.last.transport is None)
        writer.close()


async def test_idle() -> None:
    """A client without requests is sent away, and gone if it does not answer."""
    async with listening() as (listener, client):
        await client.get("/")
        connection = listener.last
        since = connection._idle_since
        connection.check(since + IDLE_SECONDS)
        await client.end()
        assert client.goaways == [(NO_ERROR, MAX_STREAM_ID), (NO_ERROR, 1)]
        other = await connect(listener.port)
        await other.get("/")
        listener.last.check(listener.last._idle_since + IDLE_SECONDS + HEADER_SECONDS)
        await other.end()
        other.abort()
        assert other.goaways == []


async def test_drain() -> None:
    """A drain ends watches, finishes the requests in flight and those that arrive before the client
    knows, and closes the connection."""
    async with listening() as (listener, client):
        watch = await client.send("/idle")
        body = await client.send("/body", "POST", body=b"")
        while not client.answers[watch].headers:
            await client.read()
        draining = asyncio.create_task(listener.drain(30))
        await asyncio.sleep(0)
        late = await client.send("/late")
        assert (await client.wait(late)).body == b"GET /late []"
        assert (await client.wait(watch)).has_ended
        assert client.goaways[0] == (NO_ERROR, MAX_STREAM_ID)
        client.h2.send_data(body, b"hello", end_stream=True)
        await client.flush()
        assert (await client.wait(body)).body == b"5"
        await client.end()
        await draining
    assert client.goaways[-1] == (NO_ERROR, late)


async def test_drain_cancels() -> None:
    """What does not end within the time of a drain is reset."""
    async with listening() as (listener, client):
        stream = await client.send("/body", "POST", body=b"")
        await until(lambda: listener.last._tasks)
        draining = asyncio.create_task(listener.drain(0.01))
        assert (await client.wait(stream)).reset == CANCEL
        await client.end()
        await draining


async def test_goaway_chance() -> None:
    """A request may send its client to another connection; the request itself is served."""
    async with listening(Http2Settings(goaway_chance=1.0)) as (_, client):
        answer = await client.get("/x")
        assert answer.body == b"GET /x []"
        await client.end()
    assert client.goaways == [(NO_ERROR, MAX_STREAM_ID), (NO_ERROR, 1)]


async def test_malformed_connection() -> None:
    """A client that breaks the protocol gets GOAWAY, and the connection ends."""
    async with listening() as (_, client):
        client.writer.write(frames.frame(frames.PING, 0, 1, bytes(8)))
        with suppress(Exception):
            await client.end()
        assert client.goaways[0][0] == frames.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("cipher", "expected"),
    [
        (("TLS_AES_128_GCM_SHA256", "TLSv1.3", 128), True),
        (("ECDHE-RSA-AES128-GCM-SHA256", "TLSv1.2", 128), True),
        (("ECDHE-ECDSA-CHACHA20-POLY1305", "TLSv1.2", 256), True),
        (("AES128-GCM-SHA256", "TLSv1.2", 128), False),
        (("ECDHE-RSA-AES128-SHA", "TLSv1.2", 128), False),
        (("ECDHE-RSA-AES128-GCM-SHA256", "TLSv1.1", 128), False),
        (None, True),
    ],
)
def test_security(cipher: tuple[str, str, int] | None, expected: bool) -> None:
    """HTTP/2 needs ephemeral keys, authenticated encryption and TLS 1.2."""
    tls = SimpleNamespace(cipher=lambda: cipher)
    assert is_adequate(tls) is expected  # type: ignore[arg-type]


def test_settings() -> None:
    """HTTP/2 is off by its flag and with aiohttp; 0 streams mean 100."""
    assert http2_settings(ServingSettings(disable_http2_serving=True)) is None
    assert http2_settings(ServingSettings(disable_http2_serving=False, http=AIOHTTP)) is None
    settings = http2_settings(ServingSettings(disable_http2_serving=False))
    assert settings == Http2Settings(max_streams=100)


async def test_cycles() -> None:
    """A connection holds nothing of a request that has ended."""
    async with listening() as (listener, client):
        for path in ("/x", "/stream", "/slices"):
            await client.get(path)
        await client.get("/body", "POST", body=b"hello")
        connection: Http2Connection = listener.last
        assert not connection._exchanges
        assert not connection._tasks
        assert connection.protocol.is_idle
