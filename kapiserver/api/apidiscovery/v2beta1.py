"""apidiscovery.k8s.io/v2beta1: everything a server serves in one answer; spoken, never stored."""

from __future__ import annotations

from kapiserver.api.meta.v1 import GroupVersionKind, ObjectMeta
from kapiserver.api.types import Kind, Type, field


class APIGroupDiscovery(Kind):
    """One group with all versions and resources."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    versions: list[APIVersionDiscovery] = field(2, keys=("version",))


class APIResourceDiscovery(Type):
    """One resource of a version."""

    resource: str = field(1, always=True)
    responseKind: GroupVersionKind | None = field(2)
    scope: str = field(3, always=True)
    singularResource: str = field(4, always=True)
    verbs: list[str] = field(5, always=True, set=True)
    shortNames: list[str] = field(6, set=True)
    categories: list[str] = field(7, set=True)
    subresources: list[APISubresourceDiscovery] = field(8, keys=("subresource",))


class APISubresourceDiscovery(Type):
    """One subresource of a resource."""

    subresource: str = field(1, always=True)
    responseKind: GroupVersionKind | None = field(2)
    acceptedTypes: list[GroupVersionKind] = field(3, keys=("group", "version", "kind"))
    verbs: list[str] = field(4, always=True, set=True)


class APIVersionDiscovery(Type):
    """One version of a group."""

    version: str = field(1, always=True)
    resources: list[APIResourceDiscovery] = field(2, keys=("resource",))
    freshness: str = field(3)
