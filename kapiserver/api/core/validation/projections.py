"""Validation of the sources of projected volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from kapiserver.api.core.service_account_token import validate_token_expiration
from kapiserver.api.core.v1 import ClusterTrustBundleProjection
from kapiserver.api.core.validation.common import (
    validate_file_mode,
    validate_local_non_reserved_path,
    validate_required,
)
from kapiserver.api.core.validation.environment import (
    VOLUME_FIELDS,
    validate_field_selector,
    validate_volume_resource_selector,
)
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.core.validation.signers import (
    trust_bundle_name_problems,
    validate_signer_name,
    validate_user_annotations,
)
from kapiserver.api.errors import (
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported_in_order,
    required,
)
from kapiserver.api.label_selectors import validate_label_selector
from kapiserver.api.types import Tree

_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_HOUR = 3600
_EXPIRES_MAX = 91 * 24 * _HOUR
_KUBERNETES_EXPIRES_MAX = 24 * _HOUR
_CERTIFICATE_PATHS = ("credentialBundlePath", "keyPath", "certificateChainPath")


class _Volume(Struct, frozen=True):
    """A projected volume: its path, and the files that its sources write."""

    path: Path
    files: set[str]

    def write(self, file: str, value: str) -> Iterator[FieldError]:
        """Record a file. Yield an error if another source writes it, too."""
        if file in self.files:
            yield invalid(self.path, value, "conflicting duplicate paths")
        self.files.add(file)


def validate_projections(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the sources of a projected volume."""
    volume = _Volume(path, set())
    for index, projection in enumerate(source.get("sources") or ()):
        item_path = (path / "sources")[index]
        projections = [name for name in _PROJECTIONS if projection.get(name) is not None]
        for name in projections:
            yield from _PROJECTIONS[name](projection[name], item_path / name, volume)
        if len(projections) > 1:
            yield forbidden(item_path, "may not specify more than 1 volume type per source")


def validate_key_paths(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the items of a secret or config map volume: keys, and the files they are written
    to."""
    for index, item in enumerate(source.get("items") or ()):
        yield from _validate_key_path(item, (path / "items")[index])


def _validate_key_path(item: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_required(item, "key", path)
    yield from validate_required(item, "path", path)
    yield from validate_local_non_reserved_path(item.get("path") or "", path / "path")
    yield from validate_file_mode(item, "mode", path)


def validate_downward_api_files(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the items of a downward API volume: fields of the pod, and the files they are
    written to."""
    for item in source.get("items") or ():
        yield from _validate_downward_api_file(item, path)


def _validate_downward_api_file(item: Tree, path: Path) -> Iterator[FieldError]:
    # kube-apiserver reports all errors at the path of the source, without an index.
    yield from validate_required(item, "path", path)
    yield from validate_local_non_reserved_path(item.get("path") or "", path / "path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from validate_field_selector(field, VOLUME_FIELDS, path / "fieldRef")
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(path, "resource", detail)
    elif resource is not None:
        yield from validate_volume_resource_selector(resource, path / "resourceFieldRef")
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from validate_file_mode(item, "mode", path)


def _validate_object_projection(
    projection: Tree, path: Path, volume: _Volume
) -> Iterator[FieldError]:
    yield from validate_required(projection, "name", path)
    for index, item in enumerate(projection.get("items") or ()):
        yield from _validate_key_path(item, (path / "items")[index])
        if item.get("path"):
            yield from volume.write(item["path"], projection.get("name") or "")


def _validate_downward_api_projection(
    projection: Tree, path: Path, volume: _Volume
) -> Iterator[FieldError]:
    for item in projection.get("items") or ():
        yield from _validate_downward_api_file(item, path)
        if item.get("path"):
            yield from volume.write(item["path"], item["path"])


def _validate_token_projection(
    projection: Tree, path: Path, volume: _Volume
) -> Iterator[FieldError]:
    yield from validate_token_expiration(
        projection.get("expirationSeconds") or 0, path / "expirationSeconds"
    )
    if not projection.get("path"):
        yield required(volume.path / "path")
    else:
        yield from validate_local_non_reserved_path(projection["path"], volume.path / "path")


def _validate_trust_bundle_projection(
    projection: Tree, path: Path, volume: _Volume
) -> Iterator[FieldError]:
    name, signer = projection.get("name"), projection.get("signerName")
    selector = projection.get("labelSelector")
    if name is not None and signer is not None:
        value = as_go_struct(projection, ClusterTrustBundleProjection)
        yield invalid(path, value, "only one of name and signerName may be used")
    elif name is not None:
        if not name:
            yield required(path / "name", "must be a valid object name")
        for message in trust_bundle_name_problems(name, _signer_of_bundle(name)):
            yield invalid(path / "name", name, f"not a valid clustertrustbundlename: {message}")
        if selector is not None:
            detail = "labelSelector must be unset if name is specified"
            yield invalid(path / "labelSelector", selector, detail)
    elif signer is not None:
        if not signer:
            yield required(path / "signerName", "must be a valid signer name")
        yield from validate_signer_name(signer, path / "signerName")
        yield from validate_label_selector(selector, path / "labelSelector")
    else:
        yield required(path, "either name or signerName must be specified")
    file = projection.get("path") or ""
    yield from validate_required(projection, "path", path)
    yield from validate_local_non_reserved_path(file, path / "path")
    yield from volume.write(file, file)


def _signer_of_bundle(name: str) -> str:
    domain, colon, path_and_name = name.partition(":")
    return f"{domain}/{path_and_name.partition(':')[0]}" if colon and ":" in path_and_name else ""


def _validate_pod_certificate_projection(
    projection: Tree, path: Path, volume: _Volume
) -> Iterator[FieldError]:
    signer, key_type = projection.get("signerName") or "", projection.get("keyType") or ""
    yield from validate_signer_name(signer, path / "signerName")
    if key_type not in _KEY_TYPES:
        yield not_supported_in_order(path / "keyType", key_type, _KEY_TYPES)
    seconds = projection.get("maxExpirationSeconds")
    if seconds is not None:
        maximum = _KUBERNETES_EXPIRES_MAX if signer.startswith("kubernetes.io/") else _EXPIRES_MAX
        prefix = "if provided, maxExpirationSeconds must be"
        if seconds < _HOUR:
            yield invalid(path / "maxExpirationSeconds", seconds, f"{prefix} >= {_HOUR}")
        if seconds > maximum:
            yield invalid(path / "maxExpirationSeconds", seconds, f"{prefix} <= {maximum}")
    for name in _CERTIFICATE_PATHS:
        if projection.get(name):
            yield from validate_local_non_reserved_path(projection[name], path / name)
            yield from volume.write(projection[name], projection[name])
    if not any(projection.get(name) for name in _CERTIFICATE_PATHS):
        detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        yield required(path, detail)
    annotations = projection.get("userAnnotations")
    if annotations:
        yield from validate_user_annotations(annotations, path / "userAnnotations")


_PROJECTIONS: dict[str, Callable[[Tree, Path, _Volume], Iterator[FieldError]]] = {
    "secret": _validate_object_projection,
    "configMap": _validate_object_projection,
    "downwardAPI": _validate_downward_api_projection,
    "serviceAccountToken": _validate_token_projection,
    "clusterTrustBundle": _validate_trust_bundle_projection,
    "podCertificate": _validate_pod_certificate_projection,
}
