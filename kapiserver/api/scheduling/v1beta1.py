"""scheduling.k8s.io/v1beta1: priority classes, workloads and groups of pods."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scheduling import v1
from kapiserver.api.types import Kind, Type, field, inherit_types, int32

inherit_types(__name__, v1)


class AllCompositeDisruptionMode(Type):
    """Disrupts all groups of a composite group together; has no fields."""


class AllDisruptionMode(Type):
    """Disrupts all pods of a group together; has no fields."""


class BasicSchedulingPolicy(Type):
    """Schedules each pod of a group by itself, as without a group; has no fields."""


class CompositeBasicSchedulingPolicy(Type):
    """Schedules each group of a composite group by itself; has no fields."""


class CompositeDisruptionMode(Type):
    """Disruption of the groups of a composite group; exactly one field is set."""

    single: SingleCompositeDisruptionMode | None = field(
        1, doc="Each group can be preempted or evicted without the others. Excludes all."
    )
    all: AllCompositeDisruptionMode | None = field(
        2,
        doc=(
            "If one group is preempted or evicted, all groups of the composite group are. "
            "Excludes single."
        ),
    )


class CompositeGangSchedulingPolicy(Type):
    """Schedules the groups of a composite group together or not at all."""

    minGroupCount: int32 = field(
        1,
        always=True,
        required=True,
        doc=(
            "Number of groups that must be schedulable at the same time before any of them is "
            "scheduled; 1 or more."
        ),
    )


class CompositePodGroupSchedulingConstraints(Type):
    """Placement constraints of the groups of a composite group."""

    topology: list[TopologyConstraint] = field(
        1,
        doc=(
            "Node labels whose value must be the same for all pods of the composite group. At "
            "most one constraint."
        ),
    )


class CompositePodGroupSchedulingPolicy(Type):
    """Scheduling of the groups of a composite group; exactly one field is set."""

    basic: CompositeBasicSchedulingPolicy | None = field(
        1,
        doc=(
            "Each group is scheduled by itself, without regard to the others. Excludes gang; "
            "cannot be changed."
        ),
    )
    gang: CompositeGangSchedulingPolicy | None = field(
        2,
        doc=(
            "Groups are scheduled only if enough of them fit at the same time. Excludes basic; "
            "only its count can be changed."
        ),
    )


class CompositePodGroupTemplate(Type):
    """A template for composite groups, which hold pod groups or further composite groups."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the template, a DNS label that is unique among all templates of the workload."
        ),
    )
    schedulingPolicy: CompositePodGroupSchedulingPolicy = field(
        2,
        required=True,
        doc=(
            "Whether groups from the templates below are scheduled one by one or as a gang. "
            "Required."
        ),
    )
    schedulingConstraints: CompositePodGroupSchedulingConstraints | None = field(
        3, doc="Where the groups may be placed. If it is absent, the scheduler is free to choose."
    )
    disruptionMode: CompositeDisruptionMode | None = field(
        4,
        doc="Whether the groups are preempted and evicted together. If it is absent, one by one.",
    )
    priorityClassName: str = field(
        5,
        doc=(
            "The priority class of the composite group. All templates of a workload must name the "
            "same class."
        ),
    )
    priority: int32 | None = field(
        6,
        doc=(
            "The priority of the composite group, at most 1000000000. The server sets it from the "
            "class; it must be the same in all templates."
        ),
    )
    preemptionPolicy: str | None = field(
        7,
        enum=("PreemptLowerPriority", "Never"),
        doc=(
            "Whether the composite group may evict pods of lower priority: PreemptLowerPriority "
            "or Never."
        ),
    )
    podGroupTemplates: list[PodGroupTemplate] = field(
        8,
        keys=("name",),
        doc=(
            "Templates of the pod groups in the composite group, at most 8. One template of "
            "either kind is needed."
        ),
    )
    compositePodGroupTemplates: list[CompositePodGroupTemplate] = field(
        9,
        keys=("name",),
        doc=(
            "Templates of composite groups within this one, at most 8. Templates nest up to 4 "
            "levels deep."
        ),
    )


class DisruptionMode(Type):
    """Disruption of the pods of a group; exactly one field is set."""

    single: SingleDisruptionMode | None = field(
        1, doc="Each pod can be preempted or evicted without the others. Excludes all."
    )
    all: AllDisruptionMode | None = field(
        2, doc="If one pod is preempted or evicted, all pods of the group are. Excludes single."
    )


