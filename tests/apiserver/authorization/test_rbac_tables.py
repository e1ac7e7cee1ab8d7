"""RBAC compared with the published unit tables of Kubernetes.

The cases are those of rbac_test.go (plugin/pkg/auth/authorizer/rbac), rule_test.go and
policy_comparator_test.go (pkg/registry/rbac/validation).
"""

from __future__ import annotations

from typing import Any

import pytest

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.admission.role_escalation import missing_rules
from kapiserver.apiserver.authorization.privileged_group import PrivilegedGroup
from kapiserver.apiserver.authorization.rbac.authorizer import not_found_error
from kapiserver.apiserver.authorization.rbac.index import RoleKey
from kapiserver.apiserver.authorization.rbac.rules import CompiledRules
from kapiserver.apiserver.authorization.union import UnionAuthorizer
from kapiserver.apiserver.authorizer import Authorizer, Decision, Rules, Verdict
from kapiserver.apiserver.request_info import RequestInfo, matches_path
from kapiserver.apiserver.user import User


def rule(
    verbs: str, groups: str = "", resources: str = "", names: str = "", paths: str = ""
) -> Any:
    """A PolicyRule from comma-separated words; the group `core` is the empty one."""
    fields = {
        "verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names,
        "nonResourceURLs": paths,
    }  # fmt: skip
    return {
        field: ["" if word == "core" else word for word in words.split(",")]
        for field, words in fields.items()
        if words
    }


def resource_request(verb: str, group: str, resource: str, name: str = "") -> RequestInfo:
    """A request for `resource` or `resource/subresource`."""
    plural, _, subresource = resource.partition("/")
    return RequestInfo(
        path="",
        verb=verb,
        version=GroupVersion(group, "v1"),
        resource=plural,
        subresource=subresource,
        name=name,
    )


def path(verb: str, url: str) -> RequestInfo:
    return RequestInfo(path=url, verb=verb)


VERBS, GROUPS, RESOURCES = ("verb1", "verb2"), ("group1", "group2"), ("res1", "res2")
EVERY = [(verb, group, res) for verb in VERBS for group in GROUPS for res in RESOURCES]
MATCHES = [
    # rule, the requests of EVERY that it allows
    (rule("*", "group1", "res1"), lambda _v, g, r: (g, r) == ("group1", "res1")),
    (rule("verb1", "*", "res1"), lambda v, _g, r: (v, r) == ("verb1", "res1")),
    (rule("verb1", "group1", "*"), lambda v, g, _r: (v, g) == ("verb1", "group1")),
    (rule("verb1,verb2", "group1,group2", "res1,res2"), lambda *_: True),
    (rule("verb1", "group1", "res1"), lambda *words: words == ("verb1", "group1", "res1")),
    (rule("verb1", "group1"), lambda *_: False),
    (rule("verb1", "", "res1"), lambda *_: False),
    (rule("", "group1", "res1"), lambda *_: False),
    (rule("*", paths="*"), lambda *_: False),
]


@pytest.mark.parametrize(("tree", "allows"), MATCHES)
def test_rule_matches(tree: Any, allows: Any) -> None:
    """A rule allows a request if its verb, group and resource are all in the rule, or `*` is."""
    rules = CompiledRules([tree])
    for words in EVERY:
        assert rules.allows(resource_request(*words)) is allows(*words), words


SUBRESOURCES = [
    ("res1/sub1", "res1/sub1", True),
    ("res1/sub1", "res1/sub2", False),
    ("res1/sub1", "res2/sub1", False),
    ("res1/sub1", "res1", False),
    ("res1", "res1/sub1", False),
    ("*/sub1", "res1/sub1", True),
    ("*/sub1", "res1/sub2", False),
    ("*/sub1", "res1", False),
    ("*", "res1/sub1", True),
    ("res1/*", "res1/sub1", False),
    ("*/*", "res1/sub1", False),
]


