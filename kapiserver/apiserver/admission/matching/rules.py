"""Rules of webhooks and policies: operations, groups, versions, resources, scope, resource names.

Knows no selector. Mirrors pkg/admission/plugin/webhook/predicates/rules of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from kapiserver.api.group import GroupVersionKind, GroupVersionResource
from kapiserver.api.types import Tree

_ALL = "*"


class ResourceVariant(NamedTuple):
    """A resource in one version, and the kind of its bodies (or of those of a subresource)."""

    resource: GroupVersionResource
    kind: GroupVersionKind


class RequestedResource(NamedTuple):
    """The attributes of a request that rules look at.

    is_namespaced   the request has a namespace; false for namespaces themselves
    """

    operation: str
    variant: ResourceVariant
    subresource: str
    is_namespaced: bool


class RuleMatch(NamedTuple):
    """A rule matches a request as this variant of its resource, for these object names; no names
    mean all names."""

    variant: ResourceVariant
    names: frozenset[str]


class Rule(Struct, frozen=True):
    """A compiled RuleWithOperations or NamedRuleWithOperations."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str
    names: frozenset[str]

    def matches(self, request: RequestedResource, resource: GroupVersionResource) -> bool:
        """Report whether the rule matches a request for the resource in the given version, whatever
        the name of the object."""
        return (
            _has(self.operations, request.operation)
            and _has(self.groups, resource.group)
            and _has(self.versions, resource.version)
            and self._matches_scope(request.is_namespaced)
            and any(
                name in (_ALL, resource.resource) and subresource in (_ALL, request.subresource)
                for name, subresource in self.resources
            )
        )

    def _matches_scope(self, is_namespaced: bool) -> bool:
        if self.scope == "Namespaced":
            return is_namespaced
        return self.scope != "Cluster" or not is_namespaced


def compile_rules(rules: Iterable[Tree] | None) -> tuple[Rule, ...]:
    """Return the compiled rules of a webhook, or of the match resources of a policy."""
    return tuple(
        Rule(
            operations=frozenset(rule.get("operations") or ()),
            groups=frozenset(rule.get("apiGroups") or ()),
            versions=frozenset(rule.get("apiVersions") or ()),
            resources=tuple(_split(resource) for resource in rule.get("resources") or ()),
            scope=rule.get("scope") or _ALL,
            names=frozenset(rule.get("resourceNames") or ()),
        )
        for rule in rules or ()
    )


def matching_rules(
    rules: Sequence[Rule], request: RequestedResource, equivalents: Sequence[ResourceVariant]
) -> tuple[RuleMatch, ...]:
    """Return the matches of a request. For the name of an object, the first match counts.

    equivalents     other variants of the resource, for matchPolicy Equivalent; rules are compared
                    with them if no rule matches the request itself
    """
    matches = []
    for match in _matches(rules, request, equivalents):
        matches.append(match)
        if not match.names:
            break
    return tuple(matches)


def _matches(
    rules: Sequence[Rule], request: RequestedResource, equivalents: Sequence[ResourceVariant]
) -> Iterator[RuleMatch]:
    for rule in rules:
        if rule.matches(request, request.variant.resource):
            yield RuleMatch(request.variant, rule.names)
    for rule in rules:
        for variant in equivalents:
            if rule.matches(request, variant.resource):
                yield RuleMatch(variant, rule.names)


def match_for_name(matches: Iterable[RuleMatch], name: str) -> ResourceVariant | None:
    """Return the variant of the first match for an object of that name, or None."""
    for match in matches:
        if not match.names or name in match.names:
            return match.variant
    return None


def _has(values: frozenset[str], value: str) -> bool:
    return value in values or _ALL in values


def _split(resource: str) -> tuple[str, str]:
    name, _, subresource = resource.partition("/")
    return name, subresource
