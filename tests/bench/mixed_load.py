"""What one more request costs a server that has a mixed load.

WATCHERS watches of one namespace are open, and CONNECTIONS clients send requests one after another:
those of BASE, of all kinds, and many of one kind, in an order that is the same for every server.
Two windows that differ in how many of that kind there are give its cost. Both keep the server busy
with that kind, because a server that is idle most of the time needs another amount of CPU for the
requests of BASE.

Numbers of requests, not times, say how long a window is, so that a busy machine changes little. A
load may be several times as large: with as many clients and requests for each worker as for one
process.
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
WATCHERS = 1000
LIST_LENGTH = 100
OBJECTS = 500
"""Objects that are written. With as few as there are clients, PUTs through two workers would write
the same object within milliseconds and conflict, which objects of users seldom do."""
BASE = {"GET": 200, "list": 5, "create": 50, "PUT": 50, "change": 5}
"""Requests of every window; `change` is a PUT of an object that the watchers watch."""
MORE = {
    "GET": (2000, 8000), "list": (200, 800), "create": (500, 2000), "PUT": (500, 2000),
}  # fmt: skip
"""How many requests of a kind the two windows have besides."""

_DELIVERY_SECONDS = 0.3
"""How long a window goes on for the events of its last requests."""
_LONGEST_LOAD_SECONDS = 3600.0
_LIST_NAMESPACE = "bench-mixed"

Send = Callable[[Connection], Awaitable[None]]


class MixedLoad:
    """The load of one server, so many times; made by `mixed_load`."""

    def __init__(self, target: Target, opened: Sequence[Connection], times: int) -> None:
        self.target = target
        self.times = times
        self._connections = opened
        self._objects = times * OBJECTS
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
            await asyncio.gather(*map(send, self._connections))

    async def windows(self, kind: str) -> tuple[Window, Window, int]:
        """Return what two windows cost, and how many requests of a kind the second one has more."""
        few, many = MORE[kind]
        return (
            await self._window(kind, few),
            await self._window(kind, many),
            (many - few) * self.times,
        )

    async def _window(self, kind: str, more: int) -> Window:
        counts = BASE | {kind: BASE[kind] + more}
        kinds = [kind for kind, count in counts.items() for _ in range(count * self.times)]
        random.Random(0).shuffle(kinds)

        async def run(connection: Connection, kind: str) -> None:
            await self._sends[kind](connection)

        with self.target.window() as window:
            await spread(self._connections, kinds, run)
            await asyncio.sleep(_DELIVERY_SECONDS)
        return window

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
    ):
        load = MixedLoad(target, opened, times)
        await load.prepare()
        try:
            yield load
        finally:
            assert process.stdin is not None
            process.stdin.write(b"0 0\n")  # nobody checks what the watchers have received
