"""Loads what every worker of `--workers` needs, before the supervisor forks the workers.

Most modules are imported, and most codecs compiled, when they are first needed. A worker that did
so after the fork would have them in memory of its own. So the supervisor runs a cluster in memory
for a moment, and sends it the requests that nearly all clients send. No thread is left when that is
over, as a fork requires.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from contextlib import AsyncExitStack

from kapiserver.api.lazy import lazy
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import open_cluster
from kapiserver.control_loops import start_access, start_controllers
from kapiserver.controllers.defaults.bootstrap import create_system_namespaces
from kapiserver.storage.backends import backend_of

_CODE_OF_WORKERS = (
    lazy("kapiserver.app:serve"),
    lazy("kapiserver.storage.cache.sharing:MemorySharing"),
)
_NAME = "warm-up"
_OBJECT: Tree = {"metadata": {"name": _NAME}, "data": {"a": "b"}}


def warm_up(storage: str) -> None:
    """Load the code of requests, and that of the store that a `--storage` flag selects."""
    with contextlib.suppress(ModuleNotFoundError):  # the worker that opens the store reports it
        for code in (*_CODE_OF_WORKERS, *backend_of(storage).code):
            code()
    asyncio.run(_send_requests())
    gc.collect()  # what the cluster has left: the workers never collect what they inherit


async def _send_requests() -> None:
    async with open_cluster(Config()) as cluster, AsyncExitStack() as stack:
        await start_access(cluster, stack)
        await create_system_namespaces(cluster.server)
        manager = await start_controllers(cluster, is_first_worker=False)
        stack.push_async_callback(manager.stop)
        client = cluster.server.client(APISERVER, user_agent=_NAME, authorize=False)
        objects = client.resource("v1", "configmaps", namespace="default")
        created = await objects.create(_OBJECT)
        await objects.get(_NAME)
        await objects.list()
        await objects.update(created)
        await objects.patch(_NAME, {"data": {"a": "c"}})
        await objects.delete(_NAME)
