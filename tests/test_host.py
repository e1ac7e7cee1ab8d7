"""Several clusters on one host: what they share, and what they do not."""

from __future__ import annotations

import asyncio
import ssl
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.app import RunningServer, serve
from kapiserver.client import Client, Resource, StatusError
from kapiserver.cluster import open_cluster
from kapiserver.host import Host
from kapiserver.storage.backends import open_store
from kapiserver.storage.cache.offload import REQUESTER, WORKERS, Requester
from tests.storage.etcd_server import shared_etcd

BODY = {"metadata": {"name": "x"}, "data": {"a": "1"}}


def _config(folder: Path, user: str, **settings: Any) -> Config:
    """Settings of a cluster with one administrator, whose token is the name."""
    folder.mkdir(exist_ok=True)
    tokens = folder / "tokens"
    tokens.write_text(f"{user},{user},1,system:masters\n")
    own = {"secure_port": 0, "cert_dir": folder, "token_auth_file": tokens, "shutdown_timeout": 1}
    return Config.of(**(own | settings))


def _client(running: RunningServer, token: str) -> Client:
    context = ssl.create_default_context(cafile=running.ca_file)
    return Client(running.url, token=token, ssl_context=context)


def _maps(client: Client) -> Resource:
    return client.resource("v1", "configmaps", namespace="default")


async def _status(action: Awaitable[object]) -> int:
    try:
        await action
    except StatusError as error:
        return error.code
    return 200


@asynccontextmanager
async def _two(folder: Path) -> AsyncIterator[tuple[Host, RunningServer, RunningServer]]:
    """Two clusters with stores in memory on one host, of the users ann and bob."""
    ann, bob = _config(folder / "ann", "ann"), _config(folder / "bob", "bob")
    host = Host(ann)
    async with serve(ann, host=host) as first, serve(bob, host=host) as second:
        yield host, first, second


async def _eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110 - each turn sends a request
            await asyncio.sleep(0)


def test_objects_and_users(tmp_path: Path) -> None:
    """Each cluster has a port, objects, users and watches of its own."""

    async def run() -> None:
        async with (
            _two(tmp_path) as (_, first, second),
            _client(first, "ann") as ann,
            _client(second, "bob") as bob,
            _client(second, "ann") as stranger,
        ):
            assert first.url != second.url
            watch = _maps(bob).watch(fieldSelector="metadata.name=x")
            seen = asyncio.create_task(anext(watch))
            created = await _maps(ann).create(BODY)
            assert await _status(_maps(bob).get("x")) == 404
            own = await _maps(bob).create(BODY)
            assert (await seen).object["metadata"]["uid"] == own["metadata"]["uid"]
            assert own["metadata"]["uid"] != created["metadata"]["uid"]
            assert await _status(_maps(stranger).get("x")) == 401
            await watch.aclose()

    asyncio.run(run())


def test_close_one(tmp_path: Path) -> None:
    """A cluster ends while another one of the host serves requests and an open watch."""

    async def run() -> None:
        ann, bob = _config(tmp_path / "ann", "ann"), _config(tmp_path / "bob", "bob")
        host = Host(ann)
        async with serve(ann, host=host) as first, _client(first, "ann") as client:
            watch = _maps(client).watch(fieldSelector="metadata.name=x")
            seen = asyncio.create_task(anext(watch))
            async with serve(bob, host=host) as second, _client(second, "bob") as other:
                await _maps(other).create(BODY)
            assert not seen.done()
            await _maps(client).create(BODY)
            assert (await seen).type == "ADDED"
            await watch.aclose()
            async with serve(bob, host=host) as again, _client(again, "bob") as other:
                assert await _status(_maps(other).get("x")) == 404

    asyncio.run(run())


