"""The storage backends, by the word before the colon in `--storage`.

To add one: a module in this package that keeps the contract of `storage/kv.py`, and one line in
`BACKENDS`. A backend's module is imported when it is asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from kapiserver.storage.clock import Clock, SystemClock
from kapiserver.storage.errors import Refused, Unavailable
from kapiserver.storage.etcd_config import EtcdConfig
from kapiserver.storage.kv import KV

MEMORY = ":memory:"
STARTING_SECONDS = 20.0
"""How long an etcd is waited for that does not answer: it may be started at the same moment."""
AGAIN_SECONDS = 1.0

_log = logging.getLogger(__name__)


async def _sqlite(where: str, clock: Clock, _etcd: EtcdConfig) -> KV:
    from kapiserver.storage.embedded_store import open_local

    return await open_local(None if where == MEMORY else Path(where), clock=clock)


async def _etcd(where: str, _clock: Clock, etcd: EtcdConfig) -> KV:  # etcd has its own clock
    from kapiserver.storage.etcd_store import open_etcd

    config = replace(etcd, endpoints=tuple(map(_endpoint, where.split(","))))
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        try:
            return await open_etcd(config)
        except Refused:
            raise
        except Unavailable as error:
            if loop.time() - begun >= STARTING_SECONDS:
                raise
            _log.warning("%s; trying again", error)
        await asyncio.sleep(AGAIN_SECONDS)


def _endpoint(text: str) -> str:
    url = urlsplit(text)
    more = url.path.strip("/") or url.query or url.fragment or "@" in url.netloc
    if url.scheme not in ("http", "https") or not url.hostname or more:
        raise ValueError(f"{text}: want http://HOST:PORT or https://HOST:PORT of an etcd")
    return f"{url.scheme}://{url.netloc}"


BACKENDS: dict[str, Callable[[str, Clock, EtcdConfig], Awaitable[KV]]] = {
    "sqlite": _sqlite,  # sqlite:PATH, sqlite::memory:
    "etcd": _etcd,  # etcd:URL,URL,...
}


async def open_store(
    spec: str, *, clock: Clock | None = None, etcd: EtcdConfig | None = None
) -> KV:
    """Open the store that a `--storage` flag names, for the running event loop; `etcd` says how to
    get into one in etcd, whose endpoints are those of `spec`. Raises ValueError for an unknown or
    incomplete one, StoreLocked, Corrupt, Unavailable, OSError for certificates that are no good."""
    name, _, where = spec.partition(":")
    if name not in BACKENDS or not where:
        known = ", ".join(f"{each}:..." for each in BACKENDS)
        raise ValueError(f"--storage={spec}: want one of {known}")
    return await BACKENDS[name](where, clock or SystemClock(), etcd or EtcdConfig())
