"""PersistentVolumeClaimResize: only bound claims grow, and only where their class lets them.

Mirrors plugin/pkg/admission/storage/persistentvolume/resize.
"""

from __future__ import annotations

from decimal import Decimal

from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.group import GroupVersion
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_STORAGE = GroupVersion("storage.k8s.io", "v1")
_OLD = "volume.beta.kubernetes.io/storage-class"


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raises Forbidden."""
    if new is None or old is None or attributes.target.subresource:
        return
    size, before = _size(new), _size(old)
    if size <= before:
        return
    if value_at(old, "status", "phase") != "Bound":
        raise attributes.forbidden("Only bound persistent volume claims can be expanded")
    name = annotations_of(new).get(_OLD) or value_at(new, "spec", "storageClassName") or ""
    try:
        store = server.stores.by_name(_STORAGE, "storageclasses")
        found = (await store.get(ObjectKey("", name))).tree() if name else {}
    except NotFound:
        found = {}
    if not found.get("allowVolumeExpansion"):
        raise attributes.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions "
            "the pvc must support resize"
        )


def _size(claim: Tree) -> Decimal:
    return parse(value_at(claim, "spec", "resources", "requests", "storage") or "0").decimal
