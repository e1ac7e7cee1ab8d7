from __future__ import annotations

import itertools

import pytest

from kapiserver.testing import TestServer
from tests.conformance.cluster import Cluster

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def simulating():
    """A server with two simulated nodes, whose clock stands still."""
    with TestServer(simulate=True, simulate_nodes=2) as server:
        server.clock.freeze()
        yield server


@pytest.fixture
def cluster(simulating):
    """The cluster, and a namespace of its own for each test."""
    cluster = Cluster(simulating, f"conformance-{next(_NUMBERS)}")
    cluster.create("namespaces", {"metadata": {"name": cluster.namespace}})
    yield cluster
    cluster.delete("namespaces", cluster.namespace)
