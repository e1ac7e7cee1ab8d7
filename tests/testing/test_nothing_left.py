"""Many servers in one process leave no thread, task, socket, file or object of a server."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from kapiserver.app import RunningServer
from kapiserver.testing import KubeClients, TestNamespace, TestServer

STARTS, MANY_STARTS = 6, 498
"""Multiples of the six kinds of start."""
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
    gc.collect()  # sockets that a test before left to the collector
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


def _check(starts: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
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
    assert {key: (before[key], after[key]) for key in after if after[key] != before[key]} == {}


def test_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some servers, of every kind of start."""
    _check(STARTS, tmp_path, monkeypatch)


@pytest.mark.slow
def test_nothing_is_left_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many servers that a small leak is seen."""
    _check(MANY_STARTS, tmp_path, monkeypatch)
