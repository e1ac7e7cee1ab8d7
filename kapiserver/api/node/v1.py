"""node.k8s.io/v1: the runtimes of containers."""

from __future__ import annotations

from kapiserver.api.core.v1 import Toleration
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Kind, Type, field


class Overhead(Type):
    """What a pod costs beside its containers."""

    podFixed: dict[str, Quantity] = field(1, doc="What each pod costs beside its containers.")


class RuntimeClass(Kind):
    """A way to run containers."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    handler: str = field(2, always=True, required=True, doc="What nodes call the runtime.")
    overhead: Overhead | None = field(3, doc="What a pod costs beside its containers.")
    scheduling: Scheduling | None = field(4, doc="Which nodes have it.")


class Scheduling(Type):
    """The nodes that have a runtime."""

    nodeSelector: dict[str, str] = field(1, atomic=True, doc="Labels that the node must have.")
    tolerations: list[Toleration] = field(2, doc="Taints that are put up with.")
