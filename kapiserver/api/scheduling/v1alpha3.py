"""scheduling.k8s.io/v1alpha3: the groups of pods of v1beta1, and groups of such groups."""

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
    """Groups of pods that belong together."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: CompositePodGroupSpec = field(2, required=True, doc="The desired state.")
    status: CompositePodGroupStatus = field(3, doc="The observed state.")


class CompositePodGroupSpec(Type):
    """How groups belong together."""

    parentCompositePodGroupName: str | None = field(1, doc="The group that it is a part of.")
    workloadRef: WorkloadReference | None = field(
        2, always=True, required=True, doc="The workload it was made from."
    )
    schedulingPolicy: CompositePodGroupSchedulingPolicy = field(
        3, required=True, doc="How the group is scheduled."
    )
    schedulingConstraints: CompositePodGroupSchedulingConstraints | None = field(
        4, doc="Where the group may run."
    )
    disruptionMode: CompositeDisruptionMode | None = field(
        5, default={"single": {}}, doc="Whether members go one by one or all together."
    )
    priorityClassName: str = field(6, doc="The class that gives the priority.")
    priority: int32 | None = field(7, doc="The higher, the more important.")
    preemptionPolicy: str | None = field(
        8,
        enum=("PreemptLowerPriority", "Never"),
        doc="Whether others may go for it: Never or PreemptLowerPriority.",
    )


class CompositePodGroupStatus(Type):
    """What is known of a group of groups."""

    conditions: list[Condition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )


class WorkloadCompositePodGroupAllDisruptionMode(Type):
    """All groups go together."""


class WorkloadCompositePodGroupBasicSchedulingPolicy(Type):
    """Groups are placed one by one."""


class WorkloadCompositePodGroupDisruptionMode(Type):
    """Whether groups go alone or together."""

    single: WorkloadCompositePodGroupSingleDisruptionMode | None = field(1)
    all: WorkloadCompositePodGroupAllDisruptionMode | None = field(2)


class WorkloadCompositePodGroupGangSchedulingPolicy(Type):
    """Groups are placed together or not at all."""

    minGroupCount: int32 | None = field(1)


class WorkloadCompositePodGroupSchedulingConstraints(Type):
    """Where the groups must be placed."""

    topology: list[TopologyConstraint] = field(1)


class WorkloadCompositePodGroupSchedulingPolicy(Type):
    """How the groups are placed; one of the fields is set."""

    basic: WorkloadCompositePodGroupBasicSchedulingPolicy | None = field(1)
    gang: WorkloadCompositePodGroupGangSchedulingPolicy | None = field(2)


class WorkloadCompositePodGroupSingleDisruptionMode(Type):
    """Each group goes alone."""


class WorkloadPodGroupAllDisruptionMode(Type):
    """All pods go together."""


class WorkloadPodGroupBasicSchedulingPolicy(Type):
    """Pods are placed one by one."""


class WorkloadPodGroupDisruptionMode(Type):
    """Whether pods go alone or together."""

    single: WorkloadPodGroupSingleDisruptionMode | None = field(
        1, doc="Members are disrupted one by one."
    )
    all: WorkloadPodGroupAllDisruptionMode | None = field(2, doc="Members are disrupted together.")


class WorkloadPodGroupGangSchedulingPolicy(Type):
    """Pods are placed together or not at all."""

    minCount: int32 | None = field(1, doc="How many must be schedulable at once.")


class WorkloadPodGroupResourceClaim(Type):
    """A claim that the pods of a group share."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    resourceClaimName: str | None = field(2, doc="The claim, by name.")
    resourceClaimTemplateName: str | None = field(3, doc="The template that a claim is made from.")


class WorkloadPodGroupSchedulingConstraints(Type):
    """Where the pods must be placed."""

    topology: list[TopologyConstraint] = field(1, doc="The domains in which members must be.")


class WorkloadPodGroupSchedulingPolicy(Type):
    """How the pods are placed; one of the fields is set."""

    basic: WorkloadPodGroupBasicSchedulingPolicy | None = field(
        1, doc="Members are scheduled one by one."
    )
    gang: WorkloadPodGroupGangSchedulingPolicy | None = field(
        2, doc="Members are scheduled together or not at all."
    )


class WorkloadPodGroupSingleDisruptionMode(Type):
    """Each pod goes alone."""
