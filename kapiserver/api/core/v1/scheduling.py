"""Where pods may run: affinity, taints, spreading and the selectors they use."""

from __future__ import annotations

from kapiserver.api.leaves import Time
from kapiserver.api.meta.v1 import LabelSelector
from kapiserver.api.types import Type, field, int32, int64


class Affinity(Type):
    """What draws a pod to nodes and to other pods, and what keeps it away."""

    nodeAffinity: NodeAffinity | None = field(1)
    podAffinity: PodAffinity | None = field(2)
    podAntiAffinity: PodAntiAffinity | None = field(3)


class NodeAffinity(Type):
    """Rules about the node a pod may or should run on."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = field(1)
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredSchedulingTerm] = field(2)


class PodAffinity(Type):
    """Rules about being near other pods."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] = field(1)
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] = field(2)


class PodAntiAffinity(Type):
    """Rules about being away from other pods."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] = field(1)
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] = field(2)


class PodAffinityTerm(Type):
    """A set of pods, and the topology in which near and far are meant."""

    labelSelector: LabelSelector | None = field(1)
    namespaces: list[str] = field(2)
    topologyKey: str = field(3, always=True, required=True)
    namespaceSelector: LabelSelector | None = field(4)
    matchLabelKeys: list[str] = field(5)
    mismatchLabelKeys: list[str] = field(6)


class WeightedPodAffinityTerm(Type):
    """A pod affinity term and how much it counts."""

    weight: int32 = field(1, always=True, required=True)
    podAffinityTerm: PodAffinityTerm = field(2, required=True)


class PreferredSchedulingTerm(Type):
    """A node selector term and how much it counts."""

    weight: int32 = field(1, always=True, required=True)
    preference: NodeSelectorTerm = field(2, required=True)


class NodeSelector(Type):
    """A set of nodes: those that match any of the terms."""

    atomic = True

    nodeSelectorTerms: list[NodeSelectorTerm] = field(1, always=True, required=True)


class NodeSelectorTerm(Type):
    """Nodes that match all requirements."""

    atomic = True

    matchExpressions: list[NodeSelectorRequirement] = field(1)
    matchFields: list[NodeSelectorRequirement] = field(2)


class NodeSelectorRequirement(Type):
    """One requirement on a label or field of a node."""

    key: str = field(1, always=True, required=True)
    operator: str = field(
        2, always=True, enum=("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"), required=True
    )
    values: list[str] = field(3)


class Toleration(Type):
    """Lets a pod onto nodes with a matching taint."""

    key: str = field(1)
    operator: str = field(2, enum=("Exists", "Equal", "Lt", "Gt"))
    value: str = field(3)
    effect: str = field(4, enum=("NoSchedule", "PreferNoSchedule", "NoExecute"))
    tolerationSeconds: int64 | None = field(5)


class Taint(Type):
    """Keeps off pods that do not tolerate it."""

    key: str = field(1, always=True, required=True)
    value: str = field(2)
    effect: str = field(
        3, always=True, enum=("NoSchedule", "PreferNoSchedule", "NoExecute"), required=True
    )
    timeAdded: Time | None = field(4)


class TopologySpreadConstraint(Type):
    """How evenly matching pods spread over a topology."""

    maxSkew: int32 = field(1, always=True, required=True)
    topologyKey: str = field(2, always=True, required=True)
    whenUnsatisfiable: str = field(
        3, always=True, enum=("DoNotSchedule", "ScheduleAnyway"), required=True
    )
    labelSelector: LabelSelector | None = field(4)
    minDomains: int32 | None = field(5)
    nodeAffinityPolicy: str | None = field(6, enum=("Ignore", "Honor"))
    nodeTaintsPolicy: str | None = field(7, enum=("Ignore", "Honor"))
    matchLabelKeys: list[str] = field(8)


class TopologySelectorTerm(Type):
    """Topologies that match all label requirements."""

    atomic = True

    matchLabelExpressions: list[TopologySelectorLabelRequirement] = field(1)


class TopologySelectorLabelRequirement(Type):
    """One requirement on a topology's label."""

    key: str = field(1, always=True, required=True)
    values: list[str] = field(2, always=True, required=True)
