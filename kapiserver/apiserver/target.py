"""Target: the resource, version, object and store that one request is about.

`target_resolver.py` makes the Target of each request once and passes it to the handler. A
subresource whose body is another kind (scale) has a View, which reads that body out of the object
and writes it back. Knows no request.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Protocol

from msgspec import Struct

from kapiserver.api import names
from kapiserver.api.go_format import quote
from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource, deprecation_of
from kapiserver.api.kind_info import KindInfo
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree
from kapiserver.apiserver.custom_scale import CustomScale
from kapiserver.apiserver.errors import (
    BadRequest,
    MethodNotAllowed,
    MethodNotSupported,
    UnknownGroup,
    UnknownResource,
)
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.scale import Scale
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.object_store import ResourceStore
from kapiserver.storage.objects.store_registry import StoreRegistry


class View(Protocol):
    """An object seen as another kind."""

    def read(self, obj: Tree) -> Tree:
        """Return the body that represents an object in the hub version."""

    def read_to_write(self, obj: Tree) -> Tree:
        """Return the body that a patch changes."""

    def write(self, obj: Tree, body: Tree) -> Tree:
        """Return a copy of the object with the fields of the body set. Raises InvalidObject."""

    def configuration(self, obj: Tree, body: Tree) -> Tree:
        """Return the configuration to apply to the object for a configuration of the view."""


VIEWS: dict[str, View] = {"scale": Scale()}
"""Subresources that are views; the body of all others is the object itself."""


class Target(Struct, frozen=True, kw_only=True):
    """The resource, version, object and store that one request is about.

    version     the version of the URL: bodies are in this version
    kind        the kind of bodies: the resource's own, or that of the subresource
    key         the key of the object; its name is empty for a collection
    verbs       the verbs that the path allows
    view        None if bodies are the object itself
    """

    kind_info: KindInfo
    resource: Resource
    version: GroupVersion
    kind: GroupVersionKind
    key: ObjectKey
    store: ResourceStore
    verbs: Collection[str]
    subresource: str = ""
    view: View | None = None

    def check_verb(self, verb: str) -> None:
        """Raise MethodNotAllowed unless the path allows the verb."""
        if verb not in self.verbs:
            raise self.method_error(verb)

    def method_error(self, verb: str) -> MethodNotAllowed:
        """Return the error for a verb that the path does not allow."""
        resource = self.resource
        if self.kind_info.has_protobuf:
            return MethodNotAllowed()
        return MethodNotSupported(verb, resource=resource.name, group=resource.group)

    @property
    def is_namespace(self) -> bool:
        """Whether the objects are namespaces."""
        return self.resource.name == "namespaces" and not self.resource.group

    @property
    def is_typed(self) -> bool:
        """Whether a declared type describes the bodies."""
        return self.kind_info.is_typed or self.has_other_kind

    @property
    def has_protobuf(self) -> bool:
        """Whether the bodies have a Protobuf form."""
        return self.kind_info.has_protobuf or self.has_other_kind

    @property
    def has_other_kind(self) -> bool:
        """Whether bodies are of another kind than the resource's own."""
        kind, resource = self.kind, self.resource
        return kind.kind != resource.kind or kind.group != resource.group

    @property
    def strategy(self) -> Strategy:
        """How writes of the objects, or of this subresource, behave."""
        return self.kind_info.strategy(self.subresource)

    @property
    def deprecation(self) -> str:
        """The warning for clients of a deprecated version; "" if the version is not deprecated. A
        subresource of another kind has a life cycle of its own."""
        if not self.resource.deprecations or self.has_other_kind:
            return ""
        return deprecation_of(self.resource, self.version)


def target_of(kind_info: KindInfo, stores: StoreRegistry, info: RequestInfo) -> Target:
    """Return the target of a request for that kind. Raises UnknownResource if there is no such
    path, and BadRequest for a name that no object can have."""
    resource = kind_info.resource
    name, kind, subresource_verbs = info.subresource, kind_info.kind, None
    if info.trailing and name != "proxy":
        raise UnknownResource
    if name:
        for subresource in resource.subresources:
            if subresource.name == name:
                kind = subresource.kind or kind
                subresource_verbs = subresource.verbs
    verbs = _verbs(info, resource, subresource_verbs)
    if info.name in _PATH_STEPS or "%" in info.name:
        faults = ";".join(names.path_segment(info.name))
        raise BadRequest(f"Name parameter invalid: {quote(info.name)}: {faults}")
    return Target(
        kind_info=kind_info,
        resource=resource,
        version=info.version,
        kind=kind,
        key=ObjectKey(info.namespace if resource.namespaced else "", info.name),
        store=stores.get(resource),
        verbs=verbs,
        subresource=name,
        view=_view(kind_info, name) if name else None,
    )


_PATH_STEPS = (".", "..")
_ITEM_VERBS = ("get", "update", "patch", "delete", "watch")
_COLLECTION_VERBS = ("list", "watch", "create", "deletecollection")
_ALL_NAMESPACES_VERBS = ("list", "watch")


def _verbs(
    info: RequestInfo, resource: Resource, subresource_verbs: Collection[str] | None
) -> Collection[str]:
    """Return the verbs that a path allows. Raises UnknownResource if there is no such path; of a
    custom kind, UnknownGroup, and NotFound for a subresource."""
    is_all_namespaces = resource.namespaced and not info.namespace
    is_other_scope = not resource.namespaced and (
        info.has_empty_namespace or (info.namespace and resource.name != "namespaces")
    )
    if resource.definition:  # kube-apiserver routes these by verb
        is_other_verb = info.is_item or info.verb not in _ALL_NAMESPACES_VERBS
        if is_other_scope or (is_all_namespaces and is_other_verb):
            raise UnknownGroup
        if info.subresource and subresource_verbs is None:
            raise NotFound(resource=resource.name, group=resource.group, name=info.name)
    is_all_namespaces = is_all_namespaces and not info.has_empty_namespace
    if is_other_scope or (info.is_item and is_all_namespaces):
        raise UnknownResource
    if info.subresource:
        if subresource_verbs is None:
            raise UnknownResource
        return subresource_verbs
    verbs = _allowed_verbs(resource.verbs, info.is_item, is_all_namespaces)
    if not verbs:  # a review has no items, and no list across namespaces, as it is never stored
        raise UnknownResource
    return verbs


@functools.lru_cache(maxsize=256)
def _allowed_verbs(
    verbs: tuple[str, ...], is_item: bool, is_all_namespaces: bool
) -> frozenset[str]:
    possible = (
        _ITEM_VERBS
        if is_item
        else _ALL_NAMESPACES_VERBS
        if is_all_namespaces
        else _COLLECTION_VERBS
    )
    return frozenset(verb for verb in verbs if verb in possible)


def _view(kind_info: KindInfo, subresource: str) -> View | None:
    if subresource == "scale" and kind_info.scale is not None:
        return CustomScale(kind_info.scale)
    return VIEWS.get(subresource)
