"""autoscaling/v2: horizontal pod autoscalers by metrics of any kind."""

from __future__ import annotations

from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import Quantity, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class ContainerResourceMetricSource(Type):
    """A target for the CPU or memory that one container of each pod uses."""

    name: str = field(
        1, always=True, required=True, doc="Name of the resource, such as cpu or memory."
    )
    target: MetricTarget = field(
        2,
        required=True,
        doc="The target average over all pods: averageUtilization or averageValue, not both.",
    )
    container: str = field(
        3, always=True, required=True, doc="Name of the container in the pods whose usage counts."
    )


class ContainerResourceMetricStatus(Type):
    """The CPU or memory that one container of each pod uses."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the resource that was measured in the container.",
    )
    current: MetricValueStatus = field(
        2, required=True, doc="The current usage of the container, averaged over all pods."
    )
    container: str = field(
        3, always=True, required=True, doc="Name of the container whose usage was measured."
    )


class CrossVersionObjectReference(Type):
    """Names an object in the same namespace."""

    kind: str = field(1, always=True, required=True, doc="Kind of the object, such as Deployment.")
    name: str = field(
        2, always=True, required=True, doc="Name of the object in the namespace of the autoscaler."
    )
    apiVersion: str = field(
        3,
        doc=(
            "Group and version of the kind, such as apps/v1. For the target of scaling, only "
            "ReplicationController may leave the group out."
        ),
    )


class ExternalMetricSource(Type):
    """A target for a metric that is not of a Kubernetes object, such as a queue length."""

    metric: MetricIdentifier = field(
        1, required=True, doc="Name of the metric, and a selector for its labels."
    )
    target: MetricTarget = field(
        2,
        required=True,
        doc=(
            "The target for the metric: value for its total, or averageValue for the total "
            "divided by the number of pods. Not both."
        ),
    )


class ExternalMetricStatus(Type):
    """The current value of a metric that is not of a Kubernetes object."""

    metric: MetricIdentifier = field(
        1, required=True, doc="Name and selector of the external metric that was read."
    )
    current: MetricValueStatus = field(
        2, required=True, doc="The current value of the external metric, in total or for each pod."
    )


class HPAScalingPolicy(Type):
    """A limit on the pods that are added or removed in a period."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Pods if the value is a number of pods, Percent if it is a percentage of the current "
            "pods."
        ),
    )
    value: int32 = field(
        2,
        always=True,
        required=True,
        doc=(
            "Number or percentage of pods that may be added or removed in the period; greater "
            "than zero."
        ),
    )
    periodSeconds: int32 = field(
        3, always=True, required=True, doc="Length of the period in seconds, from 1 to 1800."
    )


class HPAScalingRules(Type):
    """Limits on scaling in one direction."""

    stabilizationWindowSeconds: int32 | None = field(
        3,
        doc=(
            "Seconds of past recommendations that are considered, to avoid flapping; 0 to 3600. "
            "Defaults to 0 for scaleUp and to 300 for scaleDown."
        ),
    )
    selectPolicy: str | None = field(
        1,
        doc=(
            "Max (the default) uses the policy that allows the largest change, Min the smallest, "
            "Disabled turns scaling in this direction off."
        ),
    )
    policies: list[HPAScalingPolicy] = field(
        2,
        doc=(
            "The limits on scaling, at least one. By default, scaling up adds 4 pods or 100% in "
            "15 seconds, scaling down removes up to 100% in 15 seconds."
        ),
    )
    tolerance: Quantity | None = field(
        4,
        doc=(
            "Deviation of the metric from its target that causes no scaling, as a fraction such "
            "as 0.05. If absent, the cluster-wide default, usually 0.1."
        ),
    )


