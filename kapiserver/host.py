"""Host: what a process has once, however many clusters it serves.

A cluster (`cluster.py`) has a scheme, objects, users and controllers of its own. Threads for long
work, the memory of the process, the connections that have not authenticated and the lock of a
SQLite file cannot be counted for each cluster alone: a host has them, and `serve` of `app.py` takes
the host of a cluster.

    host = Host(config)
    async with serve(config, host=host) as first, serve(other, host=host) as second:

A host belongs to one event loop. It has nothing to close: a store is closed with the last cluster
that uses it. Signals and logging belong to the program that makes the host (`cli.py`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct, field

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.memory_limit import MemoryLimit, max_memory
from kapiserver.apiserver.serving.connection_limits import ConnectionLimits
from kapiserver.apiserver.serving.http2.settings import http2_settings
from kapiserver.apiserver.serving.listener import ErrorHandler
from kapiserver.apiserver.serving.process.memory import COLLECTOR, free_in_thread
from kapiserver.apiserver.serving.server import HttpServer
from kapiserver.storage.backends import backend_of, open_store
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.concurrency.clock import Clock, SystemClock
from kapiserver.storage.kv.contract import KV


class _SharedStore(Struct):
    """A store that clusters share.

    roots   the prefixes of their keys
    """

    kv: KV
    roots: list[str] = field(default_factory=list)


class Host:
    """What the clusters of one process share.

    offloader           runs their long work in threads
    memory_limit        refuses their requests while the process takes too much memory
    is_first_worker     whether the process does what its server does once, as the controllers: it
                        is the only one, or the first worker of `--workers`
    """

    def __init__(
        self,
        config: Config | None = None,
        sockets: Sequence[socket.socket] = (),
        *,
        is_first_worker: bool = True,
    ) -> None:
        """Take the settings of the process: `max_memory`, `workers`, and those of its fronts; and
        the listening sockets that its first cluster serves instead of opening its secure port."""
        config = config or Config()
        self.is_first_worker = is_first_worker
        self._sockets = sockets
        self.offloader = Offloader()
        self._connection_limits = ConnectionLimits()
        self.memory_limit = MemoryLimit(
            max_memory(config),
            SystemClock(),  # the memory is that of the process, whatever the time of a cluster
            [self._connection_limits.unauthenticated.close_half, free_in_thread],
            COLLECTOR.memory,
        )
        self._front = config.serving.http
        self._http2 = http2_settings(config.serving)
        self._reuse_port = config.serving.workers > 1 or config.serving.permit_port_sharing
        self._stores: dict[str, _SharedStore] = {}
        """The open stores that only one process may open, by their `storage` setting."""
        self._opening = asyncio.Lock()

    def failed_handshakes(self) -> int:
        """Return how many TLS handshakes with clients have failed."""
        return self._connection_limits.unauthenticated.failed_handshakes

    def http_server(self, handle: Handler, on_error: ErrorHandler) -> HttpServer:
        """Return a server without sockets for the requests of one cluster."""
        sockets, self._sockets = self._sockets, ()
        return HttpServer(
            handle,
            on_error,
            self._connection_limits,
            reuse_port=self._reuse_port,
            front=self._front,
            http2=self._http2,
            sockets=sockets,
        )

    @asynccontextmanager
    async def open_store(self, config: Config, clock: Clock) -> AsyncIterator[KV]:
        """Open the store of a cluster until the block ends.

        Clusters whose settings name the same SQLite file share it; it has the clock of the cluster
        that opened it. Each cluster has an etcd client and a store in memory of its own.

        Raises the errors of `storage.backends.open_store`, and ValueError if a cluster that uses
        the same file has the same keys.
        """
        spec, root = config.store.storage, config.store.key_root
        backend = backend_of(spec)
        if backend.shared or not backend.durable:
            kv = await _open(config, clock)
            try:
                yield kv
            finally:
                await kv.close()
            return
        async with self._opening:
            store = self._stores.get(spec)
            if store is None:
                store = self._stores[spec] = _SharedStore(await _open(config, clock))
            _check_root(root, store.roots)
            store.roots.append(root)
        try:
            yield store.kv
        finally:
            async with self._opening:
                store.roots.remove(root)
                if not store.roots:
                    del self._stores[spec]
                    await store.kv.close()


def _check_root(root: str, roots: list[str]) -> None:
    for other in roots:
        above, below = sorted((f"{root}/", f"{other}/"), key=len)
        # Below "/" are the logical clusters of the same process, in a folder of no resource.
        if below.startswith(above) and not below.removeprefix(above).startswith("-"):
            raise ValueError(f"--etcd-prefix={root}: a cluster with the same store has {other}")


async def _open(config: Config, clock: Clock) -> KV:
    store = config.store
    return await open_store(store.storage, clock=clock, root=store.key_root, sections=config)
