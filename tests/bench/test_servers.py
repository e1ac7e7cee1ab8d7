"""The processes that a bench starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from tests.bench.servers import store

with store("etcd", Path(sys.argv[1])) as etcd:
    print(*etcd.pids, flush=True)
    sys.stdin.read()
"""


def test_sigterm_ends_them(tmp_path: Path) -> None:
    """A bench that `timeout` ends leaves no process behind."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        folder = Path("/proc", process.stdout.readline().strip())
        assert folder.exists()
        process.terminate()
        assert process.wait(60) == 143
    assert not folder.exists()
