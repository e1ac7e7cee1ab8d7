"""Validation of persistent volume claims and of claim templates."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator

from kapiserver.api import names
from kapiserver.api.accessors import annotations_of, share_field, value_at
from kapiserver.api.core.v1 import PersistentVolumeClaimSpec
from kapiserver.api.core.validation.common import validate_format, validate_required
from kapiserver.api.core.validation.go_structs import go_diff
from kapiserver.api.core.validation.resources import amount, is_native, validate_resource_quantity
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.label_selectors import validate_label_selector
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
VOLUME_MODES = ("Block", "Filesystem")
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_EXCLUSIVE_MODE = "ReadWriteOncePod"
_RESIZE_STATES = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizePending",
    "NodeResizeInProgress", "NodeResizeInfeasible",
)  # fmt: skip
_SPEC = Path("spec")
_STATUS = Path("status")
_CLASS = "volumeAttributesClassName"


def validate_claim(obj: Tree) -> Iterator[FieldError]:
    """Validate a new claim."""
    return validate_claim_spec(obj.get("spec") or {}, _SPEC)


def validate_claim_spec(
    spec: Tree, path: Path, *, old_spec: Tree | None = None
) -> Iterator[FieldError]:
    """Validate the spec of a claim or of a claim template. Selector values and API groups that are
    invalid in `old_spec` already are accepted."""
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(path / "accessModes", "at least 1 access mode is required")
    old_selector = (old_spec or {}).get("selector")
    yield from validate_label_selector(spec.get("selector"), path / "selector", before=old_selector)
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
    """Validate access modes. ReadWriteOncePod excludes all other modes."""
    for mode in modes:
        if mode not in _MODES:
            yield not_supported(path, mode, _MODES)
    if _EXCLUSIVE_MODE in modes and any(
        mode in _MODES and mode != _EXCLUSIVE_MODE for mode in modes
    ):
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _validate_storage_request(requests: Tree, path: Path) -> Iterator[FieldError]:
    size, storage_path = requests.get("storage"), path["storage"]
    if size is None:
        yield required(storage_path)
    elif amount(size) <= 0:
        yield invalid(storage_path, size, "must be greater than zero")


def _has_api_group(spec: Tree) -> bool:
    kinds = ("dataSource", "dataSourceRef")
    return any(value_at(spec, kind, "apiGroup") is not None for kind in kinds)


def _validate_data_sources(spec: Tree, path: Path, *, lax: bool) -> Iterator[FieldError]:
    for kind in ("dataSource", "dataSourceRef"):
        if spec.get(kind) is not None:
            yield from _validate_data_source(spec[kind], path / kind, lax=lax)
    data_source, data_source_ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if data_source is None or data_source_ref is None:
        return
    value: Tree = {}  # kube-apiserver reports a field.Path, a struct without exported fields
    if data_source_ref.get("namespace"):
        yield invalid(path, value, "may not be specified when dataSourceRef.namespace is specified")
    elif any(
        data_source.get(name) != data_source_ref.get(name) for name in ("apiGroup", "kind", "name")
    ):
        yield invalid(path, value, "must match dataSourceRef")


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
    """Validate an updated claim. Its storage request may grow, and the volume attributes class of a
    bound claim may change; other fields of the spec are immutable."""
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
    new_spec, old_copy = copy.deepcopy(spec), dict(old_spec)
    if not old_copy.get("volumeName"):
        share_field(old_copy, new_spec, "volumeName")
    if _moves_class_annotation_to_field(new, old):
        new_spec.pop("storageClassName", None)
    elif _assigns_default_class(new, old):
        share_field(new_spec, old_copy, "storageClassName")
    if value_at(new, "status", "phase") == "Bound":
        requests = value_at(new_spec, "resources", "requests")
        if requests:
            requests["storage"] = value_at(old_spec, "resources", "requests", "storage") or "0"
        share_field(new_spec, old_copy, _CLASS)
    if _without_empty_fields(new_spec) != _without_empty_fields(old_copy):
        detail = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        diff = go_diff(old_copy, new_spec, PersistentVolumeClaimSpec)
        yield forbidden(_SPEC, f"{detail}\n{diff}")


def _without_empty_fields(spec: Tree) -> Tree:
    return {name: value for name, value in spec.items() if value not in (None, [], {})}


def _moves_class_annotation_to_field(new: Tree, old: Tree) -> bool:
    # Old claims name their storage class in an annotation. An update may move it into the spec.
    annotation = annotations_of(old).get(CLASS_ANNOTATION)
    return (
        annotation is not None
        and value_at(old, "spec", "storageClassName") is None
        and value_at(new, "spec", "storageClassName") == annotation
        and annotations_of(new).get(CLASS_ANNOTATION, annotation) == annotation
    )


def _assigns_default_class(new: Tree, old: Tree) -> bool:
    # A claim without a storage class gets one as soon as the cluster has a default class.
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
        new_value = "nil" if name is None else "empty string"
        detail = (
            f"update to {new_value} is forbidden when "
            "status.currentVolumeAttributesClassName is not nil"
        )
        yield forbidden(_SPEC / _CLASS, detail)


def validate_claim_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status of a claim."""
    if not value_at(new, "spec", "accessModes"):
        yield required(Path("Spec") / "accessModes")
    status = new.get("status") or {}
    for name, text in (status.get("capacity") or {}).items():
        yield from validate_basic_quantity(text, (_STATUS / "capacity")[name])
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        field_path = _STATUS / "allocatedResourceStatuses"
        yield from _validate_claim_resource_name(name, field_path)
        if state not in _RESIZE_STATES:
            yield not_supported(field_path, name, _RESIZE_STATES)
    for name, text in (status.get("allocatedResources") or {}).items():
        field_path = _STATUS / "allocatedResources"
        errors = list(_validate_claim_resource_name(name, field_path))
        yield from (
            errors
            or validate_basic_quantity(text, field_path[name])
            or validate_resource_quantity("storage", text, field_path[name])
        )


def validate_basic_quantity(text: str, path: Path) -> list[FieldError]:
    """Return an error if a quantity is negative."""
    value = parse(text or "0")
    if value.mantissa >= 0:
        return []
    return [invalid(path, value.scaled(0), "must be a valid resource quantity")]


def _validate_claim_resource_name(name: str, path: Path) -> Iterator[FieldError]:
    messages = list(validate_format(names.qualified_name, name, path))
    yield from messages
    if not messages and is_native(name) and name != "storage":
        yield not_supported(path, name, ("storage",))
