"""autoscaling/v1: autoscalers by CPU utilization, and Scale, the body of `scale` subresources."""

from __future__ import annotations

from kapiserver.api.autoscaling import v2
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import Quantity, Time
from kapiserver.api.types import Kind, Type, field, int32, int64, override_field


class ContainerResourceMetricSource(Type):
    """In an annotation: a target for the CPU or memory of one container in each pod."""

    name: str = field(
        1, always=True, doc="Name of the resource of the container, such as cpu or memory."
    )
    targetAverageUtilization: int32 | None = field(
        2,
        doc=(
            "Target in percent of what the container requests, averaged over the pods. Excludes "
            "targetAverageValue."
        ),
    )
    targetAverageValue: Quantity | None = field(
        3,
        doc=(
            "Target amount of the container, averaged over the pods. Excludes "
            "targetAverageUtilization."
        ),
    )
    container: str = field(5, always=True, doc="Name of the container in each pod to scale by.")


class ContainerResourceMetricStatus(Type):
    """In an annotation: the CPU or memory that one container of each pod uses."""

    name: str = field(1, always=True, doc="Name of the measured resource of the container.")
    currentAverageUtilization: int32 | None = field(
        2,
        doc=(
            "Current use in percent of what the container requests, averaged over the pods. "
            "Absent if there is no such request."
        ),
    )
    currentAverageValue: Quantity = field(
        3, doc="Current amount that the container uses, averaged over the pods."
    )
    container: str = field(
        4, always=True, doc="Name of the container that was measured in each pod."
    )


class CrossVersionObjectReference(v2.CrossVersionObjectReference):
    atomic = True


class ExternalMetricSource(Type):
    """In an annotation: a target for a metric that is not of a Kubernetes object."""

    metricName: str = field(1, always=True, doc="Name of the external metric to scale by.")
    metricSelector: LabelSelector | None = field(
        2, doc="Labels of the external metric. If it is absent, only the name selects it."
    )
    targetValue: Quantity | None = field(
        3, doc="Target for the external metric as a whole. Excludes targetAverageValue."
    )
    targetAverageValue: Quantity | None = field(
        4,
        doc="Target for the external metric divided by the number of pods. Excludes targetValue.",
    )


class ExternalMetricStatus(Type):
    """In an annotation: the current value of a metric that is not of a Kubernetes object."""

    metricName: str = field(1, always=True, doc="Name of the external metric that was read.")
    metricSelector: LabelSelector | None = field(
        2, doc="Labels by which the external metric was selected."
    )
    currentValue: Quantity = field(3, doc="Current value of the external metric as a whole.")
    currentAverageValue: Quantity | None = field(
        4, doc="Current value of the external metric divided by the number of pods."
    )


class HorizontalPodAutoscaler(v2.HorizontalPodAutoscaler):
    """Scales the number of pods of a workload by their CPU utilization."""

    metadata = override_field(
        doc=(
            "Standard object's metadata. Fields of autoscaling/v2 that this version lacks are kept "
            "in its annotations."
        )
    )
    spec = override_field(doc="The workload to scale, the limits and the target CPU utilization.")
    status = override_field(doc="The current number of pods and their CPU utilization.")


class HorizontalPodAutoscalerCondition(v2.HorizontalPodAutoscalerCondition):
    """In an annotation: one condition of an autoscaler."""

    type = override_field(required=False)
    status = override_field(required=False)


class HorizontalPodAutoscalerSpec(Type):
    """The workload that an autoscaler scales, and the target."""

    scaleTargetRef: CrossVersionObjectReference = field(
        1,
        required=True,
        doc=(
            "The workload to scale, in the namespace of the autoscaler. It must have a scale "
            "subresource."
        ),
    )
    minReplicas: int32 | None = field(
        2, doc="The lower limit of replicas. Defaults to 1; 0 needs an Object or External metric."
    )
    maxReplicas: int32 = field(
        3,
        always=True,
        required=True,
        doc="The upper limit of replicas: 1 or more, and no less than minReplicas.",
    )
    targetCPUUtilizationPercentage: int32 | None = field(
        4,
        doc=(
            "Target CPU utilization in percent of what the pods request, averaged over the pods. "
            "If no metric is set, 80."
        ),
    )


class HorizontalPodAutoscalerStatus(Type):
    """The replicas and the CPU utilization that an autoscaler observed."""

    observedGeneration: int64 | None = field(
        1, doc="The metadata.generation that the autoscaler last saw."
    )
    lastScaleTime: Time | None = field(
        2, doc="When the number of replicas was last changed by the autoscaler."
    )
    currentReplicas: int32 = field(
        3, always=True, required=True, doc="Number of replicas that the autoscaler last counted."
    )
    desiredReplicas: int32 = field(
        4, always=True, required=True, doc="Number of replicas that the autoscaler last asked for."
    )
    currentCPUUtilizationPercentage: int32 | None = field(
        5,
        doc=(
            "Current CPU utilization in percent of what the pods request, averaged over the pods."
        ),
    )