@pytest.mark.parametrize(("pattern", "resource", "allowed"), SUBRESOURCES)
def test_subresources(pattern: str, resource: str, allowed: bool) -> None:
    """A rule for a resource does not allow its subresources; `*/sub` allows those of every
    resource, `*` everything, and `res/*` nothing."""
    rules = CompiledRules([rule("*", "*", pattern)])
    assert rules.allows(resource_request("verb1", "group1", resource)) is allowed


NAMES = [
    ("", "", True),
    ("", "n", True),
    ("n,m", "m", True),
    ("n,m", "o", False),
    ("n,m", "", False),
    ("*", "n", False),
]


@pytest.mark.parametrize(("names", "name", "allowed"), NAMES)
def test_names(names: str, name: str, allowed: bool) -> None:
    """A rule with resourceNames allows these objects only, and no collection; `*` is no pattern."""
    rules = CompiledRules([rule("verb1", "group1", "res1", names)])
    assert rules.allows(resource_request("verb1", "group1", "res1", name)) is allowed


URLS = ("/foo", "/foo/bar", "/foo/baz", "/foo/bar/one", "/foo/baz/one")
PATHS = [
    ("*", URLS),
    ("/foo/*", URLS[1:]),
    ("/foo/bar/*", ("/foo/bar/one",)),
    ("/foo", ("/foo",)),
    ("/foo,/foo/baz/one", ("/foo", "/foo/baz/one")),
    ("/foo*", URLS),
    ("/*/bar", ()),
]


@pytest.mark.parametrize(("pattern", "allowed"), PATHS)
def test_paths(pattern: str, allowed: tuple[str, ...]) -> None:
    """A path of a rule covers itself; with `*` at its end, the paths that begin as it does."""
    rules = CompiledRules([rule("verb1", paths=pattern)])
    any_verb = CompiledRules([rule("*", paths=pattern)])
    for url in URLS:
        assert rules.allows(path("verb1", url)) is (url in allowed), url
        assert not rules.allows(path("verb2", url))
        assert any_verb.allows(path("verb2", url)) is (url in allowed), url
        assert not rules.allows(resource_request("verb1", "", "foo"))


COVERS = [
    ("*", "/api", True),
    ("/api", "/api", True),
    ("/apis", "/api", False),
    ("/api/v1", "/api", False),
    ("/api/v1", "/api/v1", True),
    ("/api/*", "/api/v1", True),
    ("/api/*", "/api", False),
    ("/api/*/*", "/api/v1", False),
    ("/*/v1/*", "/api/v1", False),
]


@pytest.mark.parametrize(("owner", "requested", "covered"), COVERS)
def test_path_covers(owner: str, requested: str, covered: bool) -> None:
    """A path covers another as nonResourceURLCovers says."""
    assert matches_path(owner, requested) is covered


