"""RBAC: what roles and bindings allow, in a server with --authorization-mode=RBAC."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kapiserver.apiserver.authorization.rbac.index import MANY_GROUPS
from kapiserver.apiserver.authorization.rbac.rules import CompiledRules
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import (
    ANONYMOUS,
    APISERVER,
    User,
    service_account_user,
)
from kapiserver.app import serve
from tests.apiserver.authorization.rbackit import (
    CONFIG,
    JANE,
    KIM,
    POD,
    PODS,
    RBAC,
    ROBOT,
    binding,
    create,
    decide,
    path_rule,
    request_info,
    resource_rule,
    role,
    run,
    subject,
)

pytestmark = pytest.mark.usefixtures("no_errors")


ALLOWED = [
    (PODS, f"GET {POD}", True),
    (PODS, "GET /api/v1/pods", True),
    (PODS, "GET /api/v1/pods?watch=1", False),
    (PODS, f"DELETE {POD}", False),
    (PODS, f"GET {POD}/log", False),
    (PODS, "GET /apis/metrics.k8s.io/v1beta1/pods", False),
    (PODS, "GET /api/v1/namespaces/x/services", False),
    (PODS, "GET /version", False),
    (resource_rule("get", "core", "pods/log"), f"GET {POD}/log", True),
    (resource_rule("get", "core", "pods/log"), f"GET {POD}", False),
    (resource_rule("get", "core", "*/log"), f"GET {POD}/log", True),
    (resource_rule("get", "core", "*/log"), f"GET {POD}/status", False),
    (resource_rule("get", "core", "*/log"), f"GET {POD}", False),
    (resource_rule("get", "core", "*"), f"GET {POD}/log", True),
    (resource_rule("*", "*", "*"), "DELETE /apis/apps/v1/namespaces/x/deployments", True),
    (resource_rule("*", "*", "*"), "GET /version", False),
    (resource_rule("get", "apps", "*"), f"GET {POD}", False),
    (resource_rule("get", "core", "pods", "p q"), f"GET {POD}", True),
    (resource_rule("get", "core", "pods", "q"), f"GET {POD}", False),
    (resource_rule("list", "core", "pods", "p"), "GET /api/v1/namespaces/x/pods", False),
    (
        resource_rule("list", "core", "pods", "p"),
        "GET /api/v1/namespaces/x/pods?fieldSelector=metadata.name=p",
        True,
    ),
    (resource_rule("create", "core", "pods", "p"), "POST /api/v1/namespaces/x/pods", False),
    (path_rule("get", "/version"), "GET /version", True),
    (path_rule("get", "/version"), "GET /version/", False),
    (path_rule("get", "/version"), "POST /version", False),
    (path_rule("*", "/healthz/*"), "GET /healthz/etcd", True),
    (path_rule("*", "/healthz/*"), "GET /healthz", False),
    (path_rule("get", "/health*"), "GET /healthz", True),
    (path_rule("get", "*"), "GET /anything", True),
    (path_rule("get", "*"), f"GET {POD}", False),
    ({}, f"GET {POD}", False),
]


@pytest.mark.parametrize(("rule", "request_line", "allowed"), ALLOWED)
def test_rules(rule: dict[str, Any], request_line: str, allowed: bool) -> None:
    """A rule allows its verbs on its resources, objects and paths, and nothing else."""
    assert CompiledRules([rule]).allows(request_info(request_line)) is allowed


ALLOWED_BY = [
    (
        binding("b", "ClusterRole", "readers", subject("User", "jane")),
        JANE,
        'ClusterRoleBinding "b" of ClusterRole "readers" to User "jane"',
    ),
    (
        binding("b", "ClusterRole", "readers", subject("Group", "dev")),
        JANE,
        'ClusterRoleBinding "b" of ClusterRole "readers" to Group "dev"',
    ),
    (
        binding("b", "ClusterRole", "readers", subject("User", "jane"), namespace="default"),
        JANE,
        'RoleBinding "b/default" of ClusterRole "readers" to User "jane"',
    ),
    (
        binding("b", "Role", "readers", subject("User", "jane"), namespace="default"),
        JANE,
        'RoleBinding "b/default" of Role "readers" to User "jane"',
    ),
    (
        binding("b", "ClusterRole", "readers", subject("ServiceAccount", "robot", "kube-system")),
        ROBOT,
        'ClusterRoleBinding "b" of ClusterRole "readers" to ServiceAccount "robot/kube-system"',
    ),
    (
        binding("b", "ClusterRole", "readers", subject("Group", "system:serviceaccounts")),
        ROBOT,
        'ClusterRoleBinding "b" of ClusterRole "readers" to Group "system:serviceaccounts"',
    ),
]


@pytest.mark.parametrize(("body", "user", "reason"), ALLOWED_BY)
def test_allowed_by(body: dict[str, Any], user: User, reason: str) -> None:
    """A binding gives its role to its subjects, and takes it away when it is deleted. The reason
    names the binding, the role and the subject."""

    async def test(server: Server) -> None:
        in_default = "GET /api/v1/namespaces/default/pods/p"
        await create(server, "clusterroles", role("readers", PODS))
        await create(server, "roles", role("readers", PODS, namespace="default"))
        assert not (await decide(server, user, in_default)).allowed
        namespace = body["metadata"].get("namespace", "")
        resource = "rolebindings" if namespace else "clusterrolebindings"
        await create(server, resource, body)
        decision = await decide(server, user, in_default)
        assert decision.allowed
        assert decision.reason == f"RBAC: allowed by {reason}"
        elsewhere = await decide(server, user, "GET /api/v1/namespaces/other/pods/p")
        assert elsewhere.allowed is not bool(namespace)
        assert not (await decide(server, ANONYMOUS, in_default)).allowed
        client = server.client(APISERVER).resource(RBAC, resource, namespace=namespace)
        await client.delete("b")
        assert not (await decide(server, user, in_default)).allowed

    run(test)


def test_roles_change() -> None:
    """A change of a role, or its creation after the binding, takes effect with the next request;
    a missing role is named in the reason."""

    async def test(server: Server) -> None:
        request_line = "GET /api/v1/namespaces/default/pods/p"
        body = binding("b", "ClusterRole", "readers", subject("User", "kim"))
        await create(server, "clusterrolebindings", body)
        decision = await decide(server, KIM, request_line)
        words = 'clusterrole.rbac.authorization.k8s.io "readers" not found'
        assert (decision.allowed, decision.reason) == (False, f"RBAC: {words}")
        rules = await server.authorizer.rules_for(KIM, "default")
        assert (rules.incomplete, rules.error) == (True, words)
        await create(server, "clusterroles", role("readers", PODS, path_rule("get", "/logs")))
        assert (await decide(server, KIM, request_line)).allowed
        rules = await server.authorizer.rules_for(KIM, "default")
        assert [dict(rule) for rule in rules.resources] == [PODS]
        assert [dict(rule) for rule in rules.paths] == [path_rule("get", "/logs")]
        roles = server.client(APISERVER).resource(RBAC, "clusterroles")
        await roles.patch("readers", {"rules": [resource_rule("get", "apps", "deployments")]})
        assert not (await decide(server, KIM, request_line)).allowed

    run(test)


def test_account_of_the_namespace() -> None:
    """A service account without a namespace, in a role binding, is that of its namespace."""

    async def test(server: Server) -> None:
        await create(server, "clusterroles", role("readers", PODS))
        account = subject("ServiceAccount", "robot")
        body = binding("b", "ClusterRole", "readers", account, namespace="kube-system")
        await create(server, "rolebindings", body)
        request_line = "GET /api/v1/namespaces/kube-system/pods/p"
        assert (await decide(server, ROBOT, request_line)).allowed
        other = service_account_user("default", "robot")
        assert not (await decide(server, other, request_line)).allowed

    run(test)


def test_bindings_of_one_user() -> None:
    """Deleting one binding leaves the others; deleting a role takes its rights away; the reason
    names each missing role once."""

    async def test(server: Server) -> None:
        request_line = "GET /api/v1/namespaces/default/pods/p"
        await create(server, "clusterroles", role("readers", PODS))
        for name in ("a", "b", "c"):
            body = binding(name, "ClusterRole", "readers", subject("User", "kim"))
            await create(server, "clusterrolebindings", body)
        bindings = server.client(APISERVER).resource(RBAC, "clusterrolebindings")
        await bindings.delete("a")
        decision = await decide(server, KIM, request_line)
        assert decision.reason == (
            'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "readers" to User "kim"'
        )
        assert (await decide(server, KIM, "GET /version")).reason == ""
        rules = await server.authorizer.rules_for(KIM, "")
        assert (len(rules.resources), rules.error) == (2, "")
        await server.client(APISERVER).resource(RBAC, "clusterroles").delete("readers")
        other = binding("d", "ClusterRole", "writers", subject("User", "kim"))
        await create(server, "clusterrolebindings", other)
        decision = await decide(server, KIM, request_line)
        missing = [f'clusterrole.{RBAC.partition("/")[0]} "{name}" not found'
                   for name in ("readers", "writers")]  # fmt: skip
        assert decision.reason == f"RBAC: [{', '.join(missing)}]"
        await bindings.delete_collection()
        assert (await decide(server, KIM, request_line)).reason == ""

    run(test)


def test_paths() -> None:
    """A rule for paths allows requests for them, if the cluster binds it; one for resources
    does not."""

    async def test(server: Server) -> None:
        logs = role("logs", path_rule("get", "/logs"))
        await create(server, "clusterroles", logs)
        await create(server, "clusterroles", role("all", resource_rule("*", "*", "*")))
        bob, kim = subject("User", "bob"), subject("User", "kim")
        await create(server, "clusterrolebindings", binding("a", "ClusterRole", "logs", kim))
        await create(server, "clusterrolebindings", binding("b", "ClusterRole", "all", bob))
        assert (await decide(server, KIM, "GET /logs")).allowed
        assert not (await decide(server, KIM, "GET /version")).allowed
        assert not (await decide(server, User(name="bob"), "GET /logs")).allowed

    run(test)


def test_masters() -> None:
    """The group system:masters may do everything, without a binding."""

    async def test(server: Server) -> None:
        masters = User(name="root", groups=("system:masters",))
        assert (await decide(server, masters, "DELETE /api/v1/nodes")).allowed
        assert (await decide(server, masters, "POST /anything")).allowed

    run(test)


REFUSED_MODES = [
    ((), "at least one authorization-mode must be passed"),
    (("Magic",), 'authorization-mode "Magic" is not a valid mode'),
    (("RBAC", "RBAC"), 'authorization-mode "RBAC" is specified more than once'),
]


@pytest.mark.parametrize(("modes", "words"), REFUSED_MODES)
def test_modes_refused(modes: tuple[str, ...], words: str) -> None:
    """A wrong list of modes is refused at start in kube-apiserver's words."""
    config = Config.of(secure_port=None, insecure_port=0, authorization_mode=modes)

    async def start() -> None:
        async with serve(config):
            pass

    with pytest.raises(ValueError, match=words):
        asyncio.run(start())


