"""Validation of volume sources of storage plugins, most of which CSI drivers have replaced.

Pods and persistent volumes use most of them in the same form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import (
    validate_enum,
    validate_format,
    validate_local_descending_path,
    validate_range,
    validate_required,
    validate_required_format,
)
from kapiserver.api.errors import FieldError, Path, invalid, not_supported, required, too_long
from kapiserver.api.types import Tree

SourceRule = Callable[[Tree, Path], Iterator[FieldError]]
"""Validates a volume source at its path."""

DRIVER_MAX = 63
_PARTITION = names.inclusive_range(1, 255)  # the words of kube-apiserver, although 0 is valid, too
_TENANT_MAX = 64
_INITIATORS = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)\Z"),
    "eui": re.compile(r"\Aeui.[A-Za-z0-9]{16}\Z"),
    "naa": re.compile(r"\Anaa.[A-Za-z0-9]{32}\Z"),
}
_INVALID_FORMAT = "must be valid format"
_UNKNOWN_FORMAT = f"{_INVALID_FORMAT} starting with iqn, eui, or naa"
_NOT_HOST_AND_PORT = "must be a host:port pair or multiple pairs separated by commas"


def required_fields_rule(*fields: str) -> SourceRule:
    """Return the rule that these fields must not be empty."""

    def rule(source: Tree, path: Path) -> Iterator[FieldError]:
        for name in fields:
            yield from validate_required(source, name, path)

    return rule


def partitioned_disk_rule(name: str) -> SourceRule:
    """Return the rule for a disk whose name is in the field `name`, and for its partition."""

    def rule(source: Tree, path: Path) -> Iterator[FieldError]:
        yield from validate_required(source, name, path)
        partition = source.get("partition") or 0
        if not 0 <= partition <= 255:
            yield invalid(path / "partition", partition, _PARTITION)

    return rule


def validate_git_repository(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a git repository that is cloned into the volume."""
    yield from validate_required(source, "repository", path)
    yield from validate_local_descending_path(source.get("directory") or "", path / "directory")


