"""Validation of the rules, selectors and match conditions of webhooks and policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.admissionregistration.validation.expressions import Expressions
from kapiserver.api.core.validation.common import validate_format, validate_required_format
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from kapiserver.api.label_selectors import validate_label_selector
from kapiserver.api.types import Tree

FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_CONDITIONS_MAX = 64


def validate_rule_with_operations(rule: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a rule: operations, groups, versions, resources, scope."""
    operations = rule.get("operations") or []
    yield from _validate_values(operations, "operations", path / "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield not_supported((path / "operations")[index], operation, _OPERATIONS)
    yield from _validate_values(rule.get("apiGroups") or [], "API groups", path / "apiGroups")
    versions = rule.get("apiVersions") or []
    yield from _validate_values(versions, "API versions", path / "apiVersions")
    for index, version in enumerate(versions):
        if not version:
            yield required((path / "apiVersions")[index])
    yield from _validate_resources(rule.get("resources") or [], path / "resources")
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        yield not_supported(path / "scope", scope, _SCOPES)


def _validate_values(values: Sequence[str], noun: str, path: Path) -> Iterator[FieldError]:
    if not values:
        yield required(path)
    if len(values) > 1 and "*" in values:
        yield invalid(path, list(values), f"if '*' is present, must not specify other {noun}")


def _validate_resources(resources: Sequence[str], path: Path) -> Iterator[FieldError]:
    if not resources:
        yield required(path)
    wildcard_resources, wildcard_subresources = set(), set()
    for index, resource in enumerate(resources):
        if not resource:
            yield required(path[index])
            continue
        resource_name, slash, subresource = resource.partition("/")
        if not slash:
            continue
        if resource_name in wildcard_resources:
            detail = f"if '{resource_name}/*' is present, must not specify {resource}"
            yield invalid(path[index], resource, detail)
        if subresource in wildcard_subresources:
            detail = f"if '*/{subresource}' is present, must not specify {resource}"
            yield invalid(path[index], resource, detail)
        if subresource == "*":
            wildcard_resources.add(resource_name)
        if resource_name == "*":
            wildcard_subresources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(
            path, list(resources), "if '*/*' is present, must not specify other resources"
        )
    # As in kube-apiserver, only the last resource without a subresource counts.
    main_resources = [resource for resource in resources if resource and "/" not in resource]
    if "*" in main_resources and main_resources[-1] != "*":
        detail = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, list(resources), detail)


def validate_match_resources(match: Tree | None, path: Path) -> Iterator[FieldError]:
    """Validate the match resources of a policy or of a binding."""
    if match is None:
        return
    policy = match.get("matchPolicy")
    if policy is None:
        yield required(path / "matchPolicy")
    elif policy not in MATCH_POLICIES:
        yield not_supported(path / "matchPolicy", policy, MATCH_POLICIES)
    for name in ("namespaceSelector", "objectSelector"):
        if match.get(name) is None:
            yield required(path / name)
        yield from validate_label_selector(match.get(name), path / name)
    for kind in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(kind) or ()):
            yield from _validate_named_rule(rule, (path / kind)[index])


def _validate_named_rule(rule: Tree, path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        name_path = (path / "resourceNames")[index]
        yield from validate_format(names.path_segment, name, name_path)
        if name in seen:
            yield duplicate(name_path, name)
        seen.add(name)
    yield from validate_rule_with_operations(rule, path)


def validate_match_conditions(
    conditions: Sequence[Tree] | None, expressions: Expressions, path: Path
) -> Iterator[FieldError]:
    """Validate the match conditions of a webhook or of a policy."""
    entries = conditions or ()
    if len(entries) > _CONDITIONS_MAX:
        yield too_many(path, len(entries), _CONDITIONS_MAX)
    seen: set[str] = set()
    for index, condition in enumerate(entries):
        condition_path, name = path[index], condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            yield required(condition_path / "expression")
        else:
            yield from expressions.validate(expression, condition_path / "expression")
        yield from validate_required_format(names.qualified_name, name, condition_path / "name")
        if name and name in seen:
            yield duplicate(condition_path / "name", name)
        seen.add(name)
