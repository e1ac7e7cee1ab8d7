"""Where pods may run: affinity, taints, tolerations, spreading and their selectors."""

from __future__ import annotations

from kapiserver.api.meta.v1 import LabelSelector
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Type, field, int32, int64


class Affinity(Type):
    """Rules that attract a pod to nodes and other pods, or keep it away from them."""

    nodeAffinity: NodeAffinity | None = field(
        1, doc="Rules about the labels of the node that runs the pod."
    )
    podAffinity: PodAffinity | None = field(
        2,
        doc=(
            "Rules that place the pod in the same topology domain as certain other pods, for "
            "example in their zone."
        ),
    )
    podAntiAffinity: PodAntiAffinity | None = field(
        3,
        doc=(
            "Rules that place the pod in another topology domain than certain other pods, for "
            "example on another node."
        ),
    )


class NodeAffinity(Type):
    """Rules about the node that runs a pod. They are not checked again when nodes change."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = field(
        1,
        doc=(
            "Nodes that may run the pod; without a match, the pod is not scheduled. When absent: "
            "every node."
        ),
    )
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredSchedulingTerm] = field(
        2,
        doc=(
            "Nodes that the scheduler prefers: the node with the highest sum of matching weights. "
            "It may choose another."
        ),
    )


class PodAffinity(Type):
    """Rules that place a pod near other pods. They are not checked again when pods change."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] = field(
        1,
        doc=(
            "Terms that must all find a matching pod in the topology domain of the node; "
            "otherwise the pod is not scheduled."
        ),
    )
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] = field(
        2,
        doc=(
            "Terms that the scheduler prefers to be near to: each domain with matching pods adds "
            "the weight of its term."
        ),
    )


