"""What a pod's affinity says of other pods."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.types import Tree


def affinity_terms(affinity: Tree) -> Iterator[Tree]:
    """The terms by which a pod is near to other pods, or not."""
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for one in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield one.get("podAffinityTerm") or {}
