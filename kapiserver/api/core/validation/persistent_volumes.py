"""Validation of persistent volumes, one function for each volume source."""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.core.v1 import PersistentVolumeSource, VolumeNodeAffinity
from kapiserver.api.core.validation.common import (
    validate_format,
    validate_path_no_backsteps,
    validate_required,
    validate_required_format,
)
from kapiserver.api.core.validation.go_structs import as_go_struct, go_diff
from kapiserver.api.core.validation.persistent_volume_claims import (
    VOLUME_MODES,
    validate_access_modes,
    validate_basic_quantity,
)
from kapiserver.api.core.validation.resources import amount
from kapiserver.api.core.validation.scheduling import validate_node_selector
from kapiserver.api.core.validation.volume_plugins import (
    SourceRule,
    partitioned_disk_rule,
    validate_driver_name,
    validate_fibre_channel,
    validate_flocker,
    validate_persistent_cinder,
    validate_persistent_iscsi,
    validate_persistent_storage_os,
)
from kapiserver.api.core.validation.volumes import SOURCES
from kapiserver.api.errors import (
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kapiserver.api.metadata_validation import IMMUTABLE, immutable
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_CLASS = "volumeAttributesClassName"
MOUNT_ANNOTATION = "volume.beta.kubernetes.io/mount-options"
_WITHOUT_MOUNT_OPTIONS = ("hostPath", "flexVolume", "local", "storageos")
_NOT_INLINE = "may not be specified in the context of inline volumes"


def validate_persistent_volume(obj: Tree) -> Iterator[FieldError]:
    """Validate a new volume."""
    spec = obj.get("spec") or {}
    yield from _validate_modes(spec, _SPEC)
    yield from _validate_capacity(spec.get("capacity") or {}, _SPEC / "capacity")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in _RECLAIM_POLICIES:
        yield not_supported(_SPEC / "persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES)
    yield from _validate_affinity(spec.get("nodeAffinity"), _SPEC / "nodeAffinity")
    yield from _validate_volume_source(spec, _SPEC)
    for name in ("storageClassName", _CLASS):
        if name == _CLASS and spec.get(name) == "":
            yield required(_SPEC / name, "an empty string is disallowed")
        elif spec.get(name):
            yield from validate_format(names.dns1123_subdomain, spec[name], _SPEC / name)
        if name == "storageClassName":
            mode = spec.get("volumeMode")
            if mode is not None and mode not in VOLUME_MODES:
                yield not_supported(_SPEC / "volumeMode", mode, VOLUME_MODES)
    if spec.get(_CLASS) is not None and spec.get("csi") is None:
        yield required(_SPEC / "csi", "has to be specified when using volumeAttributesClassName")
    if MOUNT_ANNOTATION in annotations_of(obj) and any(
        spec.get(name) for name in _WITHOUT_MOUNT_OPTIONS
    ):
        mount_annotation_path = Path("metadata") / "annotations" / MOUNT_ANNOTATION
        yield forbidden(mount_annotation_path, "may not specify mount options for this volume type")


def validate_inline_volume(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the inline volume spec of a volume attachment, which must be a CSI volume."""
    if spec.get("claimRef") is not None:
        yield forbidden(path / "claimRef", _NOT_INLINE)
    if spec.get("capacity"):
        yield forbidden(path / "capacity", _NOT_INLINE)
    if spec.get("csi") is None:
        yield required(path / "csi", "has to be specified in the context of inline volumes")
    yield from _validate_modes(spec, path)
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        detail = "may only be Retain in the context of inline volumes"
        yield forbidden(path / "persistentVolumeReclaimPolicy", detail)
    if spec.get("nodeAffinity") is not None:
        yield forbidden(path / "nodeAffinity", _NOT_INLINE)
    yield from _validate_volume_source(spec, path)
    if spec.get("storageClassName"):
        yield forbidden(path / "storageClassName", _NOT_INLINE)
    if spec.get("volumeMode") not in (None, "Filesystem"):
        detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        yield forbidden(path / "volumeMode", detail)
    if spec.get(_CLASS) is not None:
        yield forbidden(path / _CLASS, _NOT_INLINE)


def _validate_modes(spec: Tree, path: Path) -> Iterator[FieldError]:
    if not spec.get("accessModes"):
        yield required(path / "accessModes")
    yield from validate_access_modes(spec.get("accessModes") or (), path / "accessModes")


def _validate_capacity(capacity: Tree, path: Path) -> Iterator[FieldError]:
    if not capacity:
        yield required(path)
    if "storage" not in capacity or len(capacity) > 1:
        yield not_supported(path, capacity or None, ("storage",))
    for name, text in capacity.items():
        yield from validate_basic_quantity(text, path[name])
        if amount(text) <= 0:
            yield invalid(path[name], text, "must be greater than zero")


def _validate_affinity(affinity: Tree | None, path: Path) -> Iterator[FieldError]:
    if affinity is None:
        return
    if affinity.get("required") is None:
        yield required(path / "required", "must specify required node constraints")
    else:
        yield from validate_node_selector(affinity["required"], path / "required")


def _validate_volume_source(spec: Tree, path: Path) -> Iterator[FieldError]:
    sources = [name for name in _SOURCES if spec.get(name) is not None]
    for position, name in enumerate(sources):
        if position and name != "flexVolume":
            field_name = "cephFS" if name == "cephfs" else name
            yield forbidden(path / field_name, "may not specify more than 1 volume type")
            continue
        field_name = "persistentDisk" if name == "gcePersistentDisk" else name
        yield from _SOURCES[name](spec[name], path / field_name)
        if name == "local" and spec.get("nodeAffinity") is None:
            yield required(path / "nodeAffinity", "Local volume requires node affinity")
    if not sources:
        yield required(path, "must specify a volume type")
    host = spec.get("hostPath")
    recycled = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if host is not None and recycled and posixpath.normpath(host.get("path") or ".") == "/":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden(path / "persistentVolumeReclaimPolicy", detail)


def _validate_glusterfs(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_required(source, "endpoints", path)
    yield from validate_required(source, "path", path)
    namespace = source.get("endpointsNamespace")
    if namespace == "":
        detail = "if the endpointnamespace is set, it must be a valid namespace name"
        yield invalid(path / "endpointsNamespace", "", detail)
    elif namespace is not None:
        yield from validate_format(names.dns1123_label, namespace, path / "endpointsNamespace")


def _validate_azure_file(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_required(source, "secretName", path)
    yield from validate_required(source, "shareName", path)
    if source.get("secretNamespace") == "":
        yield required(path / "secretNamespace")


def _validate_local(source: Tree, path: Path) -> Iterator[FieldError]:
    if not source.get("path"):
        yield required(path / "path")
        return
    yield from validate_path_no_backsteps(source["path"], path / "path")


def _validate_csi(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_driver_name(source.get("driver") or "", path / "driver")
    yield from validate_required(source, "volumeHandle", path)
    for name in _CSI_SECRETS:
        secret = source.get(name)
        if secret is not None:
            for part in ("name", "namespace"):
                check = names.dns1123_subdomain if part == "name" else names.dns1123_label
                yield from validate_required_format(check, secret.get(part), path / name / part)


_CSI_SECRETS = (
    "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef",
    "nodeExpandSecretRef",
)  # fmt: skip


_SOURCES: dict[str, SourceRule] = {
    "hostPath": SOURCES["hostPath"],
    "gcePersistentDisk": partitioned_disk_rule("pdName"),
    "awsElasticBlockStore": partitioned_disk_rule("volumeID"),
    "glusterfs": _validate_glusterfs,
    "flocker": validate_flocker,
    "nfs": SOURCES["nfs"],
    "rbd": SOURCES["rbd"],
    "quobyte": SOURCES["quobyte"],
    "cephfs": SOURCES["cephfs"],
    "iscsi": validate_persistent_iscsi,
    "cinder": validate_persistent_cinder,
    "fc": validate_fibre_channel,
    "flexVolume": SOURCES["flexVolume"],
    "azureFile": _validate_azure_file,
    "vsphereVolume": SOURCES["vsphereVolume"],
    "photonPersistentDisk": SOURCES["photonPersistentDisk"],
    "portworxVolume": SOURCES["portworxVolume"],
    "azureDisk": SOURCES["azureDisk"],
    "scaleIO": SOURCES["scaleIO"],
    "local": _validate_local,
    "storageos": validate_persistent_storage_os,
    "csi": _validate_csi,
}


def validate_persistent_volume_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated volume. Its source is immutable."""
    yield from validate_persistent_volume(new)
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    source, old_source = _volume_source(spec), _volume_source(old_spec)
    secret_field = "controllerExpandSecretRef"
    if old_source.get("csi") and source.get("csi") and old_source["csi"].get(secret_field) is None:
        source["csi"] = {key: value for key, value in source["csi"].items() if key != secret_field}
    if source != old_source:
        source_path = _SPEC / "persistentvolumesource"
        diff = go_diff(old_source, source, PersistentVolumeSource)
        yield forbidden(
            source_path,
            f"spec.persistentvolumesource is immutable after creation\n{diff}",
        )
    yield from immutable(spec.get("volumeMode"), old_spec.get("volumeMode"), Path("volumeMode"))
    if old_spec.get("nodeAffinity") is not None:
        yield from _validate_node_affinity_update(
            spec.get("nodeAffinity"), old_spec["nodeAffinity"]
        )
    if old_spec.get(_CLASS) is not None and spec.get(_CLASS) is None:
        yield forbidden(_SPEC / _CLASS, "update from non-nil value to nil is forbidden")


def _validate_node_affinity_update(new: Tree | None, old: Tree) -> Iterator[FieldError]:
    if new == _with_stable_labels(old, new or {}):
        return
    value = None if new is None else as_go_struct(new, VolumeNodeAffinity)
    detail = f"{IMMUTABLE}, except for updating from beta label to GA"
    yield invalid(Path("nodeAffinity"), value, detail)


def _with_stable_labels(old: Tree, new: Tree) -> Tree:
    """Return a copy of the old affinity with beta label keys replaced where the new affinity uses
    their stable names."""
    result = copy.deepcopy(old)
    terms = (
        value_at(old_requirement, "required", "nodeSelectorTerms") or ()
        for old_requirement in (result, new)
    )
    for old_term, new_term in zip(*terms, strict=False):
        for kind in ("matchExpressions", "matchFields"):
            pairs = zip(old_term.get(kind) or (), new_term.get(kind) or (), strict=False)
            for old_requirement, new_requirement in pairs:
                if new_requirement.get("key") == _STABLE_LABELS.get(
                    old_requirement.get("key") or "", ""
                ):
                    old_requirement["key"] = new_requirement["key"]
    return result


_STABLE_LABELS = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
}


def _volume_source(spec: Tree) -> Tree:
    return {name: spec[name] for name in _SOURCES if spec.get(name) is not None}
