"""How messages show what an update changed: a unified diff of two values as Go's JSON prints them.

The internal structs of kube-apiserver have no JSON names, so fields show by their Go names and
none is left out. Knows no rule. Mirrors k8s.io/apimachinery/pkg/util/diff.
"""

from __future__ import annotations

import json
from typing import Any

from kapiserver.api.meta import v1 as meta
from kapiserver.api.types import FlatField, Leaf, ListOf, MapOf, Message, Scalar, Shape, Tree, Type

_CONTEXT = 3
_LINES_MAX = 2000
"""Of either value; comparing takes the square of it at worst, so larger ones are not shown."""
_ZEROS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}
_GO_NAMES = {
    "apiGroup": "APIGroup",
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
    "sslEnabled": "SSLEnabled",
    "storageos": "StorageOS",
    "targetWWNs": "TargetWWNs",
    "tcpSocket": "TCPSocket",
    "tty": "TTY",
    "wwids": "WWIDs",
}


def difference(old: Tree, new: Tree, type_: type[Type]) -> str:
    """The lines by which two trees of one type differ, with a few around them."""
    import difflib  # updates that break a rule are rare

    before, after = _lines(old, type_), _lines(new, type_)
    if max(len(before), len(after)) > _LINES_MAX:
        return ""
    lines = list(difflib.unified_diff(before, after, n=_CONTEXT, lineterm=""))
    return "".join(f"{line}\n" for line in lines[2:])


def as_go(tree: Tree, type_: type[Type]) -> Tree:
    """A tree as Go's JSON prints the internal struct that it stands for."""
    return _struct(tree, type_)


def _lines(tree: Tree, type_: type[Type]) -> list[str]:
    return json.dumps(_struct(tree, type_), indent=2, ensure_ascii=False).split("\n")


def _struct(tree: Tree, type_: type[Type]) -> Tree:
    return {_go_name(flat): _value(tree.get(flat.field.name), flat) for flat in _fields(type_)}


def _fields(type_: type[Type]) -> tuple[FlatField, ...]:
    return type_.flat_fields()


def _go_name(flat: FlatField) -> str:
    name = flat.field.name
    return _GO_NAMES.get(name) or name[:1].upper() + name[1:]


def _value(value: Any, flat: FlatField) -> Any:
    if value is None and flat.field.pointer:
        return None
    return _shown(value, flat.field.shape)


def _shown(value: Any, shape: Shape) -> Any:
    if isinstance(shape, Scalar):
        return _ZEROS.get(shape.name) if value is None else value
    if isinstance(shape, ListOf):
        return [_shown(item, shape.item) for item in value] if value else None
    if isinstance(shape, MapOf):
        return {key: _shown(value[key], shape.value) for key in sorted(value)} if value else None
    assert isinstance(shape, Message)
    if issubclass(shape.type, Leaf) or shape.type.__module__ == meta.__name__:
        return value
    return _struct(value or {}, shape.type)