def validate_iscsi(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate an iSCSI disk of a pod."""
    return _validate_iscsi(source, path, _UNKNOWN_FORMAT)


def validate_persistent_iscsi(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate an iSCSI disk of a persistent volume."""
    yield from _validate_iscsi(source, path, _INVALID_FORMAT)
    if source.get("secretRef") is not None:
        yield from validate_required(source["secretRef"], "name", path / "secretRef")


def _validate_iscsi(source: Tree, path: Path, unknown_format: str) -> Iterator[FieldError]:
    yield from validate_required(source, "targetPortal", path)
    if not source.get("iqn"):
        yield required(path / "iqn")
    else:
        yield from _validate_initiator(source["iqn"], path / "iqn", unknown_format)
    yield from validate_range(source.get("lun") or 0, 0, 255, path / "lun")
    uses_chap = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if uses_chap and source.get("secretRef") is None:
        yield required(path / "secretRef")
    if source.get("initiatorName") is not None:
        yield from _validate_initiator(
            source["initiatorName"], path / "initiatorname", unknown_format
        )


def _validate_initiator(name: str, path: Path, unknown_format: str) -> Iterator[FieldError]:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        yield invalid(path, name, unknown_format)
    elif not pattern.search(name):
        yield invalid(path, name, _INVALID_FORMAT)


def validate_flocker(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a Flocker dataset, which has a name or a UUID."""
    name, uuid = source.get("datasetName") or "", source.get("datasetUUID") or ""
    if not name and not uuid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        yield invalid(path, "resource", detail)
    if "/" in name:
        yield invalid(path / "datasetName", name, "must not contain '/'")


def validate_cinder(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a Cinder disk of a pod."""
    yield from validate_required(source, "volumeID", path)
    if source.get("secretRef") is not None:
        yield from validate_required(source["secretRef"], "name", path / "secretRef")


def validate_persistent_cinder(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a Cinder disk of a persistent volume. Its secret names a namespace."""
    yield from validate_cinder(source, path)
    if source.get("secretRef") is not None:
        yield from validate_required(source["secretRef"], "namespace", path / "secretRef")


def validate_quobyte(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a Quobyte volume."""
    registry = source.get("registry") or ""
    if not registry:
        yield required(path / "registry", _NOT_HOST_AND_PORT)
    elif len((source.get("tenant") or "").encode()) > _TENANT_MAX:
        detail = f"must be a UUID and may not exceed a length of {_TENANT_MAX} characters"
        yield required(path / "tenant", detail)
    else:
        for pair in registry.split(","):
            if not _is_host_and_port(pair):
                yield invalid(path / "registry", registry, _NOT_HOST_AND_PORT)
    yield from validate_required(source, "volume", path)


def _is_host_and_port(text: str) -> bool:
    host, colon, _ = text.rpartition(":")
    if host.startswith("["):
        return host.endswith("]") and host.count("[") == host.count("]") == 1
    return bool(colon) and not set(host) & set(":[]")


def validate_fibre_channel(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a Fibre Channel disk."""
    targets, ids = source.get("targetWWNs") or [], source.get("wwids") or []
    if not targets and not ids:
        detail = "must specify either targetWWNs or wwids, but not both"
        yield required(path / "targetWWNs", detail)
    if targets and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        yield invalid(path / "targetWWNs", targets, detail)
    if targets:
        lun = source.get("lun")
        if lun is None:
            yield required(path / "lun", "lun is required if targetWWNs is specified")
        else:
            yield from validate_range(lun, 0, 255, path / "lun")


def validate_flex_volume(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a volume of a FlexVolume driver."""
    yield from validate_required(source, "driver", path)
    for key in source.get("options") or ():
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid((path / "options")[key], key, detail)


def validate_azure_disk(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate an Azure disk. Its kind determines the form of its URI."""
    yield from validate_required(source, "diskName", path)
    yield from validate_required(source, "diskURI", path)
    caching, kind = source.get("cachingMode"), source.get("kind")
    modes = ("None", "ReadOnly", "ReadWrite")
    yield from validate_enum(caching, modes, path / "cachingMode", optional=True)
    kinds = ("Dedicated", "Managed", "Shared")
    yield from validate_enum(kind, kinds, path / "kind", optional=True)
    uri = source.get("diskURI") or ""
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        uri_form = (
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/"
            "disks/{disk-id}"
        )
        yield not_supported(path / "diskURI", uri, [uri_form])
    if kind is not None and kind != "Managed" and not uri.startswith("https://"):
        uri_form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        yield not_supported(path / "diskURI", uri, [uri_form])


def validate_storage_os(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a StorageOS volume of a pod."""
    yield from validate_required_format(
        names.dns1123_label, source.get("volumeName"), path / "volumeName"
    )
    if source.get("volumeNamespace"):
        namespace = source["volumeNamespace"]
        yield from validate_format(names.dns1123_label, namespace, path / "volumeNamespace")
    if source.get("secretRef") is not None:
        yield from validate_required(source["secretRef"], "name", path / "secretRef")


def validate_persistent_storage_os(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a StorageOS volume of a persistent volume. Its secret names a namespace."""
    yield from validate_storage_os(source, path)
    if source.get("secretRef") is not None:
        yield from validate_required(source["secretRef"], "namespace", path / "secretRef")


def validate_driver_name(name: str, path: Path) -> Iterator[FieldError]:
    """Validate the name of a CSI driver."""
    if not name:
        yield required(path)
        return
    if len(name) > DRIVER_MAX:
        yield too_long(path, DRIVER_MAX)
    for message in names.dns1123_subdomain(name.lower()):
        yield invalid(path, name, message)


def validate_inline_csi(source: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a CSI volume that is created for one pod."""
    yield from validate_driver_name(source.get("driver") or "", path / "driver")
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return
    if not secret.get("name"):
        yield required(path / "nodePublishSecretRef" / "name")
    else:
        yield from validate_format(names.dns1123_subdomain, secret["name"], path / "name")
