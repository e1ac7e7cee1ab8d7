"""RBAC: what roles and bindings allow, in a server with --authorization-mode=RBAC."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.admission.role_escalation import describe, missing_rules
from kapiserver.apiserver.authentication.user import (
    ANONYMOUS,
    APISERVER,
    User,
    service_account_user,
)
from kapiserver.apiserver.authorization.authorizer import Decision
from kapiserver.apiserver.authorization.rbac_index import MANY_GROUPS
from kapiserver.apiserver.authorization.rbac_rules import CompiledRules
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request_info import RequestInfo, parse_request_info
from kapiserver.app import serve

pytestmark = pytest.mark.usefixtures("no_errors")
CONFIG = Config(secure_port=None, insecure_port=0, shutdown_timeout=1, controllers=("-*",))
RBAC = "rbac.authorization.k8s.io/v1"
JANE = User(name="jane", groups=("dev", "system:authenticated"))
KIM = User(name="kim")
"""A user without groups."""
ROBOT = service_account_user("kube-system", "robot")


def resource_rule(verbs: str, groups: str, resources: str, names: str = "") -> dict[str, Any]:
    """A PolicyRule from words; the group `core` is the empty one."""
    rule = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
    }
    return {**rule, "resourceNames": names.split()} if names else rule


def path_rule(verbs: str, paths: str) -> dict[str, Any]:
    """A PolicyRule for paths."""
    return {"verbs": verbs.split(), "nonResourceURLs": paths.split()}


def request_info(request: str) -> RequestInfo:
    """Parse `GET /path`, with a query if there is one."""
    method, _, path = request.partition(" ")
    path, _, query = path.partition("?")
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return parse_request_info(method, path, {name: [value] for name, _, value in pairs})


POD = "/api/v1/namespaces/x/pods/p"
PODS = resource_rule("get list", "core", "pods")
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


def run(test: Callable[[Server], Awaitable[None]]) -> None:
    """Run a test with a server of its own."""

    async def serve_and_test() -> None:
        async with serve(CONFIG) as running:
            await test(running.app.server)

    asyncio.run(serve_and_test())


async def create(
    server: Server, resource: str, body: dict[str, Any], *, user: User = APISERVER
) -> None:
    namespace = body["metadata"].get("namespace", "")
    await server.client(user).resource(RBAC, resource, namespace=namespace).create(body)


def role(name: str, *rules: dict[str, Any], namespace: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"metadata": metadata, "rules": list(rules), **more}


def binding(
    name: str, kind: str, role_name: str, *subjects: dict[str, Any], namespace: str = ""
) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role_name}
    return {"metadata": metadata, "roleRef": reference, "subjects": list(subjects)}


def subject(kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    tree = {"kind": kind, "name": name}
    return {**tree, "namespace": namespace} if namespace else tree


async def decide(server: Server, user: User, request_line: str) -> Decision:
    return await server.authorizer.authorize(user, request_info(request_line))


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


FULL = [resource_rule("*", "*", "*"), path_rule("*", "*")]
MISSING = [
    ([PODS], [PODS], []),
    ([PODS], [resource_rule("get", "core", "pods")], []),
    ([PODS], [resource_rule("get watch delete", "core", "pods")],
     ['{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}']),
    ([PODS], [resource_rule("get", "core apps", "pods")],
     ['{APIGroups:["apps"], Resources:["pods"], Verbs:["get"]}']),
    ([PODS], [resource_rule("get", "core", "pods/log")],
     ['{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}']),
    ([resource_rule("get", "core", "*/log")], [resource_rule("get", "core", "pods/log")], []),
    ([resource_rule("get", "core", "*")], [resource_rule("get", "core", "pods/log *")], []),
    ([PODS], [resource_rule("get", "core", "*")],
     ['{APIGroups:[""], Resources:["*"], Verbs:["get"]}']),
    ([PODS], [resource_rule("get", "core", "pods", "p")], []),
    ([resource_rule("get", "core", "pods", "p")], [resource_rule("get", "core", "pods", "p q")],
     ['{APIGroups:[""], Resources:["pods"], ResourceNames:["q"], Verbs:["get"]}']),
    ([resource_rule("get", "core", "pods", "p")], [resource_rule("get", "core", "pods")],
     ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}']),
    ([path_rule("get", "/a/*")], [path_rule("get", "/a/b /a/* /c")],
     ['{NonResourceURLs:["/c"], Verbs:["get"]}']),
    ([], [path_rule("get post", "/c")],
     ['{NonResourceURLs:["/c"], Verbs:["get"]}', '{NonResourceURLs:["/c"], Verbs:["post"]}']),
    ([resource_rule("get", "core", "pods"), resource_rule("list", "core", "pods")], [PODS], []),
    (FULL, [resource_rule("impersonate", "core", "users", "u"), path_rule("post", "/x")], []),
    ([resource_rule("*", "*", "*")], FULL, ['{NonResourceURLs:["*"], Verbs:["*"]}']),
]  # fmt: skip


@pytest.mark.parametrize(("held", "requested", "missing"), MISSING)
def test_missing_rules(held: Any, requested: Any, missing: list[str]) -> None:
    """A rule may be granted if held rules cover each of its parts; the rest is described."""
    assert describe(missing_rules(held, requested)) == missing


async def _refusal(action: Awaitable[Any]) -> str:
    with pytest.raises(StatusError) as caught:
        await action
    message: str = caught.value.status["message"]
    return message


EDITOR = [resource_rule("create get update patch", "rbac.authorization.k8s.io",
                        "roles clusterroles rolebindings clusterrolebindings"), PODS]  # fmt: skip


async def _make_editor(server: Server) -> None:
    """Let jane write roles and bindings, and read pods."""
    await create(server, "clusterroles", role("editor", *EDITOR))
    body = binding("editor", "ClusterRole", "editor", subject("User", "jane"))
    await create(server, "clusterrolebindings", body)


def test_escalation_by_roles() -> None:
    """A user grants by a role only what the user holds, unless the user may escalate."""

    async def test(server: Server) -> None:
        await _make_editor(server)
        await create(server, "clusterroles", role("a", PODS), user=JANE)
        secrets = role("b", resource_rule("get", "core", "secrets"))
        words = (
            'clusterroles.rbac.authorization.k8s.io "b" is forbidden: user "jane" (groups=["dev" '
            '"system:authenticated"]) is attempting to grant RBAC permissions not currently '
            'held:\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
        )
        assert await _refusal(create(server, "clusterroles", secrets, user=JANE)) == words
        roles = server.client(JANE).resource(RBAC, "clusterroles")
        change = roles.patch("a", {"rules": secrets["rules"]})
        assert "is attempting to grant RBAC permissions" in await _refusal(change)
        await roles.patch("a", {"metadata": {"labels": {"x": "y"}}})
        rule = {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}
        aggregated = role("c", aggregationRule=rule)
        refusal = await _refusal(create(server, "clusterroles", aggregated, user=JANE))
        assert refusal.endswith("must have cluster-admin privileges to use the aggregationRule")
        await create(server, "clusterroles", role("e", aggregationRule=rule))
        removal = roles.patch("e", {"aggregationRule": None})
        assert (await _refusal(removal)).endswith("privileges to use the aggregationRule")
        escalate = role(
            "escalate", resource_rule("escalate", "rbac.authorization.k8s.io", "clusterroles")
        )
        await create(server, "clusterroles", escalate)
        body = binding("escalate", "ClusterRole", "escalate", subject("Group", "dev"))
        await create(server, "clusterrolebindings", body)
        await create(server, "clusterroles", secrets, user=JANE)

    run(test)


def test_escalation_by_bindings() -> None:
    """A user binds only roles whose rules the user holds, unless the user may bind the role."""

    async def test(server: Server) -> None:
        await _make_editor(server)
        bob = subject("User", "bob")
        await create(server, "clusterroles", role("a", PODS))
        body = binding("a", "ClusterRole", "a", bob, namespace="default")
        await create(server, "rolebindings", body, user=JANE)
        await create(server, "clusterroles", role("everything", *FULL))
        body = binding("b", "ClusterRole", "everything", bob, namespace="default")
        refusal = await _refusal(create(server, "rolebindings", body, user=JANE))
        assert refusal.startswith('rolebindings.rbac.authorization.k8s.io "b" is forbidden: user')
        assert refusal.endswith(
            '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
        )
        missing = binding("c", "ClusterRole", "nothing", bob)
        refusal = await _refusal(create(server, "clusterrolebindings", missing, user=JANE))
        assert refusal == 'clusterroles.rbac.authorization.k8s.io "nothing" not found'
        rule = resource_rule("bind", "rbac.authorization.k8s.io", "clusterroles", "everything")
        await create(server, "roles", role("binder", rule, namespace="default"))
        grant = binding("binder", "Role", "binder", subject("User", "jane"), namespace="default")
        await create(server, "rolebindings", grant)
        await create(server, "rolebindings", body, user=JANE)
        everywhere = binding("d", "ClusterRole", "everything", bob)
        refusal = await _refusal(create(server, "clusterrolebindings", everywhere, user=JANE))
        assert "is attempting to grant RBAC permissions" in refusal

    run(test)


def test_escalation_is_about_rules() -> None:
    """Owners and finalizers of a role may change without its rights; a reference to something that
    is no role is invalid; the refusal names bound roles that do not exist."""

    async def test(server: Server) -> None:
        await _make_editor(server)
        secrets = role("b", resource_rule("get", "core", "secrets"))
        await create(server, "clusterroles", secrets)
        roles = server.client(JANE).resource(RBAC, "clusterroles")
        await roles.patch("b", {"metadata": {"finalizers": ["example.com/x"]}})
        await roles.patch("b", {"metadata": {"finalizers": None}})
        change = roles.patch("b", {"metadata": {"labels": {"x": "y"}}})
        assert "is attempting to grant RBAC permissions" in await _refusal(change)
        wrong = binding("c", "Other", "b", subject("User", "bob"))
        refusal = await _refusal(create(server, "clusterrolebindings", wrong, user=JANE))
        assert 'roleRef.kind: Unsupported value: "Other"' in refusal
        lost = binding("lost", "ClusterRole", "nothing", subject("User", "jane"))
        await create(server, "clusterrolebindings", lost)
        refusal = await _refusal(
            create(server, "clusterroles", {**secrets, "metadata": {"name": "d"}}, user=JANE)
        )
        assert refusal.endswith(
            '; resolution errors: [clusterrole.rbac.authorization.k8s.io "nothing" not found]'
        )

    run(test)


REFUSED_MODES = [
    ((), "at least one authorization-mode must be passed"),
    (("Magic",), 'authorization-mode "Magic" is not a valid mode'),
    (("RBAC", "RBAC"), 'authorization-mode "RBAC" is specified more than once'),
]


@pytest.mark.parametrize(("modes", "words"), REFUSED_MODES)
def test_modes_refused(modes: tuple[str, ...], words: str) -> None:
    """A wrong list of modes is refused at start in kube-apiserver's words."""
    config = Config(secure_port=None, insecure_port=0, authorization_mode=modes)

    async def start() -> None:
        async with serve(config):
            pass

    with pytest.raises(ValueError, match=words):
        asyncio.run(start())


def test_always_deny() -> None:
    """AlwaysDeny forbids everything that no other mode allows."""

    async def test() -> None:
        config = replace(CONFIG, authorization_mode=("AlwaysDeny",))
        async with serve(config) as running:
            decision = await decide(running.app.server, JANE, f"GET {POD}")
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
