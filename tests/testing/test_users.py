"""Users with given rights: clients, kubeconfigs and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.testing import TestNamespace, TestServer, TestUser, Users, server, use_kubeconfig
from tests.testing.http_client import HttpClient

# Some clients leave their sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

MAPS = "/api/v1/namespaces/{}/configmaps"
READ_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
MANIFEST = """
apiVersion: v1
kind: Namespace
metadata: {name: system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager}
subjects:
- {kind: ServiceAccount, name: manager, namespace: system}
"""

Add = Callable[..., TestUser]


def _status(user: TestUser, method: str, path: str, **settings: Any) -> int:
    return int(user.client.httpx().request(method, path, **settings).status_code)


def test_user(kube_session: TestNamespace, kube_user: Add) -> None:
    """A user may do what the rules say, everywhere or in one namespace, and nothing else."""
    alice = kube_user("alice", rules=[READ_MAPS])
    bob = kube_user("bob", rules=[READ_MAPS], role_namespace=kube_session.name)
    carol = kube_user("carol")
    own, other = MAPS.format(kube_session.name), MAPS.format("default")
    assert [_status(alice, "GET", path) for path in (own, other)] == [200, 200]
    assert [_status(bob, "GET", path) for path in (own, other)] == [200, 403]
    assert [_status(carol, "GET", path) for path in (own, other)] == [403, 403]
    assert _status(alice, "POST", own, json={"metadata": {"name": "x"}}) == 403
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = alice.client.httpx().post(path, json=review).json()["status"]["userInfo"]
    assert (info["username"], info["groups"]) == ("alice", ["system:authenticated"])


def test_group(kube_session: TestNamespace, kube_user: Add) -> None:
    """Rules of a user without a name are those of the groups; roles name existing ClusterRoles."""
    member = kube_user(groups=["devs", "ops"], roles=["view"], role_namespace=kube_session.name)
    assert (member.name, member.groups) == ("member-of-devs-ops", ("devs", "ops"))
    other = kube_user("other", groups=["ops"])
    for user in (member, other):
        assert _status(user, "GET", MAPS.format(kube_session.name)) == 200
        assert _status(user, "GET", MAPS.format("default")) == 403


def test_service_account(kube_session: TestNamespace, kube_service_account: Add) -> None:
    """A ServiceAccount is created, with a token that lives longer than the clock moves."""
    robot = kube_service_account("robot", rules=[READ_MAPS], role_namespace="default")
    assert robot.name == f"system:serviceaccount:{kube_session.name}:robot"
    assert f"system:serviceaccounts:{kube_session.name}" in robot.groups
    server = kube_session.server
    assert isinstance(server, TestServer)
    server.clock.advance("7d")
    assert _status(robot, "GET", MAPS.format("default")) == 200
    assert _status(robot, "GET", MAPS.format(kube_session.name)) == 403
    assert kube_service_account("robot").name == robot.name


def test_manifest_of_an_operator(kube_apiserver: TestServer, kube_service_account: Add) -> None:
    """The account of a manifest has the rights of the manifest's bindings."""
    kube_apiserver.state.load(MANIFEST)
    manager = kube_service_account("manager", namespace="system")
    assert _status(manager, "GET", "/api/v1/secrets") == 200
    assert _status(manager, "GET", "/api/v1/configmaps") == 403
    assert "namespace: system\n" in manager.kubeconfig.read_text()


def test_libraries(kube_session: TestNamespace, kube_user: Add) -> None:
    """Each client library is the user."""
    alice = kube_user("alice", rules=[{**READ_MAPS, "resources": ["configmaps", "secrets"]}])
    with use_kubeconfig(alice.kubeconfig):
        from kubernetes import client, config

        config.load_kube_config()
        with client.ApiClient() as api:
            assert client.CoreV1Api(api).list_config_map_for_all_namespaces().items
    from lightkube import ApiError
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap

    with pytest.raises(ApiError, match='User "alice" cannot create resource "configmaps"'):
        alice.client.lightkube().create(ConfigMap(metadata=ObjectMeta(name="x")))
    core = client.CoreV1Api(alice.client.kubernetes())
    assert core.list_namespaced_secret(kube_session.name).items == []
    with pytest.raises(client.ApiException, match="cannot delete resource"):
        core.delete_namespaced_config_map("kube-root-ca.crt", kube_session.name)

    async def run() -> None:
        async with alice.client.kubernetes_asyncio() as api:
            from kubernetes_asyncio import client

            maps = await client.CoreV1Api(api).list_namespaced_config_map(kube_session.name)
            assert [each.metadata.name for each in maps.items] == ["kube-root-ca.crt"]
        async with alice.client.httpx_async() as http:
            assert (await http.get("/api/v1/pods")).status_code == 403

    asyncio.run(run())


def test_users_are_removed() -> None:
    """Nothing of the users is left at the end: no role, no binding, no account, no token."""
    with TestServer() as running:
        running.state.snapshot()  # with the objects that controllers create at the start
        before = running.state.dump(everything=True)
        with Users(TestNamespace(running, "default", running.kubeconfig)) as users:
            alice = users.add("alice", rules=[READ_MAPS], roles=["view"])
            users.add_service_account("robot", rules=[READ_MAPS], role_namespace="default")
            assert HttpClient(running, token=alice.token)("GET", "/api/v1/secrets")[0] == 403
            assert running.state.dump(everything=True) != before
        assert running.state.dump(everything=True) == before
        assert HttpClient(running, token=alice.token)("GET", "/api")[0] == 401


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({}, {}, "a user needs a name or groups"),
        ({}, {"name": "a", "groups": "devs"}, "groups must be a list, not 'devs'"),
        ({}, {"groups": ["a,b"]}, "is not a user of a token file"),
        ({"tls": False}, {"name": "a"}, "takes no tokens of added users"),
        ({"rbac": False}, {"name": "a", "rules": [READ_MAPS]}, "runs without RBAC"),
    ],
)
def test_refused(settings: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    """What cannot limit anyone is an error."""
    with (
        TestServer(**settings) as running,
        Users(TestNamespace(running, "default", running.kubeconfig)) as users,
        pytest.raises((ValueError, RuntimeError), match=message),
    ):
        users.add(**arguments)


def test_bad_rule(kube_session: TestNamespace, kube_user: Add) -> None:
    """The server's error names the rule."""
    with pytest.raises(StatusError, match=r"rules\[0\]\.verbs: Required value"):
        kube_user("alice", rules=[{"apiGroups": [""], "resources": ["pods"]}])
    with pytest.raises(StatusError, match='"missing" not found'):
        kube_user("alice", roles=["missing"])


def test_limit(
    monkeypatch: pytest.MonkeyPatch, kube_session: TestNamespace, kube_user: Add
) -> None:
    """The number of users of a server is bounded."""
    monkeypatch.setattr(server, "MAX_USERS", 1)
    kube_user("one")
    with pytest.raises(ValueError, match="there are 1 users already"):
        kube_user("two")
