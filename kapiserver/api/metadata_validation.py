"""Validation of `metadata`, the same for every kind, on create and on update.

The caller says whether the kind is namespaced and how its names are validated. Errors come in
kube-apiserver's order. Mirrors pkg/api/validation/objectmeta.go of k8s.io/apimachinery and the
additions of pkg/apis/core.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from kapiserver.api import names
from kapiserver.api.accessors import finalizers_of, is_terminating
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required, too_long
from kapiserver.api.go_format import quote
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.types import Tree

ANNOTATIONS_MAX = 256 * 1024
"""The limit for all annotation keys and values together, in bytes."""
_MANAGER_MAX = 128
_SUBRESOURCE_MAX = 256
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"

_PATH = Path("metadata")
_GENERATION, _NAMESPACE = _PATH / "generation", _PATH / "namespace"


FinalizerRule: TypeAlias = Callable[[Sequence[str]], list[FieldError]]
"""Validates the finalizers of a kind."""


def standard_finalizers(finalizers: Sequence[str]) -> list[FieldError]:
    """Check that finalizers without a domain are standard ones; for built-in kinds only."""
    return [
        error
        for index, finalizer in enumerate(finalizers)
        for error in standard_finalizer(finalizer, (_PATH / "finalizers")[index])
    ]


def standard_finalizer(finalizer: str, path: Path) -> list[FieldError]:
    """Check one finalizer at a path."""
    if "/" in finalizer or finalizer in _STANDARD_FINALIZERS:
        return []
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [invalid(path, finalizer, detail)]


def any_finalizers(_finalizers: Sequence[str]) -> list[FieldError]:
    """Allow any finalizer; for custom objects and their definitions."""
    return []


def finalizer_warnings(finalizer: str) -> list[str]:
    """Return the warnings about a finalizer of a custom object."""
    quoted = f"metadata.finalizers: {quote(finalizer)}: "
    warnings = [quoted + problem for problem in names.qualified_name(finalizer)]
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in finalizer else ""
        warnings.append(
            f"{quoted}prefer a domain-qualified finalizer name{path} to avoid accidental conflicts "
            "with other finalizer writers"
        )
    return warnings


def validate_new(
    obj: Tree,
    *,
    namespaced: bool,
    check: names.Check,
    finalizers: FinalizerRule = standard_finalizers,
) -> list[FieldError]:
    """Validate the metadata of a new object; `check` validates its name."""
    meta = obj.get("metadata") or {}
    errors = _validate(meta, namespaced, check)
    if meta.get("finalizers"):
        errors += finalizers(meta["finalizers"])
    return errors


def validate_updated(
    new: Tree, old: Tree, *, namespaced: bool, finalizers: FinalizerRule = standard_finalizers
) -> list[FieldError]:
    """Validate the metadata of an updated object, whose resourceVersion is already set."""
    meta, old_meta = new.get("metadata") or {}, old.get("metadata") or {}
    errors = _validate(meta, namespaced, names.path_segment)
    if is_terminating(old):
        added = sorted(set(finalizers_of(new)) - set(finalizers_of(old)))
        if added:
            listed = ", ".join(f'"{finalizer}"' for finalizer in added)
            errors.append(
                forbidden(
                    _PATH / "finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{listed}}}",
                )
            )
    if not meta.get("resourceVersion"):
        errors.append(invalid(_PATH / "resourceVersion", "", "must be specified for an update"))
    generation = meta.get("generation") or 0
    if generation < (old_meta.get("generation") or 0):
        errors.append(invalid(_PATH / "generation", generation, "must not be decremented"))
    if any(map(operator.ne, map(meta.get, _ZEROS), map(old_meta.get, _ZEROS))):
        for name, zero in _ZEROS.items():
            new_value, old_value = meta.get(name) or zero, old_meta.get(name) or zero
            errors.extend(immutable(new_value, old_value, _PATH / name))
    if meta.get("finalizers"):
        errors += finalizers(meta["finalizers"])
    return errors


_ZEROS: dict[str, Any] = {
    "name": "",
    "namespace": "",
    "uid": "",
    "creationTimestamp": None,
    "deletionTimestamp": None,
    "deletionGracePeriodSeconds": None,
}
"""The zero values of the fields that never change."""


def validate_embedded_metadata(obj: Tree, path: Path) -> list[FieldError]:
    """Validate the metadata of an object that is embedded in another one at `path`."""
    if "metadata" not in obj:
        return []
    meta = obj["metadata"] or {}
    with_name = {**meta, "name": meta.get("name") or "unnamed"}  # the name is optional
    errors = _validate(with_name, bool(meta.get("namespace")), names.path_segment)
    return [replace(error, path=path / error.path.text) for error in errors]


def immutable(new: Any, old: Any, path: Path) -> list[FieldError]:
    """Check that a value did not change."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def not_negative(value: int, path: Path) -> list[FieldError]:
    """Check that a number is not negative."""
    return [] if value >= 0 else [invalid(path, value, NEGATIVE)]


