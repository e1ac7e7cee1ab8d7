"""RBAC: nobody grants rights that they do not hold, by roles or by bindings."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.admission.role_escalation import describe, missing_rules
from kapiserver.apiserver.context import Server
from tests.apiserver.authorization.rbackit import (
    JANE,
    PODS,
    RBAC,
    binding,
    create,
    path_rule,
    resource_rule,
    role,
    run,
    subject,
)

pytestmark = pytest.mark.usefixtures("no_errors")

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
        await create(server, "roles", role("local", PODS, namespace="default"))
        local = binding("local", "Role", "local", bob, namespace="default")
        await create(server, "rolebindings", local, user=JANE)
        await create(server, "clusterroles", role("everything", *FULL))
        body = binding("b", "ClusterRole", "everything", bob, namespace="default")
        refusal = await _refusal(create(server, "rolebindings", body, user=JANE))
        assert refusal.startswith('rolebindings.rbac.authorization.k8s.io "b" is forbidden: user')
        assert refusal.endswith(
            '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
        )
        missing = binding("c", "ClusterRole", "nothing", bob)
        refusal = await _refusal(create(server, "clusterrolebindings", missing, user=JANE))
        assert refusal == 'clusterrolebindings.rbac.authorization.k8s.io "nothing" not found'
        missing = binding("c", "Role", "nothing", bob, namespace="default")
        with pytest.raises(StatusError) as caught:
            await create(server, "rolebindings", missing, user=JANE)
        status = caught.value.status
        message = 'rolebindings.rbac.authorization.k8s.io "nothing" not found'
        assert (status["code"], status["message"]) == (404, message)
        assert status["details"] == {
            "name": "nothing", "group": "rbac.authorization.k8s.io", "kind": "rolebindings",
        }  # fmt: skip
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
        unresolved_binding = binding("lost", "ClusterRole", "nothing", subject("User", "jane"))
        await create(server, "clusterrolebindings", unresolved_binding)
        refusal = await _refusal(
            create(server, "clusterroles", {**secrets, "metadata": {"name": "d"}}, user=JANE)
        )
        assert refusal.endswith(
            '; resolution errors: [clusterroles.rbac.authorization.k8s.io "nothing" not found]'
        )

    run(test)
