"""Validation of questions about access. Mirrors pkg/apis/authorization/validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from kapiserver.api.accessors import metadata_of, namespace_of, value_at
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required
from kapiserver.api.label_selectors import validate_label_key
from kapiserver.api.types import Tree

_CheckKey: TypeAlias = Callable[[str, Path], list[FieldError]]

_SPEC = Path("spec")
_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def validate_subject_access_review(obj: Tree) -> Iterator[FieldError]:
    """A question about any user."""
    yield from _validate_subject_access(obj)
    yield from _no_metadata(obj, but=("managedFields",), detail="must be empty")


def validate_self_subject_access_review(obj: Tree) -> Iterator[FieldError]:
    """A question about the caller."""
    yield from _one_request(obj)
    yield from _validate_selectors(obj)
    yield from _no_metadata(obj, but=("managedFields",), detail="must be empty")


def validate_local_subject_access_review(obj: Tree) -> Iterator[FieldError]:
    """A question about any user in one namespace."""
    yield from _validate_subject_access(obj)
    but = ("managedFields", "namespace")
    yield from _no_metadata(obj, but=but, detail="must be empty except for namespace")
    spec = obj.get("spec") or {}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and (resource.get("namespace") or "") != namespace_of(obj):
        yield invalid(
            _SPEC / "resourceAttributes" / "namespace",
            resource.get("namespace") or "",
            "must match metadata.namespace",
        )
    if path is not None:
        detail = "disallowed on this kind of request"
        yield invalid(_SPEC / "nonResourceAttributes", _shown(path), detail)


def _validate_subject_access(obj: Tree) -> Iterator[FieldError]:
    yield from _one_request(obj)
    spec = obj.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        yield invalid(_SPEC / "user", "", "at least one of user or group must be specified")
    yield from _validate_selectors(obj)


def _one_request(obj: Tree) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        yield invalid(_SPEC / "nonResourceAttributes", _shown(path), detail)
    if resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid(_SPEC / "resourceAttributes", None, detail)


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
    # Operators that nobody here knows may come from newer clients: authorizers leave them out.
    operator = requirement.get("operator") or ""
    if operator in _WITH_VALUES and not requirement.get("values"):
        yield required(path / "values", "must be specified when `operator` is 'In' or 'NotIn'")
    if operator in _WITHOUT_VALUES and requirement.get("values"):
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden(path / "values", detail)
    yield from check_key(requirement.get("key") or "", path / "key")


def _validate_field_key(key: str, path: Path) -> list[FieldError]:
    return [] if key else [required(path, "must be specified")]


def _no_metadata(obj: Tree, *, but: tuple[str, ...], detail: str) -> Iterator[FieldError]:
    metadata = metadata_of(obj)
    if any(value for name, value in metadata.items() if name not in but):
        yield invalid(Path("metadata"), metadata, detail)


def _shown(path: Tree) -> Tree:
    # As Go writes the internal type, which has no names for JSON.
    found: dict[str, Any] = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
    return found