def validate_domain(text: str, path: Path) -> Iterator[FieldError]:
    """Validate a fully qualified domain name."""
    name = text.removesuffix(".")
    if not text:
        yield required(path)
        return
    messages = names.dns1123_subdomain(name)
    if messages:
        yield invalid(path, name, ",".join(messages))
    elif "." not in name:
        detail = "should be a domain with at least two segments separated by dots"
        yield invalid(path, name, detail)
    else:
        for label in name.split("."):
            messages = names.dns1123_label(label)
            if messages:
                yield invalid(path, label, ",".join(messages))
                return


def _validate(meta: Tree, namespaced: bool, check: names.Check) -> list[FieldError]:
    errors: list[FieldError] = []
    generate, name = meta.get("generateName") or "", meta.get("name") or ""
    if generate:
        prefix = names.without_generate_suffix(check)
        errors.extend(invalid(_PATH / "generateName", generate, text) for text in prefix(generate))
    if not name:
        errors.append(required(_PATH / "name", "name or generateName is required"))
    elif messages := check(name):
        errors.extend(invalid(_PATH / "name", name, text) for text in messages)
    errors += _validate_namespace(meta.get("namespace") or "", namespaced)
    if generation := meta.get("generation"):
        errors += not_negative(generation, _GENERATION)
    for part, path, rules in _RULES:
        if value := meta.get(part):  # most objects have few of these fields
            errors += rules(value, path)
    return errors


def _validate_namespace(namespace: str, namespaced: bool) -> list[FieldError]:
    if not namespaced:
        return [forbidden(_NAMESPACE, "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(_NAMESPACE)]
    if messages := names.dns1123_label(namespace):
        return [invalid(_NAMESPACE, namespace, text) for text in messages]
    return []


def validate_annotations(annotations: Mapping[str, str] | None, path: Path) -> list[FieldError]:
    """Validate a map of annotations: keys are qualified names, case-insensitively."""
    if not annotations:
        return []
    errors = [
        invalid(path, key, text)
        for key in annotations
        for text in names.qualified_name(key.lower())
    ]
    size = sum(
        names.byte_length(key) + names.byte_length(value) for key, value in annotations.items()
    )
    if size > ANNOTATIONS_MAX:
        errors.append(too_long(path, ANNOTATIONS_MAX))
    return errors


def _validate_owners(owners: Sequence[Tree], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    for index, owner in enumerate(owners):
        errors.extend(_validate_owner(owner, path[index]))
        if not owner.get("controller"):
            continue
        current = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
        if controller:
            detail = (
                'Only one reference can have Controller set to true. Found "true" in references '
                f"for {controller} and {current}"
            )
            errors.append(invalid(path, list(owners), detail))
        else:
            controller = current
    return errors


def _validate_owner(owner: Tree, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
    if not version:
        errors.append(required(path / "apiVersion", "must not be empty"))
    elif version.count("/") > 1 or not version.rpartition("/")[2]:
        detail = "must be <group>/<version> or <version>"
        errors.append(invalid(path / "apiVersion", version, detail))
    errors.extend(
        required(path / name, "must not be empty")
        for name in ("kind", "name", "uid")
        if not owner.get(name)
    )
    if (version, kind) == ("v1", "Event"):
        detail = "/v1, Kind=Event is disallowed from being an owner"
        errors.append(invalid(path, owner, detail))
    return errors


def _validate_finalizers(finalizers: list[str], path: Path) -> list[FieldError]:
    errors = [
        invalid(path, finalizer, text)
        for finalizer in finalizers
        for text in names.qualified_name(finalizer)
    ]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(path, finalizers, detail))
    return errors


def _validate_managed_fields(entries: Sequence[Tree], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        operation = entry.get("operation") or ""
        if operation not in ("Apply", "Update"):
            errors.append(
                invalid(path[index] / "operation", operation, "must be `Apply` or `Update`")
            )
        fields_type = entry.get("fieldsType") or "FieldsV1"
        if fields_type != "FieldsV1":
            errors.append(invalid(path[index] / "fieldsType", fields_type, "must be `FieldsV1`"))
        manager = entry.get("manager") or ""
        if not (manager.isascii() and manager.isprintable() and len(manager) <= _MANAGER_MAX):
            errors.extend(validate_field_manager(manager, path[index] / "manager"))
        if names.byte_length(entry.get("subresource") or "") > _SUBRESOURCE_MAX:
            errors.append(too_long(path[index] / "subresource", _SUBRESOURCE_MAX))
    return errors


_RULES: tuple[tuple[str, Path, Callable[[Any, Path], list[FieldError]]], ...] = (
    ("labels", _PATH / "labels", validate_labels),
    ("annotations", _PATH / "annotations", validate_annotations),
    ("ownerReferences", _PATH / "ownerReferences", _validate_owners),
    ("finalizers", _PATH / "finalizers", _validate_finalizers),
    ("managedFields", _PATH / "managedFields", _validate_managed_fields),
)


def validate_field_manager(manager: str, path: Path) -> list[FieldError]:
    """Validate the name of a field manager."""
    errors: list[FieldError] = []
    if names.byte_length(manager) > _MANAGER_MAX:
        errors.append(too_long(path, _MANAGER_MAX))
    position = 0
    for character in manager[: _MANAGER_MAX + 1]:
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            errors.append(invalid(path, manager, detail))
        position += names.byte_length(character)
    return errors
