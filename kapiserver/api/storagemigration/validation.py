"""Validation of rewriting stored objects.

Mirrors pkg/apis/storagemigration/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_RESOURCE = Path("spec") / "resource"
_STATUS = Path("status")
_ENDS = (("Succeeded", "Success", "success"), ("Failed", "Failed", "failed"))


def validate_migration(obj: Tree) -> Iterator[FieldError]:
    """A migration, new or changed."""
    asked = value_at(obj, "spec", "resource") or {}
    resource, group = asked.get("resource") or "", asked.get("group") or ""
    if not resource:
        yield required(_RESOURCE / "resource", "resource is required to be set")
    elif messages := names.dns1035_label(resource):
        yield invalid(_RESOURCE / "resource", resource, ",".join(messages))
    if group and (messages := names.dns1123_subdomain(group)):
        yield invalid(_RESOURCE / "group", group, ",".join(messages))


def validate_migration_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A migration that is to be changed: what is rewritten stays."""
    yield from validate_migration(new)
    yield from immutable(new.get("spec"), old.get("spec"), Path("spec"))


def validate_migration_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """How far the rewriting is: it ends once, one way or the other."""
    status = new.get("status") or {}
    version, before = (value_at(one, "status", "resourceVersion") or "" for one in (new, old))
    resource_version_path = _STATUS / "resourceVersion"
    detail = _wrong_with_version(version)
    if detail:
        yield invalid(resource_version_path, version, detail)
    yield from validate_conditions(status.get("conditions"), _STATUS / "conditions")
    if before and version != before:
        yield invalid(resource_version_path, version, "field is immutable")
    is_now, was = _true(new), _true(old)
    errors = []
    if {"Succeeded", "Failed"} <= is_now:
        errors.append("Both success and failed conditions cannot be true at the same time")
    errors.extend(
        f"Running condition cannot be true when {small} condition is true"
        for type_, _, small in _ENDS
        if {type_, "Running"} <= is_now
    )
    errors.extend(
        f"{large} condition cannot be set to false once it is true"
        for type_, large, _ in _ENDS
        if type_ in was and type_ not in is_now
    )
    for text in errors:
        yield invalid(_STATUS / "conditions", status.get("conditions"), text)


def _wrong_with_version(version: str) -> str:
    if not version.isdigit() or not version.isascii():
        return f"resource version is not well formed: {version}"
    if version.startswith("0"):
        return f"resource version is not well formed: {version}"
    return ""


def _true(obj: Tree) -> set[str]:
    conditions = value_at(obj, "status", "conditions") or ()
    return {one.get("type") or "" for one in conditions if one.get("status") == "True"}
