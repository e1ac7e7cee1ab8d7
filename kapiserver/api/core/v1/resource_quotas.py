"""ResourceQuota: limits on what a namespace uses in total."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Kind, Type, field


class ResourceQuota(Kind):
    """Limits on what all objects of a namespace use together."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. The quota applies to the namespace of this object."
    )
    spec: ResourceQuotaSpec = field(2, doc="Desired limits, and which objects count against them.")
    status: ResourceQuotaStatus = field(
        3, doc="Limits in force and their present use. The quota controller sets it."
    )


class ResourceQuotaSpec(Type):
    """Limits of a quota, and the objects that count against them."""

    hard: dict[str, Quantity] = field(
        1,
        doc=(
            "Maximum per resource, for example pods: 10, requests.cpu: 4, count/deployments.apps: "
            "5. Requests beyond it are rejected."
        ),
    )
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
        doc=(
            "Scopes that an object must all have to count, for example BestEffort or Terminating. "
            "When empty: every object. Cannot change."
        ),
    )
    scopeSelector: ScopeSelector | None = field(
        3,
        doc=(
            "Scopes with operators and values that an object must match to count, together with "
            "scopes. When absent: every object."
        ),
    )


class ResourceQuotaStatus(Type):
    """Limits of a quota that are in force, and their use."""

    hard: dict[str, Quantity] = field(
        1, doc="Limits per resource that are in force. They follow the spec."
    )
    used: dict[str, Quantity] = field(
        2, doc="Amount of each limited resource that the namespace uses at present."
    )


class ScopeSelector(Type):
    """A set of objects: those that match every requirement on their scopes."""

    atomic = True

    matchExpressions: list[ScopedResourceSelectorRequirement] = field(
        1, doc="Requirements on the object's scopes, which must all hold."
    )


class ScopedResourceSelectorRequirement(Type):
    """A requirement on one scope of an object."""

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
        doc=(
            "Scope to check: Terminating, NotTerminating, BestEffort, NotBestEffort, "
            "PriorityClass, CrossNamespacePodAffinity or VolumeAttributesClass."
        ),
    )
    operator: str = field(
        2,
        always=True,
        enum=("In", "NotIn", "Exists", "DoesNotExist"),
        required=True,
        doc=(
            "In, NotIn, Exists or DoesNotExist. Scopes other than PriorityClass and "
            "VolumeAttributesClass allow Exists only."
        ),
    )
    values: list[str] = field(
        3, doc="Names of classes: at least one for In and NotIn, none for Exists and DoesNotExist."
    )
