"""The official JavaScript client, @kubernetes/client-node."""

from __future__ import annotations

import re
import sys

import pytest

from tests.clients.toolchains import FETCH, ROOT, install, run_suite, suite_folder


@pytest.mark.slow  # `make test-clients` runs it
def test_node(suite_environment: dict[str, str]) -> None:
    """The suite in tests/clients/node passes."""
    folder = suite_folder("node", "node", "npm")
    install(folder, *FETCH["node"])
    environment = suite_environment | {"PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    output = run_suite(folder, environment, "npm", "test")
    assert re.search(r"^\S+ pass [1-9]", output, re.MULTILINE), output
