"""One server for the tests of logical clusters; each test creates the clusters that it uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kapiserver.testing.server import TestServer
from tests.clusters.clusterkit import Kit


@pytest.fixture(scope="session")
def kit() -> Iterator[Kit]:
    """A server with logical clusters."""
    settings = {"enable_logical_clusters": True, "logical_cluster_domain": "clusters.test"}
    with TestServer(**settings) as server:
        yield Kit(server)
