"""RBAC from outside: users with tokens, and kubectl's commands about roles."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import Server, kubectls, run, start, stop

TOKENS = """\
jane-token,jane,1,"dev"
bob-token,bob,2
"""


POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with RBAC and two users."""
    folder: Path = tmp_path_factory.mktemp("rbac")
    (folder / "tokens").write_text(TOKENS)
    (folder / "policy").write_text(POLICY)
    running = start(
        folder, "--token-auth-file", str(folder / "tokens"),
        "--audit-policy-file", str(folder / "policy"),
        "--audit-log-path", str(folder / "audit.log"),
    )  # fmt: skip
    yield running
    stop(running)


@pytest.fixture
def admin(server: Server) -> Callable[..., str]:
    """kubectl as the administrator."""
    return lambda *arguments, **options: run(kubectls()[0], server, *arguments, **options)


@pytest.fixture
def user(server: Server, tmp_path: Path) -> Callable[..., str]:
    """`user("jane", *arguments)` runs kubectl with that user's token alone."""
    view = json.loads(run(kubectls()[0], server, "config", "view", "--raw", "-o", "json"))
    view["users"][0]["user"] = {}
    (tmp_path / "kubeconfig").write_text(json.dumps(view))

    def call(name: str, *arguments: str, **options: bool) -> str:
        config = f"--kubeconfig={tmp_path / 'kubeconfig'}"
        token = f"--token={name}-token"
        return run(kubectls()[0], server, config, token, *arguments, **options)

    return call


def test_no_rights(user: Callable[..., str]) -> None:
    """A user without a binding may create a SelfSubjectReview and discover the API, and nothing
    else."""
    assert "jane" in user("jane", "auth", "whoami")
    assert "deployments" in user("jane", "api-resources")
    refusal = user("jane", "get", "pods", fails=True)
    assert (
        'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the '
        'namespace "default"' in refusal
    )
    assert user("jane", "auth", "can-i", "delete", "nodes", fails=True).startswith("no")


def test_roles(admin: Callable[..., str], user: Callable[..., str]) -> None:
    """A role binding gives the rights of a role in its namespace, a cluster role binding in all of
    them; deleting it takes them away."""
    admin("create", "namespace", "shop")
    admin("create", "role", "reader", "-n", "shop", "--verb=get,list", "--resource=configmaps")
    admin("create", "rolebinding", "reader", "-n", "shop", "--role=reader", "--group=dev")
    assert "kube-root-ca.crt" in user("jane", "get", "configmaps", "-n", "shop")
    assert "forbidden" in user("jane", "get", "configmaps", "-n", "default", fails=True)
    assert "forbidden" in user("bob", "get", "configmaps", "-n", "shop", fails=True)
    listing = user("jane", "auth", "can-i", "--list", "-n", "shop")
    assert "configmaps" in listing
    assert "selfsubjectreviews.authentication.k8s.io" in listing
    admin("create", "clusterrolebinding", "bob", "--clusterrole=view", "--user=bob")
    assert "kube-system" in user("bob", "get", "pods,configmaps", "-A")
    assert "forbidden" in user("bob", "get", "secrets", "-A", fails=True)
    admin("delete", "clusterrolebinding", "bob")
    assert "forbidden" in user("bob", "get", "pods", "-A", fails=True)


def test_service_account(admin: Callable[..., str], user: Callable[..., str]) -> None:
    """A service account gets its rights by a binding, and loses its token when it is deleted."""
    admin("create", "serviceaccount", "robot")
    admin("create", "rolebinding", "robot", "--clusterrole=edit", "--serviceaccount=default:robot")
    token = admin("create", "token", "robot").strip()
    call = ("--token", token)
    user("jane", *call, "create", "configmap", "made-by-robot", "--from-literal=a=b")
    assert "forbidden" in user("jane", *call, "create", "namespace", "x", fails=True)
    admin("delete", "serviceaccount", "robot")
    assert "Unauthorized" in user("jane", *call, "get", "pods", fails=True)


def test_impersonation(admin: Callable[..., str], user: Callable[..., str]) -> None:
    """An administrator acts as somebody else with that user's rights alone; others may not."""
    assert "forbidden" in admin("delete", "namespace", "kube-public", "--as", "nobody", fails=True)
    admin("create", "clusterrolebinding", "ops", "--clusterrole=view", "--group=ops")
    as_ops = ("--as", "eve", "--as-group", "ops")
    assert "kube-root-ca.crt" in admin("get", "configmaps", "-A", *as_ops)
    assert admin("auth", "can-i", "delete", "pods", *as_ops, fails=True).startswith("no")
    account = ("--as", "system:serviceaccount:default:default")
    assert "system:serviceaccounts:default" in admin("auth", "whoami", *account)
    refusal = user("jane", "get", "pods", "--as", "bob", fails=True)
    assert 'User "jane" cannot impersonate-on:user-info:list resource "pods" in API' in refusal
    admin("create", "clusterrole", "as-bob", "--verb=impersonate", "--resource=users",
          "--resource-name=bob")  # fmt: skip
    admin("create", "clusterrolebinding", "as-bob", "--clusterrole=as-bob", "--user=jane")
    assert "bob" in user("jane", "auth", "whoami", "--as", "bob")
    assert "impersonate-on" in user("jane", "get", "pods", "--as=bob", "--as-group=x", fails=True)


ESCALATION = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: role-writer}
rules:
- {apiGroups: [rbac.authorization.k8s.io], resources: ["*"], verbs: ["*"], resourceNames: [none]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [create, get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: role-writer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: role-writer}
subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}]
"""


def test_reconcile_and_escalation(admin: Callable[..., str], user: Callable[..., str]) -> None:
    """`auth reconcile` works; a user who may write roles cannot grant more than the user holds."""
    assert "reconciled" in admin("auth", "reconcile", "-f", "-", stdin=ESCALATION)
    create = ("create", "clusterrole", "all", "--verb=*", "--resource=secrets")
    refusal = user("jane", *create, fails=True)
    assert 'user "jane" (groups=["dev" "system:authenticated"]) is attempting to grant' in refusal
    assert '{APIGroups:[""], Resources:["secrets"], Verbs:["*"]}' in refusal


def test_audit(server: Server, user: Callable[..., str]) -> None:
    """The audit log has forbidden requests, with the reason, and requests with a wrong token."""
    user("bob", "get", "secrets", "-n", "kube-public", fails=True)
    assert "Unauthorized" in user("nobody", "get", "pods", fails=True)
    events = [json.loads(line) for line in (server.folder / "audit.log").read_text().splitlines()]
    path = "/api/v1/namespaces/kube-public/secrets?limit=500"
    forbidden = next(event for event in events if event["requestURI"] == path)
    assert forbidden["user"]["username"] == "bob"
    assert forbidden["responseStatus"]["code"] == 403
    assert forbidden["annotations"]["authorization.k8s.io/decision"] == "forbid"
    refused = [event for event in events if event["responseStatus"]["code"] == 401]
    assert refused[0]["user"].get("username", "") in ("", "system:anonymous")
    message = "Authentication failed, attempted: bearer"
    assert refused[0]["responseStatus"]["message"] == message
