"""The terms of affinity and anti-affinity of a pod to other pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kapiserver.api.accessors import namespace_of, value_at
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class AffinityTerm(NamedTuple):
    """The pods that a term names, and the label whose values are its domains."""

    topology_key: str
    pods: Selection | None
    namespaces: frozenset[str]
    selected_namespaces: Selection | None


class WeightedTerm(NamedTuple):
    """A preferred term; the weight of anti-affinity is negative."""

    weight: int
    term: AffinityTerm


class PodAffinity(NamedTuple):
    """The terms of a pod."""

    required: Sequence[AffinityTerm]
    forbidden: Sequence[AffinityTerm]
    preferred: Sequence[WeightedTerm]


def pod_affinity_of(pod: Tree) -> PodAffinity | None:
    """Parse the terms of a pod; None if it has none."""
    attracting: Tree = value_at(pod, "spec", "affinity", "podAffinity") or {}
    repelling: Tree = value_at(pod, "spec", "affinity", "podAntiAffinity") or {}
    if not attracting and not repelling:
        return None
    namespace = namespace_of(pod)
    return PodAffinity(
        required=[_term(term, namespace) for term in attracting.get(_REQUIRED) or ()],
        forbidden=[_term(term, namespace) for term in repelling.get(_REQUIRED) or ()],
        preferred=[
            WeightedTerm(sign * term["weight"], _term(term["podAffinityTerm"], namespace))
            for sign, terms in ((1, attracting), (-1, repelling))
            for term in terms.get(_PREFERRED) or ()
        ],
    )


def _term(term: Tree, namespace: str) -> AffinityTerm:
    namespaces, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if not namespaces and selector is None:
        namespaces = (namespace,)
    return AffinityTerm(
        term.get("topologyKey") or "",
        selection_of(term.get("labelSelector")),
        frozenset(namespaces),
        selection_of(selector),
    )
