"""StorageObjectInUseProtection: keeps claims, volumes and their classes from being deleted in use.

Adds a finalizer when they are created; controllers remove it. Mirrors
plugin/pkg/admission/storage/storageobjectinuseprotection.
"""

from __future__ import annotations

from kapiserver.api.accessors import finalizers_of, metadata_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

FINALIZERS = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
    "volumeattributesclasses": "kubernetes.io/vac-protection",
}


async def admit(_: Server, attributes: Attributes, new: Tree | None, _old: Tree | None) -> None:
    """Add the finalizer."""
    if new is None or attributes.target.subresource:
        return
    finalizer = FINALIZERS[attributes.target.resource.name]
    if finalizer not in finalizers_of(new):
        metadata_of(new)["finalizers"] = [*finalizers_of(new), finalizer]
