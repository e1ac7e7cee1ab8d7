"""node.k8s.io/v1alpha1: the types of v1beta1; the differences are below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.node import v1beta1
from kapiserver.api.types import Kind, Type, field, inherit_types

if TYPE_CHECKING:
    from kapiserver.api.node.v1 import Overhead, Scheduling

inherit_types(__name__, v1beta1)


class RuntimeClass(Kind):
    """A container runtime that pods can choose with spec.runtimeClassName."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: RuntimeClassSpec = field(
        2, required=True, doc="The handler, overhead and nodes of the runtime."
    )


class RuntimeClassSpec(Type):
    """The handler, overhead and nodes of a runtime."""

    runtimeHandler: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the handler in the node's container runtime configuration, such as runc or "
            "gvisor; a DNS label. Cannot be updated."
        ),
    )
    overhead: Overhead | None = field(
        2, doc="Resources that pods of this runtime use beyond their containers. Unset means none."
    )
    scheduling: Scheduling | None = field(
        3, doc="Which nodes support the runtime. Unset means all nodes do."
    )
