"""The rules of a Role or ClusterRole, compiled for lookups by resource and by path.

Mirrors pkg/apis/rbac/v1/evaluation_helpers.go of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.request_info import RequestInfo, matches_path

ALL = "*"


class ResourceRequest(NamedTuple):
    """The attributes of a resource request that rules match; `patterns` are the forms in which a
    rule may name the resource."""

    patterns: Sequence[str]
    verb: str
    group: str
    name: str


class ResourceRule(Struct, frozen=True):
    """The verbs that a rule allows on resources; None means all verbs, groups or objects."""

    verbs: frozenset[str] | None
    groups: frozenset[str] | None
    names: frozenset[str] | None

    def allows(self, verb: str, group: str, name: str) -> bool:
        """Whether the rule allows the verb on an object, or on a collection if `name` is empty."""
        verbs, groups, names = self.verbs, self.groups, self.names
        return (
            (verbs is None or verb in verbs)
            and (groups is None or group in groups)
            and (names is None or name in names)
        )


class PathRule(Struct, frozen=True):
    """The verbs that a rule allows on non-resource paths; a path may end in `*`."""

    verbs: frozenset[str]
    paths: tuple[str, ...]

    def allows(self, verb: str, path: str) -> bool:
        """Whether the rule allows the verb on a path."""
        if verb not in self.verbs and ALL not in self.verbs:
            return False
        return any(matches_path(pattern, path) for pattern in self.paths)


class CompiledRules:
    """The rules of one role. `trees` are the PolicyRules as they are stored."""

    __slots__ = ("_by_resource", "_path_rules", "trees")

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.trees = trees
        self._by_resource: dict[str, list[ResourceRule]] = {}
        self._path_rules: list[PathRule] = []
        for tree in trees:
            verbs = tree.get("verbs") or ()
            rule = ResourceRule(
                _unless_all(verbs),
                _unless_all(tree.get("apiGroups") or ()),
                frozenset(tree.get("resourceNames") or ()) or None,
            )
            for resource in tree.get("resources") or ():
                self._by_resource.setdefault(resource, []).append(rule)
            if paths := tree.get("nonResourceURLs"):
                self._path_rules.append(PathRule(frozenset(verbs), tuple(paths)))

    def allows(self, info: RequestInfo) -> bool:
        """Whether a rule allows the request."""
        if info.is_resource_request:
            return self.allows_resource(resource_request(info))
        return any(rule.allows(info.verb, info.path) for rule in self._path_rules)

    def allows_resource(self, request: ResourceRequest) -> bool:
        """Whether a rule allows a resource request."""
        patterns, verb, group, name = request
        by_resource = self._by_resource
        for pattern in patterns:
            if pattern in by_resource:
                for rule in by_resource[pattern]:
                    if rule.allows(verb, group, name):
                        return True
        return False


def resource_request(info: RequestInfo) -> ResourceRequest:
    """Return what rules see of a resource request."""
    resource, subresource = info.resource, info.subresource
    if subresource:
        patterns = (f"{resource}/{subresource}", ALL, f"{ALL}/{subresource}")
        return ResourceRequest(patterns, info.verb, info.version.group, info.name)
    return ResourceRequest((resource, ALL), info.verb, info.version.group, info.name)


def _unless_all(values: Sequence[str]) -> frozenset[str] | None:
    return None if ALL in values else frozenset(values)
