"""Rules for the volumes of a pod, source by source."""

from __future__ import annotations

from collections.abc import Iterator

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

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
    "Socket",
)  # fmt: skip


_PORTAL_MAX = 64
_PORTAL_TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
    "iscsi.initiatorName is specified."
)


def volumes(
    spec: Tree, path: Path, pod_name: str | None = None
) -> tuple[dict[str, Tree], list[FieldError]]:
    """The volumes of a pod's spec at `path` that can be mounted, by name, and what is wrong with
    the others; `pod_name` None: it is the spec of a template."""
    usable: dict[str, Tree] = {}
    errors: list[FieldError] = []
    listed = spec.get("volumes") or ()
    made = {f"{pod_name}-{one.get('name') or ''}" for one in listed if pod_name and _claims(one)}
    for index, volume in enumerate(listed):
        at, name = (path / "volumes")[index], volume.get("name") or ""
        found = list(_source(volume, at, pod_name))
        if not name:
            found.append(required(at / "name"))
        else:
            found.extend(checked(names.dns1123_label, name, at / "name"))
        if name in usable:
            found.append(duplicate(at / "name", name))
        if not found:
            usable[name] = volume
        errors.extend(found)
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
        if claim in made:
            where = at / "persistentVolumeClaim" / "claimName"
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(where, claim, detail))
    return usable, errors


def _claims(volume: Tree) -> bool:
    return volume.get("ephemeral") is not None


def _source(volume: Tree, path: Path, pod_name: str | None) -> Iterator[FieldError]:
    if volume.get("projected") == TOKEN_PROJECTION and volume.keys() == {"name", "projected"}:
        return  # nearly every pod has it: looking at it each time is a tenth of its validation
    own = volume.get("name") or ""
    given = [name for name in SOURCES if volume.get(name) is not None]
    for position, name in enumerate(given):
        if position:
            where = path / _MISNAMED.get(name, name)
            yield forbidden(where, "may not specify more than 1 volume type")
        else:
            yield from SOURCES[name](volume[name], path / _NAMED_OTHERWISE.get(name, name))
            yield from _of_pod(volume, name, path, pod_name)
        if name == "iscsi" and volume[name].get("initiatorName") is not None:
            session = f"{own}:{volume[name].get('targetPortal') or ''}"
            if len(session.encode()) > _PORTAL_MAX:
                yield invalid(path / "name", own, _PORTAL_TOO_LONG)
    if not given:
        yield required(path, "must specify a volume type")


def _of_pod(volume: Tree, source: str, path: Path, pod_name: str | None) -> Iterator[FieldError]:
    """What only a pod's volumes must be, not those of a template."""
    own = volume.get("name") or ""
    if source == "image" and pod_name is not None:
        yield from needed(volume["image"], "reference", path / "image")
    if source == "ephemeral" and pod_name and own:
        claim = f"{pod_name}-{own}"
        for message in names.dns1123_subdomain(claim):
            yield invalid(path / "name", own, f'PVC name "{claim}": {message}')


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
    yield from chosen(source.get("pullPolicy"), _PULL_POLICIES, path / "pullPolicy")


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
_NAMED_OTHERWISE = {"gcePersistentDisk": "persistentDisk"}
"""Fields that messages about what is in them call otherwise."""
