"""The HTTP connections to etcd, against servers with scripted responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from kapiserver.storage.etcd import gateway_http
from kapiserver.storage.etcd.gateway import GatewayTransport
from kapiserver.storage.etcd.gateway_http import ConnectionPool, HTTPResponse
from kapiserver.storage.etcd.transport import RequestNotSent, ResponseLost

SECONDS = 60.0


@asynccontextmanager
async def scripted_server(
    *answers: Sequence[bytes],
) -> AsyncIterator[tuple[ConnectionPool, asyncio.Queue[bytes]]]:
    """Yield connections to a server that answers each request with the next of `answers`, chunk by
    chunk, and the requests it received."""
    remaining = list(answers)
    requests: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while remaining:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split()[0])
                requests.put_nowait(head + await reader.readexactly(length))
                for piece in remaining.pop(0):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connections = ConnectionPool(f"http://127.0.0.1:{port}", None)
    try:
        yield connections, requests
    finally:
        connections.close()
        server.close()
        await asyncio.sleep(0)


RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\nA\r\nlo, world!\r\n0\r\n\r\n"
)
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("wire", "response"),
    [
        (RESPONSE, HTTPResponse(200, b"hello")),
        (CHUNKED, HTTPResponse(400, b"hello, world!")),
        (EMPTY, HTTPResponse(200, b"")),
    ],
)
async def test_responses(wire: bytes, response: HTTPResponse) -> None:
    """A response is parsed however it is split into chunks, and so is the next one on the same
    connection."""
    chunks = [wire]
    bytewise = [wire[at : at + 1] for at in range(len(wire))]
    async with scripted_server(chunks, bytewise, chunks) as (connections, requests):
        for _ in range(3):
            assert await connections.post("/x", b"A: b\r\n", b"{}", seconds=SECONDS) == response
        request = requests.get_nowait()
    assert request.startswith(b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:")
    assert request.endswith(b"\r\nA: b\r\nContent-Length: 2\r\n\r\n{}")


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        RESPONSE[:-1],
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n",
        b"HTTP/1.1 xyz OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * (gateway_http.MAX_HEAD_BYTES + 1),
    ],
)
async def test_bad_responses(wire: bytes) -> None:
    """A malformed or truncated response raises BrokenOff."""
    async with scripted_server([wire]) as (connections, _):
        with pytest.raises(ResponseLost):
            await connections.post("/x", b"", b"", seconds=SECONDS)


async def test_no_server() -> None:
    """Nothing is sent without a server, or after close."""
    async with scripted_server([RESPONSE]) as (connections, _):
        pass
    with pytest.raises(RequestNotSent):
        await connections.post("/x", b"", b"", seconds=SECONDS)
    with pytest.raises(RequestNotSent):
        await ConnectionPool("http://127.0.0.1:1", None).post("/x", b"", b"", seconds=SECONDS)


async def test_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without a response, or without a free connection, times out."""
    monkeypatch.setattr(gateway_http, "MAX_CONNECTIONS", 1)
    async with scripted_server([], [RESPONSE]) as (connections, _):
        first = asyncio.create_task(connections.post("/x", b"", b"", seconds=1))
        await asyncio.sleep(0)
        with pytest.raises(RequestNotSent):
            await connections.post("/x", b"", b"", seconds=0.01)
        with pytest.raises(ResponseLost):
            await first
        assert await connections.post("/x", b"", b"", seconds=SECONDS) == HTTPResponse(
            200, b"hello"
        )


async def test_cancelled_call() -> None:
    """The response of a cancelled call is not used for the next call."""
    async with scripted_server([], [RESPONSE]) as (connections, requests):
        first = asyncio.create_task(connections.post("/first", b"", b"", seconds=SECONDS))
        await requests.get()
        first.cancel()
        assert await connections.post("/next", b"", b"", seconds=SECONDS) == HTTPResponse(
            200, b"hello"
        )
        assert first.cancelled()


async def test_close_during_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call to another endpoint while the transport closes fails nothing, and its connections are
    closed, too."""
    transport = GatewayTransport(None, "")
    first = transport._gateway("http://127.0.0.1:1")
    close, others = first.close, []

    async def close_slowly() -> None:
        others.append(transport._gateway("http://127.0.0.1:2"))
        await close()

    monkeypatch.setattr(first, "close", close_slowly)
    await transport.close()
    assert others
    assert not transport._gateways
