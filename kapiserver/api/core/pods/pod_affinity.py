"""The terms of a pod's affinity and anti-affinity to other pods."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.types import Tree


def affinity_terms(affinity: Tree) -> Iterator[Tree]:
    """Yield the required and preferred terms of pod affinity and anti-affinity."""
    for kind in ("podAffinity", "podAntiAffinity"):
        pod_affinity = affinity.get(kind) or {}
        yield from pod_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for term in pod_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield term.get("podAffinityTerm") or {}
