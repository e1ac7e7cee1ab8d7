"""scheduling.k8s.io/v1alpha3: the workloads and groups of v1beta1, and composite groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scheduling import v1beta1
from kapiserver.api.types import Kind, Type, field, inherit_types, int32

if TYPE_CHECKING:
    from kapiserver.api.scheduling.v1beta1 import (
        CompositeDisruptionMode,
        CompositePodGroupSchedulingConstraints,
        CompositePodGroupSchedulingPolicy,
        TopologyConstraint,
        WorkloadReference,
    )

inherit_types(__name__, v1beta1, without=("PriorityClass",))


class CompositePodGroup(Kind):
    """A group of pod groups, or of further composite groups, that is scheduled as a unit."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. Groups name the composite group in "
            "parentCompositePodGroupName."
        ),
    )
    spec: CompositePodGroupSpec = field(
        2,
        required=True,
        doc=(
            "Scheduling and disruption of the groups within it. Only the gang's minGroupCount can "
            "be changed."
        ),
    )
    status: CompositePodGroupStatus = field(
        3, doc="Conditions that the scheduler reports for the composite group."
    )


class CompositePodGroupSpec(Type):
    """Scheduling, disruption and priority of the groups of a composite group."""

    parentCompositePodGroupName: str | None = field(
        1,
        doc=(
            "Name of the composite group that this one belongs to. If it is absent, this is the "
            "root. Cannot be changed."
        ),
    )
    workloadRef: WorkloadReference | None = field(
        2,
        always=True,
        required=True,
        doc=(
            "The workload, and the template in it, from which the composite group was made. "
            "Required; cannot be changed."
        ),
    )
    schedulingPolicy: CompositePodGroupSchedulingPolicy = field(
        3, required=True, doc="Whether the groups are scheduled one by one or as a gang. Required."
    )
    schedulingConstraints: CompositePodGroupSchedulingConstraints | None = field(
        4,
        doc=(
            "Where the groups may be placed. If it is absent, the composite group adds no "
            "constraint. Cannot be changed."
        ),
    )
    disruptionMode: CompositeDisruptionMode | None = field(
        5,
        default={"single": {}},
        doc=(
            "Whether the groups are preempted and evicted one by one (single, the default) or "
            "together (all). Cannot be changed."
        ),
    )
    priorityClassName: str = field(
        6,
        doc=(
            "The priority class of the composite group. The default class, if any, when it is "
            "empty. Cannot be changed."
        ),
    )
    priority: int32 | None = field(
        7,
        doc=(
            "The priority of the composite group, at most 1000000000. The server sets it from the "
            "class; cannot be changed."
        ),
    )
    preemptionPolicy: str | None = field(
        8,
        enum=("PreemptLowerPriority", "Never"),
        doc=(
            "Whether the composite group may evict pods of lower priority: PreemptLowerPriority "
            "or Never. Cannot be changed."
        ),
    )


class CompositePodGroupStatus(Type):
    """The observed state of a composite group."""

    conditions: list[Condition] = field(
        1,
        keys=("type",),
        merge="type",
        doc="Conditions of the composite group by type, such as whether it was scheduled.",
    )


class WorkloadCompositePodGroupAllDisruptionMode(Type):
    """Disrupts the groups of a composite group together; has no fields."""


class WorkloadCompositePodGroupBasicSchedulingPolicy(Type):
    """Schedules the groups of a composite group one by one; has no fields."""


class WorkloadCompositePodGroupDisruptionMode(Type):
    """Disruption of a workload's composite groups; exactly one field is set."""

    single: WorkloadCompositePodGroupSingleDisruptionMode | None = field(
        1, doc="Groups from the template are preempted and evicted one by one. Excludes all."
    )
    all: WorkloadCompositePodGroupAllDisruptionMode | None = field(
        2, doc="Groups from the template are preempted and evicted together. Excludes single."
    )


class WorkloadCompositePodGroupGangSchedulingPolicy(Type):
    """Schedules the groups of a workload's composite groups as a gang."""

    minGroupCount: int32 | None = field(
        1,
        doc="Number of groups that must be schedulable at the same time; 1 or more.",
    )


class WorkloadCompositePodGroupSchedulingConstraints(Type):
    """Placement constraints of a workload's composite groups."""

    topology: list[TopologyConstraint] = field(
        1,
        doc=(
            "Node labels that must agree for all pods of a composite group from the template. At "
            "most one constraint."
        ),
    )


class WorkloadCompositePodGroupSchedulingPolicy(Type):
    """Scheduling of a workload's composite groups; exactly one field is set."""

    basic: WorkloadCompositePodGroupBasicSchedulingPolicy | None = field(
        1, doc="Groups from the template are scheduled one by one. Excludes gang."
    )
    gang: WorkloadCompositePodGroupGangSchedulingPolicy | None = field(
        2,
        doc=(
            "Groups from the template are scheduled if enough of them fit at the same time. "
            "Excludes basic."
        ),
    )


class WorkloadCompositePodGroupSingleDisruptionMode(Type):
    """Disrupts the groups of a composite group one by one; has no fields."""


class WorkloadPodGroupAllDisruptionMode(Type):
    """Disrupts the pods of a job or workload group together; has no fields."""


class WorkloadPodGroupBasicSchedulingPolicy(Type):
    """Schedules the pods of a job or workload group one by one; has no fields."""


class WorkloadPodGroupDisruptionMode(Type):
    """Disruption of the pods of a job or workload group; exactly one field is set."""

    single: WorkloadPodGroupSingleDisruptionMode | None = field(
        1, doc="Pods are preempted and evicted one by one. Excludes all."
    )
    all: WorkloadPodGroupAllDisruptionMode | None = field(
        2, doc="Pods are preempted and evicted together. Excludes single."
    )


class WorkloadPodGroupGangSchedulingPolicy(Type):
    """Schedules the pods of a job or workload group as a gang."""

    minCount: int32 | None = field(
        1,
        doc="Number of pods of the group that must be schedulable at the same time; 1 or more.",
    )


class WorkloadPodGroupResourceClaim(Type):
    """A resource claim that the pods of a job or workload group share."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name by which the pods refer to the claim, a DNS label that is unique in the list.",
    )
    resourceClaimName: str | None = field(
        2,
        doc=(
            "Name of an existing ResourceClaim in the same namespace. Excludes "
            "resourceClaimTemplateName."
        ),
    )
    resourceClaimTemplateName: str | None = field(
        3,
        doc=(
            "Name of the ResourceClaimTemplate from which a claim for the group is made. Excludes "
            "resourceClaimName."
        ),
    )


class WorkloadPodGroupSchedulingConstraints(Type):
    """Placement constraints of the pods of a job or workload group."""

    topology: list[TopologyConstraint] = field(
        1,
        doc=(
            "Node labels that must have the same value for all pods of the group. At most one "
            "constraint."
        ),
    )


class WorkloadPodGroupSchedulingPolicy(Type):
    """Scheduling of the pods of a job or workload group; exactly one field is set."""

    basic: WorkloadPodGroupBasicSchedulingPolicy | None = field(
        1, doc="Pods are scheduled one by one. Excludes gang."
    )
    gang: WorkloadPodGroupGangSchedulingPolicy | None = field(
        2,
        doc="Pods are scheduled if enough of them fit at the same time. Excludes basic.",
    )


class WorkloadPodGroupSingleDisruptionMode(Type):
    """Disrupts the pods of a job or workload group one by one; has no fields."""
