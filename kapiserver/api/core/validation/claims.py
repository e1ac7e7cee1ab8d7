"""Rules for claims of storage, and for templates of claims."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator

from kapiserver.api import names
from kapiserver.api.core.v1 import PersistentVolumeClaimSpec
from kapiserver.api.core.validation.common import validate_format, validate_required
from kapiserver.api.core.validation.difference import go_diff
from kapiserver.api.core.validation.resources import amount, is_native, validate_resource_quantity
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.label_selectors import validate_label_selector
from kapiserver.api.metadata import immutable
from kapiserver.api.objects import annotations_of, take, value_at
from kapiserver.api.types import Tree

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
VOLUME_MODES = ("Block", "Filesystem")
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE = "ReadWriteOncePod"
_RESIZING = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizePending",
    "NodeResizeInProgress", "NodeResizeInfeasible",
)  # fmt: skip
_SPEC = Path("spec")
_STATUS = Path("status")
_CLASS = "volumeAttributesClassName"


def validate_claim(obj: Tree) -> Iterator[FieldError]:
    """A new claim."""
    return validate_claim_spec(obj.get("spec") or {}, _SPEC)


def validate_claim_spec(
    spec: Tree, path: Path, *, old_spec: Tree | None = None
) -> Iterator[FieldError]:
    """What storage is asked for; what `before` spells badly already may stay so."""
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(path / "accessModes", "at least 1 access mode is required")
    kept = (old_spec or {}).get("selector")
    yield from validate_label_selector(spec.get("selector"), path / "selector", before=kept)
    yield from validate_access_modes(modes, path / "accessModes")
    yield from _validate_storage_request(
        value_at(spec, "resources", "requests") or {}, path / "resources"
    )
    if spec.get("storageClassName"):
        name_path = path / "storageClassName"
        yield from validate_format(names.dns1123_subdomain, spec["storageClassName"], name_path)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        yield not_supported(path / "volumeMode", mode, VOLUME_MODES)
    yield from _validate_data_sources(spec, path, lax=_has_api_group(old_spec or {}))
    if spec.get(_CLASS):
        yield from validate_format(names.dns1123_subdomain, spec[_CLASS], path / _CLASS)


def validate_access_modes(modes: Collection[str], path: Path) -> Iterator[FieldError]:
    """How a volume may be mounted; one pod alone goes with nothing else."""
    for mode in modes:
        if mode not in _MODES:
            yield not_supported(path, mode, _MODES)
    if _ALONE in modes and any(mode in _MODES and mode != _ALONE for mode in modes):
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _validate_storage_request(requests: Tree, path: Path) -> Iterator[FieldError]:
    size, at = requests.get("storage"), path["storage"]
    if size is None:
        yield required(at)
    elif amount(size) <= 0:
        yield invalid(at, size, "must be greater than zero")


def _has_api_group(spec: Tree) -> bool:
    kinds = ("dataSource", "dataSourceRef")
    return any(value_at(spec, kind, "apiGroup") is not None for kind in kinds)


def _validate_data_sources(spec: Tree, path: Path, *, lax: bool) -> Iterator[FieldError]:
    for kind in ("dataSource", "dataSourceRef"):
        if spec.get(kind) is not None:
            yield from _validate_data_source(spec[kind], path / kind, lax=lax)
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is None or new is None:
        return
    shown: Tree = {}  # the value is a field.Path, which has no exported field
    if new.get("namespace"):
        yield invalid(path, shown, "may not be specified when dataSourceRef.namespace is specified")
    elif any(old.get(name) != new.get(name) for name in ("apiGroup", "kind", "name")):
        yield invalid(path, shown, "must match dataSourceRef")


def _validate_data_source(source: Tree, path: Path, *, lax: bool) -> Iterator[FieldError]:
    yield from validate_required(source, "name", path)
    yield from validate_required(source, "kind", path)
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    if not group and kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield invalid(path, kind, detail)
    if group and not lax:
        yield from validate_format(names.dns1123_subdomain, group, path / "apiGroup")
    if source.get("namespace"):
        yield from validate_format(names.dns1123_label, source["namespace"], path / "namespace")


def validate_claim_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A claim that is to be changed: it may grow, and little else."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    yield from validate_claim_spec(spec, _SPEC, old_spec=old_spec)
    if not _moves_class_annotation_to_field(new, old):
        key = CLASS_ANNOTATION
        values = annotations_of(new).get(key, ""), annotations_of(old).get(key, "")
        yield from immutable(*values, Path("metadata") / "annotations" / key)
    yield from _validate_immutable_spec(new, old)
    size = value_at(spec, "resources", "requests", "storage")
    shrinks = amount(size) < amount(value_at(old_spec, "resources", "requests", "storage"))
    if shrinks and amount(size) <= amount(value_at(old, "status", "capacity", "storage")):
        storage_path = _SPEC / "resources" / "requests" / "storage"
        yield forbidden(storage_path, "field can not be less than status.capacity")
    yield from immutable(spec.get("volumeMode"), old_spec.get("volumeMode"), Path("volumeMode"))
    yield from _validate_attributes_class_update(spec, old)


def _validate_immutable_spec(new: Tree, old: Tree) -> Iterator[FieldError]:
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    wanted, kept = copy.deepcopy(spec), dict(old_spec)
    if not kept.get("volumeName"):
        take(kept, wanted, "volumeName")
    if _moves_class_annotation_to_field(new, old):
        wanted.pop("storageClassName", None)
    elif _assigns_default_class(new, old):
        take(wanted, kept, "storageClassName")
    if value_at(new, "status", "phase") == "Bound":
        requests = value_at(wanted, "resources", "requests")
        if requests:
            requests["storage"] = value_at(old_spec, "resources", "requests", "storage") or "0"
        take(wanted, kept, _CLASS)
    if _without_empty_fields(wanted) != _without_empty_fields(kept):
        detail = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        shown = go_diff(kept, wanted, PersistentVolumeClaimSpec)
        yield forbidden(_SPEC, f"{detail}\n{shown}")


def _without_empty_fields(spec: Tree) -> Tree:
    return {name: value for name, value in spec.items() if value not in (None, [], {})}


def _moves_class_annotation_to_field(new: Tree, old: Tree) -> bool:
    # Old claims name their class in an annotation; it may move into the spec.
    given = annotations_of(old).get(CLASS_ANNOTATION)
    return (
        given is not None
        and value_at(old, "spec", "storageClassName") is None
        and value_at(new, "spec", "storageClassName") == given
        and annotations_of(new).get(CLASS_ANNOTATION, given) == given
    )


def _assigns_default_class(new: Tree, old: Tree) -> bool:
    # A claim without a class gets one when the cluster has a default at last.
    name = value_at(new, "spec", "storageClassName")
    return (
        name is not None
        and value_at(old, "spec", "storageClassName") is None
        and annotations_of(old).get(CLASS_ANNOTATION, name) == name
    )


def _validate_attributes_class_update(spec: Tree, old: Tree) -> Iterator[FieldError]:
    name = spec.get(_CLASS)
    if name == value_at(old, "spec", _CLASS):
        return
    if value_at(old, "status", "currentVolumeAttributesClassName") is None:
        return
    if not name:
        what = "nil" if name is None else "empty string"
        detail = (
            f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        )
        yield forbidden(_SPEC / _CLASS, detail)


def validate_claim_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """What the controllers report of a claim."""
    if not value_at(new, "spec", "accessModes"):
        yield required(Path("Spec") / "accessModes")
    status = new.get("status") or {}
    for name, text in (status.get("capacity") or {}).items():
        yield from validate_basic_quantity(text, (_STATUS / "capacity")[name])
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        field_path = _STATUS / "allocatedResourceStatuses"
        yield from _validate_claim_resource_name(name, field_path)
        if state not in _RESIZING:
            yield not_supported(field_path, name, _RESIZING)
    for name, text in (status.get("allocatedResources") or {}).items():
        field_path = _STATUS / "allocatedResources"
        errors = list(_validate_claim_resource_name(name, field_path))
        yield from (
            errors
            or validate_basic_quantity(text, field_path[name])
            or validate_resource_quantity("storage", text, field_path[name])
        )


def validate_basic_quantity(text: str, path: Path) -> list[FieldError]:
    """An amount that is not below zero."""
    value = amount(text)
    return [] if value >= 0 else [invalid(path, int(value), "must be a valid resource quantity")]


def _validate_claim_resource_name(name: str, path: Path) -> Iterator[FieldError]:
    messages = list(validate_format(names.qualified_name, name, path))
    yield from messages
    if not messages and is_native(name) and name != "storage":
        yield not_supported(path, name, ("storage",))
