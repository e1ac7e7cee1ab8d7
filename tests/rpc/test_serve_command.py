"""`kapiserver serve` with RPC groups, as a process."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from kapiserver.rpc.groups.storage import client_generated as storage
from kapiserver.rpc.groups.storage.types import CompactRequest, StatsRequest
from tests.e2e.programs import start, wait_for_log
from tests.rpc.groups import EXAMPLES, connected, dummy


def test_serve_with_groups(tmp_path: Path) -> None:
    """The sockets are there when the server greets, and disappear with it."""
    run = tmp_path / "run"
    server = start(tmp_path, "--rpc", str(EXAMPLES), "--rpc-storage", "--rpc-socket-dir", str(run))

    async def call() -> None:
        async with connected(run / "rpc-dummy-v1.sock", dummy().versions[0]) as client:
            assert (await client("ComputeDouble", input=21)).response == 42
        async with storage.connect(run) as client:
            stats = await client.stats(StatsRequest())
            assert stats.backend == "sqlite"
            assert stats.size > 0
            assert (await client.compact(CompactRequest())).revision >= stats.revision

    try:
        wait_for_log(server, "kubectl get namespaces")  # the greeting
        asyncio.run(call())
        names = {path.name for path in run.iterdir() if path.is_socket()}
        assert names == {
            "kapiserver-discovery-v1.sock", "kapiserver-storage-v1.sock",
            "rpc-discovery-v1.sock", "rpc-dummy-v1.sock", "rpc-dummy-v1alpha1.sock",
            "rpc-shelf-v1.sock", "rpc-shelf-v1beta1.sock",
        }  # fmt: skip
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert not any(path.is_socket() for path in run.iterdir())
    finally:
        server.process.kill()
        server.process.wait()
