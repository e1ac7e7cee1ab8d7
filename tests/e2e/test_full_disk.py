"""A server on a full disk."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster import CONFIGMAPS, call, create, names, open_response
from tests.e2e.programs import start, stop

if sys.platform == "linux":
    import resource
else:
    pytest.skip("limits of other processes are Linux's", allow_module_level=True)

SIZE_LIMIT = 1_000_000
"""Size limit of the server's files, in bytes."""


def limit_files(pid: int, size: int) -> None:
    """Let a process write to files only below a size, as a quota does."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_full_disk(tmp_path: Path) -> None:
    """On a full disk writes are 500 with a Status, reads succeed and /readyz fails; with space
    again everything works without a restart, and acknowledged writes exist, also after a
    restart."""
    server = start(tmp_path)
    try:
        create(server, "before")
        limit_files(server.process.pid, SIZE_LIMIT)
        acknowledged = ["before"]
        for number in range(2 * SIZE_LIMIT // 10_000):
            body = {"metadata": {"name": f"c{number}"}, "data": {"x": "x" * 10_000}}
            with open_response(server, "POST", CONFIGMAPS, body) as response:
                status_body = json.loads(response.read())
            if response.status != 201:
                break
            acknowledged.append(f"c{number}")
        assert (status_body["code"], status_body["message"]) == (500, "sqlite: disk I/O error")
        assert len(acknowledged) > 2
        call(server, "GET", f"{CONFIGMAPS}/before")
        with open_response(server, "GET", "/readyz") as response:
            assert response.status == 500
            assert "[-]etcd-readiness failed" in response.read().decode()
        with open_response(server, "GET", "/livez") as response:
            assert response.status == 200
        limit_files(server.process.pid, resource.RLIM_INFINITY)
        with open_response(server, "GET", "/readyz") as response:
            assert response.status == 200
        create(server, "later")
        acknowledged.append("later")
        assert set(names(call(server, "GET", CONFIGMAPS))) >= set(acknowledged)
    finally:
        stop(server)
    server = start(tmp_path)
    try:
        assert set(names(call(server, "GET", CONFIGMAPS))) >= set(acknowledged)
    finally:
        stop(server)
