"""A server that has no file descriptors left."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.cluster import call, create
from tests.e2e.programs import start, stop, wait_for_log

if sys.platform == "linux":
    import resource
else:
    pytest.skip("limits of other processes are Linux's", allow_module_level=True)


def test_start_without_descriptors(tmp_path: Path) -> None:
    """A controller that cannot import what it needs tries again when there are descriptors, and the
    log has no trace."""
    server = start(tmp_path, "-v")
    try:
        pid = server.process.pid
        _, limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limit))
        wait_for_log(server, "Too many open files")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
        create(server, "later")
        wait_for_log(server, "path=/api/v1/namespaces/default/configmaps status=201")
        call(server, "GET", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")
    finally:
        code = stop(server)
    log = (tmp_path / "log").read_text()
    assert (code, log.count("Traceback")) == (0, 0), log
