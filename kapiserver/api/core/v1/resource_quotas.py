"""ResourceQuota."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Kind, Type, field


class ResourceQuota(Kind):
    """A limit on what a namespace uses in total."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ResourceQuotaSpec = field(2, doc="The desired state.")
    status: ResourceQuotaStatus = field(3, doc="The observed state.")


class ResourceQuotaSpec(Type):
    """The limits, and the objects they count."""

    hard: dict[str, Quantity] = field(1, doc="How much there may be of each resource.")
    scopes: list[str] = field(
        2,
        enum=(
            "Terminating",
            "NotTerminating",
            "BestEffort",
            "NotBestEffort",
            "PriorityClass",
            "CrossNamespacePodAffinity",
            "VolumeAttributesClass",
        ),
        doc="Which objects count.",
    )
    scopeSelector: ScopeSelector | None = field(3, doc="Which objects count.")


class ResourceQuotaStatus(Type):
    """The limits and what is used of them."""

    hard: dict[str, Quantity] = field(1, doc="How much there may be of each resource.")
    used: dict[str, Quantity] = field(2, doc="How much there is of each resource.")


class ScopeSelector(Type):
    """Objects that match all requirements."""

    atomic = True

    matchExpressions: list[ScopedResourceSelectorRequirement] = field(
        1, doc="Requirements, all of them."
    )


class ScopedResourceSelectorRequirement(Type):
    """One requirement on an object's scope."""

    scopeName: str = field(
        1,
        always=True,
        enum=(
            "Terminating",
            "NotTerminating",
            "BestEffort",
            "NotBestEffort",
            "PriorityClass",
            "CrossNamespacePodAffinity",
            "VolumeAttributesClass",
        ),
        required=True,
        doc="The scope.",
    )
    operator: str = field(
        2,
        always=True,
        enum=("In", "NotIn", "Exists", "DoesNotExist"),
        required=True,
        doc="In, NotIn, Exists or DoesNotExist.",
    )
    values: list[str] = field(3, doc="The values to compare with.")
