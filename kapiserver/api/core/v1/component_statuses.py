"""ComponentStatus: health of the control plane, computed on request and never stored."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field


class ComponentStatus(Kind):
    """Health of one component of the control plane. Deprecated since Kubernetes 1.19."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name is that of the component; this server has one, "
            "etcd-0, its store."
        ),
    )
    conditions: list[ComponentCondition] = field(
        2, keys=("type",), merge="type", doc="Conditions of the component, one entry per type."
    )


class ComponentCondition(Type):
    """One aspect of a component's health."""

    type: str = field(
        1,
        always=True,
        doc="Aspect of the component that the condition describes. Always Healthy.",
        required=True,
    )
    status: str = field(
        2,
        always=True,
        doc="Whether the component is healthy: True, False or Unknown.",
        required=True,
    )
    message: str = field(3, doc="What the component's health check answered, for example ok.")
    error: str = field(
        4,
        doc=(
            "Error of the component's health check, for example a refused connection. Empty when "
            "there is none."
        ),
    )
