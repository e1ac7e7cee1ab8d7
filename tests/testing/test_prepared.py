"""Test servers of one process share certificates and the bootstrap policy, but no objects."""

from __future__ import annotations

from typing import Any

from kapiserver.apiserver.authorization.rbac.index import RBAC as RBAC_VERSION
from kapiserver.testing import TestServer
from kapiserver.testing.state import prepared

RBAC = "rbac.authorization.k8s.io/v1"


def _list(server: TestServer, version: str, resource: str) -> dict[str, Any]:
    page = server.run(server.internal_client().resource(version, resource).list_page())
    return {item["metadata"]["name"]: item for item in page["items"]}


def _rules(roles: dict[str, Any]) -> dict[str, Any]:
    return {name: (role["metadata"]["uid"], role.get("rules")) for name, role in roles.items()}


def test_policy_is_the_same() -> None:
    """A server that reuses the policy of an earlier one serves the same roles and bindings, and
    authorizes with them."""
    with TestServer() as first:
        first.clock.advance(0)  # until the aggregated roles are complete
        roles, bindings = _list(first, RBAC, "clusterroles"), _list(first, RBAC, "rolebindings")
    assert len(roles) > 60
    with TestServer() as second:
        second.clock.advance(0)
        reused = _list(second, RBAC, "clusterroles")
        assert _rules(reused) == _rules(roles)
        assert _list(second, RBAC, "rolebindings").keys() == bindings.keys()
        reviews = second.internal_client().resource(
            "authorization.k8s.io/v1", "subjectaccessreviews"
        )
        spec = {
            "user": "system:serviceaccount:kube-system:namespace-controller",
            "resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "default"},
        }
        assert second.run(reviews.create({"spec": spec}))["status"]["allowed"] is True


def test_start_decodes_few_roles() -> None:
    """A server that reuses the policy decodes the roles that its controllers need, not all."""
    with TestServer(), TestServer() as second:
        second.clock.advance(0)  # until the controllers have done what a start causes
        roles = second.running.cluster.server.stores.by_name(RBAC_VERSION, "clusterroles").informer
        decoded = second.call(
            lambda: [role.key.name for role in roles.lister.list() if role.cached_tree is not None]
        )
    assert "view" in decoded
    assert "system:kube-scheduler" not in decoded
    assert len(decoded) < 30


def test_objects_of_tests_are_not_shared() -> None:
    """A change of a client affects its server only, also a change of the policy's objects."""
    with TestServer() as first:
        roles = first.internal_client().resource(RBAC, "clusterroles")
        first.run(roles.delete("view"))
        first.run(roles.create({"metadata": {"name": "mine"}}))
    with TestServer() as second:
        names = _list(second, RBAC, "clusterroles").keys()
        assert "view" in names
        assert "mine" not in names


def test_servers_of_a_process_have_one_ca() -> None:
    """Certificates are made once; a certificate that does not fit the addresses is made anew."""
    with TestServer() as first, TestServer(service_cluster_ip_range="10.9.0.0/24") as second:
        assert first.ca is not None
        assert second.ca is not None
        assert first.ca.read_bytes() == second.ca.read_bytes()
        assert first.ca != second.ca
        certificates = [
            (server.ca.parent / "apiserver.crt").read_bytes()
            for server in (first, second)
            if server.ca is not None
        ]
        assert certificates[0] != certificates[1]


def test_policies_are_bounded() -> None:
    """The policies of few configurations are kept."""
    for seconds in range(prepared.MAX_CONFIGURATIONS + 1):
        with TestServer(tls=False, controllers=[], request_timeout=30.0 + seconds):
            assert len(prepared._policies) <= prepared.MAX_CONFIGURATIONS
