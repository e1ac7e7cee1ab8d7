"""autoscaling/v2: scaling by metrics of any kind."""

from __future__ import annotations

from kapiserver.api.leaves import Quantity, Time
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class ContainerResourceMetricSource(Type):
    """Target for a resource of one container in each pod."""

    name: str = field(1, always=True, required=True)
    target: MetricTarget = field(2, required=True)
    container: str = field(3, always=True, required=True)


class ContainerResourceMetricStatus(Type):
    """Reading of a resource of one container in each pod."""

    name: str = field(1, always=True, required=True)
    current: MetricValueStatus = field(2, required=True)
    container: str = field(3, always=True, required=True)


class CrossVersionObjectReference(Type):
    """Names an object in the same namespace, in whichever version."""

    kind: str = field(1, always=True, required=True)
    name: str = field(2, always=True, required=True)
    apiVersion: str = field(3)


class ExternalMetricSource(Type):
    """Target for a metric from outside the cluster."""

    metric: MetricIdentifier = field(1, required=True)
    target: MetricTarget = field(2, required=True)


class ExternalMetricStatus(Type):
    """Reading of a metric from outside the cluster."""

    metric: MetricIdentifier = field(1, required=True)
    current: MetricValueStatus = field(2, required=True)


class HPAScalingPolicy(Type):
    """One limit on how fast pods are added or removed."""

    type: str = field(1, always=True, required=True)
    value: int32 = field(2, always=True, required=True)
    periodSeconds: int32 = field(3, always=True, required=True)


class HPAScalingRules(Type):
    """All limits in one direction."""

    stabilizationWindowSeconds: int32 | None = field(3)
    selectPolicy: str | None = field(1)
    policies: list[HPAScalingPolicy] = field(2)
    tolerance: Quantity | None = field(4)


class HorizontalPodAutoscaler(Kind):
    """Changes the number of pods by what metrics say."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: HorizontalPodAutoscalerSpec = field(2, required=True, doc="The desired state.")
    status: HorizontalPodAutoscalerStatus = field(3, doc="The observed state.")


class HorizontalPodAutoscalerBehavior(Type):
    """How fast pods are added and removed."""

    scaleUp: HPAScalingRules | None = field(1)
    scaleDown: HPAScalingRules | None = field(2)


class HorizontalPodAutoscalerCondition(Type):
    """One finding about an autoscaler."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")
    observedGeneration: int64 | None = field(6, doc="The generation this was found for.")


class HorizontalPodAutoscalerSpec(Type):
    """What is scaled, within which bounds, by which metrics."""

    scaleTargetRef: CrossVersionObjectReference = field(1, required=True)
    minReplicas: int32 | None = field(2)
    maxReplicas: int32 = field(3, always=True, required=True)
    metrics: list[MetricSpec] = field(4)
    behavior: HorizontalPodAutoscalerBehavior | None = field(5)


class HorizontalPodAutoscalerStatus(Type):
    """What is known of an autoscaler."""

    observedGeneration: int64 | None = field(1)
    lastScaleTime: Time | None = field(2)
    currentReplicas: int32 = field(3)
    desiredReplicas: int32 = field(4, always=True, required=True)
    currentMetrics: list[MetricStatus] = field(5, always=True)
    conditions: list[HorizontalPodAutoscalerCondition] = field(6, keys=("type",), merge="type")


class MetricIdentifier(Type):
    """A metric by name and labels."""

    name: str = field(1, always=True, required=True)
    selector: LabelSelector | None = field(2)


class MetricSpec(Type):
    """One metric to scale by, by its type."""

    type: str = field(1, always=True, required=True)
    object: ObjectMetricSource | None = field(2)
    pods: PodsMetricSource | None = field(3)
    resource: ResourceMetricSource | None = field(4)
    containerResource: ContainerResourceMetricSource | None = field(7)
    external: ExternalMetricSource | None = field(5)


class MetricStatus(Type):
    """One metric's reading, by its type."""

    type: str = field(1, always=True, required=True)
    object: ObjectMetricStatus | None = field(2)
    pods: PodsMetricStatus | None = field(3)
    resource: ResourceMetricStatus | None = field(4)
    containerResource: ContainerResourceMetricStatus | None = field(7)
    external: ExternalMetricStatus | None = field(5)


class MetricTarget(Type):
    """The value a metric should have."""

    type: str = field(1, always=True, required=True)
    value: Quantity | None = field(2)
    averageValue: Quantity | None = field(3)
    averageUtilization: int32 | None = field(4)


class MetricValueStatus(Type):
    """The value a metric has."""

    value: Quantity | None = field(1)
    averageValue: Quantity | None = field(2)
    averageUtilization: int32 | None = field(3)


class ObjectMetricSource(Type):
    """Target for a metric of one object."""

    describedObject: CrossVersionObjectReference = field(1, required=True)
    target: MetricTarget = field(2, required=True)
    metric: MetricIdentifier = field(3, required=True)


class ObjectMetricStatus(Type):
    """Reading of a metric of one object."""

    metric: MetricIdentifier = field(1, required=True)
    current: MetricValueStatus = field(2, required=True)
    describedObject: CrossVersionObjectReference = field(3, required=True)


class PodsMetricSource(Type):
    """Target for a metric averaged over the pods."""

    metric: MetricIdentifier = field(1, required=True)
    target: MetricTarget = field(2, required=True)


class PodsMetricStatus(Type):
    """Reading of a metric averaged over the pods."""

    metric: MetricIdentifier = field(1, required=True)
    current: MetricValueStatus = field(2, required=True)


class ResourceMetricSource(Type):
    """Target for a resource summed over each pod."""

    name: str = field(1, always=True, required=True)
    target: MetricTarget = field(2, required=True)


class ResourceMetricStatus(Type):
    """Reading of a resource summed over each pod."""

    name: str = field(1, always=True, required=True)
    current: MetricValueStatus = field(2, required=True)
