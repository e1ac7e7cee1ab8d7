"""Go's JSON form of API objects, and unified diffs of it, as they appear in error messages.

kube-apiserver prints its internal structs, whose fields have no JSON names: messages show the Go
name of every field, and no field is omitted. Some fields stand at another place than in v1. Knows
no validation rule. Mirrors k8s.io/apimachinery/pkg/util/diff.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from kapiserver.api.core import v1
from kapiserver.api.go_format import HTML_ESCAPES
from kapiserver.api.meta import v1 as meta
from kapiserver.api.types import (
    FlatField,
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
_GO_FIELD_NAMES: dict[type[Type], dict[str, str]] = {
    v1.RBDVolumeSource: {
        "monitors": "CephMonitors",
        "image": "RBDImage",
        "pool": "RBDPool",
        "user": "RadosUser",
    },
}
_GO_FIELD_ORDER: dict[type[Type], dict[str, str]] = {
    v1.PodSecurityContext: {"fsGroupChangePolicy": "fsGroup"},
    v1.PodSpec: {
        "setHostnameAsFQDN": "subdomain",
        "preemptionPolicy": "priority",
        "overhead": "runtimeClassName",
    },
    v1.Volume: {"quobyte": "rbd"},
}
"""Fields of the internal struct that stand elsewhere than in v1: the field, and its predecessor."""
_HOST_NAMESPACE_FIELDS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
"""Fields of a v1 PodSpec that are the first fields of the internal PodSecurityContext."""
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
    "fsType": "FSType",
    "gcePersistentDisk": "GCEPersistentDisk",
    "gmsaCredentialSpec": "GMSACredentialSpec",
    "gmsaCredentialSpecName": "GMSACredentialSpecName",
    "grpc": "GRPC",
    "httpGet": "HTTPGet",
    "httpHeaders": "HTTPHeaders",
    "ip": "IP",
    "iqn": "IQN",
    "iscsi": "ISCSI",
    "iscsiInterface": "ISCSIInterface",
    "nfs": "NFS",
    "os": "OS",
    "pdName": "PDName",
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
    key: Any = type_
    struct = {
        _go_name(flat.field.name, type_): _go_field_value(tree.get(flat.field.name), flat)
        for flat in _fields(key)
    }
    metadata = struct.pop("Metadata", None)
    if metadata is not None:  # embedded, so that its fields stand beside those of the struct
        struct = metadata | struct
    if type_ is v1.PodSpec:
        host = {name: struct.pop(name) for name in map(_capitalize, _HOST_NAMESPACE_FIELDS)}
        if struct["SecurityContext"] is not None:
            struct["SecurityContext"] = {**host, **struct["SecurityContext"]}
    return struct


@functools.cache
def _fields(type_: type[Type]) -> tuple[FlatField, ...]:
    fields = {flat.field.name: flat for flat in type_.flat_fields()}
    order = list(fields)
    for name, predecessor in _GO_FIELD_ORDER.get(type_, {}).items():
        order.remove(name)
        order.insert(order.index(predecessor) + 1, name)
    return tuple(fields[name] for name in order)


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