class HorizontalPodAutoscaler(Kind):
    """Scales the number of pods of a workload so that metrics stay near their targets."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: HorizontalPodAutoscalerSpec = field(
        2, required=True, doc="The workload to scale, the limits and the metrics."
    )
    status: HorizontalPodAutoscalerStatus = field(
        3, doc="The current number of pods and the current metrics."
    )


class HorizontalPodAutoscalerBehavior(Type):
    """Limits on the speed of scaling up and down."""

    scaleUp: HPAScalingRules | None = field(
        1,
        doc=(
            "Rules for adding pods. By default, the higher of 4 pods and 100% are added every 15 "
            "seconds, without a stabilization window."
        ),
    )
    scaleDown: HPAScalingRules | None = field(
        2,
        doc=(
            "Rules for removing pods. By default, any number down to minReplicas is removed, "
            "after a stabilization window of 300 seconds."
        ),
    )


class HorizontalPodAutoscalerCondition(Type):
    """One condition of an autoscaler."""

    type: str = field(
        1,
        always=True,
        doc=(
            "AbleToScale, ScalingActive (the metrics could be read) or ScalingLimited (the number "
            "of pods is at a limit)."
        ),
        required=True,
    )
    status: str = field(
        2,
        always=True,
        doc="Whether the autoscaler has the condition: True, False or Unknown.",
        required=True,
    )
    lastTransitionTime: Time = field(
        3, doc="When the autoscaler last changed the status of the condition."
    )
    reason: str = field(
        4, doc="A CamelCase word for the cause of the last transition, such as ReadyForNewScale."
    )
    message: str = field(
        5,
        doc=(
            "A text for people about the last transition, such as the metric that could not be "
            "read."
        ),
    )
    observedGeneration: int64 | None = field(
        6, doc="The metadata.generation of the autoscaler for which the condition was set."
    )


class HorizontalPodAutoscalerSpec(Type):
    """The workload that an autoscaler scales, the limits and the metrics."""

    scaleTargetRef: CrossVersionObjectReference = field(
        1,
        required=True,
        doc="The workload to scale, such as a Deployment. It must have a scale subresource.",
    )
    minReplicas: int32 | None = field(
        2,
        doc=(
            "The lower limit of replicas; defaults to 1. 0 needs at least one Object or External "
            "metric."
        ),
    )
    maxReplicas: int32 = field(
        3,
        always=True,
        required=True,
        doc="The upper limit of replicas; at least 1 and not below minReplicas.",
    )
    metrics: list[MetricSpec] = field(
        4,
        doc=(
            "The metrics to scale by; the metric that demands the most replicas decides. Defaults "
            "to a CPU utilization of 80%."
        ),
    )
    behavior: HorizontalPodAutoscalerBehavior | None = field(
        5,
        doc=(
            "Limits on the speed of scaling. If it is absent, the defaults of both directions "
            "apply."
        ),
    )


class HorizontalPodAutoscalerStatus(Type):
    """The replicas and metrics that an autoscaler last observed."""

    observedGeneration: int64 | None = field(
        1, doc="The metadata.generation that the autoscaler last observed."
    )
    lastScaleTime: Time | None = field(
        2, doc="When the autoscaler last changed the number of replicas."
    )
    currentReplicas: int32 = field(
        3, doc="Number of replicas that the workload had at the last observation."
    )
    desiredReplicas: int32 = field(
        4,
        always=True,
        required=True,
        doc="Number of replicas that the autoscaler last computed from the metrics.",
    )
    currentMetrics: list[MetricStatus] = field(
        5, always=True, doc="The metrics as the autoscaler last read them."
    )
    conditions: list[HorizontalPodAutoscalerCondition] = field(
        6,
        keys=("type",),
        merge="type",
        doc=(
            "Whether the autoscaler can scale, reads its metrics and is at a limit, by condition "
            "type."
        ),
    )


class MetricIdentifier(Type):
    """A metric by its name and labels."""

    name: str = field(
        1, always=True, required=True, doc="Name of the metric, as the metrics API serves it."
    )
    selector: LabelSelector | None = field(
        2,
        doc=(
            "Labels of the metric, passed to the metrics API. If it is absent, only the name "
            "selects the metric."
        ),
    )


class MetricSpec(Type):
    """A metric to scale by; the field that type names is set."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Kind of the metric: Object, Pods, Resource, ContainerResource or External. Exactly "
            "the field of that kind must be set."
        ),
    )
    object: ObjectMetricSource | None = field(
        2, doc="A metric of one Kubernetes object, such as requests per second of an Ingress."
    )
    pods: PodsMetricSource | None = field(
        3, doc="A custom metric of each pod, averaged over the pods."
    )
    resource: ResourceMetricSource | None = field(
        4, doc="The CPU or memory use of each pod, summed over its containers."
    )
    containerResource: ContainerResourceMetricSource | None = field(
        7, doc="The CPU or memory use of one container in each pod."
    )
    external: ExternalMetricSource | None = field(
        5,
        doc=(
            "A metric that no Kubernetes object has, such as the length of a queue in a cloud "
            "service."
        ),
    )


