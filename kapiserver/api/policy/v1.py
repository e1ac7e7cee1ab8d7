"""policy/v1: pod disruption budgets and evictions."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, DeleteOptions, LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import IntOrString, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class Eviction(Kind):
    """A request to evict one pod: to delete it if its PodDisruptionBudget allows. POST it to the
    pod's eviction subresource."""

    listed = False

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. Name and namespace must be those of the pod."
    )
    deleteOptions: DeleteOptions | None = field(
        2,
        doc=(
            "Options for deleting the pod, such as gracePeriodSeconds and dryRun. Defaults to "
            "those of the pod."
        ),
    )


class PodDisruptionBudget(Kind):
    """How many of a group of pods may be down at a time because of evictions. It does not limit
    deletes or failures."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: PodDisruptionBudgetSpec = field(2, doc="The pods and how many of them must stay.")
    status: PodDisruptionBudgetStatus = field(
        3,
        doc=(
            "How many pods are healthy and how many may be evicted now. Written by the disruption "
            "controller."
        ),
    )


class PodDisruptionBudgetSpec(Type):
    """The pods of a budget and how many must stay."""

    minAvailable: IntOrString | None = field(
        1,
        doc=(
            "Pods that must still be available after an eviction, as a number or as a percentage "
            "such as 50%. Excludes maxUnavailable."
        ),
    )
    selector: LabelSelector | None = field(
        2,
        patch="replace",
        doc=(
            "Labels of the pods that the budget covers, in its namespace. Empty covers all pods, "
            "unset none."
        ),
    )
    maxUnavailable: IntOrString | None = field(
        3,
        doc=(
            "Pods that may be unavailable after an eviction, as a number or as a percentage such "
            "as 30%. 0 forbids evictions. Excludes minAvailable."
        ),
    )
    unhealthyPodEvictionPolicy: str | None = field(
        4,
        enum=("IfHealthyBudget", "AlwaysAllow"),
        doc=(
            "When running pods that are not Ready may be evicted: IfHealthyBudget if "
            "desiredHealthy pods are healthy (the default), AlwaysAllow at any time."
        ),
    )


class PodDisruptionBudgetStatus(Type):
    """The observed state of a budget. It is up to date if observedGeneration equals
    metadata.generation."""

    observedGeneration: int64 = field(
        1,
        doc=(
            "metadata.generation of the budget that this status was computed for. Evictions are "
            "refused until it is current."
        ),
    )
    disruptedPods: dict[str, Time] = field(
        2,
        doc=(
            "Pods whose eviction was granted but whose deletion the controller has not seen yet, "
            "with the time of the grant."
        ),
    )
    disruptionsAllowed: int32 = field(3, always=True, doc="How many pods may be evicted now.")
    currentHealthy: int32 = field(4, always=True, doc="How many of the pods are healthy now.")
    desiredHealthy: int32 = field(5, always=True, doc="How many of the pods must be healthy.")
    expectedPods: int32 = field(
        6,
        always=True,
        doc="How many pods the budget counts on, from the scale of their controllers.",
    )
    conditions: list[Condition] = field(
        7,
        keys=("type",),
        merge="type",
        doc=(
            "Aspects of the budget's state, at most one per type. DisruptionAllowed is True if a "
            "pod may be evicted."
        ),
    )
