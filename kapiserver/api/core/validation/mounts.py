"""Rules for where a container sees its volumes: as files, or as raw devices."""

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
"""The volumes of a pod that can be mounted, by name."""
_CLAIMED = frozenset(("persistentVolumeClaim", "ephemeral"))


def validate_volume_mounts(container: Tree, volumes: Volumes, path: Path) -> Iterator[FieldError]:
    """Volumes that are mounted as files; `path` is that of the list."""
    raw = container.get("volumeDevices") or ()
    device_names = {device.get("name") or "" for device in raw}
    device_paths = {device.get("devicePath") or "" for device in raw}
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        mount_path = path[index]
        name, where = mount.get("name") or "", mount.get("mountPath") or ""
        yield from validate_required(mount, "name", mount_path)
        if name not in volumes:
            yield not_found(mount_path / "name", name)
        yield from validate_required(mount, "mountPath", mount_path)
        if where in seen:
            yield invalid(mount_path / "mountPath", where, "must be unique")
        seen.add(where)
        if name in device_names:
            yield invalid(mount_path / "name", name, "must not already exist in volumeDevices")
        if where in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            yield invalid(mount_path / "mountPath", where, detail)
        yield from _validate_sub_path(mount, mount_path, path)
        yield from _validate_mount_propagation(mount, container, path)
        yield from _validate_recursive_read_only(mount, path / "recursiveReadOnly")


def _validate_sub_path(mount: Tree, path: Path, mounts: Path) -> Iterator[FieldError]:
    plain, expression = mount.get("subPath"), mount.get("subPathExpr")
    if plain:
        yield from validate_local_descending_path(plain, mounts / "subPath")
    if expression:
        if plain:
            detail = "subPathExpr and subPath are mutually exclusive"
            yield invalid(path / "subPathExpr", expression, detail)
        yield from validate_local_descending_path(expression, mounts / "subPathExpr")


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
    """Volumes that are seen as raw devices; `path` is that of the list."""
    mounted = container.get("volumeMounts") or ()
    mount_names = {mount.get("name") or "" for mount in mounted}
    mount_paths = {mount.get("mountPath") or "" for mount in mounted}
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        device_path = path[index]
        name, where = device.get("name") or "", device.get("devicePath") or ""
        volume = volumes.get(name)
        yield from validate_required(device, "name", device_path)
        if name in seen_names:
            yield invalid(device_path / "name", name, "must be unique")
        if volume is None:
            yield not_found(device_path / "name", name)
        elif not _CLAIMED.intersection(volume):
            detail = (
                "can only use volume source type of PersistentVolumeClaim or Ephemeral "
                "for block mode"
            )
            yield invalid(device_path / "name", name, detail)
        yield from validate_required(device, "devicePath", device_path)
        if where in seen_paths:
            yield invalid(device_path / "devicePath", where, "must be unique")
        if any(validate_path_no_backsteps(where, device_path)):
            yield invalid(device_path / "devicePath", where, "can not contain backsteps ('..')")
        else:
            seen_paths.add(where)
        if name in mount_names:
            yield invalid(device_path / "name", name, "must not already exist in volumeMounts")
        if where in mount_paths:
            detail = "must not already exist as a path in volumeMounts"
            yield invalid(device_path / "devicePath", where, detail)
        if name:
            seen_names.add(name)
