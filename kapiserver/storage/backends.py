"""The storage backends that `--storage` selects.

To add a backend: write a room in this package that implements `storage/kv/contract.py`, and add an
entry to `BACKENDS`. If the backend has settings, write a record of them and of their flags in its
room, and add the record to `BackendSections`: then Config and `kapiserver serve` have them too. The
module of a store is imported when the store is opened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from kapiserver.api.lazy import Lazy, lazy
from kapiserver.storage.concurrency.clock import Clock, SystemClock
from kapiserver.storage.errors import Refused, Unavailable
from kapiserver.storage.etcd.config import EtcdSettings
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.kv.flag import Flag
from kapiserver.storage.postgresql.config import PostgresqlSettings
from kapiserver.storage.sqlite.config import SqliteSettings

MEMORY = ":memory:"
"""The location of a store that only lives in this process."""
START_TIMEOUT_SECONDS = 20.0
"""How long to retry a server that does not answer, because it may be starting too."""
START_RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


class BackendSections(Struct, frozen=True, kw_only=True):
    """The settings of each backend that has any; sections of the server's configuration."""

    sqlite: SqliteSettings = SqliteSettings()
    etcd: EtcdSettings = EtcdSettings()
    postgresql: PostgresqlSettings = PostgresqlSettings()


def backend_flags() -> dict[str, tuple[Flag, ...]]:
    """Return the flags of each backend that has settings, by the backend's name."""
    sections = BackendSections()
    return {name: getattr(sections, name).FLAGS for name in sections.__struct_fields__}


class Location(Struct, frozen=True, kw_only=True):
    """Where and how a backend opens a store.

    address     the part of `--storage` after the colon
    root        the first segments of all keys; other keys are not watched
    clock       the source of time
    """

    address: str
    root: str
    clock: Clock


class Backend(Struct, frozen=True, kw_only=True):
    """One kind of store.

    name        the part of `--storage` before the colon
    alias       another name; "" if there is none
    address     the only address accepted after the colon; "" accepts any
    usage       the form of the flag, for error messages
    open        opens the store at a location
    code        references to the modules that are imported when a store is opened, for a program
                that imports them before
    shared      whether several servers may use a store at the same time
    durable     whether an acknowledged write survives the end of the process
    """

    name: str
    alias: str = ""
    address: str = ""
    usage: str
    open: Callable[[Location, BackendSections], Awaitable[KV]]
    code: Sequence[Lazy[Any]]
    shared: bool
    durable: bool


async def _open_memory(location: Location, _sections: BackendSections) -> KV:
    from kapiserver.storage.sqlite.embedded_store import open_embedded

    return await open_embedded(None, clock=location.clock)


async def _open_sqlite(location: Location, sections: BackendSections) -> KV:
    from kapiserver.storage.sqlite.embedded_store import open_embedded

    fsync = not sections.sqlite.unsafe_no_fsync
    return await open_embedded(Path(location.address), clock=location.clock, fsync=fsync)


async def _open_etcd(location: Location, sections: BackendSections) -> KV:
    from kapiserver.storage.etcd.store import open_etcd

    config = sections.etcd.config(etcd_endpoints(location.address), location.root)
    return await _retry(lambda: open_etcd(config))


async def _open_postgresql(location: Location, sections: BackendSections) -> KV:
    try:
        from kapiserver.storage.postgresql.store import PostgresqlConfig, open_postgresql
    except ModuleNotFoundError as error:
        raise ValueError(f"postgresql: {error}: pip install 'kapiserver[postgresql]'") from error

    settings = sections.postgresql
    config = PostgresqlConfig(
        address=f"postgresql:{location.address}",
        schema=settings.postgresql_schema,
        max_connections=settings.postgresql_max_connections,
    )
    return await _retry(lambda: open_postgresql(config, clock=location.clock))


async def _retry(open_once: Callable[[], Awaitable[KV]]) -> KV:
    """Open a store, and try again for a while if its server does not answer."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        try:
            return await open_once()
        except Refused:
            raise
        except Unavailable as error:
            if loop.time() - started >= START_TIMEOUT_SECONDS:
                raise
            _log.warning("%s; trying again", error)
        await asyncio.sleep(START_RETRY_SECONDS)


def etcd_endpoints(address: str) -> tuple[str, ...]:
    """Return the URLs of etcd's members that an address lists. Raises ValueError."""
    return tuple(map(_endpoint, address.split(",")))


def _endpoint(text: str) -> str:
    url = urlsplit(text)
    has_other_parts = url.path.strip("/") or url.query or url.fragment or "@" in url.netloc
    if url.scheme not in ("http", "https") or not url.hostname or has_other_parts:
        raise ValueError(f"{text}: want http://HOST:PORT or https://HOST:PORT of an etcd")
    return f"{url.scheme}://{url.netloc}"


BACKENDS = (
    Backend(
        name="sqlite",
        address=MEMORY,
        usage="sqlite::memory:",
        open=_open_memory,
        code=(lazy("kapiserver.storage.sqlite.embedded_store:open_embedded"),),
        shared=False,
        durable=False,
    ),
    Backend(
        name="sqlite",
        usage="sqlite:PATH",
        open=_open_sqlite,
        code=(lazy("kapiserver.storage.sqlite.embedded_store:open_embedded"),),
        shared=False,
        durable=True,
    ),
    Backend(
        name="etcd",
        usage="etcd:URL,URL,...",
        open=_open_etcd,
        code=(
            lazy("kapiserver.storage.etcd.store:open_etcd"),
            lazy("kapiserver.storage.etcd.grpc:GrpcTransport"),
        ),
        shared=True,
        durable=True,
    ),
    Backend(
        name="postgresql",
        alias="postgres",
        usage="postgresql://USER@HOST:PORT/DATABASE",
        open=_open_postgresql,
        code=(lazy("kapiserver.storage.postgresql.store:open_postgresql"),),
        shared=True,
        durable=True,
    ),
)
"""The backends in the order in which `--storage` is compared with them. The first match counts."""


def backend_of(spec: str) -> Backend:
    """Return the backend that a `--storage` flag selects. Raises ValueError for an unknown backend
    or an empty address."""
    name, _, address = spec.partition(":")
    for backend in BACKENDS:
        is_named = name and name in (backend.name, backend.alias)
        if is_named and address and backend.address in ("", address):
            return backend
    usages = ", ".join(backend.usage for backend in BACKENDS)
    raise ValueError(f"--storage={spec}: want one of {usages}")


async def open_store(
    spec: str,
    *,
    clock: Clock | None = None,
    root: str = "",
    sections: BackendSections | None = None,
) -> KV:
    """Open the store that a `--storage` flag selects, on the running event loop.

    root        the first segments of all keys
    sections    the settings of the backends, such as a Config

    Raises ValueError for an unknown backend or an empty address, StoreLocked, Corrupt,
    Unavailable, OSError for certificate files that cannot be read.
    """
    address = spec.partition(":")[2]
    location = Location(address=address, root=root, clock=clock or SystemClock())
    return await backend_of(spec).open(location, sections or BackendSections())
