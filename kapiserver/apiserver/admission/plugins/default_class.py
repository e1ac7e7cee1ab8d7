"""DefaultStorageClass, DefaultIngressClass: claims and ingresses that name no class are of the one
that is marked as the default.

Mirrors plugin/pkg/admission/storage/storageclass/setdefault and
plugin/pkg/admission/network/defaultingressclass.
"""

from __future__ import annotations

from dataclasses import dataclass

from kapiserver.api.accessors import annotations_of, name_of
from kapiserver.api.core.v1 import PersistentVolumeClaimSpec
from kapiserver.api.group import GroupVersion
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.networking.v1 import IngressSpec
from kapiserver.api.types import Tree, Type
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.query import ListQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """Which class objects of a resource have.

    field    of their spec that names it
    earlier  the annotation that named it before there was a field
    marks    annotations of classes that say which is the default
    """

    spec: type[Type]
    field: str
    earlier: str
    version: GroupVersion
    classes: str
    marks: tuple[str, ...]


_CHOICES = {
    "persistentvolumeclaims": _Choice(
        spec=PersistentVolumeClaimSpec,
        field="storageClassName",
        earlier="volume.beta.kubernetes.io/storage-class",
        version=GroupVersion("storage.k8s.io", "v1"),
        classes="storageclasses",
        marks=(
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ),
    ),
    "ingresses": _Choice(
        spec=IngressSpec,
        field="ingressClassName",
        earlier="kubernetes.io/ingress.class",
        version=GroupVersion("networking.k8s.io", "v1"),
        classes="ingressclasses",
        marks=("ingressclass.kubernetes.io/is-default-class",),
    ),
}


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Set the class."""
    if new is None or attributes.target.subresource:
        return
    choice, spec = _CHOICES[attributes.target.resource.name], new.setdefault("spec", {})
    if spec.get(choice.field) is not None or choice.earlier in annotations_of(new):
        return
    found = await _default(server, choice)
    if found:
        spec[choice.field] = found
        reorder_keys(spec, choice.spec)


async def _default(server: Server, choice: _Choice) -> str:
    """The name of the youngest class that is marked; "" where none is."""
    store = server.stores.by_name(choice.version, choice.classes)
    entries = (await store.list(ListQuery(resource_version="0"))).entries
    marked = [
        tree
        for tree in (entry.tree() for entry in entries)
        if any(annotations_of(tree).get(mark) == "true" for mark in choice.marks)
    ]
    marked.sort(key=name_of)
    youngest = max(
        marked, key=lambda one: str(one["metadata"].get("creationTimestamp")), default=None
    )
    return name_of(youngest) if youngest is not None else ""
