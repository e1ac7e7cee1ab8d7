"""Rules for the volumes of a pod, source by source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.core.account_token import TOKEN_PROJECTION
from kapiserver.api.core.validation.claims import claim_spec
from kapiserver.api.core.validation.common import checked, chosen, mode, needed, no_backsteps
from kapiserver.api.core.validation.projections import downward_files, items, projections
from kapiserver.api.core.validation.resources import amount
from kapiserver.api.core.validation.volume_plugins import (
    Rule,
    azure_disk,
    cinder,
    fibre_channel,
    flex_volume,
    flocker,
    git_repository,
    inline_csi,
    iscsi,
    needing,
    partitioned,
    quobyte,
    storage_os,
)
from kapiserver.api.errors import FieldError, Path, duplicate, forbidden, invalid, required
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata import validate_annotations
from kapiserver.api.types import Tree

_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
    "Socket",
)  # fmt: skip


_PORTAL_MAX = 64
_PORTAL_TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
    "iscsi.initiatorName is specified."
)


def volumes(spec: Tree, path: Path) -> Iterator[FieldError]:
    """All volumes of a pod's spec at `path`."""
    seen: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        at = (path / "volumes")[index]
        name = volume.get("name") or ""
        found = list(_source(volume, at))
        if not name:
            found.append(required(at / "name"))
        else:
            found.extend(checked(names.dns1123_label, name, at / "name"))
        if name in seen:
            found.append(duplicate(at / "name", name))
        if not found:
            seen.add(name)
        yield from found


def usable(spec: Tree, errors: Sequence[FieldError], path: Path) -> dict[str, Tree]:
    """The volumes by name, without those that errors were found in: they cannot be mounted."""
    found: dict[str, Tree] = {}
    for index, volume in enumerate(spec.get("volumes") or ()):
        at = str((path / "volumes")[index])
        if not any(str(error.path).startswith(at) for error in errors):
            found[volume.get("name") or ""] = volume
    return found


def _source(volume: Tree, path: Path) -> Iterator[FieldError]:
    if volume.get("projected") == TOKEN_PROJECTION and volume.keys() == {"name", "projected"}:
        return  # nearly every pod has it: looking at it each time is a tenth of its validation
    given = [name for name in SOURCES if volume.get(name) is not None]
    for position, name in enumerate(given):
        if position:
            where = path / _MISNAMED.get(name, name)
            yield forbidden(where, "may not specify more than 1 volume type")
        else:
            yield from SOURCES[name](volume[name], path / name)
        if name == "iscsi" and volume[name].get("initiatorName") is not None:
            own = volume.get("name") or ""
            if len(f"{own}:{volume[name].get('targetPortal') or ''}") > _PORTAL_MAX:
                yield invalid(path / "name", own, _PORTAL_TOO_LONG)
    if not given:
        yield required(path, "must specify a volume type")


def _empty_dir(source: Tree, path: Path) -> Iterator[FieldError]:
    if source.get("sizeLimit") and amount(source["sizeLimit"]) < 0:
        yield forbidden(path / "sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: Tree, path: Path) -> Iterator[FieldError]:
    if not source.get("path"):
        yield required(path / "path")
        return
    yield from no_backsteps(source["path"], path / "path")
    yield from chosen(source.get("type"), _HOST_PATH_TYPES, path / "type", optional=True)


def _secret(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from needed(source, "secretName", path)
    yield from _files(source, path)


def _config_map(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from needed(source, "name", path)
    yield from _files(source, path)


def _files(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from mode(source, "defaultMode", path)
    yield from items(source, path)


def _nfs(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from needed(source, "server", path)
    yield from needed(source, "path", path)
    where = source.get("path") or ""
    if not where.startswith("/"):
        yield invalid(path / "path", where, "must be an absolute path")


def _downward(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from mode(source, "defaultMode", path)
    yield from downward_files(source, path)


def _projected(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from mode(source, "defaultMode", path)
    yield from projections(source, path)


def _image(source: Tree, path: Path) -> Iterator[FieldError]:
    # That a pod's has a reference is looked at with the pod.
    policies = ("Always", "IfNotPresent", "Never")
    yield from chosen(source.get("pullPolicy"), policies, path / "pullPolicy", optional=True)


def _ephemeral(source: Tree, path: Path) -> Iterator[FieldError]:
    template, at = source.get("volumeClaimTemplate"), path / "volumeClaimTemplate"
    if template is None:
        yield required(at)
        return
    metadata = template.get("metadata") or {}
    yield from validate_annotations(metadata.get("annotations"), at / "metadata" / "annotations")
    yield from validate_labels(metadata.get("labels"), at / "metadata" / "labels")
    for name in metadata:
        if name not in ("annotations", "labels"):
            yield forbidden(at / "metadata" / name, "cannot be set")
    yield from claim_spec(template.get("spec") or {}, at / "spec")


SOURCES: dict[str, Rule] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": git_repository,
    "gcePersistentDisk": partitioned("pdName"),
    "awsElasticBlockStore": partitioned("volumeID"),
    "secret": _secret,
    "nfs": _nfs,
    "iscsi": iscsi,
    "glusterfs": needing("endpoints", "path"),
    "flocker": flocker,
    "persistentVolumeClaim": needing("claimName"),
    "rbd": needing("monitors", "image"),
    "cinder": cinder,
    "cephfs": needing("monitors"),
    "quobyte": quobyte,
    "downwardAPI": _downward,
    "fc": fibre_channel,
    "flexVolume": flex_volume,
    "configMap": _config_map,
    "azureFile": needing("secretName", "shareName"),
    "vsphereVolume": needing("volumePath"),
    "photonPersistentDisk": needing("pdID"),
    "portworxVolume": needing("volumeID"),
    "azureDisk": azure_disk,
    "storageos": storage_os,
    "projected": _projected,
    "scaleIO": needing("gateway", "system", "volumeName"),
    "csi": inline_csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
_MISNAMED = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Fields that a message about a second source calls otherwise."""
