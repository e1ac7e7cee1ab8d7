"""autoscaling/v1: scaling by CPU alone, and Scale, the body of every `scale` subresource."""

from __future__ import annotations

from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import Quantity, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class ContainerResourceMetricSource(Type):
    """Target for a resource of one container in each pod."""

    name: str = field(1, always=True)
    targetAverageUtilization: int32 | None = field(2)
    targetAverageValue: Quantity | None = field(3)
    container: str = field(5, always=True)


class ContainerResourceMetricStatus(Type):
    """Reading of a resource of one container in each pod."""

    name: str = field(1, always=True)
    currentAverageUtilization: int32 | None = field(2)
    currentAverageValue: Quantity = field(3)
    container: str = field(4, always=True)


class CrossVersionObjectReference(Type):
    """Names an object in the same namespace, in whichever version."""

    atomic = True

    kind: str = field(1, always=True, required=True, doc="The kind of the object.")
    name: str = field(2, always=True, required=True, doc="Its name.")
    apiVersion: str = field(3, doc="Group and version of the object.")


class ExternalMetricSource(Type):
    """Target for a metric from outside the cluster."""

    metricName: str = field(1, always=True)
    metricSelector: LabelSelector | None = field(2)
    targetValue: Quantity | None = field(3)
    targetAverageValue: Quantity | None = field(4)


class ExternalMetricStatus(Type):
    """Reading of a metric from outside the cluster."""

    metricName: str = field(1, always=True)
    metricSelector: LabelSelector | None = field(2)
    currentValue: Quantity = field(3)
    currentAverageValue: Quantity | None = field(4)


class HorizontalPodAutoscaler(Kind):
    """Changes the number of pods by what metrics say."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: HorizontalPodAutoscalerSpec = field(2, required=True, doc="The desired state.")
    status: HorizontalPodAutoscalerStatus = field(3, doc="The observed state.")


class HorizontalPodAutoscalerCondition(Type):
    """One finding about an autoscaler."""

    type: str = field(1, always=True, doc="What the finding is about.")
    status: str = field(2, always=True, doc="True, False or Unknown.")
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")
    observedGeneration: int64 | None = field(6, doc="The generation this was found for.")


class HorizontalPodAutoscalerSpec(Type):
    """What is scaled, within which bounds, by which metrics."""

    scaleTargetRef: CrossVersionObjectReference = field(1, required=True, doc="What is scaled.")
    minReplicas: int32 | None = field(2, doc="At least so many.")
    maxReplicas: int32 = field(3, always=True, required=True, doc="At most so many.")
    targetCPUUtilizationPercentage: int32 | None = field(
        4, doc="How busy pods shall be, on average."
    )


class HorizontalPodAutoscalerStatus(Type):
    """What is known of an autoscaler."""

    observedGeneration: int64 | None = field(1, doc="The generation that this is about.")
    lastScaleTime: Time | None = field(2, doc="When it was last scaled.")
    currentReplicas: int32 = field(3, always=True, required=True, doc="How many there are.")
    desiredReplicas: int32 = field(4, always=True, required=True, doc="How many there shall be.")
    currentCPUUtilizationPercentage: int32 | None = field(5, doc="How busy pods are, on average.")


class MetricSpec(Type):
    """One metric to scale by, by its type."""

    type: str = field(
        1, always=True, enum=("Object", "Pods", "Resource", "ContainerResource", "External")
    )
    object: ObjectMetricSource | None = field(2)
    pods: PodsMetricSource | None = field(3)
    resource: ResourceMetricSource | None = field(4)
    containerResource: ContainerResourceMetricSource | None = field(7)
    external: ExternalMetricSource | None = field(5)


class MetricStatus(Type):
    """One metric's reading, by its type."""

    type: str = field(
        1, always=True, enum=("Object", "Pods", "Resource", "ContainerResource", "External")
    )
    object: ObjectMetricStatus | None = field(2)
    pods: PodsMetricStatus | None = field(3)
    resource: ResourceMetricStatus | None = field(4)
    containerResource: ContainerResourceMetricStatus | None = field(7)
    external: ExternalMetricStatus | None = field(5)


class ObjectMetricSource(Type):
    """Target for a metric of one object."""

    target: CrossVersionObjectReference = field(1)
    metricName: str = field(2, always=True)
    targetValue: Quantity = field(3)
    selector: LabelSelector | None = field(4)
    averageValue: Quantity | None = field(5)


class ObjectMetricStatus(Type):
    """Reading of a metric of one object."""

    target: CrossVersionObjectReference = field(1)
    metricName: str = field(2, always=True)
    currentValue: Quantity = field(3)
    selector: LabelSelector | None = field(4)
    averageValue: Quantity | None = field(5)


class PodsMetricSource(Type):
    """Target for a metric averaged over the pods."""

    metricName: str = field(1, always=True)
    targetAverageValue: Quantity = field(2)
    selector: LabelSelector | None = field(3)


class PodsMetricStatus(Type):
    """Reading of a metric averaged over the pods."""

    metricName: str = field(1, always=True)
    currentAverageValue: Quantity = field(2)
    selector: LabelSelector | None = field(3)


class ResourceMetricSource(Type):
    """Target for a resource summed over each pod."""

    name: str = field(1, always=True)
    targetAverageUtilization: int32 | None = field(2)
    targetAverageValue: Quantity | None = field(3)


class ResourceMetricStatus(Type):
    """Reading of a resource summed over each pod."""

    name: str = field(1, always=True)
    currentAverageUtilization: int32 | None = field(2)
    currentAverageValue: Quantity = field(3)


class Scale(Kind):
    """How many copies an object has and should have; the body of `scale`."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ScaleSpec = field(2, doc="The desired state.")
    status: ScaleStatus = field(3, doc="The observed state.")


class ScaleSpec(Type):
    """How many copies there should be."""

    replicas: int32 = field(1, default=0, doc="How many copies there should be.")


class ScaleStatus(Type):
    """How many copies there are, and how to find them."""

    replicas: int32 = field(1, always=True, doc="How many copies there are.", required=True)
    selector: str = field(2, doc="Label selector of the copies, as text.")
