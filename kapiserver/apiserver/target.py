"""What a resource request is about, looked up: resource, version, object, body kind, store.

A subresource whose body is another kind (scale) is a View: it reads that body out of the object
and writes it back. Knows no verb.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kapiserver.api.custom_kinds import version_behind
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.customresources.custom_scale import CustomScale
from kapiserver.apiserver.errors import UnknownResource
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.scale import Scale
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.object_store import ResourceStore


class View(Protocol):
    """An object seen as another kind."""

    def read(self, obj: Tree) -> Tree:
        """The body to answer with, of an object in the hub version."""

    def write(self, obj: Tree, body: Tree) -> Tree:
        """A copy of the object with what the body says. Raises InvalidObject."""

    def configuration(self, obj: Tree, body: Tree) -> Tree:
        """What applying the body says of the object itself."""


VIEWS: dict[str, View] = {"scale": Scale()}
"""Subresources that are views; all others take and give the object itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a request is about.

    version     of the URL: what bodies are in
    kind        of bodies: the resource's own, or that of the subresource
    key         name empty: the collection
    view        None: bodies are the object itself
    """

    resource: Resource
    version: GroupVersion
    kind: GroupVersionKind
    key: ObjectKey
    store: ResourceStore
    subresource: str = ""
    view: View | None = None

    @property
    def is_namespace(self) -> bool:
        """Whether it is about the namespaces themselves."""
        return self.resource.name == "namespaces" and not self.resource.group


def resource_of(server: Server, request: Request) -> Resource:
    """The resource of a request. Raises UnknownResource."""
    try:
        return server.scheme.resource(request.info.version, request.info.resource)
    except NotRegistered:
        raise UnknownResource from None


def target_of(server: Server, request: Request) -> Target:
    """Look a request up. Raises UnknownResource."""
    info = request.info
    resource = resource_of(server, request)
    kind = info.version.with_kind(resource.kind)
    for subresource in resource.subresources:
        if subresource.name == info.subresource and subresource.kind is not None:
            kind = subresource.kind
    namespace = info.namespace if resource.namespaced else ""
    return Target(
        resource=resource,
        version=info.version,
        kind=kind,
        key=ObjectKey(namespace, info.name),
        store=server.stores.of(resource),
        subresource=info.subresource,
        view=_view(server, resource, info.subresource),
    )


def _view(server: Server, resource: Resource, subresource: str) -> View | None:
    custom = version_behind(resource, server.scheme.custom) if resource.definition else None
    if custom is not None and custom.scale is not None and subresource == "scale":
        return CustomScale(custom.scale)
    return VIEWS.get(subresource)
