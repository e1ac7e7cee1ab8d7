"""The examples pass their tests, as their readers run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.docs.session import readers_environment
from tests.e2e.programs import TOOLS, start, stop

EXAMPLES = ROOT / "examples"
OTHER_TESTS = {
    "custom_metrics": "tests/e2e/test_extension_examples.py",
    "flunders": "tests/e2e/test_extension_examples.py",
    "go-operator": "tests/clients/test_go.py",
    "kms_plugin": "tests/apiserver/test_kms.py",
    "metrics_server": "tests/e2e/test_extension_examples.py",
    "rpc": "tests/rpc/test_examples.py",
}
"""Examples that have a test elsewhere."""
PLUGINS = ("-p", "no:cacheprovider", "-p", "kapiserver.testing.pytest_plugin")
TESTED = ("asyncio_operator", "helm_chart", "kopf_operator", "sql_table")


def _run(example: str, *options: str) -> str:
    """Run the tests of an example in its directory, and return what pytest prints."""
    path = os.pathsep.join((str(TOOLS), os.environ["PATH"]))
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGINS, *options],
        cwd=EXAMPLES / example, env={**readers_environment(), "PATH": path},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout
    return completed.stdout


@pytest.mark.parametrize(
    "example",
    [
        "asyncio_operator",
        "kopf_operator",
        "sql_table",
        pytest.param("helm_chart", marks=pytest.mark.slow),
    ],
)
def test_example(example: str) -> None:
    """Every test of the example passes; none is skipped."""
    if example == "helm_chart" and not (TOOLS / "helm").exists():
        pytest.skip("no helm")
    output = _run(example)
    assert re.search(r"^\d+ passed in", output, re.M), output


@pytest.mark.slow
def test_example_in_a_cluster(tmp_path: Path) -> None:
    """With --kapiserver-cluster the tests run against a server that is not theirs, as they do
    against kind; those that need a test server are skipped."""
    server = start(tmp_path)
    try:
        output = _run("kopf_operator", "--kapiserver-cluster", str(server.kubeconfig))
    finally:
        assert stop(server) == 0
    assert re.search(r"^1 passed, 4 skipped in", output, re.M), output


def test_every_example_is_tested() -> None:
    """Each folder of examples has a test."""
    folders = {path.name for path in EXAMPLES.iterdir() if any(path.glob("*.*"))}
    assert folders == {*TESTED, *OTHER_TESTS}
    assert all((ROOT / test).exists() for test in OTHER_TESTS.values())