class MetricSpec(Type):
    """In an annotation: a metric to scale by, of the kind that type names."""

    type: str = field(
        1,
        always=True,
        enum=("Object", "Pods", "Resource", "ContainerResource", "External"),
        doc="Kind of the metric. The field of that kind is set, the others are absent.",
    )
    object: ObjectMetricSource | None = field(
        2, doc="A metric of one Kubernetes object, and its target."
    )
    pods: PodsMetricSource | None = field(3, doc="A custom metric of each pod, and its target.")
    resource: ResourceMetricSource | None = field(
        4, doc="The CPU or memory use of each pod, and its target."
    )
    containerResource: ContainerResourceMetricSource | None = field(
        7, doc="The CPU or memory use of one container in each pod, and its target."
    )
    external: ExternalMetricSource | None = field(
        5, doc="A metric that no Kubernetes object has, and its target."
    )


class MetricStatus(Type):
    """In an annotation: the current value of a metric, of the kind that type names."""

    type: str = field(
        1,
        always=True,
        enum=("Object", "Pods", "Resource", "ContainerResource", "External"),
        doc="Kind of the metric whose field is set.",
    )
    object: ObjectMetricStatus | None = field(
        2, doc="The value of a metric of one Kubernetes object."
    )
    pods: PodsMetricStatus | None = field(3, doc="The average of a custom metric over the pods.")
    resource: ResourceMetricStatus | None = field(4, doc="The CPU or memory that the pods use.")
    containerResource: ContainerResourceMetricStatus | None = field(
        7, doc="The CPU or memory that one container of each pod uses."
    )
    external: ExternalMetricStatus | None = field(
        5, doc="The value of a metric that no Kubernetes object has."
    )


class ObjectMetricSource(Type):
    """In an annotation: a target for a metric of one Kubernetes object."""

    target: CrossVersionObjectReference = field(1, doc="The object whose metric to scale by.")
    metricName: str = field(2, always=True, doc="Name of the object's metric to scale by.")
    targetValue: Quantity = field(3, doc="Target for the object's metric as a whole.")
    selector: LabelSelector | None = field(
        4, doc="Labels of the object's metric. If it is absent, only the name selects it."
    )
    averageValue: Quantity | None = field(
        5, doc="Target for the object's metric divided by the number of pods."
    )


class ObjectMetricStatus(Type):
    """In an annotation: the current value of a metric of one Kubernetes object."""

    target: CrossVersionObjectReference = field(1, doc="The object whose metric was read.")
    metricName: str = field(2, always=True, doc="Name of the object's metric that was read.")
    currentValue: Quantity = field(3, doc="Current value of the object's metric as a whole.")
    selector: LabelSelector | None = field(
        4, doc="Labels by which the object's metric was selected."
    )
    averageValue: Quantity | None = field(
        5, doc="Current value of the object's metric divided by the number of pods."
    )


class PodsMetricSource(Type):
    """In an annotation: a target for a custom metric, averaged over the pods."""

    metricName: str = field(1, always=True, doc="Name of the pods' metric to scale by.")
    targetAverageValue: Quantity = field(
        2, doc="Target for the average of the metric over the pods."
    )
    selector: LabelSelector | None = field(
        3, doc="Labels of the pods' metric. If it is absent, only the name selects it."
    )


class PodsMetricStatus(Type):
    """In an annotation: the current average of a custom metric over the pods."""

    metricName: str = field(1, always=True, doc="Name of the pods' metric that was read.")
    currentAverageValue: Quantity = field(2, doc="Current average of the metric over the pods.")
    selector: LabelSelector | None = field(3, doc="Labels by which the pods' metric was selected.")


class ResourceMetricSource(Type):
    """In an annotation: a target for the CPU or memory use of each pod."""

    name: str = field(
        1, always=True, doc="Name of the resource of the pods to scale by, such as memory."
    )
    targetAverageUtilization: int32 | None = field(
        2,
        doc=(
            "Target in percent of what the pods request, averaged over the pods. Excludes "
            "targetAverageValue."
        ),
    )
    targetAverageValue: Quantity | None = field(
        3,
        doc=(
            "Target amount for each pod, averaged over the pods. Excludes targetAverageUtilization."
        ),
    )


class ResourceMetricStatus(Type):
    """In an annotation: the current CPU or memory use of the pods."""

    name: str = field(1, always=True, doc="Name of the resource of the pods that was measured.")
    currentAverageUtilization: int32 | None = field(
        2,
        doc=(
            "Current use in percent of what the pods request, averaged over the pods. Absent if "
            "they request none."
        ),
    )
    currentAverageValue: Quantity = field(
        3, doc="Current amount that each pod uses, averaged over the pods."
    )


class Scale(Kind):
    """The scale subresource: the desired and the observed number of replicas of a workload."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object's metadata. It is that of the workload.")
    spec: ScaleSpec = field(2, doc="The desired number of replicas.")
    status: ScaleStatus = field(
        3, doc="The observed number of replicas, and the selector of the pods."
    )


class ScaleSpec(Type):
    """The desired number of replicas."""

    replicas: int32 = field(
        1,
        default=0,
        doc="Number of replicas that the workload should have; zero or more. Defaults to 0.",
    )


class ScaleStatus(Type):
    """The observed number of replicas."""

    replicas: int32 = field(
        1,
        always=True,
        doc="Number of replicas of the workload that were last observed.",
        required=True,
    )
    selector: str = field(
        2,
        doc=(
            "The workload's label selector as text, as in the query parameter labelSelector. "
            "Autoscalers find the pods by it."
        ),
    )