class MetricStatus(Type):
    """The current value of a metric; the field that type names is set."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Kind of the metric that was read: Object, Pods, Resource, ContainerResource or "
            "External."
        ),
    )
    object: ObjectMetricStatus | None = field(
        2, doc="Current value of a metric of one Kubernetes object."
    )
    pods: PodsMetricStatus | None = field(
        3, doc="Current value of a custom metric, averaged over the pods."
    )
    resource: ResourceMetricStatus | None = field(4, doc="Current CPU or memory use of the pods.")
    containerResource: ContainerResourceMetricStatus | None = field(
        7, doc="Current CPU or memory use of one container of the pods."
    )
    external: ExternalMetricStatus | None = field(
        5, doc="Current value of a metric that no Kubernetes object has."
    )


class MetricTarget(Type):
    """The value that a metric should have; the field that type names is used."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Utilization uses averageUtilization, Value uses value, AverageValue uses averageValue."
        ),
    )
    value: Quantity | None = field(
        2,
        doc=(
            "Target for the metric as a whole; greater than zero. For Object and External metrics "
            "only."
        ),
    )
    averageValue: Quantity | None = field(
        3, doc="Target for the metric divided by the number of pods; greater than zero."
    )
    averageUtilization: int32 | None = field(
        4,
        doc=(
            "Target for the average use in percent of the pods' resource requests; 1 or more. For "
            "Resource and ContainerResource metrics only."
        ),
    )


class MetricValueStatus(Type):
    """The value that a metric has."""

    value: Quantity | None = field(1, doc="Current value of the metric as a whole.")
    averageValue: Quantity | None = field(
        2, doc="Current value of the metric divided by the number of pods."
    )
    averageUtilization: int32 | None = field(
        3, doc="Current average use in percent of the pods' resource requests."
    )


class ObjectMetricSource(Type):
    """A target for a metric of one Kubernetes object."""

    describedObject: CrossVersionObjectReference = field(
        1, required=True, doc="The object that has the metric."
    )
    target: MetricTarget = field(
        2,
        required=True,
        doc=(
            "The target for the metric: value as a whole, or averageValue divided by the number "
            "of pods."
        ),
    )
    metric: MetricIdentifier = field(
        3, required=True, doc="Name of the object's metric, and a selector for its labels."
    )


class ObjectMetricStatus(Type):
    """The current value of a metric of one Kubernetes object."""

    metric: MetricIdentifier = field(
        1, required=True, doc="Name and selector of the object's metric that was read."
    )
    current: MetricValueStatus = field(
        2, required=True, doc="The current value of the object's metric."
    )
    describedObject: CrossVersionObjectReference = field(
        3, required=True, doc="The object whose metric was read."
    )


class PodsMetricSource(Type):
    """A target for a custom metric, averaged over the pods."""

    metric: MetricIdentifier = field(
        1, required=True, doc="Name of the pods' metric, and a selector for its labels."
    )
    target: MetricTarget = field(
        2, required=True, doc="The target for the average over the pods; averageValue must be set."
    )


class PodsMetricStatus(Type):
    """The current average of a custom metric over the pods."""

    metric: MetricIdentifier = field(
        1, required=True, doc="Name and selector of the pods' metric that was read."
    )
    current: MetricValueStatus = field(
        2, required=True, doc="The current average of the metric over the pods."
    )


class ResourceMetricSource(Type):
    """A target for the CPU or memory use of each pod, summed over its containers."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the resource to scale by, such as cpu or memory.",
    )
    target: MetricTarget = field(
        2,
        required=True,
        doc=(
            "The target average over the pods. Either averageUtilization or averageValue must be "
            "set."
        ),
    )


class ResourceMetricStatus(Type):
    """The current CPU or memory use of the pods."""

    name: str = field(
        1, always=True, required=True, doc="Name of the resource that was measured in the pods."
    )
    current: MetricValueStatus = field(
        2, required=True, doc="The current usage of the resource, averaged over all pods."
    )
