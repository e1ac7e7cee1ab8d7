"""Where pods may run: affinity, taints, spreading and the selectors they use."""

from __future__ import annotations

from kapiserver.api.meta.v1 import LabelSelector
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Type, field, int32, int64


class Affinity(Type):
    """What draws a pod to nodes and to other pods, and what keeps it away."""

    nodeAffinity: NodeAffinity | None = field(1, doc="Which nodes.")
    podAffinity: PodAffinity | None = field(2, doc="Near which pods.")
    podAntiAffinity: PodAntiAffinity | None = field(3, doc="Far from which pods.")


class NodeAffinity(Type):
    """Rules about the node a pod may or should run on."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = field(
        1, doc="What must be so for a pod to be scheduled."
    )
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredSchedulingTerm] = field(
        2, doc="What should be so, by weight."
    )


class PodAffinity(Type):
    """Rules about being near other pods."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] = field(
        1, doc="What must be so for a pod to be scheduled."
    )
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] = field(
        2, doc="What should be so, by weight."
    )


class PodAntiAffinity(Type):
    """Rules about being away from other pods."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] = field(
        1, doc="What must be so for a pod to be scheduled."
    )
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] = field(
        2, doc="What should be so, by weight."
    )


class PodAffinityTerm(Type):
    """A set of pods, and the topology in which near and far are meant."""

    labelSelector: LabelSelector | None = field(1, doc="Which pods, by their labels.")
    namespaces: list[str] = field(2, doc="The namespaces, by name.")
    topologyKey: str = field(
        3, always=True, required=True, doc="The label of nodes that tells domains apart."
    )
    namespaceSelector: LabelSelector | None = field(4, doc="Which namespaces, by their labels.")
    matchLabelKeys: list[str] = field(5, doc="Labels of the pod whose values selected pods share.")
    mismatchLabelKeys: list[str] = field(
        6, doc="Labels of the pod whose values selected pods do not share."
    )


class WeightedPodAffinityTerm(Type):
    """A pod affinity term and how much it counts."""

    weight: int32 = field(1, always=True, required=True, doc="How much it counts: 1 to 100.")
    podAffinityTerm: PodAffinityTerm = field(2, required=True, doc="Which pods.")


class PreferredSchedulingTerm(Type):
    """A node selector term and how much it counts."""

    weight: int32 = field(1, always=True, required=True, doc="How much it counts: 1 to 100.")
    preference: NodeSelectorTerm = field(2, required=True, doc="What the node should be.")


class NodeSelector(Type):
    """A set of nodes: those that match any of the terms."""

    atomic = True

    nodeSelectorTerms: list[NodeSelectorTerm] = field(
        1, always=True, required=True, doc="One of these must match."
    )


class NodeSelectorTerm(Type):
    """Nodes that match all requirements."""

    atomic = True

    matchExpressions: list[NodeSelectorRequirement] = field(1, doc="Requirements, all of them.")
    matchFields: list[NodeSelectorRequirement] = field(2, doc="Requirements on fields.")


class NodeSelectorRequirement(Type):
    """One requirement on a label or field of a node."""

    key: str = field(1, always=True, required=True, doc="The label, or field.")
    operator: str = field(
        2,
        always=True,
        enum=("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
        required=True,
        doc="In, NotIn, Exists, DoesNotExist, Gt or Lt.",
    )
    values: list[str] = field(3, doc="The values to compare with.")


class Toleration(Type):
    """Lets a pod onto nodes with a matching taint."""

    key: str = field(1, doc="The taint's key; empty: all.")
    operator: str = field(2, enum=("Exists", "Equal", "Lt", "Gt"), doc="Exists, Equal, Gt or Lt.")
    value: str = field(3, doc="Its value.")
    effect: str = field(
        4,
        enum=("NoSchedule", "PreferNoSchedule", "NoExecute"),
        doc="The taint's effect; empty: all.",
    )
    tolerationSeconds: int64 | None = field(5, doc="How long it is put up with; empty: for ever.")


class Taint(Type):
    """Keeps off pods that do not tolerate it."""

    key: str = field(1, always=True, required=True, doc="Its key.")
    value: str = field(2, doc="Its value.")
    effect: str = field(
        3,
        always=True,
        enum=("NoSchedule", "PreferNoSchedule", "NoExecute"),
        required=True,
        doc="NoSchedule, PreferNoSchedule or NoExecute.",
    )
    timeAdded: Time | None = field(4, doc="When it was put on.")


class TopologySpreadConstraint(Type):
    """How evenly matching pods spread over a topology."""

    maxSkew: int32 = field(
        1, always=True, required=True, doc="How much fuller one domain may be than another."
    )
    topologyKey: str = field(
        2, always=True, required=True, doc="The label of nodes that tells domains apart."
    )
    whenUnsatisfiable: str = field(
        3,
        always=True,
        enum=("DoNotSchedule", "ScheduleAnyway"),
        required=True,
        doc="DoNotSchedule or ScheduleAnyway.",
    )
    labelSelector: LabelSelector | None = field(4, doc="Which objects, by their labels.")
    minDomains: int32 | None = field(5, doc="How many domains there must be.")
    nodeAffinityPolicy: str | None = field(
        6, enum=("Ignore", "Honor"), doc="Honor or Ignore: whether only its own nodes count."
    )
    nodeTaintsPolicy: str | None = field(
        7, enum=("Ignore", "Honor"), doc="Honor or Ignore: whether tainted nodes count."
    )
    matchLabelKeys: list[str] = field(8, doc="Labels of the pod whose values selected pods share.")


class TopologySelectorTerm(Type):
    """Topologies that match all label requirements."""

    atomic = True

    matchLabelExpressions: list[TopologySelectorLabelRequirement] = field(
        1, doc="Labels that must match."
    )


class TopologySelectorLabelRequirement(Type):
    """One requirement on a topology's label."""

    key: str = field(1, always=True, required=True, doc="Its key.")
    values: list[str] = field(2, always=True, required=True, doc="The values to compare with.")
