"""Namespace."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field


class Namespace(Kind):
    """A scope for names."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: NamespaceSpec = field(2, doc="The desired state.")
    status: NamespaceStatus = field(3, doc="The observed state.")


class NamespaceSpec(Type):
    """What must be done before a namespace goes."""

    finalizers: list[str] = field(1, doc="What must happen before it is gone.")


class NamespaceStatus(Type):
    """Whether a namespace is in use or going."""

    phase: str = field(1, enum=("Active", "Terminating"), doc="Active or Terminating.")
    conditions: list[NamespaceCondition] = field(
        2, keys=("type",), merge="type", doc="What was found out about it."
    )


class NamespaceCondition(Type):
    """One finding about a namespace."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    lastTransitionTime: Time = field(4, doc="When the status last changed.")
    reason: str = field(5, doc="Why, in one word for programs.")
    message: str = field(6, doc="Why, for people.")
