"""A namespace of a test server: what `kube_session` gives to each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from kapiserver.api.resource_client import StatusError
from kapiserver.testing.existing_cluster import ExistingCluster
from kapiserver.testing.server import TestServer


class TestNamespace(Struct, frozen=True):
    """A namespace for one test.

    server      the server of the namespace; an ExistingCluster with the option --kapiserver-cluster
    name        the name of the namespace
    kubeconfig  file of an administrator's kubeconfig whose context names the namespace
    """

    __test__ = False  # not a test class of pytest

    server: TestServer | ExistingCluster
    name: str
    kubeconfig: Path


@contextmanager
def fresh_namespace(server: TestServer | ExistingCluster) -> Iterator[TestNamespace]:
    """Create a namespace `test-...`, and begin to delete it when the block ends. The namespace
    controller empties it later; the test does not wait for that."""
    namespaces = server.internal_client().resource("v1", "namespaces")
    created = server.run(namespaces.create({"metadata": {"generateName": "test-"}}))
    name = created["metadata"]["name"]
    kubeconfig = server.write_kubeconfig(name)
    try:
        yield TestNamespace(server, name, kubeconfig)
    finally:
        kubeconfig.unlink(missing_ok=True)
        try:
            server.run(namespaces.delete(name))
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):  # the test has deleted it
                raise
