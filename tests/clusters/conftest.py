"""One server for the tests of logical clusters; each test creates the clusters that it uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clusters.clusterkit import Kit


@pytest.fixture(scope="session")
def kit() -> Iterator[Kit]:
    """A server with logical clusters."""
    with Kit.running(logical_cluster_domain="clusters.test") as kit:
        yield kit
