"""scheduling.k8s.io/v1beta1: priority classes, and groups of pods that are scheduled together."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scheduling import v1
from kapiserver.api.types import Kind, Type, field, inherit_types, int32

inherit_types(__name__, v1)


class AllCompositeDisruptionMode(Type):
    """All groups go together."""


class AllDisruptionMode(Type):
    """All pods go together."""


class BasicSchedulingPolicy(Type):
    """Pods are placed one by one."""


class CompositeBasicSchedulingPolicy(Type):
    """Groups are placed one by one."""


class CompositeDisruptionMode(Type):
    """Whether groups go alone or together."""

    single: SingleCompositeDisruptionMode | None = field(1, doc="Members are disrupted one by one.")
    all: AllCompositeDisruptionMode | None = field(2, doc="Members are disrupted together.")


class CompositeGangSchedulingPolicy(Type):
    """Groups are placed together or not at all."""

    minGroupCount: int32 = field(
        1, always=True, required=True, doc="How many groups must be schedulable at once."
    )


class CompositePodGroupSchedulingConstraints(Type):
    """Where the groups must be placed."""

    topology: list[TopologyConstraint] = field(1, doc="The domains in which members must be.")


class CompositePodGroupSchedulingPolicy(Type):
    """How the groups are placed; one of the fields is set."""

    basic: CompositeBasicSchedulingPolicy | None = field(1, doc="Members are scheduled one by one.")
    gang: CompositeGangSchedulingPolicy | None = field(
        2, doc="Members are scheduled together or not at all."
    )


class CompositePodGroupTemplate(Type):
    """What groups of groups look like."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    schedulingPolicy: CompositePodGroupSchedulingPolicy = field(
        2, required=True, doc="How the group is scheduled."
    )
    schedulingConstraints: CompositePodGroupSchedulingConstraints | None = field(
        3, doc="Where the group may run."
    )
    disruptionMode: CompositeDisruptionMode | None = field(
        4, doc="Whether members go one by one or all together."
    )
    priorityClassName: str = field(5, doc="The class that gives the priority.")
    priority: int32 | None = field(6, doc="The higher, the more important.")
    preemptionPolicy: str | None = field(
        7,
        enum=("PreemptLowerPriority", "Never"),
        doc="Whether others may go for it: Never or PreemptLowerPriority.",
    )
    podGroupTemplates: list[PodGroupTemplate] = field(
        8, keys=("name",), doc="What pod groups are made from."
    )
    compositePodGroupTemplates: list[CompositePodGroupTemplate] = field(
        9, keys=("name",), doc="What groups of groups are made from."
    )


class DisruptionMode(Type):
    """Whether pods go alone or together."""

    single: SingleDisruptionMode | None = field(1, doc="Members are disrupted one by one.")
    all: AllDisruptionMode | None = field(2, doc="Members are disrupted together.")


class GangSchedulingPolicy(Type):
    """Pods are placed together or not at all."""

    minCount: int32 = field(
        1, always=True, required=True, doc="How many must be schedulable at once."
    )


class PodGroup(Kind):
    """Pods that are placed together."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PodGroupSpec = field(2, required=True, doc="The desired state.")
    status: PodGroupStatus = field(3, doc="The observed state.")


class PodGroupResourceClaim(Type):
    """A claim that the pods of a group share."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    resourceClaimName: str | None = field(2, doc="The claim, by name.")
    resourceClaimTemplateName: str | None = field(3, doc="The template that a claim is made from.")


