"""The storage backends that `--storage` selects.

To add a backend: write a room in this package that implements `storage/kv/contract.py`, and add an
entry to `BACKENDS`. The module of a backend is imported when a store is opened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.storage.concurrency.clock import Clock, SystemClock
from kapiserver.storage.errors import Refused, Unavailable
from kapiserver.storage.etcd.config import EtcdConfig
from kapiserver.storage.kv.contract import KV

MEMORY = ":memory:"
"""The location of a store that only lives in this process."""
START_TIMEOUT_SECONDS = 20.0
"""How long to retry an etcd that does not answer, because it may be starting too."""
START_RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


class StoreSettings(Struct, frozen=True, kw_only=True):
    """Settings of a backend besides its location.

    etcd    credentials and key prefix for etcd
    fsync   flush each transaction of a SQLite file to disk
    """

    clock: Clock
    etcd: EtcdConfig
    fsync: bool


class Backend(Struct, frozen=True, kw_only=True):
    """One kind of store.

    name        the part of `--storage` before the colon
    location    the only location accepted after the colon; "" accepts any
    usage       the form of the flag, for error messages
    open        opens the store at a location
    shared      several servers may use a store at the same time
    durable     an acknowledged write survives the end of the process
    """

    name: str
    location: str = ""
    usage: str
    open: Callable[[str, StoreSettings], Awaitable[KV]]
    shared: bool
    durable: bool


async def _open_memory(_location: str, settings: StoreSettings) -> KV:
    from kapiserver.storage.sqlite.embedded_store import open_embedded

    return await open_embedded(None, clock=settings.clock)


async def _open_sqlite(location: str, settings: StoreSettings) -> KV:
    from kapiserver.storage.sqlite.embedded_store import open_embedded

    return await open_embedded(Path(location), clock=settings.clock, fsync=settings.fsync)


async def _open_etcd(location: str, settings: StoreSettings) -> KV:
    from kapiserver.storage.etcd.store import open_etcd

    config = replace(settings.etcd, endpoints=tuple(map(_endpoint, location.split(","))))
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        try:
            return await open_etcd(config)
        except Refused:
            raise
        except Unavailable as error:
            if loop.time() - started >= START_TIMEOUT_SECONDS:
                raise
            _log.warning("%s; trying again", error)
        await asyncio.sleep(START_RETRY_SECONDS)


def _endpoint(text: str) -> str:
    url = urlsplit(text)
    has_other_parts = url.path.strip("/") or url.query or url.fragment or "@" in url.netloc
    if url.scheme not in ("http", "https") or not url.hostname or has_other_parts:
        raise ValueError(f"{text}: want http://HOST:PORT or https://HOST:PORT of an etcd")
    return f"{url.scheme}://{url.netloc}"


BACKENDS = (
    Backend(
        name="sqlite",
        location=MEMORY,
        usage="sqlite::memory:",
        open=_open_memory,
        shared=False,
        durable=False,
    ),
    Backend(
        name="sqlite",
        usage="sqlite:PATH",
        open=_open_sqlite,
        shared=False,
        durable=True,
    ),
    Backend(
        name="etcd",
        usage="etcd:URL,URL,...",
        open=_open_etcd,
        shared=True,
        durable=True,
    ),
)
"""In the order in which a `--storage` flag is compared with them; the first match counts."""


def backend_of(spec: str) -> Backend:
    """Return the backend that a `--storage` flag selects. Raises ValueError for an unknown backend
    or an empty location."""
    name, _, location = spec.partition(":")
    for backend in BACKENDS:
        if backend.name == name and location and backend.location in ("", location):
            return backend
    usages = ", ".join(backend.usage for backend in BACKENDS)
    raise ValueError(f"--storage={spec}: want one of {usages}")


async def open_store(
    spec: str,
    *,
    clock: Clock | None = None,
    etcd: EtcdConfig | None = None,
    fsync: bool = True,
) -> KV:
    """Open the store that a `--storage` flag selects, on the running event loop.

    etcd    credentials and key prefix for etcd; the endpoints come from `spec`
    fsync   flush each transaction of a SQLite file to disk

    Raises ValueError for an unknown backend or an empty location, StoreLocked, Corrupt,
    Unavailable, OSError for certificate files that cannot be read.
    """
    location = spec.partition(":")[2]
    settings = StoreSettings(clock=clock or SystemClock(), etcd=etcd or EtcdConfig(), fsync=fsync)
    return await backend_of(spec).open(location, settings)
