"""The shipped group storage: maintenance of the store of a running server."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from kapiserver.apiserver.config import Config
from kapiserver.app import RunningServer, serve
from kapiserver.parts import Parts
from kapiserver.rpc.api_server import ServedGroups
from kapiserver.rpc.groups.storage import client_generated, types
from kapiserver.rpc.serving import ADMIN
from kapiserver.storage.sqlite.admin import DEFAULT_BUMP, restore, summarize
from tests.apiserver.conftest import Api
from tests.rpc.groups import ROOT

API = "/apis/storage.kapiserver/v1"


@asynccontextmanager
async def storage(
    folder: Path, **settings: Any
) -> AsyncIterator[tuple[client_generated.StorageClient, RunningServer]]:
    """A server with a SQLite file and the group storage, and a client of its socket."""
    groups = ServedGroups(with_storage=True, socket_dir=folder / "run")
    defaults = {
        "secure_port": None, "insecure_port": 0, "storage": f"sqlite:{folder / 'store.db'}",
    }  # fmt: skip
    async with (
        serve(Config.of(**(defaults | settings)), Parts(call_groups=groups.call_groups)) as running,
        groups.serve(running.cluster.server),
        client_generated.connect(folder / "run") as client,
    ):
        yield client, running


async def _write(running: RunningServer, count: int, *, data: str = "x") -> None:
    """Write one ConfigMap several times."""
    client = running.cluster.server.client(ADMIN, authorize=False)
    maps = client.resource("v1", "configmaps", namespace="default")
    await maps.create({"metadata": {"name": "c"}, "data": {"k": data}})
    for number in range(count):
        await maps.patch("c", {"data": {"k": f"{data}{number}"}})


def test_backup(tmp_path: Path) -> None:
    """The streamed copy restores to a store with the same objects, and leaves nothing behind."""

    async def run() -> tuple[types.BackupResponse, bytes]:
        async with storage(tmp_path) as (client, running):
            await _write(running, 3, data="y" * 900_000)
            (tmp_path / "store.db.copy").mkdir()  # of a server that crashed
            parts = [part async for part in client.backup(types.BackupRequest())]
            return parts[0], b"".join(part.data for part in parts)

    head, data = asyncio.run(run())
    assert len(data) == head.size > 1_000_000
    assert hashlib.sha256(data).digest() == head.sha256
    (tmp_path / "backup").write_bytes(data)
    restored = tmp_path / "restored.db"
    restore(tmp_path / "backup", restored, bump=DEFAULT_BUMP, progress=lambda *_: None)
    assert summarize(restored).revision == head.revision + DEFAULT_BUMP
    assert asyncio.run(_read(restored)) == "y" * 900_000 + "2"
    assert not (tmp_path / "store.db.copy").exists()


async def _read(path: Path) -> str:
    """Return the data of a ConfigMap with one key in a store that nobody serves."""
    async with serve(
        Config.of(secure_port=None, insecure_port=0, storage=f"sqlite:{path}")
    ) as running:
        client = running.cluster.server.client(ADMIN, authorize=False)
        tree = await client.resource("v1", "configmaps", namespace="default").get("c")
        data: str = tree["data"]["k"]
        return data


def test_one_copy_at_a_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A client that reads half a backup holds up the next until it leaves, which is not logged."""

    async def run() -> None:
        async with storage(tmp_path) as (client, running):
            await _write(running, 3, data="y" * 900_000)
            backup = client.backup(types.BackupRequest())
            await anext(backup)
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await client.check(types.CheckRequest())
            assert raised.value.code() is grpc.StatusCode.ABORTED
            await backup.aclose()
            assert await _problems_when_free(client) == []
        assert not (tmp_path / "store.db.copy").exists()
        assert not caplog.records

    asyncio.run(run())


CANCEL_BACKUPS = """
import contextlib, sys, time
import grpc

with grpc.insecure_channel(f"unix:{sys.argv[1]}") as channel:
    call = channel.unary_stream("/kapiserver.storage.v1.Storage/Backup")
    for n in range(15):
        responses = call(b"")
        with contextlib.suppress(grpc.RpcError):  # the server has not noticed the last one's end
            for _ in range(1 + n % 3):
                next(responses)
        time.sleep(0.05)
        responses.cancel()
"""


