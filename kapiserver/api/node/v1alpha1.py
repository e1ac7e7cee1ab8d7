"""node.k8s.io/v1alpha1: the runtimes of containers."""

from __future__ import annotations

from kapiserver.api.core.v1 import Toleration
from kapiserver.api.leaves import Quantity
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field


class Overhead(Type):
    """What a pod costs beside its containers."""

    podFixed: dict[str, Quantity] = field(1)


class RuntimeClass(Kind):
    """A way to run containers."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: RuntimeClassSpec = field(2, required=True, doc="The desired state.")


class RuntimeClassSpec(Type):
    """Which handler, at which cost and where."""

    runtimeHandler: str = field(1, always=True, required=True)
    overhead: Overhead | None = field(2)
    scheduling: Scheduling | None = field(3)


class Scheduling(Type):
    """The nodes that have a runtime."""

    nodeSelector: dict[str, str] = field(1, atomic=True)
    tolerations: list[Toleration] = field(2)
