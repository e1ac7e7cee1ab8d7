"""Validation of storage version migrations.

Mirrors pkg/apis/storagemigration/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.metadata_validation import IMMUTABLE
from kapiserver.api.types import Tree

_RESOURCE = Path("spec") / "resource"
_STATUS = Path("status")
_FINAL_CONDITIONS = (("Succeeded", "Success"), ("Failed", "Failed"))


def validate_migration(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated migration."""
    reference = value_at(obj, "spec", "resource") or {}
    resource, group = reference.get("resource") or "", reference.get("group") or ""
    if not resource:
        yield required(_RESOURCE / "resource", "resource is required to be set")
    elif messages := names.dns1035_label(resource):
        yield invalid(_RESOURCE / "resource", resource, ",".join(messages))
    if group and (messages := names.dns1123_subdomain(group)):
        yield invalid(_RESOURCE / "group", group, ",".join(messages))


def validate_migration_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated migration. Its spec is immutable."""
    yield from validate_migration(new)
    spec = new.get("spec") or {}
    if spec != (old.get("spec") or {}):
        yield invalid(Path("spec"), {"Resource": spec.get("resource") or {}}, IMMUTABLE)


def validate_migration_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate the status of a migration. It succeeds or fails once."""
    status = new.get("status") or {}
    version, old_version = (value_at(obj, "status", "resourceVersion") or "" for obj in (new, old))
    resource_version_path = _STATUS / "resourceVersion"
    detail = _resource_version_problem(version) if version else ""
    if detail:
        yield invalid(resource_version_path, version, detail)
    yield from validate_conditions(status.get("conditions"), _STATUS / "conditions")
    if old_version and version != old_version:
        yield invalid(resource_version_path, version, "field is immutable")
    conditions, old_conditions = _true_conditions(new), _true_conditions(old)
    errors = []
    if {"Succeeded", "Failed"} <= conditions:
        errors.append("Both success and failed conditions cannot be true at the same time")
    errors.extend(
        f"{upper_name} condition cannot be set to false once it is true"
        for type_, upper_name in _FINAL_CONDITIONS
        if type_ in old_conditions and type_ not in conditions
    )
    for text in errors:
        yield invalid(_STATUS / "conditions", status.get("conditions"), text)


def _resource_version_problem(version: str) -> str:
    if not version.isdigit() or not version.isascii():
        return f"resource version is not well formed: {version}"
    if version.startswith("0"):
        return f"resource version is not well formed: {version}"
    return ""


def _true_conditions(obj: Tree) -> set[str]:
    conditions = value_at(obj, "status", "conditions") or ()
    return {
        condition.get("type") or "" for condition in conditions if condition.get("status") == "True"
    }
