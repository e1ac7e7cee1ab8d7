"""--shutdown-send-retry-after and --shutdown-watch-termination-grace-period."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from msgspec.structs import replace

from kapiserver.apiserver.config import FRONTS
from kapiserver.apiserver.request import Outcome, Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import AnyResponse, text_response
from kapiserver.apiserver.serving.exchange import STREAMS_PER_SECOND, Dispatcher
from kapiserver.apiserver.shutdown import ShutdownSettings
from kapiserver.apiserver.user import ANONYMOUS, User

MAPS = "/api/v1/namespaces/default/configmaps"
BODY = b'{"metadata":{"name":"a"}}'
TEXT = b"The apiserver is shutting down, please try again later.\n"


def _get(port: int, path: str, agent: str = "kubectl/v1.37.0") -> bytes:
    """Send a request on a connection of its own, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: {agent}\r\n\r\n"
        client.sendall(head.encode())
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("front", FRONTS)
def test_retry_after(make_server: Callable[..., Any], front: str) -> None:
    """While requests in flight finish, new ones get 429, but for health checks, metrics and API
    servers. A connection closes after its response."""
    server = make_server(http=front, shutdown_send_retry_after=True)
    port = server.api.port
    with socket.create_connection(("127.0.0.1", port)) as in_flight:
        head = (
            f"POST {MAPS} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n"
        )
        in_flight.sendall(head.encode())
        assert in_flight.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        server.begin_end()
        while server.api.get("/version").status == 200:
            pass
        response = _get(port, "/version")
        headers, _, body = response.partition(b"\r\n\r\n")
        assert headers.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        lines = headers.split(b"\r\n")
        for line in (
            b"Retry-After: 5",
            b"Connection: close",
            b"Content-Type: text/plain; charset=utf-8",
            b"X-Content-Type-Options: nosniff",
        ):
            assert line.lower() in [each.lower() for each in lines]
        assert body == TEXT
        assert b" 500 " in _get(port, "/readyz")
        assert b" 200 " in _get(port, "/livez")
        assert b" 200 " in _get(port, "/metrics")
        assert b" 200 " in _get(port, "/version", "kube-apiserver/v1.37.0")
        in_flight.sendall(BODY)
        response = b"".join(iter(lambda: in_flight.recv(65536), b""))
    assert response.startswith(b"HTTP/1.1 201 Created\r\n")
    assert b"connection: close" in response.lower()
    server.end()
    with pytest.raises(ConnectionRefusedError):
        _get(port, "/version")


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("grace", [0.0, 30.0])
def test_watches_end(make_server: Callable[..., Any], front: str, grace: float) -> None:
    """Watches end cleanly, also with a grace period, which is the longest time only."""
    server = make_server(
        http=front,
        shutdown_watch_termination_grace_period=grace,
        shutdown_send_retry_after=bool(grace),
    )
    with ExitStack() as stack:
        watches = [stack.enter_context(server.api.watch(f"{MAPS}?watch=1")) for _ in range(3)]
        server.begin_end()
        for watch in watches:
            watch.response.read()  # raises IncompleteRead without the last chunk
    server.end()


async def _no_body(limit: int) -> bytes:
    return b""


class _Stream:
    """An exchange with a stream that ends when it is closed."""

    def __init__(self) -> None:
        self.is_closed = asyncio.Event()

    def make_request(self, user: User) -> Request:
        return Request(
            method="GET", path="/", query={}, headers={}, info=parse_request_info("GET", "/", {}),
            read_body=_no_body, user=user,
        )  # fmt: skip

    async def respond(self, response: AnyResponse, *, is_last: bool) -> Outcome:
        await self.is_closed.wait()
        return Outcome(status=200, bytes_sent=0, finished=True)

    def close_stream(self) -> None:
        self.is_closed.set()

    def abort(self) -> None:
        raise AssertionError


class _Upload(_Stream):
    """An exchange that ends when its client has sent everything."""

    def close_stream(self) -> None:
        pass


async def _handle(_request: Request) -> AnyResponse:
    return text_response("")


@pytest.mark.parametrize("grace", [0.0, 0.05])
def test_pace(grace: float) -> None:
    """Streams end one after the other during the grace period, and all at once without one."""

    async def run() -> None:
        dispatcher = Dispatcher(_handle, user=ANONYMOUS)
        streams = [_Stream() for _ in range(10)]
        async with asyncio.TaskGroup() as group:
            for stream in streams:
                group.create_task(dispatcher.dispatch(stream))
            await asyncio.sleep(0)
            ending = group.create_task(dispatcher.end_streams(grace))
            await asyncio.sleep(0)
            assert sum(stream.is_closed.is_set() for stream in streams) == (1 if grace else 10)
            await ending
            assert all(stream.is_closed.is_set() for stream in streams)
            await dispatcher.wait_current(30)

    asyncio.run(run())
    assert STREAMS_PER_SECOND == 200


def test_wait_for_those_in_progress() -> None:
    """`wait_current` does not wait for requests that begin later, whatever has ended before."""

    async def run() -> None:
        dispatcher = Dispatcher(_handle, user=ANONYMOUS)
        first, second = _Upload(), _Upload()
        async with asyncio.TaskGroup() as group:
            stream = group.create_task(dispatcher.dispatch(_Stream()))
            await asyncio.sleep(0)
            await dispatcher.end_streams(0)
            await stream
            group.create_task(dispatcher.dispatch(first))
            await asyncio.sleep(0)
            waiting = group.create_task(dispatcher.wait_current(30))
            await asyncio.sleep(0)
            later = group.create_task(dispatcher.dispatch(second))
            await asyncio.sleep(0)
            assert not waiting.done()
            first.is_closed.set()
            await waiting
            assert not later.done()
            second.is_closed.set()

    asyncio.run(run())


def test_longest_shutdown() -> None:
    """The supervisor of workers waits for all steps of a shutdown."""
    settings = ShutdownSettings(
        shutdown_delay_duration=1.0,
        shutdown_timeout=2.0,
        shutdown_watch_termination_grace_period=4.0,
    )
    assert settings.longest(8.0) == 7
    assert replace(settings, shutdown_send_retry_after=True).longest(8.0) == 15
