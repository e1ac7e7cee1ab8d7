"""policy/v1: how much disruption pods bear."""

from __future__ import annotations

from kapiserver.api.leaves import IntOrString, Time
from kapiserver.api.meta.v1 import Condition, DeleteOptions, LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class Eviction(Kind):
    """Asks a pod to go, if its budget allows."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    deleteOptions: DeleteOptions | None = field(2, doc="How the pod is deleted.")


class PodDisruptionBudget(Kind):
    """How many of some pods may be missing by intent."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PodDisruptionBudgetSpec = field(2, doc="The desired state.")
    status: PodDisruptionBudgetStatus = field(3, doc="The observed state.")


class PodDisruptionBudgetSpec(Type):
    """Which pods, and how many must stay."""

    minAvailable: IntOrString | None = field(1, doc="How many must stay, or which part.")
    selector: LabelSelector | None = field(2, patch="replace", doc="Labels of the pods.")
    maxUnavailable: IntOrString | None = field(3, doc="How many may be missing, or which part.")
    unhealthyPodEvictionPolicy: str | None = field(
        4, enum=("IfHealthyBudget", "AlwaysAllow"), doc="IfHealthyBudget or AlwaysAllow."
    )


class PodDisruptionBudgetStatus(Type):
    """What is known of a budget."""

    observedGeneration: int64 = field(1, doc="The generation that this is about.")
    disruptedPods: dict[str, Time] = field(2, doc="Pods that were evicted and are not gone yet.")
    disruptionsAllowed: int32 = field(3, always=True, doc="How many may go now.")
    currentHealthy: int32 = field(4, always=True, doc="How many are healthy.")
    desiredHealthy: int32 = field(5, always=True, doc="How many must be healthy.")
    expectedPods: int32 = field(6, always=True, doc="How many there should be.")
    conditions: list[Condition] = field(
        7, keys=("type",), merge="type", doc="What was found out about it."
    )
