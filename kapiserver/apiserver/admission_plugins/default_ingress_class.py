"""DefaultIngressClass: ingresses that name no class are of the default one."""

from __future__ import annotations

from kapiserver.api.group import GroupVersion
from kapiserver.api.networking import v1
from kapiserver.api.objects import annotations_of
from kapiserver.api.order import settle
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission import Attributes
from kapiserver.apiserver.admission_plugins.default_class import default_class
from kapiserver.apiserver.context import Server

_NETWORKING = GroupVersion("networking.k8s.io", "v1")
_MARKS = ("ingressclass.kubernetes.io/is-default-class",)
_OLD = "kubernetes.io/ingress.class"


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Set the class."""
    if new is None or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    if spec.get("ingressClassName") is not None or _OLD in annotations_of(new):
        return
    found = await default_class(server, _NETWORKING, "ingressclasses", _MARKS)
    if found:
        spec["ingressClassName"] = found
        settle(spec, v1.IngressSpec)