def test_cancelled_backup(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A client that cancels a backup while the server sends a message is not logged."""

    async def run() -> None:
        async with storage(tmp_path) as (client, running):
            await _write(running, 6, data="y" * 900_000)
            socket = tmp_path / "run" / "kapiserver-storage-v1.sock"
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CANCEL_BACKUPS, str(socket)
            )
            assert await process.wait() == 0
            assert await _problems_when_free(client) == []

    asyncio.run(run())
    assert not caplog.records


async def _problems_when_free(client: client_generated.StorageClient) -> list[str]:
    """Check, as soon as the server has noticed that the backup ended."""
    while True:
        try:
            return (await client.check(types.CheckRequest())).problems
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ABORTED:
                raise


def test_compact_stats_and_defragment(tmp_path: Path) -> None:
    async def run() -> None:
        async with storage(tmp_path) as (client, running):
            await _write(running, 20, data="z" * 100_000)
            before = await client.stats(types.StatsRequest())
            assert (before.backend, before.compacted) == ("sqlite", 0)
            assert before.versions >= before.objects + 20
            answer = await client.compact(types.CompactRequest())
            after = await client.stats(types.StatsRequest())
            assert answer.revision == after.compacted == before.revision
            assert after.versions == after.objects == before.objects
            assert after.size < before.size
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await client.compact(types.CompactRequest(revision=10**9))
            assert raised.value.code() is grpc.StatusCode.OUT_OF_RANGE
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await client.compact(types.CompactRequest(revision=-1))
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            sizes = await client.defragment(types.DefragmentRequest())
            assert sizes.new_size <= sizes.old_size
            assert (await client.stats(types.StatsRequest())).free == 0

    asyncio.run(run())


def test_check_finds_damage(tmp_path: Path) -> None:
    """A value that does not decode is a problem; the server goes on."""

    async def run() -> list[str]:
        async with storage(tmp_path) as (client, running):
            assert (await client.check(types.CheckRequest())).problems == []
            kv = running.cluster.server.stores.kv
            await kv.create("/registry/configmaps/default/bad", b"k8s\0\xff")
            return (await client.check(types.CheckRequest())).problems

    (problem,) = asyncio.run(run())
    assert problem.startswith("/registry/configmaps/default/bad at revision ")
    assert "does not decode" in problem


def test_a_store_in_memory(tmp_path: Path) -> None:
    """It has figures and a history, but no file."""

    async def run() -> None:
        async with storage(tmp_path, storage="sqlite::memory:") as (client, running):
            await _write(running, 2)
            stats = await client.stats(types.StatsRequest())
            assert (stats.backend, stats.size, stats.objects > 1) == ("sqlite", 0, True)
            assert (await client.compact(types.CompactRequest())).revision >= stats.revision
            for call in (
                client.check(types.CheckRequest()),
                client.defragment(types.DefragmentRequest()),
                anext(client.backup(types.BackupRequest())),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await call
                assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
                assert "needs a store in a SQLite file" in (raised.value.details() or "")

    asyncio.run(run())


def test_over_http(tmp_path: Path) -> None:
    """RBAC guards the calls; Backup streams, and is gRPC only."""

    def make(api: Api) -> None:
        names = [each["name"] for each in api.get(API).json["resources"]]
        assert names == ["compacts", "checks", "statses", "defragments"]
        body = {"kind": "Stats", "apiVersion": "storage.kapiserver/v1"}
        response = api.post(f"{API}/statses", body)
        assert (response.status, response.json["status"]["backend"]) == (201, "sqlite")
        response = api.post(f"{API}/statses", body, headers={"Impersonate-User": "jane"})
        assert response.status == 403
        body = {**body, "kind": "Compact", "spec": {"revision": 10**9}}
        response = api.post(f"{API}/compacts", body)
        assert (response.status, response.json["details"]["causes"][0]["reason"]) == (
            400, "OUT_OF_RANGE",
        )  # fmt: skip

    async def run() -> None:
        async with storage(tmp_path, authorization_mode=("RBAC",)) as (_, running):
            with Api(int(running.insecure_url.rpartition(":")[2])) as api:
                await asyncio.to_thread(make, api)

    asyncio.run(run())


def test_the_group_is_up_to_date() -> None:
    """`kapiserver rpc generate` would change nothing in the shipped groups."""
    command = [
        sys.executable, "-m", "kapiserver.cli", "rpc", "generate", "kapiserver/rpc/groups",
        "--project", "kapiserver", "--check",
    ]  # fmt: skip
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
