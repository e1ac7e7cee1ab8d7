"""scheduling.k8s.io/v1beta1: which pods come first, and which only together."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


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

    single: SingleCompositeDisruptionMode | None = field(1)
    all: AllCompositeDisruptionMode | None = field(2)


class CompositeGangSchedulingPolicy(Type):
    """Groups are placed together or not at all."""

    minGroupCount: int32 = field(1, always=True, required=True)


class CompositePodGroupSchedulingConstraints(Type):
    """Where the groups must be placed."""

    topology: list[TopologyConstraint] = field(1)


class CompositePodGroupSchedulingPolicy(Type):
    """How the groups are placed; one of the fields is set."""

    basic: CompositeBasicSchedulingPolicy | None = field(1)
    gang: CompositeGangSchedulingPolicy | None = field(2)


class CompositePodGroupTemplate(Type):
    """What groups of groups look like."""

    name: str = field(1, always=True, required=True)
    schedulingPolicy: CompositePodGroupSchedulingPolicy = field(2, required=True)
    schedulingConstraints: CompositePodGroupSchedulingConstraints | None = field(3)
    disruptionMode: CompositeDisruptionMode | None = field(4)
    priorityClassName: str = field(5)
    priority: int32 | None = field(6)
    preemptionPolicy: str | None = field(7, enum=("PreemptLowerPriority", "Never"))
    podGroupTemplates: list[PodGroupTemplate] = field(8, keys=("name",))
    compositePodGroupTemplates: list[CompositePodGroupTemplate] = field(9, keys=("name",))


class DisruptionMode(Type):
    """Whether pods go alone or together."""

    single: SingleDisruptionMode | None = field(1)
    all: AllDisruptionMode | None = field(2)


class GangSchedulingPolicy(Type):
    """Pods are placed together or not at all."""

    minCount: int32 = field(1, always=True, required=True)


class PodGroup(Kind):
    """Pods that are placed together."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PodGroupSpec = field(2, required=True, doc="The desired state.")
    status: PodGroupStatus = field(3, doc="The observed state.")


class PodGroupResourceClaim(Type):
    """A claim that the pods of a group share."""

    name: str = field(1, always=True, required=True)
    resourceClaimName: str | None = field(2)
    resourceClaimTemplateName: str | None = field(3)


class PodGroupResourceClaimStatus(Type):
    """The claim that was made for a group."""

    name: str = field(1, always=True, required=True)
    resourceClaimName: str | None = field(2)


class PodGroupSchedulingConstraints(Type):
    """Where the pods must be placed."""

    topology: list[TopologyConstraint] = field(1)


class PodGroupSchedulingPolicy(Type):
    """How the pods are placed; one of the fields is set."""

    basic: BasicSchedulingPolicy | None = field(1)
    gang: GangSchedulingPolicy | None = field(2)


class PodGroupSpec(Type):
    """How pods belong together."""

    parentCompositePodGroupName: str | None = field(1)
    workloadRef: WorkloadReference | None = field(2)
    schedulingPolicy: PodGroupSchedulingPolicy = field(3, required=True)
    schedulingConstraints: PodGroupSchedulingConstraints | None = field(4)
    resourceClaims: list[PodGroupResourceClaim] = field(
        5, keys=("name",), merge="name", patch="retainKeys"
    )
    disruptionMode: DisruptionMode | None = field(6, default={"single": {}})
    priorityClassName: str = field(7)
    priority: int32 | None = field(8)
    preemptionPolicy: str | None = field(9, enum=("PreemptLowerPriority", "Never"))


class PodGroupStatus(Type):
    """What is known of a group of pods."""

    conditions: list[Condition] = field(1, keys=("type",), merge="type")
    resourceClaimStatuses: list[PodGroupResourceClaimStatus] = field(
        2, keys=("name",), merge="name", patch="retainKeys"
    )


class PodGroupTemplate(Type):
    """What groups of pods look like."""

    name: str = field(1, always=True, required=True)
    schedulingPolicy: PodGroupSchedulingPolicy = field(2, required=True)
    schedulingConstraints: PodGroupSchedulingConstraints | None = field(3, always=True)
    resourceClaims: list[PodGroupResourceClaim] = field(
        4, keys=("name",), merge="name", patch="retainKeys"
    )
    disruptionMode: DisruptionMode | None = field(5)
    priorityClassName: str = field(6)
    priority: int32 | None = field(7)
    preemptionPolicy: str | None = field(8, enum=("PreemptLowerPriority", "Never"))


class PriorityClass(Kind):
    """A name for a priority of pods."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    value: int32 = field(2, always=True, doc="The priority; the larger comes first.")
    globalDefault: bool = field(3, doc="Whether pods without a class have this one.")
    description: str = field(4, doc="When to use it.")
    preemptionPolicy: str | None = field(
        5, enum=("PreemptLowerPriority", "Never"), doc="Whether its pods push others out."
    )


class SingleCompositeDisruptionMode(Type):
    """Each group goes alone."""


class SingleDisruptionMode(Type):
    """Each pod goes alone."""


class TopologyConstraint(Type):
    """All in one domain of this node label."""

    key: str = field(1, always=True, required=True)


class TypedLocalObjectReference(Type):
    """Names an object in the same namespace, with its kind."""

    apiGroup: str = field(1)
    kind: str = field(2, always=True, required=True)
    name: str = field(3, always=True, required=True)


class Workload(Kind):
    """What an application's groups of pods look like."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: WorkloadSpec = field(2, required=True, doc="The desired state.")


class WorkloadReference(Type):
    """The workload that a group comes from."""

    workloadName: str = field(1, always=True, required=True)
    templateName: str = field(2, always=True, required=True)


class WorkloadSpec(Type):
    """The groups, and who controls them."""

    controllerRef: TypedLocalObjectReference | None = field(1)
    podGroupTemplates: list[PodGroupTemplate] = field(2, always=True, keys=("name",))
    compositePodGroupTemplates: list[CompositePodGroupTemplate] = field(3, keys=("name",))