class PodGroupResourceClaimStatus(Type):
    """The claim that was made for a group."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    resourceClaimName: str | None = field(2, doc="The claim, by name.")


class PodGroupSchedulingConstraints(Type):
    """Where the pods must be placed."""

    topology: list[TopologyConstraint] = field(1, doc="The domains in which members must be.")


class PodGroupSchedulingPolicy(Type):
    """How the pods are placed; one of the fields is set."""

    basic: BasicSchedulingPolicy | None = field(1, doc="Members are scheduled one by one.")
    gang: GangSchedulingPolicy | None = field(
        2, doc="Members are scheduled together or not at all."
    )


class PodGroupSpec(Type):
    """How pods belong together."""

    parentCompositePodGroupName: str | None = field(1, doc="The group that it is a part of.")
    workloadRef: WorkloadReference | None = field(2, doc="The workload it was made from.")
    schedulingPolicy: PodGroupSchedulingPolicy = field(
        3, required=True, doc="How the group is scheduled."
    )
    schedulingConstraints: PodGroupSchedulingConstraints | None = field(
        4, doc="Where the group may run."
    )
    resourceClaims: list[PodGroupResourceClaim] = field(
        5,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc="Claims to devices that its pods share.",
    )
    disruptionMode: DisruptionMode | None = field(
        6, default={"single": {}}, doc="Whether members go one by one or all together."
    )
    priorityClassName: str = field(7, doc="The class that gives the priority.")
    priority: int32 | None = field(8, doc="The higher, the more important.")
    preemptionPolicy: str | None = field(
        9,
        enum=("PreemptLowerPriority", "Never"),
        doc="Whether others may go for it: Never or PreemptLowerPriority.",
    )


class PodGroupStatus(Type):
    """What is known of a group of pods."""

    conditions: list[Condition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )
    resourceClaimStatuses: list[PodGroupResourceClaimStatus] = field(
        2, keys=("name",), merge="name", patch="retainKeys", doc="Claims that were made for it."
    )


class PodGroupTemplate(Type):
    """What groups of pods look like."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    schedulingPolicy: PodGroupSchedulingPolicy = field(
        2, required=True, doc="How the group is scheduled."
    )
    schedulingConstraints: PodGroupSchedulingConstraints | None = field(
        3, always=True, doc="Where the group may run."
    )
    resourceClaims: list[PodGroupResourceClaim] = field(
        4,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc="Claims to devices that its pods share.",
    )
    disruptionMode: DisruptionMode | None = field(
        5, doc="Whether members go one by one or all together."
    )
    priorityClassName: str = field(6, doc="The class that gives the priority.")
    priority: int32 | None = field(7, doc="The higher, the more important.")
    preemptionPolicy: str | None = field(
        8,
        enum=("PreemptLowerPriority", "Never"),
        doc="Whether others may go for it: Never or PreemptLowerPriority.",
    )


class SingleCompositeDisruptionMode(Type):
    """Each group goes alone."""


class SingleDisruptionMode(Type):
    """Each pod goes alone."""


class TopologyConstraint(Type):
    """All in one domain of this node label."""

    key: str = field(
        1, always=True, required=True, doc="The label of nodes that tells domains apart."
    )


class TypedLocalObjectReference(Type):
    """Names an object in the same namespace, with its kind."""

    apiGroup: str = field(1, doc="The group of the object; empty: core.")
    kind: str = field(2, always=True, required=True, doc="The kind of the object.")
    name: str = field(3, always=True, required=True, doc="Its name.")


class Workload(Kind):
    """What an application's groups of pods look like."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: WorkloadSpec = field(2, required=True, doc="The desired state.")


class WorkloadReference(Type):
    """The workload that a group comes from."""

    workloadName: str = field(1, always=True, required=True, doc="The workload, by name.")
    templateName: str = field(2, always=True, required=True, doc="The template in it, by name.")


class WorkloadSpec(Type):
    """The groups, and who controls them."""

    controllerRef: TypedLocalObjectReference | None = field(
        1, doc="The object whose pods these are."
    )
    podGroupTemplates: list[PodGroupTemplate] = field(
        2, always=True, keys=("name",), doc="What pod groups are made from."
    )
    compositePodGroupTemplates: list[CompositePodGroupTemplate] = field(
        3, keys=("name",), doc="What groups of groups are made from."
    )
