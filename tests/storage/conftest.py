"""Fixtures of the store tests: coroutine tests, a clock that tests move, and a store per
backend.

To hold another backend to the contract, add a line to `BACKENDS`.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from kapiserver.storage.embedded_store import open_embedded
from kapiserver.storage.kv import KV
from tests.clock import ManualClock
from tests.storage.etcd_server import programs, shared_etcd, version
from tests.storage.invariants import check_file, check_store


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
async def _file(clock: ManualClock, folder: Path) -> AsyncIterator[KV]:
    store = await open_embedded(folder / "store.db", clock=clock)
    yield store
    await store.close()
    check_file(folder / "store.db")


def _over(etcd: Path) -> Opening:
    @asynccontextmanager
    async def open_fresh(clock: ManualClock, folder: Path) -> AsyncIterator[KV]:
        from kapiserver.storage.etcd_config import EtcdConfig
        from kapiserver.storage.etcd_store import open_etcd

        # Tests of one worker share an etcd; each uses its own prefix.
        config = EtcdConfig(endpoints=(shared_etcd(etcd).url,), prefix=f"/{uuid.uuid4().hex}")
        store = await open_etcd(config)
        yield store
        await store.close()

    return open_fresh


Opening = Callable[[ManualClock, Path], AbstractAsyncContextManager[KV]]

BACKENDS: dict[str, Opening] = {
    "memory": _memory,
    "file": _file,
    **{f"etcd-{version(program)}": _over(program) for program in programs()},
}


@pytest.fixture(params=programs(), ids=version)
def etcd_program(request: pytest.FixtureRequest) -> Path:
    """Parametrizes a test over the etcd binaries."""
    return request.param


@pytest.fixture(params=BACKENDS)
def open_fresh(request: pytest.FixtureRequest) -> Opening:
    """Parametrizes a test over the backends; returns a function that opens a fresh store."""
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
