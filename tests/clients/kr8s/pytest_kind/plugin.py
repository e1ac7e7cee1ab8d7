"""The options that the tests of kr8s read."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Keep the cluster, which the test of kapiserver stops."""
    parser.addoption("--keep-cluster", action="store_true", default=True)
