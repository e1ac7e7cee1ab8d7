"""Impersonate-* headers: whom they name, and what the caller must be allowed to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kapiserver.apiserver.authentication.constrained_impersonation import attempts
from kapiserver.apiserver.authentication.impersonation import parse_impersonation
from kapiserver.apiserver.authorizer import Decision, Rules, Verdict
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import RequestInfo, parse_request_info
from kapiserver.apiserver.user import User
from kapiserver.cluster import open_cluster
from kapiserver.parts import Parts
from tests.apiserver.conftest import Server

ROBOT = "system:serviceaccount:shop:robot"
USERS = [
    ({"Impersonate-User": "jane"}, User(name="jane", groups=("system:authenticated",))),
    (
        {"Impersonate-User": "jane", "Impersonate-Group": "dev", "Impersonate-Uid": "7"},
        User(name="jane", uid="7", groups=("dev", "system:authenticated")),
    ),
    (
        {"Impersonate-User": "jane", "Impersonate-Group": "system:unauthenticated"},
        User(name="jane", groups=("system:unauthenticated",)),
    ),
    (
        {"Impersonate-User": "system:anonymous"},
        User(name="system:anonymous", groups=("system:unauthenticated",)),
    ),
    (
        {"Impersonate-User": ROBOT},
        User(
            name=ROBOT,
            groups=(
                "system:serviceaccounts",
                "system:serviceaccounts:shop",
                "system:authenticated",
            ),
        ),
    ),
    (
        {"Impersonate-User": ROBOT, "Impersonate-Group": "dev"},
        User(name=ROBOT, groups=("dev", "system:authenticated")),
    ),
    (
        {"impersonate-user": "jane", "Impersonate-Extra-Scopes": "view"},
        User(name="jane", groups=("system:authenticated",), extra={"scopes": ("view",)}),
    ),
    (
        {"Impersonate-User": "jane", "Impersonate-Extra-Example.com%2fScope": "view"},
        User(name="jane", groups=("system:authenticated",), extra={"example.com/scope": ("view",)}),
    ),
]


@pytest.mark.parametrize(("headers", "user"), USERS)
def test_user(headers: dict[str, str], user: User) -> None:
    """The headers name a user, its groups, uid and extra fields."""
    impersonation = parse_impersonation(headers)
    assert impersonation is not None
    assert impersonation.impersonated_user() == user


CHECKS = [
    ({"Impersonate-User": "jane"}, ["users/jane"]),
    ({"Impersonate-User": ROBOT}, ["shop:serviceaccounts/robot"]),
    ({"Impersonate-User": "system:serviceaccount:shop"}, ["users/system:serviceaccount:shop"]),
    ({"Impersonate-User": "jane", "Impersonate-Group": "dev"}, ["users/jane", "groups/dev"]),
    (
        {"Impersonate-User": "jane", "Impersonate-Extra-Scopes": "view", "Impersonate-Uid": "7"},
        [
            "users/jane",
            "authentication.k8s.io:userextras/view/scopes",
            "authentication.k8s.io:uids/7",
        ],
    ),
]


@pytest.mark.parametrize(("headers", "checks"), CHECKS)
def test_checks(headers: dict[str, str], checks: list[str]) -> None:
    """Each value that the headers name is a check of its own."""
    impersonation = parse_impersonation(headers)
    assert impersonation is not None
    texts = []
    for info in impersonation.checks():
        assert info.verb == "impersonate"
        scope = info.namespace or info.version.group
        subresource = f"/{info.subresource}" if info.subresource else ""
        prefix = f"{scope}:" if scope else ""
        texts.append(f"{prefix}{info.resource}/{info.name}{subresource}")
    assert texts == checks


def test_no_headers() -> None:
    """A request without Impersonate-* headers impersonates no user."""
    assert parse_impersonation({"Accept": "*/*", "If-Match": "x"}) is None
    assert parse_impersonation({"Impersonate-User": ""}) is None


WITHOUT_USER = [
    {"Impersonate-Group": "dev"},
    {"Impersonate-Uid": "7"},
    {"Impersonate-Extra-Scopes": "x"},
    {"Impersonate-User": "", "Impersonate-Group": "dev"},
    {"Impersonate-Unknown": "x"},
]


@pytest.mark.parametrize("headers", WITHOUT_USER)
def test_refused(headers: dict[str, str]) -> None:
    """The other headers need a user: ignoring them would give the caller's own rights."""
    with pytest.raises(BadRequest, match="without impersonating a user"):
        parse_impersonation(headers)


def test_message() -> None:
    """The message shows the user as Go does."""
    headers = {"Impersonate-Group": "dev", "Impersonate-Extra-X": "y"}
    with pytest.raises(BadRequest) as caught:
        parse_impersonation(headers)
    assert str(caught.value) == (
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"dev"}, '
        'Extra:map[string][]string{"x":[]string{"y"}}} without impersonating a user name'
    )


