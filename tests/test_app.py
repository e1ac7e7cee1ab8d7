"""The parts of a server that a test replaces through `Parts`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from kapiserver.apiserver.authorizer import Decision, Rules, Verdict
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Filter, Handler, Server
from kapiserver.apiserver.errors import TooManyRequests
from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.filters import FILTERS
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.user import User
from kapiserver.app import serve
from kapiserver.parts import Parts
from kapiserver.spans import Trace
from kapiserver.storage.concurrency.clock import SystemClock
from kapiserver.testing.state.memory_store import open_memory_store
from tests.clock import ManualClock
from tests.storage.recorder import Recorder

MAPS = "/api/v1/namespaces/default/configmaps"
BODY = {"metadata": {"generateName": "map-"}}


@asynccontextmanager
async def _client(**parts: Any) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    config = Config.of(secure_port=None, insecure_port=0, shutdown_timeout=1)
    async with serve(config, Parts(**parts)) as running, aiohttp.ClientSession() as session:
        yield session, running.url


async def _create(session: aiohttp.ClientSession, url: str) -> tuple[int, Any]:
    async with session.post(url + MAPS, json=BODY) as response:
        return response.status, await response.json()


class _PredictableIdentifiers:
    """Identifiers that a test can predict."""

    rng = random.Random(1)

    def __init__(self) -> None:
        self.count = 0

    def uid(self) -> str:
        self.count += 1
        return f"00000000-0000-4000-8000-{self.count:012d}"

    def suffix(self) -> str:
        return "abcde"


def test_clock_and_identifiers() -> None:
    """Timestamps follow the given clock, and uids and names the given identifiers."""

    async def run() -> None:
        async with _client(
            clock=ManualClock(1_000_000_000.0), identifiers=_PredictableIdentifiers()
        ) as client:
            status, created = await _create(*client)
        assert status == 201
        metadata = created["metadata"]
        assert metadata["name"] == "map-abcde"
        assert metadata["creationTimestamp"] == "2001-09-09T01:46:40Z"
        assert metadata["uid"].startswith("00000000-0000-4000-8000-")

    asyncio.run(run())


def test_filters() -> None:
    """A custom filter runs at its place in the list."""
    users = []

    def record(server: Server, next_handler: Handler) -> Handler:
        async def handle(request: Request) -> AnyResponse:
            users.append(request.user.name)
            return await next_handler(request)

        return handle

    filters: Sequence[Filter] = (*FILTERS, record)

    async def run() -> None:
        async with _client(filters=filters) as client:
            assert (await _create(*client))[0] == 201
        assert users == ["system:unsecured"]

    asyncio.run(run())


def test_spans() -> None:
    """A request has a span for each part of the work, whatever layer does it, with its parent."""
    traces: list[Trace] = []

    def record(server: Server, next_handler: Handler) -> Handler:
        async def handle(request: Request) -> AnyResponse:
            if request.info.verb == "create":
                traces.append(request.trace)
            return await next_handler(request)

        return handle

    async def run() -> None:
        async with _client(filters=(*FILTERS, record)) as client:
            assert (await _create(*client))[0] == 201

    asyncio.run(run())
    (trace,) = traces
    outermost = dict.fromkeys(each.name for each in trace.spans if each.parent is None)
    assert list(outermost) == ["authentication", "authorization", "body", "admission", "etcd"]
    # A first request fills the informers of admission plugins.
    parents = {each.parent.name for each in trace.spans if each.parent is not None}
    assert parents <= {"admission"}
    assert all(trace.start <= each.start <= each.end for each in trace.spans)


class _ReadOnly:
    """Denies every verb except get."""

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        if info.verb == "get":
            return Decision(verdict=Verdict.ALLOW)
        return Decision(verdict=Verdict.DENY, reason="read only")

    async def rules_for(self, user: User, namespace: str) -> Rules:
        return Rules()


def test_authorizer() -> None:
    """The given authorizer replaces the configured ones."""

    async def run() -> None:
        async with _client(authorizer=_ReadOnly()) as client:
            status, status_body = await _create(*client)
        assert status == 403
        assert status_body["message"].endswith('in the namespace "default": read only')

    asyncio.run(run())


class _Failing:
    """A fault that fails creates before or after their handler."""

    def __init__(self, *, error_before: Exception | None, error_after: Exception | None) -> None:
        self._before = error_before
        self._after = error_after

    async def before(self, request: Request) -> AnyResponse | None:
        if self._before is not None and request.info.verb == "create":
            raise self._before
        return None

    async def after(self, request: Request, response: AnyResponse) -> None:
        if self._after is not None and request.info.verb == "create":
            raise self._after


@pytest.mark.parametrize(("fails_before", "objects"), [(True, 0), (False, 1)])
def test_faults(fails_before: bool, objects: int) -> None:
    """A fault replaces the handler, or replaces the response after the handler has written."""
    faults = _Failing(
        error_before=TooManyRequests() if fails_before else None,
        error_after=None if fails_before else TooManyRequests(),
    )

    async def run() -> None:
        async with _client(faults=faults) as (session, url):
            assert (await _create(session, url))[0] == 429
            assert await _count(session, url) == objects

    asyncio.run(run())


def test_dropped_connection() -> None:
    """A fault can close the connection after the write."""

    async def run() -> None:
        async with _client(faults=_Failing(error_before=None, error_after=DropConnection())) as (
            session,
            url,
        ):
            with pytest.raises(aiohttp.ClientConnectionError):
                await _create(session, url)
            assert await _count(session, url) == 1

    asyncio.run(run())


async def _count(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(f"{url}{MAPS}") as response:
        items = (await response.json())["items"]
    return sum(item["metadata"]["name"].startswith("map-") for item in items)


def test_stop_cancels_own_writes() -> None:
    """A server that stops right after its start does not complete the writes of its own loops."""

    async def written_keys() -> set[str]:
        store = await open_memory_store(SystemClock())
        recorder = Recorder()
        store.watch("", after=store.revision, sink=recorder)
        async with serve(Config.of(secure_port=None, insecure_port=0), Parts(kv=store)):
            pass
        return {event.key for event in recorder.seen}

    keys = asyncio.run(written_keys())
    assert "/registry/namespaces/default" in keys
    assert not [key for key in keys if "/endpointslices/" in key or "/priorityclasses/" in key]
