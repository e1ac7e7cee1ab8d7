"""The resources of the storage group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Deprecation, GroupVersionKind, Resource, Subresource

_storage = partial(Resource, group="storage.k8s.io", versions=("v1",), storage_version="v1")
_STATUS = Subresource(name="status")
_ATTRIBUTES_CLASS = GroupVersionKind("storage.k8s.io", "v1", "VolumeAttributesClass")

RESOURCES = (
    _storage(name="csidrivers", kind="CSIDriver", namespaced=False, returns_deleted_object=True),
    _storage(
        name="csinodes",
        kind="CSINode",
        namespaced=False,
        subresources=(_STATUS,),
        returns_deleted_object=True,
    ),
    _storage(name="csistoragecapacities", kind="CSIStorageCapacity", namespaced=True),
    _storage(
        name="storageclasses",
        kind="StorageClass",
        namespaced=False,
        short_names=("sc",),
        returns_deleted_object=True,
    ),
    _storage(
        name="volumeattachments",
        kind="VolumeAttachment",
        namespaced=False,
        subresources=(_STATUS,),
        returns_deleted_object=True,
    ),
    _storage(
        name="volumeattributesclasses",
        kind="VolumeAttributesClass",
        namespaced=False,
        short_names=("vac",),
        deprecations=(
            Deprecation(version="v1beta1", since=34, removed_in=37, replacement=_ATTRIBUTES_CLASS),
            Deprecation(version="v1alpha1", since=32, removed_in=35, replacement=_ATTRIBUTES_CLASS),
        ),
        returns_deleted_object=True,
    ),
)
