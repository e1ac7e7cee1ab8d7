"""Roles, bindings and decisions of a server with RBAC, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kapiserver.apiserver.authorizer import Decision
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request_info import RequestInfo, parse_request_info
from kapiserver.apiserver.user import (
    APISERVER,
    User,
    service_account_user,
)
from kapiserver.app import serve

CONFIG = Config.of(secure_port=None, insecure_port=0, shutdown_timeout=1, controllers=("-*",))
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


def run(test: Callable[[Server], Awaitable[None]]) -> None:
    """Run a test with a server of its own."""

    async def serve_and_test() -> None:
        async with serve(CONFIG) as running:
            await test(running.cluster.server)

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
