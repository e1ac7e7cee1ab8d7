"""metrics.k8s.io/v1beta1: what nodes and pods use of CPU and memory."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.quantity import Quantity
from kapiserver.api.scalar_types import Duration, Time
from kapiserver.api.types import Kind, Type, field


class ContainerMetrics(Type):
    """What one container uses."""

    name: str = field(1, always=True, doc="Name of the container in the pod.")
    usage: dict[str, Quantity] = field(
        2, always=True, doc="Average CPU in cores and memory in bytes, by the name of the resource."
    )


class NodeMetrics(Kind):
    """What a node uses of its resources, averaged over a window of time."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, with the name and the labels of the node."
    )
    timestamp: Time = field(2, always=True, doc="When the window of the measurement ended.")
    window: Duration = field(3, always=True, doc="How long the measurement lasted.")
    usage: dict[str, Quantity] = field(
        4, always=True, doc="Average CPU in cores and memory in bytes, by the name of the resource."
    )


class PodMetrics(Kind):
    """What the containers of a pod use of its resources, averaged over a window of time."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, with the name, namespace and labels of the pod."
    )
    timestamp: Time = field(2, always=True, doc="When the window of the measurement ended.")
    window: Duration = field(3, always=True, doc="How long the measurement lasted.")
    containers: list[ContainerMetrics] = field(
        4, always=True, atomic=True, doc="What each running container uses."
    )
