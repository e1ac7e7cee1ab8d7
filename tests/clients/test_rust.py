"""kube-rs, the client of Rust."""

from __future__ import annotations

import re

import pytest

from tests.clients.toolchains import install, run_suite, suite_folder


@pytest.mark.slow  # compiles 200 crates
def test_rust(suite_environment: dict[str, str]) -> None:
    """The suite in tests/clients/rust passes."""
    folder = suite_folder("rust", "cargo")
    install(folder, "cargo", "fetch")
    output = run_suite(folder, suite_environment, "cargo", "test", "--lib")
    assert re.search(r"test result: ok\. [1-9]", output), output
