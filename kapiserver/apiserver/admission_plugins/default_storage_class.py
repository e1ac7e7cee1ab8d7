"""DefaultStorageClass: claims that name no class are of the default one."""

from __future__ import annotations

from kapiserver.api.core import v1
from kapiserver.api.group import GroupVersion
from kapiserver.api.objects import annotations_of
from kapiserver.api.order import settle
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission import Attributes
from kapiserver.apiserver.admission_plugins.default_class import default_class
from kapiserver.apiserver.context import Server

_STORAGE = GroupVersion("storage.k8s.io", "v1")
_MARKS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_OLD = "volume.beta.kubernetes.io/storage-class"


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Set the class."""
    if new is None or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    if spec.get("storageClassName") is not None or _OLD in annotations_of(new):
        return
    found = await default_class(server, _STORAGE, "storageclasses", _MARKS)
    if found:
        spec["storageClassName"] = found
        settle(spec, v1.PersistentVolumeClaimSpec)
