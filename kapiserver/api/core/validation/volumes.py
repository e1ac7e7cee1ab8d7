"""Rules for the volumes of a pod, source by source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.core.account_token import TOKEN_PROJECTION
from kapiserver.api.core.validation.claims import claim_spec
from kapiserver.api.core.validation.common import (
    checked,
    chosen,
    mode,
    needed,
    no_backsteps,
    not_reserved,
    one_of,
)
from kapiserver.api.core.validation.environment import (
    VOLUME_FIELDS,
    field_selector,
    volume_resource_selector,
)
from kapiserver.api.core.validation.resources import amount
from kapiserver.api.errors import FieldError, Path, duplicate, forbidden, invalid, required
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata import validate_annotations
from kapiserver.api.types import Tree

_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
    "Socket",
)  # fmt: skip


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
    if given:
        yield from SOURCES[given[0]](volume[given[0]], path / given[0])
    yield from one_of(volume, SOURCES, path, what="volume type")


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
    yield from _items(source, path)


def _items(source: Tree, path: Path) -> Iterator[FieldError]:
    for index, item in enumerate(source.get("items") or ()):
        at = (path / "items")[index]
        yield from needed(item, "key", at)
        yield from needed(item, "path", at)
        yield from not_reserved(item.get("path") or "", at / "path")
        yield from mode(item, "mode", at)


def _nfs(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from needed(source, "server", path)
    yield from needed(source, "path", path)
    where = source.get("path") or ""
    if not where.startswith("/"):
        yield invalid(path / "path", where, "must be an absolute path")


def _downward(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from mode(source, "defaultMode", path)
    yield from _downward_files(source, path)


def _downward_files(source: Tree, path: Path) -> Iterator[FieldError]:
    for item in source.get("items") or ():
        yield from needed(item, "path", path)
        yield from not_reserved(item.get("path") or "", path / "path")
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            yield from field_selector(field, VOLUME_FIELDS, path / "fieldRef")
            if resource is not None:
                detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
                yield invalid(path, "resource", detail)
        elif resource is not None:
            yield from volume_resource_selector(resource, path / "resourceFieldRef")
        else:
            yield required(path, "one of fieldRef and resourceFieldRef is required")
        yield from mode(item, "mode", path)


def _projected(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from mode(source, "defaultMode", path)
    seen: set[str] = set()
    for index, one in enumerate(source.get("sources") or ()):
        at = (path / "sources")[index]
        given = [name for name in _PROJECTIONS if one.get(name) is not None]
        for position, name in enumerate(given):
            if position:
                detail = "may not specify more than 1 volume type per source"
                yield forbidden(at / name, detail)
                continue
            yield from _PROJECTIONS[name](one[name], at / name)
            for where in _paths(one[name]):
                if where in seen:
                    yield invalid(path, where, "conflicting duplicate paths")
                seen.add(where)
        if not given:
            yield required(at, "must specify a volume type")


def _paths(projection: Tree) -> list[str]:
    items = [item.get("path") or "" for item in projection.get("items") or ()]
    return items or ([projection["path"]] if projection.get("path") else [])


def _projected_object(projection: Tree, path: Path) -> Iterator[FieldError]:
    yield from needed(projection, "name", path)
    yield from _items(projection, path)


def _token(projection: Tree, path: Path) -> Iterator[FieldError]:
    seconds = projection.get("expirationSeconds") or 0
    if seconds < 10 * 60:
        detail = "may not specify a duration less than 10 minutes"
        yield invalid(path / "expirationSeconds", seconds, detail)
    if seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield invalid(path / "expirationSeconds", seconds, detail)
    yield from needed(projection, "path", path)
    yield from not_reserved(projection.get("path") or "", path / "path")


def _bundle(projection: Tree, path: Path) -> Iterator[FieldError]:
    name, signer = projection.get("name"), projection.get("signerName")
    if name and signer:
        yield invalid(path, projection, "only one of name and signerName may be used")
    elif not name and not signer:
        yield required(path, "either name or signerName must be specified")
    yield from needed(projection, "path", path)
    yield from not_reserved(projection.get("path") or "", path / "path")


def anything(_: Tree, __: Path) -> Iterator[FieldError]:
    """No rule."""
    return iter(())


Rule = Callable[[Tree, Path], Iterator[FieldError]]
"""Checks one volume source at its path."""

_PROJECTIONS: dict[str, Rule] = {
    "secret": _projected_object,
    "configMap": _projected_object,
    "downwardAPI": _downward_files,
    "serviceAccountToken": _token,
    "clusterTrustBundle": _bundle,
    "podCertificate": anything,
}


def needing(*fields: str) -> Rule:
    """The rule that these fields must not be empty."""

    def rule(source: Tree, path: Path) -> Iterator[FieldError]:
        for name in fields:
            yield from needed(source, name, path)

    return rule


def _image(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from needed(source, "reference", path)
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
    yield from claim_spec(template.get("spec") or {}, at / "spec")


SOURCES: dict[str, Rule] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": needing("repository"),
    "gcePersistentDisk": needing("pdName"),
    "awsElasticBlockStore": needing("volumeID"),
    "secret": _secret,
    "nfs": _nfs,
    "iscsi": needing("targetPortal", "iqn"),
    "glusterfs": needing("endpoints", "path"),
    "flocker": anything,
    "persistentVolumeClaim": needing("claimName"),
    "rbd": needing("monitors", "image"),
    "cinder": needing("volumeID"),
    "cephfs": needing("monitors"),
    "quobyte": needing("registry", "volume"),
    "downwardAPI": _downward,
    "fc": anything,
    "flexVolume": needing("driver"),
    "configMap": _config_map,
    "azureFile": needing("secretName", "shareName"),
    "vsphereVolume": needing("volumePath"),
    "photonPersistentDisk": needing("pdID"),
    "portworxVolume": needing("volumeID"),
    "azureDisk": needing("diskName", "diskURI"),
    "storageos": anything,
    "projected": _projected,
    "scaleIO": needing("gateway", "system", "volumeName"),
    "csi": needing("driver"),
    "ephemeral": _ephemeral,
    "image": _image,
}
