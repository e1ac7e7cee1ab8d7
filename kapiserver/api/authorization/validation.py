"""Validation of access reviews. Mirrors pkg/apis/authorization/validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from kapiserver.api.accessors import metadata_of, namespace_of, value_at
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required
from kapiserver.api.label_selectors import validate_label_key
from kapiserver.api.types import Tree

_CheckKey: TypeAlias = Callable[[str, Path], list[FieldError]]

_SPEC = Path("spec")
_OPERATORS_WITH_VALUES = ("In", "NotIn")
_OPERATORS_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def validate_subject_access_review(obj: Tree) -> Iterator[FieldError]:
    """Validate a SubjectAccessReview."""
    yield from _validate_subject_access(obj)
    yield from _validate_empty_metadata(obj, allowed=("managedFields",), detail="must be empty")


def validate_self_subject_access_review(obj: Tree) -> Iterator[FieldError]:
    """Validate a SelfSubjectAccessReview."""
    yield from _validate_attributes(obj)
    yield from _validate_selectors(obj)
    yield from _validate_empty_metadata(obj, allowed=("managedFields",), detail="must be empty")


def validate_local_subject_access_review(obj: Tree) -> Iterator[FieldError]:
    """Validate a LocalSubjectAccessReview."""
    yield from _validate_subject_access(obj)
    allowed = ("managedFields", "namespace")
    yield from _validate_empty_metadata(
        obj, allowed=allowed, detail="must be empty except for namespace"
    )
    spec = obj.get("spec") or {}
    resource, non_resource = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and (resource.get("namespace") or "") != namespace_of(obj):
        yield invalid(
            _SPEC / "resourceAttributes" / "namespace",
            resource.get("namespace") or "",
            "must match metadata.namespace",
        )
    if non_resource is not None:
        detail = "disallowed on this kind of request"
        yield invalid(
            _SPEC / "nonResourceAttributes", _go_non_resource_attributes(non_resource), detail
        )


def _validate_subject_access(obj: Tree) -> Iterator[FieldError]:
    yield from _validate_attributes(obj)
    spec = obj.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        yield invalid(_SPEC / "user", "", "at least one of user or group must be specified")
    yield from _validate_selectors(obj)


def _validate_attributes(obj: Tree) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    resource, non_resource = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (non_resource is None):
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        shown = None if non_resource is None else _go_non_resource_attributes(non_resource)
        yield invalid(_SPEC, shown, detail)


def _validate_selectors(obj: Tree) -> Iterator[FieldError]:
    attributes = value_at(obj, "spec", "resourceAttributes") or {}
    for name, check_key in (
        ("fieldSelector", _validate_field_key),
        ("labelSelector", validate_label_key),
    ):
        if attributes.get(name) is not None:
            path = _SPEC / "resourceAttributes" / name
            yield from _validate_selector(attributes[name], path, check_key)


def _validate_selector(selector: Tree, path: Path, check_key: _CheckKey) -> Iterator[FieldError]:
    raw, requirements = selector.get("rawSelector"), selector.get("requirements")
    if raw and requirements:
        detail = "may not specified at the same time as requirements"
        yield invalid(path / "rawSelector", raw, detail)
    if not raw and not requirements:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        yield required(path / "requirements", detail)
    for index, requirement in enumerate(requirements or ()):
        yield from _validate_requirement(requirement, (path / "requirements")[index], check_key)


def _validate_requirement(
    requirement: Tree, path: Path, check_key: _CheckKey
) -> Iterator[FieldError]:
    # Unknown operators may come from newer clients. Authorizers ignore them.
    operator = requirement.get("operator") or ""
    if operator in _OPERATORS_WITH_VALUES and not requirement.get("values"):
        yield required(path / "values", "must be specified when `operator` is 'In' or 'NotIn'")
    if operator in _OPERATORS_WITHOUT_VALUES and requirement.get("values"):
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden(path / "values", detail)
    yield from check_key(requirement.get("key") or "", path / "key")


def _validate_field_key(key: str, path: Path) -> list[FieldError]:
    return [] if key else [required(path, "must be specified")]


def _validate_empty_metadata(
    obj: Tree, *, allowed: tuple[str, ...], detail: str
) -> Iterator[FieldError]:
    metadata = metadata_of(obj)
    if any(value for name, value in metadata.items() if name not in allowed):
        yield invalid(Path("metadata"), metadata, detail)


def _go_non_resource_attributes(attributes: Tree) -> Tree:
    # The internal Go struct, whose JSON form has the names of Go's fields.
    struct: dict[str, Any] = {
        "Path": attributes.get("path", ""),
        "Verb": attributes.get("verb", ""),
    }
    return struct