class PodAntiAffinity(Type):
    """Rules that keep a pod away from other pods. They are not checked again when pods change."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] = field(
        1,
        doc=(
            "Terms of which none may find a matching pod in the topology domain of the node; "
            "otherwise the pod is not scheduled."
        ),
    )
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] = field(
        2,
        doc=(
            "Terms that the scheduler prefers to avoid: each domain with matching pods subtracts "
            "the weight of its term."
        ),
    )


class PodAffinityTerm(Type):
    """A set of pods, and the topology domain in which they count as near."""

    labelSelector: LabelSelector | None = field(
        1, doc="Labels of the pods that count. When absent: no pod. When empty ({}): every pod."
    )
    namespaces: list[str] = field(
        2,
        doc=(
            "Names of namespaces whose pods count, in addition to those of namespaceSelector. "
            "When both are absent: the pod's own namespace."
        ),
    )
    topologyKey: str = field(
        3,
        always=True,
        required=True,
        doc=(
            "Label of nodes whose values form the domains, for example kubernetes.io/hostname or "
            "topology.kubernetes.io/zone. It must not be empty."
        ),
    )
    namespaceSelector: LabelSelector | None = field(
        4,
        doc=(
            "Labels of the namespaces whose pods count, in addition to the listed namespaces. "
            "When absent: none. When empty ({}): all namespaces."
        ),
    )
    matchLabelKeys: list[str] = field(
        5,
        doc=(
            "Label keys of the pod: other pods count only with the same value. Needs "
            "labelSelector, which must not contain them."
        ),
    )
    mismatchLabelKeys: list[str] = field(
        6,
        doc=(
            "Label keys of the pod: other pods count only with another value. Needs "
            "labelSelector. No key may be in matchLabelKeys too."
        ),
    )


class WeightedPodAffinityTerm(Type):
    """A pod affinity term that the scheduler prefers, with its weight."""

    weight: int32 = field(
        1,
        always=True,
        required=True,
        doc=(
            "Weight of the pod affinity term, 1 to 100. The weights of matching terms are added up."
        ),
    )
    podAffinityTerm: PodAffinityTerm = field(
        2, required=True, doc="Pods and topology domain that the weight applies to."
    )


class PreferredSchedulingTerm(Type):
    """A node selector term that the scheduler prefers, with its weight."""

    weight: int32 = field(
        1,
        always=True,
        required=True,
        doc=(
            "Weight of the node selector term, 1 to 100. The weights of matching terms are added "
            "up."
        ),
    )
    preference: NodeSelectorTerm = field(
        2,
        required=True,
        doc=(
            "Labels and fields of the nodes that the weight applies to. An empty term has no "
            "effect."
        ),
    )


class NodeSelector(Type):
    """A set of nodes: those that match at least one term."""

    atomic = True

    nodeSelectorTerms: list[NodeSelectorTerm] = field(
        1,
        always=True,
        required=True,
        doc="Terms of which a node must match at least one. The list must not be empty.",
    )


class NodeSelectorTerm(Type):
    """A set of nodes: those that match every requirement. An empty term matches none."""

    atomic = True

    matchExpressions: list[NodeSelectorRequirement] = field(
        1, doc="Requirements on the labels of the node, which must all hold."
    )
    matchFields: list[NodeSelectorRequirement] = field(
        2,
        doc=(
            "Requirements on fields of the node, which must all hold. The only field is "
            "metadata.name."
        ),
    )


class NodeSelectorRequirement(Type):
    """A requirement on one label or field of a node."""

    key: str = field(
        1, always=True, required=True, doc="Label key, or in matchFields the field metadata.name."
    )
    operator: str = field(
        2,
        always=True,
        enum=("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
        required=True,
        doc=(
            "In, NotIn, Exists, DoesNotExist, Gt or Lt (compare as integers). Fields allow In and "
            "NotIn only."
        ),
    )
    values: list[str] = field(
        3,
        doc=(
            "Values to compare with: at least one for In and NotIn, exactly one integer for Gt "
            "and Lt, none for Exists and DoesNotExist."
        ),
    )


class Toleration(Type):
    """Lets a pod run on nodes that have a matching taint."""

    key: str = field(
        1,
        doc=(
            "Key of the taints that are tolerated. When empty: all keys; the operator must then "
            "be Exists."
        ),
    )
    operator: str = field(
        2,
        enum=("Exists", "Equal", "Lt", "Gt"),
        doc=(
            "Equal: the taint has this value. Exists: its value does not matter. Default: Equal. "
            "Lt and Gt are alpha and rejected."
        ),
    )
    value: str = field(3, doc="Value of the tolerated taint. It must be empty for Exists.")
    effect: str = field(
        4,
        enum=("NoSchedule", "PreferNoSchedule", "NoExecute"),
        doc=(
            "Effect that is tolerated: NoSchedule, PreferNoSchedule or NoExecute. When empty: all "
            "of them."
        ),
    )
    tolerationSeconds: int64 | None = field(
        5,
        doc=(
            "Seconds that the pod may stay after a NoExecute taint appears; 0 or less: none. When "
            "absent: forever. Needs effect NoExecute."
        ),
    )


class Taint(Type):
    """Keeps pods away from a node unless they tolerate it."""

    key: str = field(
        1,
        always=True,
        required=True,
        doc="Key of the taint: a label key, for example node.kubernetes.io/unreachable.",
    )
    value: str = field(
        2, doc="Value of the taint, compared by tolerations with operator Equal. Default: empty."
    )
    effect: str = field(
        3,
        always=True,
        enum=("NoSchedule", "PreferNoSchedule", "NoExecute"),
        required=True,
        doc=(
            "NoSchedule: no new pods. PreferNoSchedule: no new pods if others can take them. "
            "NoExecute: also evicts running pods."
        ),
    )
    timeAdded: Time | None = field(
        4, doc="When the taint was added. tolerationSeconds counts from here."
    )


class TopologySpreadConstraint(Type):
    """How evenly matching pods must be spread over topology domains."""

    maxSkew: int32 = field(
        1,
        always=True,
        required=True,
        doc=(
            "Maximum difference between the number of matching pods in a domain and in the domain "
            "with the fewest. At least 1."
        ),
    )
    topologyKey: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Label of nodes whose values form the domains over which to spread. Nodes without it "
            "belong to no domain and, for DoNotSchedule, do not take the pod."
        ),
    )
    whenUnsatisfiable: str = field(
        3,
        always=True,
        enum=("DoNotSchedule", "ScheduleAnyway"),
        required=True,
        doc=(
            "DoNotSchedule: the pod waits. ScheduleAnyway: the scheduler only prefers nodes that "
            "lower the skew."
        ),
    )
    labelSelector: LabelSelector | None = field(
        4, doc="Labels of the pods to count in each domain. When absent: no pod."
    )
    minDomains: int32 | None = field(
        5,
        doc=(
            "Number of domains below which the minimum counts as 0, at least 1. Default: 1. Needs "
            "DoNotSchedule."
        ),
    )
    nodeAffinityPolicy: str | None = field(
        6,
        enum=("Ignore", "Honor"),
        doc=(
            "Honor: count only nodes that match the pod's nodeSelector and nodeAffinity. Ignore: "
            "count all nodes. When absent: Honor."
        ),
    )
    nodeTaintsPolicy: str | None = field(
        7,
        enum=("Ignore", "Honor"),
        doc=(
            "Honor: count only nodes without taints or whose taints the pod tolerates. Ignore: "
            "count all nodes. When absent: Ignore."
        ),
    )
    matchLabelKeys: list[str] = field(
        8,
        doc=(
            "Label keys of the pod: only pods with the same value are counted, for example "
            "pod-template-hash. Needs labelSelector, without these keys."
        ),
    )


class TopologySelectorTerm(Type):
    """A set of topology domains: those that match every requirement."""

    atomic = True

    matchLabelExpressions: list[TopologySelectorLabelRequirement] = field(
        1, doc="Requirements on the labels of the topology, which must all hold."
    )


class TopologySelectorLabelRequirement(Type):
    """A requirement on one label of a topology."""

    key: str = field(
        1, always=True, required=True, doc="Label key, for example topology.kubernetes.io/zone."
    )
    values: list[str] = field(
        2, always=True, required=True, doc="Allowed values of the label. One of them must match."
    )
