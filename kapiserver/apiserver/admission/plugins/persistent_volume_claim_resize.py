"""PersistentVolumeClaimResize: allows a claim to grow only if it is bound and its class allows it.

Mirrors plugin/pkg/admission/storage/persistentvolume/resize.
"""

from __future__ import annotations

from decimal import Decimal

from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.group import GroupVersion
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_STORAGE = GroupVersion("storage.k8s.io", "v1")
_BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raise Forbidden for a claim that must not grow."""
    if new is None or old is None or attributes.target.subresource:
        return
    size, old_size = _size(new), _size(old)
    if size <= old_size:
        return
    if value_at(old, "status", "phase") != "Bound":
        raise attributes.forbidden("Only bound persistent volume claims can be expanded")
    name = (
        annotations_of(new).get(_BETA_CLASS_ANNOTATION)
        or value_at(new, "spec", "storageClassName")
        or ""
    )
    try:
        store = server.stores.by_name(_STORAGE, "storageclasses")
        storage_class = (await store.get(ObjectKey("", name))).tree() if name else {}
    except NotFound:
        storage_class = {}
    if not storage_class.get("allowVolumeExpansion"):
        raise attributes.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions "
            "the pvc must support resize"
        )


def _size(claim: Tree) -> Decimal:
    return parse(value_at(claim, "spec", "resources", "requests", "storage") or "0").decimal
