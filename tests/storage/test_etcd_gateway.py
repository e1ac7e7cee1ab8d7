"""Calls of etcd's JSON gateway, against servers with scripted responses.

A proxy may stand before the gateway, so each form of a response that HTTP/1.1 permits is accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from kapiserver.storage.errors import StorageError
from kapiserver.storage.etcd import gateway, transport
from kapiserver.storage.etcd.gateway import GatewayTransport
from kapiserver.storage.etcd.transport import EtcdError, RequestNotSent, ResponseLost


class Gateway:
    """A scripted gateway: its transport, and the requests that it received."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.transport = GatewayTransport(None, "")
        self.requests: asyncio.Queue[bytes] = asyncio.Queue()

    async def call(self, method: str = "/kv/range", *, token: str = "") -> bytes:
        """Send a call."""
        return await self.transport.call(self.url, method, b"{}", token)


@asynccontextmanager
async def scripted_gateway(*answers: Sequence[bytes]) -> AsyncIterator[Gateway]:
    """Yield a gateway that answers each request with the next of `answers`, piece by piece. It
    closes the connection after the last."""
    remaining = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while remaining:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split()[0])
                scripted.requests.put_nowait(head + await reader.readexactly(length))
                for piece in remaining.pop(0):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    scripted = Gateway(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield scripted
    finally:
        await scripted.transport.close()
        server.close()
        await asyncio.sleep(0)


OK = b"HTTP/1.1 200 OK\r\n"
RESPONSE = OK + b'Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"a":"b"}'


@pytest.mark.parametrize(
    "wire",
    [
        RESPONSE,
        OK + b'Content-Length:9\r\n\r\n{"a":"b"}',
        OK + b'content-length:\t9 \r\nX:\r\n\r\n{"a":"b"}',
        b'HTTP/1.1 200\r\nCONTENT-LENGTH: 9\r\n\r\n{"a":"b"}',
        OK + b'X-Long: a\r\n b\r\nContent-Length: 9\r\n\r\n{"a":"b"}',
        OK + b'Vary: a\r\nVary: b\r\nContent-Length: 9\r\n\r\n{"a":"b"}',
        OK + b'transfer-encoding:chunked\r\n\r\n3\r\n{"a\r\n6\r\n":"b"}\r\n0\r\n\r\n',
        OK + b'Transfer-Encoding: Chunked\r\n\r\n9;x=y\r\n{"a":"b"}\r\n0\r\nX: y\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\n" + RESPONSE,
        OK + b'Connection: close\r\n\r\n{"a":"b"}',
        b'HTTP/1.0 200 OK\r\n\r\n{"a":"b"}',
    ],
)
async def test_responses(wire: bytes) -> None:
    """Each legal form of a response is read, however it is split into pieces."""
    bytewise = [wire[at : at + 1] for at in range(len(wire))]
    for pieces in ([wire], bytewise):
        async with scripted_gateway(pieces) as scripted:
            assert await scripted.call() == b'{"a":"b"}'


async def test_requests() -> None:
    """Calls share a connection."""
    async with scripted_gateway([RESPONSE], [RESPONSE]) as scripted:
        await scripted.call()
        await scripted.call("/kv/txn", token="t")
        first, second = scripted.requests.get_nowait(), scripted.requests.get_nowait()
        assert first.startswith(b"POST /v3/kv/range HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"Authorization" not in first
        assert b"\r\nAuthorization: t\r\n" in second
        assert second.endswith(b"\r\n\r\n{}")


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        RESPONSE[:-1],
        b"SSH-2.0-x\r\n\r\n",
        OK + b'\r\n{"a":',
        OK + b"Content-Length: -3\r\n\r\n",
        OK + b"Content-Length: 9999999999999\r\n\r\n",
        OK + b"Content-Length: 9\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 xyz OK\r\nContent-Length: 0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\n{",
        OK + b"X: " + b"x" * (1 << 20),
    ],
)
async def test_bad_responses(wire: bytes) -> None:
    """A malformed or truncated response raises ResponseLost."""
    async with scripted_gateway([wire]) as scripted:
        with pytest.raises(ResponseLost):
            await scripted.call()


async def test_long_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response above the limit raises ResponseLost."""
    monkeypatch.setattr(gateway, "MAX_MESSAGE_BYTES", 8)
    async with scripted_gateway([RESPONSE]) as scripted:
        with pytest.raises(ResponseLost, match="too long"):
            await scripted.call()


async def test_redirects_and_refusals() -> None:
    """A redirect is not followed: it is a refusal, as each status but 200."""
    redirect = b"HTTP/1.1 307 x\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
    refused = b'{"error":"etcdserver: too many requests","code":8}'
    refusal = b"HTTP/1.1 429 x\r\nContent-Length:%d\r\n\r\n%b" % (len(refused), refused)
    async with scripted_gateway([redirect], [refusal]) as scripted:
        with pytest.raises(StorageError, match="HTTP status 307"):
            await scripted.call()
        with pytest.raises(EtcdError, match="too many requests"):
            await scripted.call()
        assert scripted.requests.qsize() == 2


async def test_no_server() -> None:
    """Nothing is sent without a server."""
    async with scripted_gateway([RESPONSE]) as scripted:
        pass
    with pytest.raises(RequestNotSent):
        await scripted.call()
    await scripted.transport.close()


async def test_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without a response, or without a free connection, times out."""
    monkeypatch.setattr(gateway, "MAX_CONNECTIONS", 1)
    async with scripted_gateway([], [RESPONSE]) as scripted:
        monkeypatch.setattr(transport, "CALL_SECONDS", 1.0)
        first = asyncio.create_task(scripted.call())
        await scripted.requests.get()
        monkeypatch.setattr(transport, "CALL_SECONDS", 0.01)
        with pytest.raises(RequestNotSent):
            await scripted.call()
        with pytest.raises(ResponseLost):
            await first
        monkeypatch.undo()
        assert await scripted.call() == b'{"a":"b"}'


async def test_cancelled_call() -> None:
    """The response of a cancelled call is not used for the next call."""
    async with scripted_gateway([], [RESPONSE]) as scripted:
        first = asyncio.create_task(scripted.call("/first"))
        await scripted.requests.get()
        first.cancel()
        assert await scripted.call("/next") == b'{"a":"b"}'
        assert first.cancelled()


async def test_lost_request_is_not_sent_again() -> None:
    """A request whose connection ends before the response is sent once."""
    async with scripted_gateway([RESPONSE], [], [RESPONSE]) as scripted:
        await scripted.call()
        lost = asyncio.create_task(scripted.call())
        await scripted.requests.get()
        await scripted.requests.get()
        await scripted.transport.close()
        with pytest.raises(ResponseLost):
            await lost
        assert scripted.requests.empty()


async def test_close_during_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call to another endpoint while the transport closes fails nothing, and its connections are
    closed, too."""
    closing = GatewayTransport(None, "")
    first = closing._gateway("http://127.0.0.1:1")
    close, others = first.close, []

    async def close_slowly() -> None:
        others.append(closing._gateway("http://127.0.0.1:2"))
        await close()

    monkeypatch.setattr(first, "close", close_slowly)
    await closing.close()
    assert others
    assert not closing._gateways
