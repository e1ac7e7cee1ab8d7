"""ABAC: what the policies of a file allow; the cases are those of abac_test.go of Kubernetes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.authorization.abac import AbacAuthorizer, read_policies
from kapiserver.apiserver.authorizer import Decision, Rules, Verdict
from kapiserver.apiserver.configuration_files import MAX_BYTES, BadConfiguration
from kapiserver.apiserver.request_info import RequestInfo, parse_request_info
from kapiserver.apiserver.user import User
from tests.apiserver.conftest import Server

HEAD = {"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy"}
PODS = "GET /api/v1/namespaces/x/pods"


def line(**spec: Any) -> str:
    return json.dumps({**HEAD, "spec": spec})


FILE = "\n".join(
    (
        "# who reads what",
        "",
        line(user="*", readonly=True, nonResourcePath="*"),
        line(user="*", nonResourcePath="/custom"),
        line(user="*", nonResourcePath="/root/*"),
        line(user="noresource", nonResourcePath="*"),
        line(user="admin", apiGroup="*", resource="*", namespace="*"),
        line(user="scheduler", readonly=True, resource="pods", namespace="*"),
        line(user="scheduler", resource="bindings", namespace="x"),
        line(user="scheduler", namespace="x", nonResourcePath="/s"),
        line(group="dev", apiGroup="apps", resource="*", namespace="x"),
        line(user="both", group="dev", resource="pods", namespace="x"),
        line(group="*", resource="everyone", namespace="x"),
        line(resource="nobody", namespace="x"),
    )
)
DECISIONS = [
    # user, groups, request, allowed
    ("u", "", "GET /", True),
    ("u", "", "PUT /", False),
    ("u", "", "PUT /custom", True),
    ("u", "", "PUT /custom/x", False),
    ("u", "", "PUT /root/x", True),
    ("u", "", "PUT /root", False),
    ("noresource", "", "PUT /x", True),
    ("noresource", "", PODS, False),
    ("admin", "", PODS, True),
    ("admin", "", "DELETE /apis/apps/v1/namespaces/y/deployments/d", True),
    ("admin", "", "GET /api/v1/nodes", True),
    ("admin", "", "PUT /x", False),
    ("scheduler", "", PODS, True),
    ("scheduler", "", f"{PODS}?watch=1", True),
    ("scheduler", "", "GET /api/v1/namespaces/y/pods/p", True),
    ("scheduler", "", "POST /api/v1/namespaces/x/pods", False),
    ("scheduler", "", "POST /api/v1/namespaces/x/bindings", True),
    ("scheduler", "", "POST /api/v1/namespaces/y/bindings", False),
    ("scheduler", "", "POST /apis/g/v1/namespaces/x/bindings", False),
    ("u", "dev", "POST /apis/apps/v1/namespaces/x/deployments", True),
    ("u", "dev", "POST /api/v1/namespaces/x/pods", False),
    ("u", "ops", "POST /apis/apps/v1/namespaces/x/deployments", False),
    ("both", "dev", PODS, True),
    ("both", "ops", PODS, False),
    ("u", "dev", PODS, False),
    ("u", "", "GET /api/v1/namespaces/x/everyone", True),
    ("u", "", "GET /api/v1/namespaces/x/nobody", False),
    ("", "", "GET /api/v1/namespaces/x/nobody", False),
]


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """The file of policies."""
    file = tmp_path / "policies"
    file.write_text(FILE)
    return file


@pytest.mark.parametrize(("name", "groups", "request_line", "allowed"), DECISIONS)
def test_decisions(
    policies: Path, name: str, groups: str, request_line: str, allowed: bool
) -> None:
    """A request is allowed if a policy matches its user, verb, and resource or path."""
    method, _, path = request_line.partition(" ")
    path, _, query = path.partition("?")
    info = parse_request_info(method, path, {"watch": ["1"]} if query else {})
    user = User(name=name, groups=tuple(groups.split()))
    decision = asyncio.run(AbacAuthorizer(read_policies(policies)).authorize(user, info))
    refused = Decision(verdict=Verdict.NO_OPINION, reason="No policy matched.")
    assert decision == (Decision(verdict=Verdict.ALLOW) if allowed else refused)


def test_rules(policies: Path) -> None:
    """The rules of a user are those of its policies for the namespace."""
    authorizer = AbacAuthorizer(read_policies(policies))
    reads = ("get", "list", "watch")
    everyone = {"verbs": ("*",), "apiGroups": [""], "resources": ["everyone"]}
    pods = {"verbs": reads, "apiGroups": [""], "resources": ["pods"]}
    bindings = {"verbs": ("*",), "apiGroups": [""], "resources": ["bindings"]}
    paths = [
        {"verbs": reads, "nonResourceURLs": ["*"]},
        {"verbs": ("*",), "nonResourceURLs": ["/custom"]},
        {"verbs": ("*",), "nonResourceURLs": ["/root/*"]},
        {"verbs": ("*",), "nonResourceURLs": ["/s"]},
    ]
    user = User(name="scheduler")
    assert asyncio.run(authorizer.rules_for(user, "x")) == Rules(
        resources=[pods, bindings, everyone], paths=paths
    )
    assert asyncio.run(authorizer.rules_for(user, "y")) == Rules(resources=[pods], paths=paths)


BAD = [
    ("{", "line 1: "),
    (f"\n{line(user='*')}\n[]", "line 3: "),
    ('{"user": "jane"}', "line 1: "),
    ('{"apiVersion": "v1", "kind": "Pod"}', "line 1: "),
]


@pytest.mark.parametrize(("text", "words"), BAD)
def test_bad_file(tmp_path: Path, text: str, words: str) -> None:
    """A file that cannot be read is refused with the line."""
    (tmp_path / "policies").write_text(text)
    with pytest.raises(BadConfiguration, match=f"error reading policy file .*{words}"):
        read_policies(tmp_path / "policies")
    with pytest.raises(BadConfiguration, match="cannot read the ABAC policy"):
        read_policies(tmp_path / "none")


def test_large_file(tmp_path: Path) -> None:
    """A file of more than a megabyte is refused."""
    (tmp_path / "policies").write_text(f"{line(user='*')}\n" * (MAX_BYTES // 80))
    with pytest.raises(BadConfiguration, match="is larger than 1048576 bytes"):
        read_policies(tmp_path / "policies")


def test_no_path(policies: Path) -> None:
    """A policy without a path allows none, not even an empty one in an access review."""
    authorizer = AbacAuthorizer(read_policies(policies)[4:])
    decision = authorizer.authorize(User(name="admin"), RequestInfo(path="", verb="get"))
    assert not asyncio.run(decision).allowed


def test_server(policies: Path, make_server: Any) -> None:
    """A server with the mode asks the policies."""
    server: Server = make_server(
        authorization_mode=("ABAC",), authorization_policy_file=policies, controllers=("-*",)
    )
    as_dev = {"Impersonate-User": "u", "Impersonate-Group": "dev"}
    deployments = "/apis/apps/v1/namespaces/x/deployments"
    assert server.api.get(deployments, headers=as_dev).status == 200
    refusal = server.api.get("/api/v1/nodes", headers=as_dev)
    assert refusal.message == (
        'nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster '
        "scope: No policy matched."
    )
