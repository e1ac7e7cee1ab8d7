"""autoscaling/v2: scaling by metrics of any kind."""

from __future__ import annotations

from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import Quantity, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class ContainerResourceMetricSource(Type):
    """Target for a resource of one container in each pod."""

    name: str = field(1, always=True, required=True, doc="The resource, as cpu.")
    target: MetricTarget = field(2, required=True, doc="The value to reach.")
    container: str = field(3, always=True, required=True, doc="The container, by name.")


class ContainerResourceMetricStatus(Type):
    """Reading of a resource of one container in each pod."""

    name: str = field(1, always=True, required=True, doc="The resource, as cpu.")
    current: MetricValueStatus = field(2, required=True, doc="The value now.")
    container: str = field(3, always=True, required=True, doc="The container, by name.")


class CrossVersionObjectReference(Type):
    """Names an object in the same namespace, in whichever version."""

    kind: str = field(1, always=True, required=True, doc="The kind of the object.")
    name: str = field(2, always=True, required=True, doc="Its name.")
    apiVersion: str = field(3, doc="Group and version of the object.")


class ExternalMetricSource(Type):
    """Target for a metric from outside the cluster."""

    metric: MetricIdentifier = field(1, required=True, doc="Which metric.")
    target: MetricTarget = field(2, required=True, doc="The value to reach.")


class ExternalMetricStatus(Type):
    """Reading of a metric from outside the cluster."""

    metric: MetricIdentifier = field(1, required=True, doc="Which metric.")
    current: MetricValueStatus = field(2, required=True, doc="The value now.")


class HPAScalingPolicy(Type):
    """One limit on how fast pods are added or removed."""

    type: str = field(1, always=True, required=True, doc="Pods or Percent.")
    value: int32 = field(2, always=True, required=True, doc="How much may change.")
    periodSeconds: int32 = field(3, always=True, required=True, doc="In how many seconds.")


class HPAScalingRules(Type):
    """All limits in one direction."""

    stabilizationWindowSeconds: int32 | None = field(3, doc="How long back wishes count.")
    selectPolicy: str | None = field(1, doc="Max, Min or Disabled.")
    policies: list[HPAScalingPolicy] = field(2, doc="How fast it may go.")
    tolerance: Quantity | None = field(4, doc="How far from the target nothing happens.")


class HorizontalPodAutoscaler(Kind):
    """Changes the number of pods by what metrics say."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: HorizontalPodAutoscalerSpec = field(2, required=True, doc="The desired state.")
    status: HorizontalPodAutoscalerStatus = field(3, doc="The observed state.")


class HorizontalPodAutoscalerBehavior(Type):
    """How fast pods are added and removed."""

    scaleUp: HPAScalingRules | None = field(1, doc="Going up.")
    scaleDown: HPAScalingRules | None = field(2, doc="Going down.")


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

    scaleTargetRef: CrossVersionObjectReference = field(1, required=True, doc="What is scaled.")
    minReplicas: int32 | None = field(2, doc="At least so many.")
    maxReplicas: int32 = field(3, always=True, required=True, doc="At most so many.")
    metrics: list[MetricSpec] = field(4, doc="What the number follows; the largest counts.")
    behavior: HorizontalPodAutoscalerBehavior | None = field(5, doc="How fast it scales.")


class HorizontalPodAutoscalerStatus(Type):
    """What is known of an autoscaler."""

    observedGeneration: int64 | None = field(1, doc="The generation that this is about.")
    lastScaleTime: Time | None = field(2, doc="When it was last scaled.")
    currentReplicas: int32 = field(3, doc="How many there are.")
    desiredReplicas: int32 = field(4, always=True, required=True, doc="How many there shall be.")
    currentMetrics: list[MetricStatus] = field(
        5, always=True, doc="The metrics as they were last read."
    )
    conditions: list[HorizontalPodAutoscalerCondition] = field(
        6, keys=("type",), merge="type", doc="What was found out about it."
    )


class MetricIdentifier(Type):
    """A metric by name and labels."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    selector: LabelSelector | None = field(2, doc="Which objects, by their labels.")


class MetricSpec(Type):
    """One metric to scale by, by its type."""

    type: str = field(1, always=True, required=True, doc="Which of the others is set.")
    object: ObjectMetricSource | None = field(2, doc="A metric of one object.")
    pods: PodsMetricSource | None = field(3, doc="A metric of each pod.")
    resource: ResourceMetricSource | None = field(4, doc="A resource that all containers use.")
    containerResource: ContainerResourceMetricSource | None = field(
        7, doc="A resource that one container uses."
    )
    external: ExternalMetricSource | None = field(5, doc="A metric from elsewhere.")


class MetricStatus(Type):
    """One metric's reading, by its type."""

    type: str = field(1, always=True, required=True, doc="Which of the others is set.")
    object: ObjectMetricStatus | None = field(2, doc="A metric of one object.")
    pods: PodsMetricStatus | None = field(3, doc="A metric of each pod.")
    resource: ResourceMetricStatus | None = field(4, doc="A resource that all containers use.")
    containerResource: ContainerResourceMetricStatus | None = field(
        7, doc="A resource that one container uses."
    )
    external: ExternalMetricStatus | None = field(5, doc="A metric from elsewhere.")


class MetricTarget(Type):
    """The value a metric should have."""

    type: str = field(1, always=True, required=True, doc="Utilization, Value or AverageValue.")
    value: Quantity | None = field(2, doc="The value itself.")
    averageValue: Quantity | None = field(3, doc="The value for each pod.")
    averageUtilization: int32 | None = field(4, doc="The part of what pods ask for, in percent.")


class MetricValueStatus(Type):
    """The value a metric has."""

    value: Quantity | None = field(1, doc="Its value.")
    averageValue: Quantity | None = field(2, doc="The value for each pod.")
    averageUtilization: int32 | None = field(3, doc="The part of what pods ask for, in percent.")


class ObjectMetricSource(Type):
    """Target for a metric of one object."""

    describedObject: CrossVersionObjectReference = field(1, required=True, doc="The object.")
    target: MetricTarget = field(2, required=True, doc="The value to reach.")
    metric: MetricIdentifier = field(3, required=True, doc="Which metric.")


class ObjectMetricStatus(Type):
    """Reading of a metric of one object."""

    metric: MetricIdentifier = field(1, required=True, doc="Which metric.")
    current: MetricValueStatus = field(2, required=True, doc="The value now.")
    describedObject: CrossVersionObjectReference = field(3, required=True, doc="The object.")


class PodsMetricSource(Type):
    """Target for a metric averaged over the pods."""

    metric: MetricIdentifier = field(1, required=True, doc="Which metric.")
    target: MetricTarget = field(2, required=True, doc="The value to reach.")


class PodsMetricStatus(Type):
    """Reading of a metric averaged over the pods."""

    metric: MetricIdentifier = field(1, required=True, doc="Which metric.")
    current: MetricValueStatus = field(2, required=True, doc="The value now.")


class ResourceMetricSource(Type):
    """Target for a resource summed over each pod."""

    name: str = field(1, always=True, required=True, doc="The resource, as cpu.")
    target: MetricTarget = field(2, required=True, doc="The value to reach.")


class ResourceMetricStatus(Type):
    """Reading of a resource summed over each pod."""

    name: str = field(1, always=True, required=True, doc="The resource, as cpu.")
    current: MetricValueStatus = field(2, required=True, doc="The value now.")
