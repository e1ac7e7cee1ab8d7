"""Namespace: a scope for the names of objects, deleted with all that it contains."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field


class Namespace(Kind):
    """A scope for the names of objects, for access rules and for quotas."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name is a DNS label; the server adds the label "
            "kubernetes.io/metadata.name with it."
        ),
    )
    spec: NamespaceSpec = field(
        2, doc="Desired state of the namespace: the finalizers that hold its deletion."
    )
    status: NamespaceStatus = field(
        3, doc="Observed state of the namespace: whether it is Active or Terminating."
    )


class NamespaceSpec(Type):
    """Finalizers that must finish before a namespace is removed."""

    finalizers: list[str] = field(
        1,
        doc=(
            "Finalizers that still have to clean up. The server sets kubernetes at creation; only "
            "the finalize subresource changes the list."
        ),
    )


class NamespaceStatus(Type):
    """Observed state of a namespace."""

    phase: str = field(
        1,
        enum=("Active", "Terminating"),
        doc=(
            "Active, or Terminating once the namespace is being deleted; objects can then no "
            "longer be created in it. Default: Active."
        ),
    )
    conditions: list[NamespaceCondition] = field(
        2,
        keys=("type",),
        merge="type",
        doc=(
            "Conditions of the namespace, one entry per type. They explain why a deletion does "
            "not finish."
        ),
    )


class NamespaceCondition(Type):
    """One aspect of a namespace's deletion."""

    type: str = field(
        1,
        always=True,
        doc=(
            "Aspect of the deletion, for example NamespaceContentRemaining, "
            "NamespaceFinalizersRemaining or NamespaceDeletionContentFailure."
        ),
        required=True,
    )
    status: str = field(
        2,
        always=True,
        doc=(
            "Whether the namespace condition holds: True, False or Unknown. True means that the "
            "deletion waits or fails for it."
        ),
        required=True,
    )
    lastTransitionTime: Time = field(
        4, doc="When the status of the namespace condition last changed."
    )
    reason: str = field(
        5,
        doc=(
            "CamelCase code of the namespace condition's last change, for example "
            "SomeResourcesRemain."
        ),
    )
    message: str = field(
        6,
        doc=(
            "Human-readable explanation of the namespace condition, for example which resources "
            "remain."
        ),
    )