def test_attempts() -> None:
    """Each kind of user has its mode; the verb `impersonate` is the last attempt."""
    info = parse_request_info("GET", "/api/v1/namespaces/n/pods", {})
    robot = User(name=ROBOT, extra={"authentication.kubernetes.io/node-name": ("n1",)})
    for headers, caller, verbs in (
        ({"Impersonate-User": "jane"}, robot, ["user-info"]),
        ({"Impersonate-User": ROBOT}, robot, ["serviceaccount"]),
        ({"Impersonate-User": ROBOT, "Impersonate-Uid": "7"}, robot, []),
        ({"Impersonate-User": "system:node:n1"}, robot, ["associated-node", "arbitrary-node"]),
        ({"Impersonate-User": "system:node:n2"}, robot, ["arbitrary-node"]),
        ({"Impersonate-User": "system:node:n1"}, User(name="jane"), ["arbitrary-node"]),
        ({"Impersonate-User": "system:node:N1"}, robot, ["user-info"]),
        ({"Impersonate-User": "system:node:n1", "Impersonate-Group": "a"}, robot, []),
    ):
        impersonation = parse_impersonation(headers)
        assert impersonation is not None
        ways = list(attempts(impersonation, caller, info, constrained=True))
        assert [way.constraint for way in ways] == [*(f"impersonate:{v}" for v in verbs), ""]
        for way in ways[:-1]:
            mode = way.constraint.removeprefix("impersonate:")
            assert way.checks[0].verb == f"impersonate-on:{mode}:list"
            assert {check.verb for check in way.checks[1:]} == {way.constraint}
            assert {check.version.group for check in way.checks[1:]} == {"authentication.k8s.io"}
        (only,) = attempts(impersonation, caller, info, constrained=False)
        assert only.constraint == ""


def test_associated_node() -> None:
    """A service account that impersonates its own node is authorized for all nodes alike, and gets
    the node's group."""
    impersonation = parse_impersonation({"Impersonate-User": "system:node:n1"})
    assert impersonation is not None
    caller = User(name=ROBOT, extra={"authentication.kubernetes.io/node-name": ("n1",)})
    info = parse_request_info("GET", "/api/v1/nodes/n1", {})
    way = next(attempts(impersonation, caller, info, constrained=True))
    keys = ("authentication.kubernetes.io/node-name",)
    assert way.caller.extra == {"authentication.kubernetes.io/associated-node-keys": keys}
    assert [(check.resource, check.name) for check in way.checks] == [
        ("nodes", "n1"),
        ("nodes", "*"),
    ]
    assert way.user == User(name="system:node:n1", groups=("system:nodes", "system:authenticated"))


REFUSED = [
    ({"Impersonate-Group": "system:masters"}, "the system:masters group is not allowed"),
    ({"Impersonate-Group": ""}, "the empty string group is not allowed"),
    ({"Impersonate-Extra-Scopes": "a"}, "an invalid key in extra is not allowed"),
    ({"Impersonate-Extra-A.b%2fC": ""}, "the empty string value in extra is not allowed"),
]


@pytest.mark.parametrize(("headers", "reason"), REFUSED)
def test_refused_details(headers: dict[str, str], reason: str) -> None:
    """Some groups and extra fields cannot be impersonated with constraints."""
    impersonation = parse_impersonation({"Impersonate-User": "jane", **headers})
    assert impersonation is not None
    info = parse_request_info("GET", "/version", {})
    way = next(attempts(impersonation, User(name="deputy"), info, constrained=True))
    assert way.forbidden_check is not None
    assert reason in way.forbidden_check[1]


class Grants:
    """An authorizer that allows the deputy what was granted, and everybody else everything."""

    def __init__(self) -> None:
        self.granted: set[str] = set()

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        allowed = user.name != "deputy" or f"{info.verb} {info.resource}" in self.granted
        return Decision(verdict=Verdict.ALLOW if allowed else Verdict.NO_OPINION)

    async def rules_for(self, user: User, namespace: str) -> Rules:
        return Rules()


LIST, IDENTITY = "impersonate-on:user-info:list pods", "impersonate:user-info users"


@pytest.mark.parametrize(
    ("granted", "status"),
    [
        ({LIST}, 403),
        ({IDENTITY}, 403),
        ({LIST, IDENTITY}, 200),
        ({"impersonate users"}, 200),
        ({"list pods"}, 403),
    ],
)
def test_constrained_requests(tmp_path: Path, granted: set[str], status: int) -> None:
    """The caller needs the right to the identity and the right to the request, or the verb
    `impersonate`."""
    (tmp_path / "tokens").write_text("secret,deputy,1\n")
    grants = Grants()
    grants.granted = granted
    config = Config.of(token_auth_file=tmp_path / "tokens")

    async def no_body(_limit: int) -> bytes:
        return b""

    async def run() -> None:
        async with open_cluster(config, Parts(authorizer=grants)) as cluster:
            path = "/api/v1/namespaces/n/pods"
            headers = {"Authorization": "Bearer secret", "Impersonate-User": "jane"}
            request = Request(
                method="GET", path=path, query={}, headers=headers,
                info=parse_request_info("GET", path, {}), read_body=no_body,
            )  # fmt: skip
            response = await cluster.handle(request)
            assert response.status == status
            if status == 200:
                assert request.impersonator is not None
                assert (request.user.name, request.impersonator.user.name) == ("jane", "deputy")
                constraint = "impersonate:user-info" if LIST in granted else ""
                assert request.impersonator.constraint == constraint

    asyncio.run(run())


def test_audited_verb(make_server: Callable[..., Server], tmp_path: Path) -> None:
    """The audit log names the verb that allowed the impersonation."""
    policy, log = tmp_path / "policy.json", tmp_path / "audit.log"
    rules = [{"level": "Metadata"}]
    policy.write_text(
        json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules})
    )
    server = make_server(audit_policy_file=policy, audit_log_path=str(log))
    assert server.api.get("/version", headers={"Impersonate-User": "jane"}).status == 200
    server.end()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    metadata = [event["authenticationMetadata"] for event in events if "impersonatedUser" in event]
    assert metadata[-1] == {"impersonationConstraint": "impersonate:user-info"}
