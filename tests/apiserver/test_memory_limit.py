"""The limit of the memory of a process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.memory_limit import (
    FREE_SECONDS,
    MEASURE_SECONDS,
    MemoryLimit,
    default_limit,
    max_memory,
    process_memory,
)
from tests.clock import ManualClock

MIB = 1 << 20


def test_measures_and_frees() -> None:
    """Memory is measured and freed at intervals, and requests pass again when it is below."""
    clock, sizes, freed = ManualClock(), [50, 150, 160, 170, 90], []
    limit = MemoryLimit(100, clock, [lambda: freed.append("a"), lambda: freed.append("b")],
                        lambda: sizes.pop(0))  # fmt: skip
    assert not limit.is_exceeded()
    assert not limit.is_exceeded()  # not measured again
    assert len(sizes) == 4
    clock.advance(MEASURE_SECONDS)
    assert limit.is_exceeded()
    assert freed == ["a", "b"]
    clock.advance(MEASURE_SECONDS)
    assert limit.is_exceeded()
    assert freed == ["a", "b"]
    clock.advance(FREE_SECONDS)
    assert limit.is_exceeded()
    assert freed == ["a", "b"] * 2
    clock.advance(MEASURE_SECONDS)
    assert not limit.is_exceeded()


def test_no_limit() -> None:
    """Without a limit nothing is measured."""
    assert not MemoryLimit(0, ManualClock(), [], lambda: 1 // 0).is_exceeded()


def test_process_memory() -> None:
    """Memory that the process allocates is counted."""
    before = process_memory()
    block = b"x" * (64 * MIB)
    assert process_memory() - before > 60 * MIB
    del block


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, 0),
        ({"proc/meminfo": "MemFree: 1 kB\nMemTotal:       4096 kB\n"}, 3 * MIB),
        (
            {
                "proc/meminfo": "MemTotal: 8192 kB\n",
                "proc/self/cgroup": "0::/a/b\n",
                "cgroup/a/b/memory.max": "max\n",
                "cgroup/a/memory.max": f"{4 * MIB}\n",
            },
            3 * MIB,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/x\n",
                "cgroup/memory/x/memory.limit_in_bytes": f"{4 * MIB}",
                "cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            },
            3 * MIB,
        ),
    ],
    ids=["unknown", "machine", "version 2", "version 1"],
)
def test_default(tmp_path: Path, files: dict[str, str], limit: int) -> None:
    """The default is three quarters of the memory of the machine or of its control groups."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert default_limit(proc=tmp_path / "proc", groups=tmp_path / "cgroup") == limit


def test_configured() -> None:
    """A configured limit is that of each process, the default is shared by the workers."""
    assert max_memory(Config.of(max_memory=5)) == 5
    assert max_memory(Config.of(max_memory=0)) == 0
    assert max_memory(Config.of(workers=2)) == max_memory(Config()) // 2 > 0


def test_requests_above_the_limit(make_server: Callable[..., Any]) -> None:
    """Requests get 429 with Retry-After; health checks, metrics and deletions are answered."""
    server = make_server(max_memory=1)
    path = "/api/v1/namespaces/default/configmaps"
    for response in (
        server.api.get(path),
        server.api.get(path + "?watch=1"),
        server.api.post(path, {"metadata": {"name": "a"}}),
        server.api.delete(path),
        server.api.get("/openapi/v2"),
    ):
        assert response.status == 429
        assert response.headers["Retry-After"] == "1"
        assert response.json["reason"] == "TooManyRequests"
        assert response.message == "the server is out of memory, please try again later"
    assert server.api.get("/livez").status == 200
    assert server.api.get("/metrics").status == 200
    assert server.api.delete(path + "/a").status == 404
