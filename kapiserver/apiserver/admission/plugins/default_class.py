"""DefaultStorageClass, DefaultIngressClass: set the default class of claims and ingresses without a
class.

Mirrors plugin/pkg/admission/storage/storageclass/setdefault and
plugin/pkg/admission/network/defaultingressclass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from kapiserver.api.accessors import annotations_of, name_of
from kapiserver.api.core.v1 import PersistentVolumeClaimSpec
from kapiserver.api.group import GroupVersion
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.networking.v1 import IngressSpec
from kapiserver.api.types import Tree, Type
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

STORAGE_CLASS_MARKS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""The annotations of which one makes a StorageClass the default."""


class _ClassField(Struct, frozen=True, kw_only=True):
    """The field of a resource that names a class, and the resource of the classes.

    spec                 the type that has the field
    legacy_annotation    names the class in objects older than the field
    default_annotations  "true" on a class makes it the default
    """

    spec: type[Type]
    field: str
    legacy_annotation: str
    version: GroupVersion
    classes: str
    default_annotations: tuple[str, ...]


_CLASS_FIELDS = {
    "persistentvolumeclaims": _ClassField(
        spec=PersistentVolumeClaimSpec,
        field="storageClassName",
        legacy_annotation="volume.beta.kubernetes.io/storage-class",
        version=GroupVersion("storage.k8s.io", "v1"),
        classes="storageclasses",
        default_annotations=STORAGE_CLASS_MARKS,
    ),
    "ingresses": _ClassField(
        spec=IngressSpec,
        field="ingressClassName",
        legacy_annotation="kubernetes.io/ingress.class",
        version=GroupVersion("networking.k8s.io", "v1"),
        classes="ingressclasses",
        default_annotations=("ingressclass.kubernetes.io/is-default-class",),
    ),
}


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Set the class if the object names none and a default exists."""
    if new is None or attributes.target.subresource:
        return
    class_field, spec = _CLASS_FIELDS[attributes.target.resource.name], new.setdefault("spec", {})
    if spec.get(class_field.field) is not None:
        return
    if class_field.legacy_annotation in annotations_of(new):
        return
    name = await _default_class(server, class_field)
    if name:
        spec[class_field.field] = name
        reorder_keys(spec, class_field.spec)


async def _default_class(server: Server, class_field: _ClassField) -> str:
    """Return the name of the newest class that is a default, or ""."""
    store = server.stores.by_name(class_field.version, class_field.classes)
    entries = await store.cached_entries()
    return newest_default((entry.tree() for entry in entries), class_field.default_annotations)


def newest_default(classes: Iterable[Tree], marks: Collection[str]) -> str:
    """Return the name of the newest class that has one of the annotations `marks`, or "". Of
    classes of the same age the first by name counts."""
    marked = [
        tree for tree in classes if any(annotations_of(tree).get(mark) == "true" for mark in marks)
    ]
    marked.sort(key=name_of)
    youngest = max(
        marked, key=lambda tree: str(tree["metadata"].get("creationTimestamp")), default=None
    )
    return name_of(youngest) if youngest is not None else ""
