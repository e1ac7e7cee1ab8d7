"""The clients of Java: fabric8's and the official one."""

from __future__ import annotations

import re

import pytest

from tests.clients.toolchains import install, run_suite, suite_folder


@pytest.mark.slow  # compiles Java
def test_java(suite_environment: dict[str, str]) -> None:
    """The suite in tests/clients/java passes."""
    folder = suite_folder("java", "mvn", "java")
    install(folder, "mvn", "-q", "-B", "-ntp", "dependency:resolve")
    output = run_suite(folder, suite_environment, "mvn", "-B", "-ntp", "test")
    assert re.search(r"Tests run: [1-9]\d*, Failures: 0, Errors: 0", output), output
