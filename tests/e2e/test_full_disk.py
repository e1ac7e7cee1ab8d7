"""A server whose disk takes no more."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster import CONFIGMAPS, asked, call, create, names
from tests.e2e.programs import start, stop

if sys.platform == "linux":
    import resource
else:
    pytest.skip("limits of other processes are Linux's", allow_module_level=True)

ROOM = 1_000_000
"""Bytes that a file of the server may have."""


def limit_files(pid: int, size: int) -> None:
    """Let a process write to files only below a size, as a quota does."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_full_disk(tmp_path: Path) -> None:
    """Without space writes are answered with a Status that says so, reads go on, and /readyz is
    red; with space again all goes on without a restart. What was acknowledged is there, then and
    after a restart."""
    server = start(tmp_path)
    try:
        create(server, "before")
        limit_files(server.process.pid, ROOM)
        written = ["before"]
        for number in range(2 * ROOM // 10_000):
            body = {"metadata": {"name": f"c{number}"}, "data": {"x": "x" * 10_000}}
            with asked(server, "POST", CONFIGMAPS, body) as answer:
                said = json.loads(answer.read())
            if answer.status != 201:
                break
            written.append(f"c{number}")
        assert (said["code"], said["message"]) == (500, "sqlite: disk I/O error")
        assert len(written) > 2
        call(server, "GET", f"{CONFIGMAPS}/before")
        with asked(server, "GET", "/readyz") as answer:
            assert answer.status == 500
            assert "[-]storage-writes failed" in answer.read().decode()
        with asked(server, "GET", "/livez") as answer:
            assert answer.status == 200
        limit_files(server.process.pid, resource.RLIM_INFINITY)
        with asked(server, "GET", "/readyz") as answer:
            assert answer.status == 200
        create(server, "later")
        written.append("later")
        assert set(names(call(server, "GET", CONFIGMAPS))) >= set(written)
    finally:
        stop(server)
    server = start(tmp_path)
    try:
        assert set(names(call(server, "GET", CONFIGMAPS))) >= set(written)
    finally:
        stop(server)
