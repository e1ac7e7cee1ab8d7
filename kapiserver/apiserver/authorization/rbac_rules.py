"""The rules of a Role or ClusterRole, compiled for lookups by resource and by path.

Mirrors pkg/apis/rbac/v1/evaluation_helpers.go of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kapiserver.api.types import Tree
from kapiserver.apiserver.request_info import RequestInfo, matches_path

ALL = "*"


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """The verbs that a rule allows on resources; without names, on all objects."""

    verbs: frozenset[str]
    groups: frozenset[str]
    names: frozenset[str]

    def allows(self, verb: str, group: str, name: str) -> bool:
        """Whether the rule allows the verb on an object, or on a collection if `name` is empty."""
        return (
            (verb in self.verbs or ALL in self.verbs)
            and (group in self.groups or ALL in self.groups)
            and (not self.names or name in self.names)
        )


@dataclass(frozen=True, slots=True)
class PathRule:
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
            verbs = frozenset(tree.get("verbs") or ())
            groups = frozenset(tree.get("apiGroups") or ())
            names = frozenset(tree.get("resourceNames") or ())
            rule = ResourceRule(verbs, groups, names)
            for resource in tree.get("resources") or ():
                self._by_resource.setdefault(resource, []).append(rule)
            if paths := tree.get("nonResourceURLs"):
                self._path_rules.append(PathRule(verbs, tuple(paths)))

    def allows(self, info: RequestInfo) -> bool:
        """Whether a rule allows the request."""
        if not info.is_resource_request:
            return any(rule.allows(info.verb, info.path) for rule in self._path_rules)
        group = info.version.group
        for pattern in _resource_patterns(info):
            for rule in self._by_resource.get(pattern, ()):
                if rule.allows(info.verb, group, info.name):
                    return True
        return False


def _resource_patterns(info: RequestInfo) -> Sequence[str]:
    """Return the forms in which a rule may name the resource of a request."""
    if info.subresource:
        return f"{info.resource}/{info.subresource}", ALL, f"{ALL}/{info.subresource}"
    return info.resource, ALL
