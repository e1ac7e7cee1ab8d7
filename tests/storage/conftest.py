"""Fixtures of the store tests: coroutine tests, a clock that tests move, and a store per
backend.

To hold another backend to the contract, add a line to `BACKENDS`.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pytest

from kapiserver.storage.errors import Unavailable
from kapiserver.storage.etcd import transport as etcd_transport
from kapiserver.storage.etcd.config import TRANSPORTS, EtcdConfig, EtcdTransport
from kapiserver.storage.etcd.store import EtcdStore, open_etcd
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.postgresql.store import PostgresqlConfig, open_postgresql
from kapiserver.storage.sqlite.embedded_store import open_embedded
from kapiserver.testing.state.memory_store import open_memory_store
from tests.clock import ManualClock
from tests.storage.etcd_server import Member, programs, shared_etcd, version
from tests.storage.invariants import check_file, check_store
from tests.storage.postgresql_server import binaries, shared_postgresql


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of one test."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def clock() -> ManualClock:
    """A clock that the test moves."""
    return ManualClock()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on the event loop of its `runner`."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    values = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    runner = pyfuncitem._request.getfixturevalue("runner")
    runner.run(pyfuncitem.obj(**values))
    return True


@asynccontextmanager
async def _memory(clock: ManualClock, folder: Path) -> AsyncIterator[KV]:
    store = await open_embedded(None, clock=clock)
    yield store
    await store.close()


@asynccontextmanager
async def _memory_on_loop(clock: ManualClock, folder: Path) -> AsyncIterator[KV]:
    store = await open_memory_store(clock)
    yield store
    await store.close()


@asynccontextmanager
async def _file(clock: ManualClock, folder: Path) -> AsyncIterator[KV]:
    store = await open_embedded(folder / "store.db", clock=clock)
    yield store
    await store.close()
    check_file(folder / "store.db")


def _over(etcd: Path, transport: EtcdTransport) -> Opening:
    @asynccontextmanager
    async def open_fresh(clock: ManualClock, folder: Path) -> AsyncIterator[KV]:
        # Tests of one worker share an etcd; each uses its own prefix.
        config = EtcdConfig(
            endpoints=(shared_etcd(etcd).url,),
            prefix=f"/{uuid.uuid4().hex}",
            transport=transport,
        )
        store = await open_etcd(config)
        yield store
        await store.close()

    return open_fresh


@asynccontextmanager
async def _postgresql(clock: ManualClock, folder: Path) -> AsyncIterator[KV]:
    # Tests of one worker share a server; each uses its own schema.
    store = await open_postgresql(
        PostgresqlConfig(address=shared_postgresql().url, schema=uuid.uuid4().hex), clock=clock
    )
    yield store
    await store.close()


Opening = Callable[[ManualClock, Path], AbstractAsyncContextManager[KV]]

BACKENDS: dict[str, Opening] = {
    "memory": _memory,
    "memory-on-loop": _memory_on_loop,
    "file": _file,
    **{
        f"etcd-{version(program)}-{transport}": _over(program, transport)
        for program in programs()
        for transport in TRANSPORTS
    },
    **({"postgresql": _postgresql} if binaries() else {}),
}


@pytest.fixture(params=programs(), ids=version)
def etcd_program(request: pytest.FixtureRequest) -> Path:
    """Parametrizes a test over the etcd binaries."""
    return request.param


# `make test` covers the gateway by test_etcd.py; `make test-all` runs everything over it.
SLOW = {name for name in BACKENDS if name.endswith("-gateway")}


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in BACKENDS]
)
def open_fresh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Opening:
    """Parametrizes a test over the backends; returns a function that opens a fresh store. On a busy
    machine, etcd may take longer for a thousand calls than a call may take in a server."""
    monkeypatch.setattr(etcd_transport, "CALL_SECONDS", 60.0)
    return BACKENDS[request.param]


@pytest.fixture
def store(
    open_fresh: Opening, runner: asyncio.Runner, clock: ManualClock, tmp_path: Path
) -> Iterator[KV]:
    """A fresh store of each backend, whose invariants are checked after the test."""
    opened = open_fresh(clock, tmp_path)
    store = runner.run(opened.__aenter__())
    start_revision = runner.run(store.current_revision())
    yield store
    runner.run(check_store(store, start_revision))
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> EtcdTransport:
    """Parametrizes a test over the transports."""
    return request.param


class Configure(Protocol):
    def __call__(self, *urls: str, **more: Any) -> EtcdConfig:
        """Return a configuration of these endpoints, with a prefix of its own."""


class Open(Protocol):
    def __call__(self, *urls: str, **more: Any) -> AbstractAsyncContextManager[EtcdStore]:
        """Open a store; the arguments are those of `Configure`."""


@pytest.fixture
def configure(transport: EtcdTransport) -> Configure:
    return lambda *urls, **more: EtcdConfig(
        endpoints=urls, transport=transport, **({"prefix": f"/{uuid.uuid4().hex}"} | more)
    )


@pytest.fixture
def opened(configure: Configure) -> Open:
    @asynccontextmanager
    async def open_store(*urls: str, **more: Any) -> AsyncIterator[EtcdStore]:
        store = await open_etcd(configure(*urls, **more))
        try:
            yield store
        finally:
            await store.close()

    return open_store


@pytest.fixture
def member(etcd_program: Path) -> Iterator[Member]:
    """A member of one test, which may kill or hang it."""
    member = Member(etcd=etcd_program)
    member.start()
    member.wait()
    yield member
    member.remove()


async def answers(store: EtcdStore) -> None:
    """Return when etcd answers again."""
    async with asyncio.timeout(60):
        while True:
            with suppress(Unavailable):
                await store.current_revision()
                return
            await asyncio.sleep(0.01)