ESCALATIONS = [
    # owner's rules, servant's rules, what the owner lacks
    ([rule("get", "v1", "builds")], [rule("get", "v1", "builds")], []),
    (
        [
            rule("delete", "v1", "deployments"),
            rule("delete", "v1", "builds"),
            rule("update", "v1", "builds,deployments"),
        ],
        [rule("delete,update", "v1", "builds,deployments")],
        [],
    ),
    (
        [
            rule("delete", "g1", "a"),
            rule("delete", "g1", "b"),
            rule("update", "g1", "a,b"),
            rule("delete", "g2", "a"),
            rule("delete", "g2", "b"),
            rule("update", "g2", "a,b"),
        ],
        [rule("delete,update", "g1,g2", "a,b")],
        [],
    ),
    (
        [rule("delete,update", "g1,g2", "a,b")],
        [
            rule("delete", "g1", "a"),
            rule("delete", "g1", "b"),
            rule("update", "g1", "a,b"),
            rule("delete", "g2", "a"),
            rule("delete", "g2", "b"),
            rule("update", "g2", "a,b"),
        ],
        [],
    ),
    (
        [rule("delete,update", "v1", "builds,deployments"), rule("delete", "v1", "pods")],
        [rule("delete,update", "v1", "builds,deployments,pods")],
        [rule("update", "v1", "pods")],
    ),
    ([rule("get", "*", "roles")], [rule("get", "g1,g2", "roles")], []),
    ([rule("get", "g1", "roles")], [rule("get", "*", "roles")], [rule("get", "*", "roles")]),
    ([rule("get", "*", "roles")], [rule("get", "*", "roles")], []),
    ([rule("*", "v1", "roles")], [rule("watch,list", "v1", "roles")], []),
    (
        [rule("get,list,watch,create,update,delete,exec", "v1", "roles")],
        [rule("*", "v1", "roles")],
        [rule("*", "v1", "roles")],
    ),
    ([rule("*", "v1", "roles")], [rule("*", "v1", "roles")], []),
    ([rule("get", "v1", "*")], [rule("get", "v1", "group:deployments")], []),
    (
        [rule("get", "v1", "roles,group:deployments")],
        [rule("get", "v1", "*")],
        [rule("get", "v1", "*")],
    ),
    ([rule("get", "v1", "*")], [rule("get", "v1", "*")], []),
    ([rule("get", "v1", "*")], [rule("get", "v1", "*/scale")], []),
    ([rule("get", "v1", "*/scale")], [rule("get", "v1", "foo/scale")], []),
    (
        [rule("get", "v1", "foo/scale")],
        [rule("get", "v1", "*/scale")],
        [rule("get", "v1", "*/scale")],
    ),
    (
        [rule("get", "v1", "*/scale")],
        [rule("get", "v1", "foo,bar/status")],
        [rule("get", "v1", "foo"), rule("get", "v1", "bar/status")],
    ),
    ([rule("get", "v1", "pods")], [rule("get", "v1", "pods", "foo,bar")], []),
    (
        [rule("get", "v1", "pods", "foo,bar")],
        [rule("get", "v1", "pods")],
        [rule("get", "v1", "pods")],
    ),
    (
        [rule("get", "v1", "pods", "foo")],
        [rule("get", "v1", "pods", "foo,bar")],
        [rule("get", "v1", "pods", "bar")],
    ),
    ([rule("*", paths="/apis")], [rule("*", paths="/apis")], []),
    ([rule("*", paths="*")], [rule("*", paths="/apis,/apis/v1,/")], []),
    (
        [rule("*", paths="/apis/*")],
        [rule("get", paths="/apis,/apis/v1")],
        [rule("get", paths="/apis")],
    ),
    ([rule("*", paths="/apis/*")], [rule("get", paths="/apis/v1/foo,/apis/v1")], []),
    (
        [rule("get", "v1", "builds", paths="/apis")],
        [rule("get", "v1", "builds", paths="/apis")],
        [],
    ),
    (
        [rule("get", "v1", "builds")],
        [rule("get", "v1", "builds", paths="/apis")],
        [rule("get", paths="/apis")],
    ),
    ([rule("get", "v1", "builds")], [rule("list", "v1", "builds")], [rule("list", "v1", "builds")]),
    ([rule("get", "v1")], [rule("get", "v1", "builds")], [rule("get", "v1", "builds")]),
    ([rule("get", "v1", "*/")], [rule("get", "v1", "builds")], [rule("get", "v1", "builds")]),
    ([], [rule("get"), {}], []),
]


@pytest.mark.parametrize(("owner", "servant", "missing"), ESCALATIONS)
def test_escalation(owner: Any, servant: Any, missing: Any) -> None:
    """Rules of a servant are covered by those of an owner, or named one by one."""
    assert missing_rules(owner, servant) == missing


NOT_FOUND = [
    (RoleKey("Role", "x", "r"), 'role.rbac.authorization.k8s.io "r" not found'),
    (RoleKey("ClusterRole", "", "r"), 'clusterrole.rbac.authorization.k8s.io "r" not found'),
    (RoleKey("Other", "", "r"), 'unsupported role reference kind: "Other"'),
]


@pytest.mark.parametrize(("key", "words"), NOT_FOUND)
def test_not_found(key: RoleKey, words: str) -> None:
    """A binding whose role does not exist is named in kube-apiserver's words."""
    assert not_found_error(key) == words


