"""Defaulting of the storage group, besides the defaults that its types declare.

Mirrors pkg/apis/storage/v1/defaults.go.
"""

from __future__ import annotations

from kapiserver.api.defaulting import DefaultFunction, fill_missing
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.storage import v1
from kapiserver.api.types import Tree, Type

_DRIVER_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
    "preventPodSchedulingIfMissing": False,
}


def _default_storage_class(storage_class: Tree) -> None:
    fill_missing(storage_class, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _default_driver(spec: Tree) -> None:
    fill_missing(spec, **_DRIVER_DEFAULTS)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]
    reorder_keys(spec, v1.CSIDriverSpec)


DEFAULTS: dict[type[Type], DefaultFunction] = {
    v1.CSIDriverSpec: _default_driver,
    v1.StorageClass: _default_storage_class,
}
