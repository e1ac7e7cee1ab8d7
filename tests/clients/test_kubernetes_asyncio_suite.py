"""The end-to-end tests of kubernetes_asyncio, unmodified, against a server that simulates a node.

Its packages do not contain these tests; they come from its repository.
"""

from __future__ import annotations

import re
import shutil
import venv
from pathlib import Path

import pytest

from tests.clients.toolchains import SUITES, install, run_suite
from tests.e2e.programs import kubectls, run, start, stop

SOURCE = "https://github.com/tomplus/kubernetes_asyncio"
VERSION = "cb0b819d"


@pytest.mark.slow  # installs packages
def test_kubernetes_asyncio_suite(tmp_path: Path) -> None:
    """All 12 tests pass; commands run on the machine of the server."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    install(tmp_path, "git", "clone", "-q", SOURCE, "source")
    source = tmp_path / "source"
    install(source, "git", "checkout", "-q", VERSION)
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install(source, python, "-m", "pip", "install", "-q", ".", "pytest", "setuptools")
    server = start(tmp_path, "--simulate", "--simulate-nodes=1", "--simulate-host-access")
    try:
        run(kubectls()[0], server, "apply", "-f", str(SUITES / "host_exec.yaml"))
        home = tmp_path / "home"
        (home / ".kube").mkdir(parents=True)
        shutil.copy(server.kubeconfig, home / ".kube" / "config")
        environment = {"HOME": str(home), "KUBECONFIG": str(server.kubeconfig)}
        tests = "kubernetes_asyncio/e2e_test"
        output = run_suite(source, environment, python, "-m", "pytest", "-q", tests)
    finally:
        stop(server)
    assert re.findall(r"(\d+) passed", output) == ["12"], output
