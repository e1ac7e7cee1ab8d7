"""The rules for `metadata`, the same for every kind: of a new object and of a changed one.

Knows no kind but by what it is told: whether it is namespaced, and how its names are spelled.
Errors come in kube-apiserver's order. Mirrors pkg/api/validation/objectmeta.go of
k8s.io/apimachinery and what pkg/apis/core adds to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from kapiserver.api import names
from kapiserver.api.accessors import finalizers_of, is_terminating
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required, too_long
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.types import Tree

ANNOTATIONS_MAX = 256 * 1024
"""Bytes of all annotation keys and values together."""
_MANAGER_MAX = 128
_SUBRESOURCE_MAX = 256
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"

_PATH = Path("metadata")


FinalizerRule: TypeAlias = Callable[[Sequence[str]], list[FieldError]]
"""A kind's own rule for its finalizers."""


def standard_finalizers(finalizers: Sequence[str]) -> list[FieldError]:
    """Finalizers without a domain are those of Kubernetes: a rule for its own kinds alone."""
    return [
        error
        for index, one in enumerate(finalizers)
        for error in standard_finalizer(one, (_PATH / "finalizers")[index])
    ]


def standard_finalizer(finalizer: str, path: Path) -> list[FieldError]:
    """One of those, in a list of finalizers anywhere."""
    if "/" in finalizer or finalizer in _STANDARD_FINALIZERS:
        return []
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [invalid(path, finalizer, detail)]


def any_finalizers(_finalizers: Sequence[str]) -> list[FieldError]:
    """Finalizers of any name: for custom objects and their definitions."""
    return []


def validate_new(
    obj: Tree,
    *,
    namespaced: bool,
    check: names.Check,
    finalizers: FinalizerRule = standard_finalizers,
) -> list[FieldError]:
    """The rules for a new object's metadata; `check` is the kind's rule for its names."""
    meta = obj.get("metadata") or {}
    return [*_validate(meta, namespaced, check), *finalizers(meta.get("finalizers") or ())]


def validate_updated(
    new: Tree, old: Tree, *, namespaced: bool, finalizers: FinalizerRule = standard_finalizers
) -> list[FieldError]:
    """The rules for a changed object's metadata, the resourceVersion already taken over."""
    meta, before = new.get("metadata") or {}, old.get("metadata") or {}
    found = _validate(meta, namespaced, names.path_segment)
    if is_terminating(old):
        extra = sorted(set(finalizers_of(new)) - set(finalizers_of(old)))
        if extra:
            listed = ", ".join(f'"{one}"' for one in extra)
            found.append(
                forbidden(
                    _PATH / "finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{listed}}}",
                )
            )
    if not meta.get("resourceVersion"):
        found.append(invalid(_PATH / "resourceVersion", "", "must be specified for an update"))
    generation = meta.get("generation") or 0
    if generation < (before.get("generation") or 0):
        found.append(invalid(_PATH / "generation", generation, "must not be decremented"))
    for name, zero in _UNCHANGING:
        if meta.get(name) != before.get(name):
            found.extend(immutable(meta.get(name) or zero, before.get(name) or zero, _PATH / name))
    return [*found, *finalizers(meta.get("finalizers") or ())]


_UNCHANGING: tuple[tuple[str, Any], ...] = (
    ("name", ""),
    ("namespace", ""),
    ("uid", ""),
    ("creationTimestamp", None),
    ("deletionTimestamp", None),
    ("deletionGracePeriodSeconds", None),
)


def validate_embedded_metadata(obj: Tree, path: Path) -> list[FieldError]:
    """The rules for the metadata of an object within another, which is at `path`."""
    if "metadata" not in obj:
        return []
    meta = obj["metadata"] or {}
    named = {**meta, "name": meta.get("name") or "unnamed"}  # it need not have a name
    found = _validate(named, bool(meta.get("namespace")), names.path_segment)
    return [replace(one, path=path / one.path.text) for one in found]


