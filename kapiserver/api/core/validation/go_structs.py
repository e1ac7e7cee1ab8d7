"""Go's JSON form of API objects, and unified diffs of it, as they appear in error messages.

kube-apiserver prints its internal structs, whose fields have no JSON names: messages show the Go
name of every field, and no field is omitted. Knows no validation rule. Mirrors
k8s.io/apimachinery/pkg/util/diff.
"""

from __future__ import annotations

import json
from typing import Any

from kapiserver.api.core import v1
from kapiserver.api.go_format import HTML_ESCAPES
from kapiserver.api.meta import v1 as meta
from kapiserver.api.types import (
    FlatField,
    Kind,
    ListOf,
    MapOf,
    Message,
    Scalar,
    ScalarType,
    Shape,
    Tree,
    Type,
)

_CONTEXT = 3
_LINES_MAX = 2000
"""The maximum number of lines of either value. The comparison is quadratic at worst, so larger
values are not compared."""
_ZEROS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}
_RBD_NAMES = {
    "monitors": "CephMonitors",
    "image": "RBDImage",
    "pool": "RBDPool",
    "user": "RadosUser",
}
_GO_FIELD_NAMES: dict[type[Type], dict[str, str]] = {
    v1.RBDPersistentVolumeSource: _RBD_NAMES,
    v1.RBDVolumeSource: _RBD_NAMES,
}
_GO_NAMES = {
    "apiGroup": "APIGroup",
    "apiVersion": "APIVersion",
    "awsElasticBlockStore": "AWSElasticBlockStore",
    "cephfs": "CephFS",
    "chapAuthDiscovery": "DiscoveryCHAPAuth",
    "chapAuthSession": "SessionCHAPAuth",
    "csi": "CSI",
    "diskURI": "DataDiskURI",
    "dnsConfig": "DNSConfig",
    "dnsPolicy": "DNSPolicy",
    "endpoints": "EndpointsName",
    "fc": "FC",
    "fsGroup": "FSGroup",
    "fsGroupChangePolicy": "FSGroupChangePolicy",
    "fsType": "FSType",
    "gcePersistentDisk": "GCEPersistentDisk",
    "gid": "GID",
    "gmsaCredentialSpec": "GMSACredentialSpec",
    "gmsaCredentialSpecName": "GMSACredentialSpecName",
    "grpc": "GRPC",
    "httpGet": "HTTPGet",
    "httpHeaders": "HTTPHeaders",
    "ip": "IP",
    "ipFamilies": "IPFamilies",
    "ipFamilyPolicy": "IPFamilyPolicy",
    "ipMode": "IPMode",
    "iqn": "IQN",
    "iscsi": "ISCSI",
    "iscsiInterface": "ISCSIInterface",
    "lastState": "LastTerminationState",
    "nfs": "NFS",
    "os": "OS",
    "osImage": "OSImage",
    "pdName": "PDName",
    "qosClass": "QOSClass",
    "rbd": "RBD",
    "scaleIO": "ScaleIO",
    "seLinuxChangePolicy": "SELinuxChangePolicy",
    "seLinuxOptions": "SELinuxOptions",
    "serviceAccount": "DeprecatedServiceAccount",
    "sslEnabled": "SSLEnabled",
    "storageos": "StorageOS",
    "targetWWNs": "TargetWWNs",
    "tcpSocket": "TCPSocket",
    "tty": "TTY",
    "uid": "UID",
    "wwids": "WWIDs",
}


def go_diff(old: Tree, new: Tree, type_: type[Type]) -> str:
    """Return a unified diff of two trees of one type, or "" if they are too large to compare."""
    import difflib  # imported late: invalid updates are rare

    old_lines, new_lines = _lines(old, type_), _lines(new, type_)
    if max(len(old_lines), len(new_lines)) > _LINES_MAX:
        return ""
    diff_lines = list(difflib.unified_diff(old_lines, new_lines, n=_CONTEXT, lineterm=""))
    return "".join(f"{line}\n" for line in diff_lines[2:])


def as_go_struct(tree: Tree, type_: type[Type]) -> Tree:
    """Return a tree as Go's JSON prints the internal struct."""
    return _go_struct(tree, type_)


def _lines(tree: Tree, type_: type[Type]) -> list[str]:
    text = json.dumps(_go_struct(tree, type_), indent=1, ensure_ascii=False)
    return text.translate(HTML_ESCAPES).split("\n")


def _go_struct(tree: Tree, type_: type[Type]) -> Tree:
    struct = {
        _go_name(flat.field.name, type_): _go_field_value(tree.get(flat.field.name), flat)
        for flat in type_.flat_fields()
        if not (issubclass(type_, Kind) and flat.field.name in ("kind", "apiVersion"))
    }
    metadata = struct.pop("Metadata", None)
    if metadata is not None:  # embedded, so that its fields stand beside those of the struct
        struct = metadata | struct
    return struct


def _go_name(name: str, type_: type[Type]) -> str:
    go_name = _GO_FIELD_NAMES.get(type_, {}).get(name)
    return go_name or _GO_NAMES.get(name) or _capitalize(name)


def _capitalize(name: str) -> str:
    return name[:1].upper() + name[1:]


def _go_field_value(value: Any, flat: FlatField) -> Any:
    if value is None and flat.field.pointer:
        return None
    return _go_value(value, flat.field.shape)


def _go_value(value: Any, shape: Shape) -> Any:
    if isinstance(shape, Scalar):
        return _ZEROS.get(shape.name) if value is None else value
    if isinstance(shape, ListOf):
        return [_go_value(item, shape.item) for item in value] if value else None
    if isinstance(shape, MapOf):
        return {key: _go_value(value[key], shape.value) for key in sorted(value)} if value else None
    assert isinstance(shape, Message)
    if issubclass(shape.type, ScalarType) or shape.type.__module__ == meta.__name__:
        return value
    return _go_struct(value or {}, shape.type)
