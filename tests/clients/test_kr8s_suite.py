"""The tests of kr8s, unmodified, against a server that simulates a node."""

from __future__ import annotations

import re
import tarfile
import venv
from pathlib import Path

import pytest

from tests.clients.toolchains import SUITES, install, run_suite
from tests.e2e.programs import kubectls, start, stop

SOURCE = "kr8s==0.20.15"
PACKAGES = (
    "pytest", "pytest-asyncio", "pytest-timeout", "trio", "kubernetes", "kubernetes-asyncio",
    "kubernetes-validate", "lightkube", "pykube-ng",
)  # fmt: skip
FAILS = (
    # They run programs in a container, or connect to one.
    "pod_exec and not pod_exec_multi",
    "port_forward",
    "service_exec",
    "test_adoption",
    # It expects that no group but the core group has pods; metrics.k8s.io has.
    "test_api_resources and not cache",
    # It expects that no response comes within 10 microseconds; at times one does.
    "test_api_timeout",
    # kubernetes 37 has no module `kubernetes.client.models.v1_pod`.
    "test_cast_to_from_kubernetes",
)
"""The tests that fail, and why."""


@pytest.mark.slow  # installs packages, and runs two minutes
def test_kr8s_suite(tmp_path: Path) -> None:
    """All tests pass that need no program in a container."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    pip = (python, "-m", "pip")
    install(tmp_path, *pip, "download", "-q", "--no-deps", "--no-binary=:all:", SOURCE)
    install(tmp_path, *pip, "install", "-q", SOURCE, *PACKAGES)
    (archive,) = tmp_path.glob("kr8s-*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(tmp_path, filter="data")
    server = start(tmp_path, "--simulate", "--simulate-nodes=1")
    try:
        output = run_suite(
            tmp_path / archive.name.removesuffix(".tar.gz"),
            {
                "KIND_KUBECONFIG": str(server.kubeconfig),
                "KIND_KUBECTL": str(kubectls()[0]),
                "PATH": f"{kubectls()[0].parent}:/usr/bin:/bin",
                "PYTHONPATH": str(SUITES / "kr8s"),
            },
            *(python, "-m", "pytest", "-q", "-o", "addopts=", "-p", "pytest_kind.plugin"),
            *("--timeout=60", "-k", f"not ({' or '.join(f'({each})' for each in FAILS)})", "kr8s"),
        )
    finally:
        stop(server)
    (passed,) = re.findall(r"(\d+) passed", output)
    assert int(passed) >= 260, output