def immutable(new: Any, old: Any, path: Path) -> list[FieldError]:
    """A value that must stay as it was."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def not_negative(value: int, path: Path) -> list[FieldError]:
    """A number that must not be below zero."""
    return [] if value >= 0 else [invalid(path, value, NEGATIVE)]


def _validate(meta: Tree, namespaced: bool, check: names.Check) -> list[FieldError]:
    found: list[FieldError] = []
    generate, name = meta.get("generateName") or "", meta.get("name") or ""
    if generate:
        prefix = names.without_generate_suffix(check)
        found.extend(invalid(_PATH / "generateName", generate, text) for text in prefix(generate))
    if not name:
        found.append(required(_PATH / "name", "name or generateName is required"))
    elif messages := check(name):
        found.extend(invalid(_PATH / "name", name, text) for text in messages)
    found.extend(_validate_namespace(meta.get("namespace") or "", namespaced))
    found.extend(not_negative(meta.get("generation") or 0, _PATH / "generation"))
    # Most objects say little of themselves.
    for part, rules in _RULES:
        value = meta.get(part)
        if value:
            found.extend(rules(value, _PATH / part))
    return found


def _validate_namespace(namespace: str, namespaced: bool) -> list[FieldError]:
    path = _PATH / "namespace"
    if not namespaced:
        return [forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(path)]
    return [invalid(path, namespace, text) for text in names.dns1123_label(namespace)]


def validate_annotations(annotations: Mapping[str, str] | None, path: Path) -> list[FieldError]:
    """The rules for a map of annotations: keys are qualified names, in any case."""
    if not annotations:
        return []
    found = [
        invalid(path, key, text)
        for key in annotations
        for text in names.qualified_name(key.lower())
    ]
    size = sum(names.byte_length(key) + names.byte_length(one) for key, one in annotations.items())
    if size > ANNOTATIONS_MAX:
        found.append(too_long(path, ANNOTATIONS_MAX))
    return found


def _validate_owners(owners: Sequence[Tree], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    controller = ""
    for owner in owners:
        found.extend(_validate_owner(owner, path))
        if not owner.get("controller"):
            continue
        current = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
        if controller:
            detail = (
                'Only one reference can have Controller set to true. Found "true" in references '
                f"for {controller} and {current}"
            )
            found.append(invalid(path, list(owners), detail))
        else:
            controller = current
    return found


def _validate_owner(owner: Tree, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
    if version.count("/") > 1 or not version.rpartition("/")[2]:
        found.append(invalid(path / "apiVersion", version, "version must not be empty"))
    found.extend(
        invalid(path / name, "", "must not be empty")
        for name in ("kind", "name", "uid")
        if not owner.get(name)
    )
    if (version, kind) == ("v1", "Event"):
        detail = "/v1, Kind=Event is disallowed from being an owner"
        found.append(invalid(path, owner, detail))
    return found


def _validate_finalizers(finalizers: list[str], path: Path) -> list[FieldError]:
    found = [
        invalid(path, finalizer, text)
        for finalizer in finalizers
        for text in names.qualified_name(finalizer)
    ]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(invalid(path, finalizers, detail))
    return found


def _validate_managed_fields(entries: Sequence[Tree], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for index, entry in enumerate(entries):
        at = path[index]
        operation = entry.get("operation") or ""
        if operation not in ("Apply", "Update"):
            found.append(invalid(at / "operation", operation, "must be `Apply` or `Update`"))
        fields_type = entry.get("fieldsType") or "FieldsV1"
        if fields_type != "FieldsV1":
            found.append(invalid(at / "fieldsType", fields_type, "must be `FieldsV1`"))
        manager = entry.get("manager") or ""
        if not (manager.isascii() and manager.isprintable() and len(manager) <= _MANAGER_MAX):
            found.extend(validate_field_manager(manager, at / "manager"))
        if names.byte_length(entry.get("subresource") or "") > _SUBRESOURCE_MAX:
            found.append(too_long(at / "subresource", _SUBRESOURCE_MAX))
    return found


_RULES: tuple[tuple[str, Callable[[Any, Path], list[FieldError]]], ...] = (
    ("labels", validate_labels),
    ("annotations", validate_annotations),
    ("ownerReferences", _validate_owners),
    ("finalizers", _validate_finalizers),
    ("managedFields", _validate_managed_fields),
)


def validate_field_manager(manager: str, path: Path) -> list[FieldError]:
    """The rules for the name of a field manager."""
    found: list[FieldError] = []
    if names.byte_length(manager) > _MANAGER_MAX:
        found.append(too_long(path, _MANAGER_MAX))
    position = 0
    for character in manager[: _MANAGER_MAX + 1]:
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            found.append(invalid(path, manager, detail))
        position += names.byte_length(character)
    return found
