"""node.k8s.io/v1: RuntimeClasses, the container runtimes that pods can choose."""

from __future__ import annotations

from kapiserver.api.core.v1 import Toleration
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Kind, Type, field


class Overhead(Type):
    """The resources that a pod uses beyond its containers."""

    podFixed: dict[str, Quantity] = field(
        1,
        doc=(
            "Resources that each pod uses beyond its containers, such as cpu and memory. Added to "
            "the requests of the pod for scheduling and quota."
        ),
    )


class RuntimeClass(Kind):
    """A container runtime that pods can choose with spec.runtimeClassName."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    handler: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Name of the handler in the node's container runtime configuration, such as runc or "
            "gvisor; a DNS label. Cannot be updated."
        ),
    )
    overhead: Overhead | None = field(
        3, doc="Resources that pods of this runtime use beyond their containers. Unset means none."
    )
    scheduling: Scheduling | None = field(
        4, doc="Which nodes support the runtime. Unset means all nodes do."
    )


class Scheduling(Type):
    """The nodes that support a runtime."""

    nodeSelector: dict[str, str] = field(
        1,
        atomic=True,
        doc=(
            "Labels that nodes must have to support the runtime. Merged into the nodeSelector of "
            "pods; a pod with a conflicting one is rejected."
        ),
    )
    tolerations: list[Toleration] = field(
        2,
        doc=(
            "Tolerations that are added to pods of this runtime, so that they can run on its "
            "tainted nodes. No duplicates."
        ),
    )
