"""The audit policy: at which level a request is recorded, by the first rule that matches it.

Mirrors pkg/audit/policy and pkg/apis/audit/validation of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path as FilePath

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.audit.v1 import Policy
from kapiserver.api.errors import FieldError, Path, invalid, not_supported
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Tree
from kapiserver.apiserver.configuration_files import (
    BadConfiguration,
    read_configuration,
)
from kapiserver.apiserver.request_info import RequestInfo, matches_path
from kapiserver.apiserver.user import User

ALL = "*"


class Level(IntEnum):
    """How much of a request is recorded; each level includes those before it."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


LEVELS = {
    "None": Level.NONE,
    "Metadata": Level.METADATA,
    "Request": Level.REQUEST,
    "RequestResponse": Level.REQUEST_RESPONSE,
}
LEVEL_NAMES = {level: name for name, level in LEVELS.items()}
STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
_SECRET_BODIES = frozenset(
    (
        ("", "secrets"),
        ("", "serviceaccounts/token"),
        ("authentication.k8s.io", "tokenreviews"),
    )
)
"""Resources whose bodies are recorded only by a rule that names them: not by `*`, nor by a rule for
everything. kube-apiserver records them at the level of any rule that matches."""
_KINDS = {GroupVersionKind("audit.k8s.io", "v1", "Policy"): Policy}


class AuditDecision(Struct, frozen=True, kw_only=True):
    """The audit level of one request; no event is written at the stages in `omit_stages`."""

    level: Level
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool = False


_NO_AUDIT = AuditDecision(level=Level.NONE)


class AuditPolicy:
    """The rules of one policy."""

    def __init__(self, tree: Tree) -> None:
        self._rules = [_Rule(rule, tree) for rule in tree.get("rules") or ()]

    def decide(self, user: User, info: RequestInfo) -> AuditDecision:
        """Return the decision of the first rule that matches; without one nothing is recorded."""
        for rule in self._rules:
            if rule.matches(user, info):
                decision = rule.decision
                if decision.level > Level.METADATA and not rule.may_record_bodies(info):
                    return replace(decision, level=Level.METADATA)
                return decision
        return _NO_AUDIT


def read_policy(file: FilePath) -> AuditPolicy:
    """Return the policy of a file. Raises BadConfiguration."""
    tree = read_configuration(file, _KINDS, purpose="audit policy", validate=policy_errors)
    if not tree.get("rules"):
        raise BadConfiguration(f"loaded illegal policy with 0 rules from file {file}")
    return AuditPolicy(tree)


class _Rule:
    """One rule, ready to be matched. An empty list matches everything."""

    def __init__(self, rule: Tree, policy: Tree) -> None:
        self._users = frozenset(rule.get("users") or ())
        self._groups = frozenset(rule.get("userGroups") or ())
        self._verbs = frozenset(rule.get("verbs") or ())
        self._namespaces = frozenset(rule.get("namespaces") or ())
        self._resources: Sequence[Tree] = rule.get("resources") or ()
        self._paths: Sequence[str] = rule.get("nonResourceURLs") or ()
        stages = (*(policy.get("omitStages") or ()), *(rule.get("omitStages") or ()))
        omit = rule.get("omitManagedFields")
        if omit is None:
            omit = policy.get("omitManagedFields") or False
        self.decision = AuditDecision(
            level=LEVELS[rule["level"]],
            omit_stages=frozenset(stages),
            omit_managed_fields=omit,
        )

    def matches(self, user: User, info: RequestInfo) -> bool:
        """Whether the rule is about a request of the user."""
        if self._users and user.name not in self._users:
            return False
        if self._groups and self._groups.isdisjoint(user.groups):
            return False
        if self._verbs and info.verb not in self._verbs:
            return False
        if self._namespaces or self._resources:
            return self._matches_resource(info)
        if self._paths:
            return not info.is_resource_request and any(
                matches_path(pattern, info.path) for pattern in self._paths
            )
        return True

    def may_record_bodies(self, info: RequestInfo) -> bool:
        """Whether the bodies of a request that the rule matches may be recorded."""
        name = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        group = info.version.group
        if (group, name) not in _SECRET_BODIES:
            return True
        return any(
            (resource.get("group") or "") == group and name in (resource.get("resources") or ())
            for resource in self._resources
        )

    def _matches_resource(self, info: RequestInfo) -> bool:
        if not info.is_resource_request:
            return False
        if self._namespaces and info.namespace not in self._namespaces:
            return False
        if not self._resources:
            return True
        return any(
            (group.get("group") or "") == info.version.group and _selects(group, info)
            for group in self._resources
        )


def _selects(group: Tree, info: RequestInfo) -> bool:
    resources = group.get("resources") or ()
    if not resources:
        return True
    names = group.get("resourceNames") or ()
    if names and info.name not in names:
        return False
    patterns = {ALL, info.resource, f"{info.resource}/*"}
    if info.subresource:
        patterns = {
            ALL,
            f"{info.resource}/{info.subresource}",
            f"*/{info.subresource}",
            f"{info.resource}/*",
        }
    return not patterns.isdisjoint(resources)


def policy_errors(tree: Tree) -> Iterator[FieldError]:
    """Yield kube-apiserver's errors for an invalid policy."""
    yield from _stage_errors(tree.get("omitStages") or (), Path("omitStages"))
    for index, rule in enumerate(tree.get("rules") or ()):
        yield from _rule_errors(rule, Path("rules")[index])


def _rule_errors(rule: Tree, path: Path) -> Iterator[FieldError]:
    level = rule.get("level") or ""
    if level not in LEVELS:
        yield not_supported(path / "level", level, sorted(LEVELS))
    urls = rule.get("nonResourceURLs") or ()
    yield from _path_errors(urls, path / "nonResourceURLs")
    for index, group in enumerate(rule.get("resources") or ()):
        if group.get("resourceNames") and not group.get("resources"):
            text = "using resourceNames requires at least one resource"
            names = path / "resources"
            yield invalid(names[index] / "resourceNames", group["resourceNames"], text)
    if urls and (rule.get("resources") or rule.get("namespaces")):
        text = "rules cannot apply to both regular resources and non-resource URLs"
        yield invalid(path / "nonResourceURLs", urls, text)
    yield from _stage_errors(rule.get("omitStages") or (), path / "omitStages")


def _path_errors(urls: Sequence[str], path: Path) -> Iterator[FieldError]:
    for index, url in enumerate(urls):
        if url == ALL:
            continue
        if not url.startswith("/"):
            text = "non-resource URL rules must begin with a '/' character"
            yield invalid(path[index], url, text)
        if ALL in url[:-1]:
            text = "non-resource URL wildcards '*' must be the final character of the rule"
            yield invalid(path[index], url, text)


def _stage_errors(stages: Sequence[str], path: Path) -> Iterator[FieldError]:
    for index, stage in enumerate(stages):
        if stage not in STAGES:
            yield not_supported(path[index], stage, sorted(STAGES))