def test_shared_threads(tmp_path: Path) -> None:
    """The long work of all clusters runs in the same few threads."""

    async def run() -> None:
        async with _two(tmp_path) as (host, first, second):
            offloaders = [each.cluster.server.offloader for each in (first, second)]
            assert offloaders == [host.offloader] * 2
            release = threading.Event()
            begun: list[int] = []

            def work(number: int) -> None:
                begun.append(number)
                release.wait(30)

            async def run_job(number: int) -> None:
                REQUESTER.set(Requester(f"user {number}"))  # one user has one thread
                await offloaders[number % 2].run_in_thread(work, number)

            jobs = [asyncio.create_task(run_job(number)) for number in range(2 * WORKERS)]
            try:
                async with asyncio.timeout(30):
                    while len(begun) < WORKERS:  # noqa: ASYNC110 - set by threads
                        await asyncio.sleep(0)
                assert len(begun) == WORKERS
            finally:
                release.set()
            await asyncio.gather(*jobs)
            assert sorted(begun) == list(range(2 * WORKERS))

    asyncio.run(run())


def test_shared_memory_limit(tmp_path: Path) -> None:
    """When the process exceeds its limit, every cluster drops its caches and refuses requests."""

    async def run() -> None:
        async with (
            _two(tmp_path) as (host, first, second),
            _client(first, "ann") as ann,
            _client(second, "bob") as bob,
        ):
            caches = [each.cluster.server.stores.encoding_cache for each in (first, second)]
            for client in (ann, bob):
                await _maps(client).create(BODY)
                await _maps(client).get("x")
            assert all(cache.encodings.size for cache in caches)
            usual, host.memory_limit.limit = host.memory_limit.limit, 1

            async def is_refused() -> bool:
                return await _status(_maps(ann).list()) == 429

            await _eventually(is_refused)
            assert not any(cache.encodings.size for cache in caches)
            assert await _status(_maps(bob).list()) == 429
            host.memory_limit.limit = usual

            async def is_served() -> bool:
                return await _status(_maps(ann).list()) == 200

            await _eventually(is_served)
            assert await _status(_maps(bob).list()) == 200

    asyncio.run(run())


@pytest.fixture(params=["sqlite", "etcd"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The settings of a store in which two clusters have different prefixes."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'store.db'}"
    return f"etcd:{shared_etcd().url}"


def test_prefixes_of_one_store(tmp_path: Path, storage: str) -> None:
    """Clusters with the same store keep their objects under prefixes of their own. A file is closed
    with the last of them."""
    prefixes = [f"/{uuid.uuid4().hex}" for _ in "ab"]
    ann = _config(tmp_path / "ann", "ann", storage=storage, etcd_prefix=prefixes[0])
    bob = _config(tmp_path / "bob", "bob", storage=storage, etcd_prefix=prefixes[1])

    async def run() -> None:
        host = Host(ann)
        async with serve(ann, host=host) as first, _client(first, "ann") as client:
            async with serve(bob, host=host) as second, _client(second, "bob") as other:
                await _maps(other).create(BODY)
                assert await _status(_maps(client).get("x")) == 404
            assert await _status(_maps(client).create(BODY)) == 200
        for prefix in prefixes:
            kv = await open_store(storage, root=prefix)  # raises StoreLocked if a host has the file
            try:
                assert (await kv.get(f"{prefix}/configmaps/default/x")).item is not None
            finally:
                await kv.close()

    asyncio.run(run())


@pytest.mark.parametrize("prefix", ["/registry", "/registry/more", "/"])
def test_same_keys(tmp_path: Path, prefix: str) -> None:
    """A cluster whose keys are among those of another one with the same file is refused."""
    config = Config.of(storage=f"sqlite:{tmp_path / 'store.db'}", secure_port=None)

    async def run() -> None:
        host = Host(config)
        other = config.replace(etcd_prefix=prefix)
        async with open_cluster(config, host=host):
            with pytest.raises(ValueError, match="a cluster with the same store has /registry"):
                async with open_cluster(other, host=host):
                    pass
        async with open_cluster(other, host=host):
            pass

    asyncio.run(run())


def test_store_is_closed_after_an_error(tmp_path: Path) -> None:
    """A cluster that cannot be opened leaves no store open."""
    config = Config.of(storage=f"sqlite:{tmp_path / 'store.db'}", secure_port=None)
    unusable = config.replace(token_auth_file=tmp_path / "missing")

    async def run() -> None:
        with pytest.raises(OSError, match="missing"):
            async with open_cluster(unusable):
                pass
        async with open_cluster(config):
            pass

    asyncio.run(run())