def test_always_deny() -> None:
    """AlwaysDeny forbids everything that no other mode allows."""

    async def test() -> None:
        config = CONFIG.replace(authorization_mode=("AlwaysDeny",))
        async with serve(config) as running:
            decision = await decide(running.cluster.server, JANE, f"GET {POD}")
            assert (decision.allowed, decision.reason) == (False, "Everything is forbidden.")

    asyncio.run(test())


def test_very_many_groups() -> None:
    """A user of more groups than are looked up one by one has the same rights."""

    async def test(server: Server) -> None:
        await create(server, "clusterroles", role("reader", PODS))
        await create(
            server, "clusterrolebindings",
            binding("reader", "ClusterRole", "reader", subject("Group", "dev")),
        )  # fmt: skip
        groups = tuple(f"g{number}" for number in range(MANY_GROUPS))
        member = User(name="jane", groups=(*groups, "dev"))
        assert (await decide(server, member, f"GET {POD}")).allowed
        stranger = User(name="jane", groups=(*groups, "ops"))
        assert not (await decide(server, stranger, f"GET {POD}")).allowed

    run(test)


@pytest.mark.parametrize("mode", ["RBAC", "AlwaysAllow"])
def test_ready(mode: str, make_server: Any) -> None:
    """The server is ready when the bootstrap roles exist; without RBAC there is no such check."""
    api = make_server(authorization_mode=(mode,), controllers=("-*",)).api
    hook = "[+]poststarthook/rbac/bootstrap-roles ok"
    assert (hook in api.get("/readyz?verbose").body.decode()) is (mode == "RBAC")
    role = api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin")
    assert role.status == (200 if mode == "RBAC" else 404)
