"""Many servers in one process leave no thread, task, socket, file or object of a server."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from kapiserver.app import RunningServer
from kapiserver.testing import KubeClients, TestNamespace, TestServer

STARTS, MANY_STARTS = 6, 498
"""Multiples of the six kinds of start."""
ROOT = Path(__file__).parents[2]
WARM_UP = 3
"""Servers before the first count: tables are made and clients imported when first needed."""


def _threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate())


def _open_files() -> int:
    """Return the number of open files and sockets; 0 where the system does not tell."""
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.exists() else 0


def _servers() -> int:
    return sum(isinstance(obj, RunningServer | TestServer) for obj in gc.get_objects())


def _left() -> dict[str, Any]:
    gc.collect()
    return {
        "threads": _threads(),
        "open files": _open_files(),
        "servers": _servers(),
        "files": os.listdir(tempfile.gettempdir()),
    }


def _start_in_thread(settings: dict[str, Any]) -> None:
    with (
        TestServer(**settings) as server,
        KubeClients(TestNamespace(server, "default", server.kubeconfig)) as clients,
    ):
        clients.httpx().get("/api/v1/namespaces/default").raise_for_status()


async def _start_on_loop(settings: dict[str, Any]) -> None:
    async with TestServer(**settings) as server, server.client() as client:
        await client.resource("v1", "namespaces").get("default")
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def check(starts: int) -> None:
    """Start so many servers, and assert that nothing of them is left in this process."""
    before: dict[str, Any] = {}
    for number in range(WARM_UP + starts):
        if number == WARM_UP:
            before = _left()
        settings: dict[str, Any] = [{}, {"tls": False}, {"rbac": False}][number % 3]
        if number % 2:
            _start_in_thread(settings)
        else:
            asyncio.run(_start_on_loop(settings))
    after = _left()
    changed = {key: (before[key], after[key]) for key in after if after[key] != before[key]}
    assert not changed, changed  # pytest does not rewrite this assertion in another process


def _check_in_own_process(starts: int, folder: Path) -> None:
    """Check in a new process: in this one, servers of other tests start threads and close idle
    connections at any time."""
    code = f"from tests.testing.test_nothing_left import check; check({starts})"
    environment = os.environ | {"TMPDIR": str(folder)}
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", code]
    checked = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_nothing_is_left(tmp_path: Path) -> None:
    """After some servers, of every kind of start."""
    _check_in_own_process(STARTS, tmp_path)


@pytest.mark.slow
def test_nothing_is_left_of_many(tmp_path: Path) -> None:
    """After so many servers that a small leak is seen."""
    _check_in_own_process(MANY_STARTS, tmp_path)
