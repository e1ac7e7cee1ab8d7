"""What one more request costs a server that has a mixed load.

WATCHERS watches of one namespace are open, and every window has the writes of BACKGROUND, at times
that are the same for every server. In a window of one kind, CONNECTIONS clients send requests of
that kind besides, one after another, and the CPU of a window without them is subtracted. The times
matter: writes that come together cost less than those that come one by one, because a follower gets
their events together. A load may be several times as large: with as many clients and requests for
each worker as for one process.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import orjson

from tests.bench.client import Connection, Target, connections, spread
from tests.bench.measures import WATCH_NAMESPACE, watchers
from tests.bench.objects import configmap, ensure_namespace, path
from tests.bench.processes import Window

CONNECTIONS = 64
BACKGROUND_CONNECTIONS = 16
WATCHERS = 1000
LIST_LENGTH = 100
BACKGROUND = {"create": 50, "PUT": 50, "change": 5}
"""Writes of every window; `change` is a PUT of an object that the watchers watch. No reads, because
they would share reads of etcd's newest revision with others, which would seem to cost less."""
BACKGROUND_SECONDS = 1.0
"""The time in which they are sent."""
ADDED = {"GET": 6000, "list": 600, "create": 1500, "PUT": 1500}
"""Requests that a window of one kind has besides: so many that they take most of its time, and more
CPU than the others, whose CPU differs from window to window."""

_DELIVERY_SECONDS = 0.3
"""How long a window goes on for the events of its last requests."""
_LONGEST_LOAD_SECONDS = 3600.0
_LIST_NAMESPACE = "bench-mixed"

Send = Callable[[Connection], Awaitable[None]]


class MixedLoad:
    """The load of one server, so many times; made by `mixed_load`."""

    def __init__(
        self,
        target: Target,
        opened: Sequence[Connection],
        background: Sequence[Connection],
        times: int,
    ) -> None:
        self.target = target
        self.times = times
        self._connections = opened
        self._background_connections = background
        # More than connections: two PUTs of an object in two workers at a time would conflict.
        self._objects = times * LIST_LENGTH
        self._numbers = itertools.count(time.time_ns() // 1000)
        self._template = orjson.dumps(configmap("@NAME@"))
        self._sends: Mapping[str, Send] = {
            "GET": self._get,
            "list": self._list,
            "create": self._create,
            "PUT": self._put,
            "change": self._change,
        }

    async def prepare(self) -> None:
        """Create the objects that requests read and write, and send one of each kind on each
        connection, so that every worker has loaded what it needs."""
        for namespace in ("bench", _LIST_NAMESPACE):
            await ensure_namespace(self._connections[0], namespace)

        async def make(connection: Connection, number: int) -> None:
            body = configmap(f"mixed-{number}")
            await connection.request("POST", path("configmaps"), body)
            if number < LIST_LENGTH:
                url = path("configmaps", namespace=_LIST_NAMESPACE)
                await connection.request("POST", url, body)

        await spread(self._connections, range(self._objects), make)
        for send in self._sends.values():
            await asyncio.gather(*map(send, (*self._connections, *self._background_connections)))

    async def window(self, more: str = "") -> Window:
        """Return what a window with BACKGROUND cost, and with requests of a kind if it is given."""
        numbers = range(ADDED[more] * self.times if more else 0)

        async def run(connection: Connection, _: int) -> None:
            await self._sends[more](connection)

        with self.target.window() as window:
            background = asyncio.create_task(self._run_background())
            await spread(self._connections, numbers, run)
            await background
            await asyncio.sleep(_DELIVERY_SECONDS)
        return window

    async def _run_background(self) -> None:
        """Send the writes of BACKGROUND, each at its time or when a connection is free."""
        kinds = [kind for kind, count in BACKGROUND.items() for _ in range(count * self.times)]
        random.Random(0).shuffle(kinds)
        start = time.perf_counter()

        async def run(connection: Connection, position: int) -> None:
            due = start + BACKGROUND_SECONDS * position / len(kinds)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await self._sends[kinds[position]](connection)

        await spread(self._background_connections, range(len(kinds)), run)

    async def _get(self, connection: Connection) -> None:
        await _request(connection, "GET", path("configmaps", "mixed-0"), 200)

    async def _list(self, connection: Connection) -> None:
        await _request(connection, "GET", path("configmaps", namespace=_LIST_NAMESPACE), 200)

    async def _create(self, connection: Connection) -> None:
        body = self._template.replace(b"@NAME@", b"c-%d" % next(self._numbers))
        await _request(connection, "POST", path("configmaps"), 201, body)

    async def _put(self, connection: Connection) -> None:
        name = f"mixed-{next(self._numbers) % self._objects}"
        await _request(connection, "PUT", path("configmaps", name), 200, self._changed(name))

    async def _change(self, connection: Connection) -> None:
        name = f"w-{next(self._numbers) % 10}"
        url = path("configmaps", name, namespace=WATCH_NAMESPACE)
        await _request(connection, "PUT", url, 200, self._changed(name))

    def _changed(self, name: str) -> bytes:
        body = configmap(name)
        body["data"]["level"] = str(next(self._numbers))
        return orjson.dumps(body)


async def _request(
    connection: Connection, method: str, url: str, status: int, body: bytes | None = None
) -> None:
    response = await connection.request(method, url, body)
    assert response.status == status, response


@asynccontextmanager
async def mixed_load(target: Target, times: int = 1) -> AsyncIterator[MixedLoad]:
    """Open the connections and the watches of a server; so many times as many connections."""
    async with (
        watchers(target, WATCHERS, _LONGEST_LOAD_SECONDS) as process,
        connections(target, times * CONNECTIONS) as opened,
        connections(target, times * BACKGROUND_CONNECTIONS) as background,
    ):
        load = MixedLoad(target, opened, background, times)
        await load.prepare()
        try:
            yield load
        finally:
            assert process.stdin is not None
            process.stdin.write(b"0 0\n")  # nobody checks what the watchers have received
