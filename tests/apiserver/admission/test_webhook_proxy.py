"""Calls of webhooks by way of an HTTP proxy."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kapiserver.apiserver.webhooks.http_client import Address, Call, HttpClient, WebhookFailed
from tests.storage.etcd_server import free_port

URL = "http://hooks.example.com/review"


@asynccontextmanager
async def _proxy(response: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A proxy that answers each request itself."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(response)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests


async def _send(proxy: str, *, max_bytes: int = 100) -> bytes:
    context = ssl.create_default_context()
    call = Call(body=b"{}", timeout=10, max_bytes=max_bytes)
    async with HttpClient() as client:
        return await client.send(Address(url=URL, proxy=proxy), context, call)


def _failure(response: bytes) -> str:
    async def run() -> None:
        async with _proxy(response) as (proxy, _):
            await _send(proxy)

    with pytest.raises(WebhookFailed) as failed:
        asyncio.run(run())
    return str(failed.value)


def test_request_goes_to_the_proxy() -> None:
    """The proxy gets the whole URL; its response is the webhook's."""

    async def run() -> None:
        async with _proxy(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (proxy, requests):
            assert await _send(proxy) == b"{}"
        assert requests[0].startswith(f"POST {URL} HTTP/1.1\r\n".encode())

    asyncio.run(run())


def test_failures() -> None:
    """Failures have the messages of calls without a proxy."""
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" + b"x" * 101
    assert _failure(large) == "the response is larger than 100 bytes"
    assert _failure(b"") == f'Post "{URL}": EOF'
    assert _failure(b"HTTP/1.1 401 \r\nContent-Length: 0\r\n\r\n").startswith(
        "the server has asked"
    )


def test_no_proxy_there() -> None:
    """A refused connection names the proxy's address."""
    port = free_port()
    with pytest.raises(WebhookFailed) as failed:
        asyncio.run(_send(f"http://127.0.0.1:{port}"))
    text = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert str(failed.value) == f'Post "{URL}": {text}'