class GangSchedulingPolicy(Type):
    """Schedules the pods of a group together or not at all."""

    minCount: int32 = field(
        1,
        always=True,
        required=True,
        doc=(
            "Number of pods that must be schedulable at the same time before any of them is "
            "scheduled; 1 or more."
        ),
    )


class PodGroup(Kind):
    """A group of pods that the scheduler treats as a unit."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. Pods name the group in spec.schedulingGroup."
    )
    spec: PodGroupSpec = field(
        2,
        required=True,
        doc=(
            "Scheduling and disruption of the pods of the group. Only the gang's minCount can be "
            "changed."
        ),
    )
    status: PodGroupStatus = field(
        3, doc="Conditions of the group, and the resource claims that were made for it."
    )


class PodGroupResourceClaim(Type):
    """A resource claim that all pods of a group share; names a claim or a template."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name by which the pods of the group refer to the claim, a DNS label that is unique "
            "in the group."
        ),
    )
    resourceClaimName: str | None = field(
        2,
        doc=(
            "Name of an existing ResourceClaim in the namespace of the group. Excludes "
            "resourceClaimTemplateName."
        ),
    )
    resourceClaimTemplateName: str | None = field(
        3,
        doc=(
            "Name of the ResourceClaimTemplate from which a claim for the group is made; it is "
            "deleted with the group. Excludes resourceClaimName."
        ),
    )


class PodGroupResourceClaimStatus(Type):
    """The claim that belongs to one resourceClaims item of a pod group."""

    name: str = field(1, always=True, required=True, doc="Name of an item in spec.resourceClaims.")
    resourceClaimName: str | None = field(
        2,
        doc=(
            "Name of the ResourceClaim that was made from the template. If it is absent, no claim "
            "was needed."
        ),
    )


class PodGroupSchedulingConstraints(Type):
    """Placement constraints of the pods of a group."""

    topology: list[TopologyConstraint] = field(
        1,
        doc=(
            "Node labels whose value must be the same on all nodes that run pods of the group. At "
            "most one constraint."
        ),
    )


class PodGroupSchedulingPolicy(Type):
    """Scheduling of the pods of a group; exactly one field is set."""

    basic: BasicSchedulingPolicy | None = field(
        1,
        doc=(
            "Each pod is scheduled by itself, as pods without a group are. Excludes gang; cannot "
            "be changed."
        ),
    )
    gang: GangSchedulingPolicy | None = field(
        2,
        doc=(
            "Pods are scheduled only if enough of them fit at the same time. Excludes basic; only "
            "its count can be changed."
        ),
    )


class PodGroupSpec(Type):
    """Scheduling, disruption and priority of the pods of a group."""

    parentCompositePodGroupName: str | None = field(
        1,
        doc=(
            "Name of the composite group that this group belongs to. Needs workloadRef; cannot be "
            "changed."
        ),
    )
    workloadRef: WorkloadReference | None = field(
        2,
        doc=(
            "The workload, and the template in it, from which the group was made. Cannot be "
            "changed."
        ),
    )
    schedulingPolicy: PodGroupSchedulingPolicy = field(
        3, required=True, doc="Whether the pods are scheduled one by one or as a gang. Required."
    )
    schedulingConstraints: PodGroupSchedulingConstraints | None = field(
        4,
        doc=(
            "Where the pods may be placed. If it is absent, the group adds no constraint. Cannot "
            "be changed."
        ),
    )
    resourceClaims: list[PodGroupResourceClaim] = field(
        5,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc="Resource claims that the pods of the group share, at most 4. Cannot be changed.",
    )
    disruptionMode: DisruptionMode | None = field(
        6,
        default={"single": {}},
        doc=(
            "Whether the pods are preempted and evicted one by one (single, the default) or "
            "together (all). Cannot be changed."
        ),
    )
    priorityClassName: str = field(
        7,
        doc=(
            "The priority class of the group, which replaces the priority of its pods. If empty, "
            "the default class applies, if there is one. Cannot be changed."
        ),
    )
    priority: int32 | None = field(
        8,
        doc=(
            "The priority of the group, at most 1000000000. The server sets it from the priority "
            "class; cannot be changed."
        ),
    )
    preemptionPolicy: str | None = field(
        9,
        enum=("PreemptLowerPriority", "Never"),
        doc=(
            "Whether the group may evict pods of lower priority: PreemptLowerPriority or Never. "
            "Set from the priority class; cannot be changed."
        ),
    )


