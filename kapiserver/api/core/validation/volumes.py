"""Validation of the volumes of a pod, one function for each volume source."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.service_account_token import TOKEN_PROJECTION
from kapiserver.api.core.validation.common import (
    validate_enum,
    validate_file_mode,
    validate_format,
    validate_path_no_backsteps,
    validate_required,
)
from kapiserver.api.core.validation.persistent_volume_claims import validate_claim_spec
from kapiserver.api.core.validation.projections import (
    validate_downward_api_files,
    validate_key_paths,
    validate_projections,
)
from kapiserver.api.core.validation.resources import amount
from kapiserver.api.core.validation.volume_plugins import (
    SourceRule,
    partitioned_disk_rule,
    required_fields_rule,
    validate_azure_disk,
    validate_cinder,
    validate_fibre_channel,
    validate_flex_volume,
    validate_flocker,
    validate_git_repository,
    validate_inline_csi,
    validate_iscsi,
    validate_quobyte,
    validate_storage_os,
)
from kapiserver.api.errors import FieldError, Path, duplicate, forbidden, invalid, required
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata_validation import validate_annotations
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
    """Validate the volumes of the pod spec at `path`. Return the valid ones by name, and the errors
    of the others. `pod_name` is None for a pod template."""
    valid_volumes: dict[str, Tree] = {}
    errors: list[FieldError] = []
    volumes = spec.get("volumes") or ()
    generated_claims = {
        f"{pod_name}-{candidate.get('name') or ''}"
        for candidate in volumes
        if pod_name and _is_ephemeral(candidate)
    }
    for index, volume in enumerate(volumes):
        volume_path, name = (path / "volumes")[index], volume.get("name") or ""
        volume_errors = list(_validate_volume_source(volume, volume_path, pod_name))
        if not name:
            volume_errors.append(required(volume_path / "name"))
        else:
            volume_errors.extend(validate_format(names.dns1123_label, name, volume_path / "name"))
        if name in valid_volumes:
            volume_errors.append(duplicate(volume_path / "name", name))
        if not volume_errors:
            valid_volumes[name] = volume
        errors.extend(volume_errors)
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
        if claim in generated_claims:
            claim_name_path = volume_path / "persistentVolumeClaim" / "claimName"
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(claim_name_path, claim, detail))
    return valid_volumes, errors


def _is_ephemeral(volume: Tree) -> bool:
    return volume.get("ephemeral") is not None


def _validate_volume_source(volume: Tree, path: Path, pod_name: str | None) -> Iterator[FieldError]:
    if volume.get("projected") == TOKEN_PROJECTION and volume.keys() == {"name", "projected"}:
        return  # most pods have it: this shortcut saves a tenth of their validation
    volume_name = volume.get("name") or ""
    sources = [name for name in SOURCES if volume.get(name) is not None]
    for position, name in enumerate(sources):
        if position:
            name_path = path / _NAMES_OF_EXTRA_SOURCES.get(name, name)
            yield forbidden(name_path, "may not specify more than 1 volume type")
        else:
            yield from SOURCES[name](volume[name], path / _NAMES_IN_PATHS.get(name, name))
            yield from _validate_pod_only_rules(volume, name, path, pod_name)
        if name == "iscsi" and volume[name].get("initiatorName") is not None:
            session = f"{volume_name}:{volume[name].get('targetPortal') or ''}"
            if len(session.encode()) > _PORTAL_MAX:
                yield invalid(path / "name", volume_name, _PORTAL_TOO_LONG)
    if not sources:
        yield required(path, "must specify a volume type")


def _validate_pod_only_rules(
    volume: Tree, source: str, path: Path, pod_name: str | None
) -> Iterator[FieldError]:
    """Validate the rules that hold for volumes of pods, but not of pod templates."""
    volume_name = volume.get("name") or ""
    if source == "image" and pod_name is not None:
        yield from validate_required(volume["image"], "reference", path / "image")
    if source == "ephemeral" and pod_name and volume_name:
        claim = f"{pod_name}-{volume_name}"
        for message in names.dns1123_subdomain(claim):
            yield invalid(path / "name", volume_name, f'PVC name "{claim}": {message}')


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
    export_path = source.get("path") or ""
    if not export_path.startswith("/"):
        yield invalid(path / "path", export_path, "must be an absolute path")


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


SOURCES: dict[str, SourceRule] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": _validate_host_path,
    "gitRepo": validate_git_repository,
    "gcePersistentDisk": partitioned_disk_rule("pdName"),
    "awsElasticBlockStore": partitioned_disk_rule("volumeID"),
    "secret": _validate_secret,
    "nfs": _validate_nfs,
    "iscsi": validate_iscsi,
    "glusterfs": required_fields_rule("endpoints", "path"),
    "flocker": validate_flocker,
    "persistentVolumeClaim": required_fields_rule("claimName"),
    "rbd": required_fields_rule("monitors", "image"),
    "cinder": validate_cinder,
    "cephfs": required_fields_rule("monitors"),
    "quobyte": validate_quobyte,
    "downwardAPI": _validate_downward,
    "fc": validate_fibre_channel,
    "flexVolume": validate_flex_volume,
    "configMap": _validate_config_map,
    "azureFile": required_fields_rule("secretName", "shareName"),
    "vsphereVolume": required_fields_rule("volumePath"),
    "photonPersistentDisk": required_fields_rule("pdID"),
    "portworxVolume": required_fields_rule("volumeID"),
    "azureDisk": validate_azure_disk,
    "storageos": validate_storage_os,
    "projected": _validate_projected,
    "scaleIO": required_fields_rule("gateway", "system", "volumeName"),
    "csi": validate_inline_csi,
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}
_NAMES_OF_EXTRA_SOURCES = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Names of sources in messages about a second source, where kube-apiserver's differ."""
_NAMES_IN_PATHS = {"gcePersistentDisk": "persistentDisk"}
"""Names of sources in the paths of their fields, where kube-apiserver's differ."""
