"""apidiscovery.k8s.io/v2: aggregated discovery, all groups and resources in one document."""

from __future__ import annotations

from kapiserver.api.meta.v1 import GroupVersionKind, ObjectMeta
from kapiserver.api.types import Kind, Type, field


class APIGroupDiscovery(Kind):
    """All versions and resources of one API group, in aggregated discovery."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name is the name of the group; empty for the core "
            "group."
        ),
    )
    versions: list[APIVersionDiscovery] = field(
        2, keys=("version",), doc="Versions of the group that the server serves, best first."
    )


class APIResourceDiscovery(Type):
    """One resource of a version, in aggregated discovery."""

    resource: str = field(
        1, always=True, doc="Plural name of the resource as it stands in URLs, such as pods."
    )
    responseKind: GroupVersionKind | None = field(
        2,
        doc=(
            "Kind of the objects that the resource returns. Absent or empty if only its "
            "subresources can be used."
        ),
    )
    scope: str = field(
        3, always=True, doc="Whether objects are in namespaces: Namespaced or Cluster."
    )
    singularResource: str = field(
        4,
        always=True,
        doc="Singular name of the resource, such as pod, which kubectl accepts and prints.",
    )
    verbs: list[str] = field(
        5,
        always=True,
        set=True,
        doc="Verbs that the resource supports, such as get, list, watch and create.",
    )
    shortNames: list[str] = field(
        6, set=True, doc="Abbreviations that kubectl accepts for the resource, such as po for pods."
    )
    categories: list[str] = field(
        7,
        set=True,
        doc=(
            "Groups of resources that contain this one and that kubectl accepts as a name, such "
            "as all."
        ),
    )
    subresources: list[APISubresourceDiscovery] = field(
        8, keys=("subresource",), doc="Subresources of the resource, such as status and scale."
    )


class APISubresourceDiscovery(Type):
    """One subresource of a resource, in aggregated discovery."""

    subresource: str = field(
        1, always=True, doc="Name of the subresource, such as status, without the resource."
    )
    responseKind: GroupVersionKind | None = field(
        2,
        doc=(
            "Kind of the objects that the subresource returns. Absent if it returns no object, "
            "such as logs."
        ),
    )
    acceptedTypes: list[GroupVersionKind] = field(
        3,
        keys=("group", "version", "kind"),
        doc=(
            "Kinds that the subresource accepts in a request body. Empty if it accepts none but "
            "options."
        ),
    )
    verbs: list[str] = field(
        4,
        always=True,
        set=True,
        doc="Verbs that the subresource supports, such as get, update and patch.",
    )


class APIVersionDiscovery(Type):
    """All resources of one version of a group, in aggregated discovery."""

    version: str = field(1, always=True, doc="Name of the version, such as v1.")
    resources: list[APIResourceDiscovery] = field(
        2, keys=("resource",), doc="Resources of the version that the server serves."
    )
    freshness: str = field(
        3,
        doc=(
            "Current if the server got the document from its source lately, Stale if the source "
            "does not answer."
        ),
    )