class PodGroupStatus(Type):
    """The observed state of a pod group."""

    conditions: list[Condition] = field(
        1,
        keys=("type",),
        merge="type",
        doc=(
            "Conditions of the group by type. PodGroupScheduled tells whether the pods were "
            "scheduled, DisruptionTarget that the group is about to be evicted."
        ),
    )
    resourceClaimStatuses: list[PodGroupResourceClaimStatus] = field(
        2,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc="The claims that were made for items of spec.resourceClaims, at most 4.",
    )


class PodGroupTemplate(Type):
    """A template for pod groups of a workload."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the template, a DNS label that is unique in the workload; pod groups refer "
            "to it in workloadRef."
        ),
    )
    schedulingPolicy: PodGroupSchedulingPolicy = field(
        2,
        required=True,
        doc=(
            "Whether the pods of a group from this template are scheduled one by one or as a "
            "gang. Required."
        ),
    )
    schedulingConstraints: PodGroupSchedulingConstraints | None = field(
        3,
        always=True,
        doc=(
            "Where the pods of a group from this template may be placed. If it is absent, the "
            "group adds no constraint."
        ),
    )
    resourceClaims: list[PodGroupResourceClaim] = field(
        4,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc="Resource claims that the pods of each group share, at most 4.",
    )
    disruptionMode: DisruptionMode | None = field(
        5,
        doc=(
            "Whether the pods of each group are preempted and evicted together. If it is absent, "
            "one by one."
        ),
    )
    priorityClassName: str = field(
        6,
        doc=(
            "The priority class of groups from this template. All templates of a workload must "
            "name the same class."
        ),
    )
    priority: int32 | None = field(
        7,
        doc=(
            "The priority of groups from this template, at most 1000000000. It must be the same "
            "in all templates of the workload."
        ),
    )
    preemptionPolicy: str | None = field(
        8,
        enum=("PreemptLowerPriority", "Never"),
        doc=(
            "Whether groups from this template may evict pods of lower priority: "
            "PreemptLowerPriority or Never."
        ),
    )


class SingleCompositeDisruptionMode(Type):
    """Disrupts each group of a composite group by itself; has no fields."""


class SingleDisruptionMode(Type):
    """Disrupts each pod of a group by itself; has no fields."""


class TopologyConstraint(Type):
    """Keeps pods within one topology domain, such as a zone or a rack."""

    key: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Key of the node label that defines the domain, such as topology.kubernetes.io/zone. "
            "All pods run on nodes with the same value."
        ),
    )


class TypedLocalObjectReference(Type):
    """A reference to an object of any kind in the same namespace."""

    apiGroup: str = field(
        1, doc="API group of the object, such as batch. It is empty for the core group."
    )
    kind: str = field(2, always=True, required=True, doc="Kind of the object, such as Job.")
    name: str = field(
        3, always=True, required=True, doc="Name of the object in the namespace of the workload."
    )


class Workload(Kind):
    """The structure of an application: the groups of pods that controllers make for it."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. Groups name the workload in workloadRef."
    )
    spec: WorkloadSpec = field(
        2, required=True, doc="The templates of the groups, and the object that they belong to."
    )


class WorkloadReference(Type):
    """The workload and the template in it from which a group was made."""

    workloadName: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the Workload in the namespace of the group, a DNS subdomain.",
    )
    templateName: str = field(
        2, always=True, required=True, doc="Name of the template in the workload, a DNS label."
    )


class WorkloadSpec(Type):
    """The group templates of a workload; exactly one list of templates is set."""

    controllerRef: TypedLocalObjectReference | None = field(
        1,
        doc=(
            "The object, such as a Job, that manages the pods. Informational only; cannot be "
            "changed."
        ),
    )
    podGroupTemplates: list[PodGroupTemplate] = field(
        2,
        always=True,
        keys=("name",),
        doc="Templates of pod groups, at most 8. Excludes compositePodGroupTemplates.",
    )
    compositePodGroupTemplates: list[CompositePodGroupTemplate] = field(
        3,
        keys=("name",),
        doc=(
            "Templates of composite groups, at most 8, for groups within groups. Excludes "
            "podGroupTemplates."
        ),
    )
