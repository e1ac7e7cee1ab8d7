"""Validation of which requests a webhook or a policy is for."""

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
    """Operations on resources."""
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


def _validate_values(values: Sequence[str], what: str, path: Path) -> Iterator[FieldError]:
    if not values:
        yield required(path)
    if len(values) > 1 and "*" in values:
        yield invalid(path, list(values), f"if '*' is present, must not specify other {what}")


def _validate_resources(resources: Sequence[str], path: Path) -> Iterator[FieldError]:
    if not resources:
        yield required(path)
    every_part, every_kind = set(), set()
    for index, resource in enumerate(resources):
        if not resource:
            yield required(path[index])
            continue
        kind, slash, part = resource.partition("/")
        if not slash:
            continue
        if kind in every_part:
            detail = f"if '{kind}/*' is present, must not specify {resource}"
            yield invalid(path[index], resource, detail)
        if part in every_kind:
            detail = f"if '*/{part}' is present, must not specify {resource}"
            yield invalid(path[index], resource, detail)
        if part == "*":
            every_part.add(kind)
        if kind == "*":
            every_kind.add(part)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(
            path, list(resources), "if '*/*' is present, must not specify other resources"
        )
    # Of those without a part only the last one is looked at.
    bare = [resource for resource in resources if resource and "/" not in resource]
    if "*" in bare and bare[-1] != "*":
        detail = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, list(resources), detail)


def validate_match_resources(match: Tree | None, path: Path) -> Iterator[FieldError]:
    """Which requests a policy is for."""
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
    """Expressions that must be true for a request to be looked at."""
    found = conditions or ()
    if len(found) > _CONDITIONS_MAX:
        yield too_many(path, len(found), _CONDITIONS_MAX)
    seen: set[str] = set()
    for index, one in enumerate(found):
        item_path, name = path[index], one.get("name") or ""
        expression = (one.get("expression") or "").strip()
        if not expression:
            yield required(item_path / "expression")
        else:
            yield from expressions.check(expression, item_path / "expression")
        yield from validate_required_format(names.qualified_name, name, item_path / "name")
        if name and name in seen:
            yield duplicate(item_path / "name", name)
        seen.add(name)
