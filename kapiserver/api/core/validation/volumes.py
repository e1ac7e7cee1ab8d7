"""Rules for the volumes of a pod, source by source."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.account_token import TOKEN_PROJECTION
from kapiserver.api.core.validation.claims import validate_claim_spec
from kapiserver.api.core.validation.common import (
    validate_enum,
    validate_file_mode,
    validate_format,
    validate_path_no_backsteps,
    validate_required,
)
from kapiserver.api.core.validation.projections import (
    validate_downward_api_files,
    validate_key_paths,
    validate_projections,
)
from kapiserver.api.core.validation.resources import amount
from kapiserver.api.core.validation.volume_plugins import (
    Rule,
    require_fields,
    validate_azure_disk,
    validate_cinder,
    validate_fibre_channel,
    validate_flex_volume,
    validate_flocker,
    validate_git_repository,
    validate_inline_csi,
    validate_iscsi,
    validate_partitioned_disk,
    validate_quobyte,
    validate_storage_os,
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


def validate_volumes(
    spec: Tree, path: Path, pod_name: str | None = None
) -> tuple[dict[str, Tree], list[FieldError]]:
    """The volumes of a pod's spec at `path` that can be mounted, by name, and what is wrong with
    the others; `pod_name` None: it is the spec of a template."""
    usable: dict[str, Tree] = {}
    errors: list[FieldError] = []
    listed = spec.get("volumes") or ()
    made = {
        f"{pod_name}-{one.get('name') or ''}" for one in listed if pod_name and _is_ephemeral(one)
    }
    for index, volume in enumerate(listed):
        volume_path, name = (path / "volumes")[index], volume.get("name") or ""
        found = list(_validate_volume_source(volume, volume_path, pod_name))
        if not name:
            found.append(required(volume_path / "name"))
        else:
            found.extend(validate_format(names.dns1123_label, name, volume_path / "name"))
        if name in usable:
            found.append(duplicate(volume_path / "name", name))
        if not found:
            usable[name] = volume
        errors.extend(found)
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
        if claim in made:
            claim_name_path = volume_path / "persistentVolumeClaim" / "claimName"
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(claim_name_path, claim, detail))
    return usable, errors


def _is_ephemeral(volume: Tree) -> bool:
    return volume.get("ephemeral") is not None


def _validate_volume_source(volume: Tree, path: Path, pod_name: str | None) -> Iterator[FieldError]:
    if volume.get("projected") == TOKEN_PROJECTION and volume.keys() == {"name", "projected"}:
        return  # nearly every pod has it: looking at it each time is a tenth of its validation
    own = volume.get("name") or ""
    sources = [name for name in SOURCES if volume.get(name) is not None]
    for position, name in enumerate(sources):
        if position:
            name_path = path / _MISNAMED.get(name, name)
            yield forbidden(name_path, "may not specify more than 1 volume type")
        else:
            yield from SOURCES[name](volume[name], path / _NAMED_OTHERWISE.get(name, name))
            yield from _validate_pod_only_rules(volume, name, path, pod_name)
        if name == "iscsi" and volume[name].get("initiatorName") is not None:
            session = f"{own}:{volume[name].get('targetPortal') or ''}"
            if len(session.encode()) > _PORTAL_MAX:
                yield invalid(path / "name", own, _PORTAL_TOO_LONG)
    if not sources:
        yield required(path, "must specify a volume type")


def _validate_pod_only_rules(
    volume: Tree, source: str, path: Path, pod_name: str | None
) -> Iterator[FieldError]:
    """What only a pod's volumes must be, not those of a template."""
    own = volume.get("name") or ""
    if source == "image" and pod_name is not None:
        yield from validate_required(volume["image"], "reference", path / "image")
    if source == "ephemeral" and pod_name and own:
        claim = f"{pod_name}-{own}"
        for message in names.dns1123_subdomain(claim):
            yield invalid(path / "name", own, f'PVC name "{claim}": {message}')


def _validate_empty_dir(source: Tree, path: Path) -> Iterator[FieldError]:
    if source.get("sizeLimit") and amount(source["sizeLimit"]) < 0:
        yield forbidden(path / "sizeLimit", "SizeLimit field must be a valid resource quantity")


def _validate_host_path(source: Tree, path: Path) -> Iterator[FieldError]:
    if not source.get("path"):
        yield required(path / "path")
        return
    yield from validate_path_no_backsteps(source["path"], path / "path")
    yield from validate_enum(source.get("type"), _HOST_PATH_TYPES, path / "type", optional=True)


def _validate_secret(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_required(source, "secretName", path)
    yield from _validate_projected_keys(source, path)


def _validate_config_map(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_required(source, "name", path)
    yield from _validate_projected_keys(source, path)


def _validate_projected_keys(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_file_mode(source, "defaultMode", path)
    yield from validate_key_paths(source, path)


def _validate_nfs(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_required(source, "server", path)
    yield from validate_required(source, "path", path)
    where = source.get("path") or ""
    if not where.startswith("/"):
        yield invalid(path / "path", where, "must be an absolute path")


def _validate_downward(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_file_mode(source, "defaultMode", path)
    yield from validate_downward_api_files(source, path)


def _validate_projected(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_file_mode(source, "defaultMode", path)
    yield from validate_projections(source, path)


def _validate_image(source: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_enum(source.get("pullPolicy"), _PULL_POLICIES, path / "pullPolicy")


def _validate_ephemeral(source: Tree, path: Path) -> Iterator[FieldError]:
    template, template_path = source.get("volumeClaimTemplate"), path / "volumeClaimTemplate"
    if template is None:
        yield required(template_path)
        return
    metadata = template.get("metadata") or {}
    yield from validate_annotations(
        metadata.get("annotations"), template_path / "metadata" / "annotations"
    )
    yield from validate_labels(metadata.get("labels"), template_path / "metadata" / "labels")
    for name in metadata:
        if name not in ("annotations", "labels"):
            yield forbidden(template_path / "metadata" / name, "cannot be set")
    yield from validate_claim_spec(template.get("spec") or {}, template_path / "spec")


SOURCES: dict[str, Rule] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": _validate_host_path,
    "gitRepo": validate_git_repository,
    "gcePersistentDisk": validate_partitioned_disk("pdName"),
    "awsElasticBlockStore": validate_partitioned_disk("volumeID"),
    "secret": _validate_secret,
    "nfs": _validate_nfs,
    "iscsi": validate_iscsi,
    "glusterfs": require_fields("endpoints", "path"),
    "flocker": validate_flocker,
    "persistentVolumeClaim": require_fields("claimName"),
    "rbd": require_fields("monitors", "image"),
    "cinder": validate_cinder,
    "cephfs": require_fields("monitors"),
    "quobyte": validate_quobyte,
    "downwardAPI": _validate_downward,
    "fc": validate_fibre_channel,
    "flexVolume": validate_flex_volume,
    "configMap": _validate_config_map,
    "azureFile": require_fields("secretName", "shareName"),
    "vsphereVolume": require_fields("volumePath"),
    "photonPersistentDisk": require_fields("pdID"),
    "portworxVolume": require_fields("volumeID"),
    "azureDisk": validate_azure_disk,
    "storageos": validate_storage_os,
    "projected": _validate_projected,
    "scaleIO": require_fields("gateway", "system", "volumeName"),
    "csi": validate_inline_csi,
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}
_MISNAMED = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Fields that a message about a second source calls otherwise."""
_NAMED_OTHERWISE = {"gcePersistentDisk": "persistentDisk"}
"""Fields that messages about what is in them call otherwise."""