class Says:
    """An authorizer that always says the same, and counts how often it is asked."""

    def __init__(self, verdict: Verdict, reason: str = "", rules: Rules | None = None) -> None:
        self.decision = Decision(verdict=verdict, reason=reason)
        self.rules = rules or Rules()
        self.count = 0

    async def authorize(self, _user: User, _info: RequestInfo) -> Decision:
        self.count += 1
        return self.decision

    async def rules_for(self, _user: User, _namespace: str) -> Rules:
        return self.rules


def answer(coroutine: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    return stop.value.value


ALLOW, DENY, NONE = Verdict.ALLOW, Verdict.DENY, Verdict.NO_OPINION
UNIONS = [
    # what each authorizer says; the verdict, the reason, how many are asked
    ([(NONE, "a"), (ALLOW, "b"), (DENY, "c")], ALLOW, "b", 2),
    ([(NONE, "a"), (DENY, "b"), (ALLOW, "c")], DENY, "b", 2),
    ([(ALLOW, ""), (DENY, "b")], ALLOW, "", 1),
    ([(DENY, ""), (ALLOW, "b")], DENY, "", 1),
    ([(NONE, "a"), (NONE, ""), (NONE, "c")], NONE, "a\nc", 3),
    ([], NONE, "", 0),
]


@pytest.mark.parametrize(("says", "verdict", "reason", "asked_count"), UNIONS)
def test_union(says: Any, verdict: Verdict, reason: str, asked_count: int) -> None:
    """The first authorizer with an opinion decides; without one, all reasons are given."""
    parts = [Says(*each) for each in says]
    decision = answer(
        UnionAuthorizer(parts).authorize(User(name="u"), resource_request("get", "", "pods"))
    )
    assert (decision.verdict, decision.reason) == (verdict, reason)
    assert decision.allowed is (verdict is ALLOW)
    assert sum(part.count for part in parts) == asked_count


@pytest.mark.parametrize(
    ("errors", "error"), [((), ""), (("", "a"), "a"), (("a", "", "b"), "[a, b]")]
)
def test_union_of_errors(errors: tuple[str, ...], error: str) -> None:
    """Without an opinion, the errors of all authorizers are given."""
    parts = [Says(NONE) for _ in errors]
    for part, text in zip(parts, errors, strict=True):
        part.decision = Decision(verdict=NONE, error=text)
    decision = answer(
        UnionAuthorizer(parts).authorize(User(name="u"), resource_request("get", "", "pods"))
    )
    assert decision == Decision(verdict=NONE, error=error)


def test_union_of_rules() -> None:
    """The rules of all authorizers are listed; one that cannot list them makes the list
    incomplete."""
    pods, version = (
        {"verbs": ["get"], "resources": ["pods"]},
        {"verbs": ["get"], "nonResourceURLs": ["/v"]},
    )
    first = Says(NONE, rules=Rules(resources=[pods]))
    second = Says(NONE, rules=Rules(paths=[version]))
    third = Says(NONE, rules=Rules(incomplete=True, error="unknown"))
    fourth = Says(NONE, rules=Rules(error="broken"))
    same = Says(NONE, rules=Rules(incomplete=True, error="unknown"))

    def rules(*parts: Authorizer) -> Rules:
        result: Rules = answer(UnionAuthorizer(parts).rules_for(User(name="u"), "x"))
        return result

    assert rules(first, second) == Rules(resources=[pods], paths=[version])
    assert rules(third, first, fourth) == Rules(
        resources=[pods], paths=[], incomplete=True, error="[unknown, broken]"
    )
    assert rules(third, same).error == "unknown"


def test_privileged_group() -> None:
    """Members of system:masters are allowed everything; nobody else is."""
    group = PrivilegedGroup()
    root = User(name="root", groups=("x", "system:masters"))
    assert answer(group.authorize(root, resource_request("get", "", "pods"))).verdict is ALLOW
    for user in (User(name="system:masters"), User(name="u", groups=("masters",))):
        assert answer(group.authorize(user, resource_request("get", "", "pods"))).verdict is NONE
    assert answer(group.rules_for(root, "x")) == Rules()
