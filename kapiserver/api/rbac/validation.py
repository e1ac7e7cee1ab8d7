"""Validation of roles and bindings.

Mirrors pkg/apis/rbac/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import validate_format, validate_required
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.errors import (
    BadObject,
    FieldError,
    Path,
    invalid,
    not_supported,
    not_supported_in_order,
    required,
)
from kapiserver.api.label_selectors import selection_of, validate_label_selector
from kapiserver.api.metadata_validation import IMMUTABLE
from kapiserver.api.rbac.v1 import RoleRef
from kapiserver.api.types import Tree

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def validate_role(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated role."""
    for index, rule in enumerate(obj.get("rules") or ()):
        rule_path = Path("rules")[index]
        urls = rule.get("nonResourceURLs") or []
        yield from _validate_verbs(rule, rule_path)
        if urls:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(rule_path / "nonResourceURLs", urls, detail)
        yield from _validate_rule_targets(rule, rule_path)


def validate_cluster_role(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated cluster role."""
    for index, rule in enumerate(obj.get("rules") or ()):
        rule_path = Path("rules")[index]
        yield from _validate_verbs(rule, rule_path)
        yield from _validate_rule_targets(rule, rule_path)
    aggregation = obj.get("aggregationRule")
    if aggregation is None:
        return
    path, field_name = Path("aggregationRule") / "clusterRoleSelectors", "clusterRoleSelectors"
    if not aggregation.get(field_name):
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield required(path, detail)
    for index, selector in enumerate(aggregation.get(field_name) or ()):
        yield from validate_label_selector(selector, path[index])
        yield from _validate_selector(selector, path[index])


def _validate_selector(selector: Tree, path: Path) -> Iterator[FieldError]:
    try:
        selection_of(selector)
    except BadObject as error:
        yield invalid(path, None, f"invalid label selector: {error}")


def _validate_verbs(rule: Tree, path: Path) -> Iterator[FieldError]:
    if not rule.get("verbs"):
        yield required(path / "verbs", "verbs must contain at least one value")


def _validate_rule_targets(rule: Tree, path: Path) -> Iterator[FieldError]:
    urls, resources = rule.get("nonResourceURLs") or [], rule.get("resources") or ()
    if urls:
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(path / "nonResourceURLs", urls, detail)
        return
    if not rule.get("apiGroups"):
        yield required(path / "apiGroups", "resource rules must supply at least one api group")
    if not resources:
        yield required(path / "resources", "resource rules must supply at least one resource")
    if rule.get("resourceNames") and len(resources) > 1:
        detail = "resource names cannot apply to multiple resources"
        yield required(path / "resourceNames", detail)


def validate_role_binding(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated role binding."""
    yield from _validate_role_ref(obj.get("roleRef") or {}, ("Role", "ClusterRole"))
    for index, subject in enumerate(obj.get("subjects") or ()):
        yield from _validate_subject(subject, Path("subjects")[index])


def validate_cluster_role_binding(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated cluster role binding."""
    yield from _validate_role_ref(obj.get("roleRef") or {}, ("ClusterRole",))
    for index, subject in enumerate(obj.get("subjects") or ()):
        subject_path = Path("subjects")[index]
        yield from _validate_subject(subject, subject_path)
        if subject.get("kind") == "ServiceAccount":
            yield from validate_required(subject, "namespace", subject_path)


def _validate_role_ref(reference: Tree, kinds: tuple[str, ...]) -> Iterator[FieldError]:
    path, name = Path("roleRef"), reference.get("name") or ""
    if reference.get("apiGroup") != _GROUP:
        yield not_supported(path / "apiGroup", reference.get("apiGroup") or "", (_GROUP,))
    if reference.get("kind") not in kinds:
        yield not_supported_in_order(path / "kind", reference.get("kind") or "", kinds)
    if not name:
        yield required(path / "name")
    else:
        yield from validate_format(names.path_segment, name, path / "name")


def _validate_subject(subject: Tree, path: Path) -> Iterator[FieldError]:
    name, kind, group = (
        subject.get(field_name) or "" for field_name in ("name", "kind", "apiGroup")
    )
    if not name:
        yield required(path / "name")
    if kind == "ServiceAccount":
        if name:
            yield from validate_format(names.dns1123_subdomain, name, path / "name")
        if group:
            yield not_supported(path / "apiGroup", group, ("",))
    elif kind in ("Group", "User"):
        if group != _GROUP:
            yield not_supported(path / "apiGroup", group, (_GROUP,))
    else:
        yield not_supported_in_order(path / "kind", kind, _SUBJECTS)


def validate_role_ref_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate that the role of a binding does not change."""
    if new.get("roleRef") != old.get("roleRef"):
        value = as_go_struct(new.get("roleRef") or {}, RoleRef)
        yield invalid(Path("roleRef"), value, IMMUTABLE)
