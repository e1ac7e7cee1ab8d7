"""One server for the tests of logical clusters; each test creates the clusters that it uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clusters.clusterkit import Kit


@pytest.fixture(scope="session")
def kit() -> Iterator[Kit]:
    """A server with logical clusters."""
    settings = {"logical_cluster_domain": "clusters.test", "disable_http2_serving": False}
    with Kit.running(**settings) as kit:
        yield kit
