"""Validation of volume mounts and volume devices of a container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from kapiserver.api.core.validation.common import (
    validate_local_descending_path,
    validate_path_no_backsteps,
    validate_required,
)
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_found, not_supported
from kapiserver.api.types import Tree

Volumes: TypeAlias = Mapping[str, Tree]
"""The valid volumes of a pod, by name."""
_CLAIM_SOURCES = frozenset(("persistentVolumeClaim", "ephemeral"))


def validate_volume_mounts(container: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """Validate the volume mounts of a container. `path` is the path of the list."""
    devices = container.get("volumeDevices") or ()
    device_names = {device.get("name") or "" for device in devices}
    device_paths = {device.get("devicePath") or "" for device in devices}
    seen_paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        item_path = path[index]
        name, mount_path = mount.get("name") or "", mount.get("mountPath") or ""
        yield from validate_required(mount, "name", item_path)
        if name not in volumes:
            yield not_found(item_path / "name", name)
        yield from validate_required(mount, "mountPath", item_path)
        if mount_path in seen_paths:
            yield invalid(item_path / "mountPath", mount_path, "must be unique")
        seen_paths.add(mount_path)
        if name in device_names:
            yield invalid(item_path / "name", name, "must not already exist in volumeDevices")
        if mount_path in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            yield invalid(item_path / "mountPath", mount_path, detail)
        yield from _validate_sub_path(mount, item_path, path)
        yield from _validate_mount_propagation(mount, container, path)
        yield from _validate_recursive_read_only(mount, path / "recursiveReadOnly")


def _validate_sub_path(mount: Tree, path: Path, mounts: Path) -> Iterator[FieldError]:
    sub_path, sub_path_expr = mount.get("subPath"), mount.get("subPathExpr")
    if sub_path:
        yield from validate_local_descending_path(sub_path, mounts / "subPath")
    if sub_path_expr:
        if sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            yield invalid(path / "subPathExpr", sub_path_expr, detail)
        yield from validate_local_descending_path(sub_path_expr, mounts / "subPathExpr")


def _validate_mount_propagation(mount: Tree, container: Tree, path: Path) -> Iterator[FieldError]:
    mount_propagation = mount.get("mountPropagation")
    if mount_propagation is None:
        return
    modes = ("Bidirectional", "HostToContainer", "None")
    if mount_propagation not in modes:
        yield not_supported(path / "mountPropagation", mount_propagation, modes)
    privileged = (container.get("securityContext") or {}).get("privileged")
    if mount_propagation == "Bidirectional" and not privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(path / "mountPropagation", detail)


def _validate_recursive_read_only(mount: Tree, path: Path) -> Iterator[FieldError]:
    mode = mount.get("recursiveReadOnly")
    if mode in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield forbidden(path, "may only be specified when readOnly is true")
        if mount.get("mountPropagation") not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            yield forbidden(path, detail)
    elif mode not in (None, "Disabled"):
        yield not_supported(path, mode, ("Disabled", "Enabled", "IfPossible"))


def validate_volume_devices(container: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """Validate the raw block devices of a container. `path` is the path of the list."""
    mounts = container.get("volumeMounts") or ()
    mount_names = {mount.get("name") or "" for mount in mounts}
    mount_paths = {mount.get("mountPath") or "" for mount in mounts}
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        item_path = path[index]
        name, device_path = device.get("name") or "", device.get("devicePath") or ""
        volume = volumes.get(name)
        yield from validate_required(device, "name", item_path)
        if name in seen_names:
            yield invalid(item_path / "name", name, "must be unique")
        if volume is None:
            yield not_found(item_path / "name", name)
        elif not _CLAIM_SOURCES.intersection(volume):
            detail = (
                "can only use volume source type of PersistentVolumeClaim or Ephemeral "
                "for block mode"
            )
            yield invalid(item_path / "name", name, detail)
        yield from validate_required(device, "devicePath", item_path)
        if device_path in seen_paths:
            yield invalid(item_path / "devicePath", device_path, "must be unique")
        if any(validate_path_no_backsteps(device_path, item_path)):
            yield invalid(item_path / "devicePath", device_path, "can not contain backsteps ('..')")
        else:
            seen_paths.add(device_path)
        if name in mount_names:
            yield invalid(item_path / "name", name, "must not already exist in volumeMounts")
        if device_path in mount_paths:
            detail = "must not already exist as a path in volumeMounts"
            yield invalid(item_path / "devicePath", device_path, detail)
        if name:
            seen_names.add(name)
