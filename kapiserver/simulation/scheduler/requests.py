"""What pods request and nodes offer, as integers: millicores of cpu, units of everything else."""

from __future__ import annotations

from typing import TypeAlias

from kapiserver.api.accessors import value_at
from kapiserver.api.core.pods.requests import Amounts, amounts_of, pod_resources
from kapiserver.api.types import Tree

Quantities: TypeAlias = dict[str, int]

SCORED = ("cpu", "memory")
"""The resources that count in scores."""
_DEFAULT_REQUESTS = {"cpu": "100m", "memory": "200Mi"}
"""What a container without requests counts for in scores, so that such pods are spread too."""


def quantities_of(resources: Tree | None) -> Quantities:
    """Return the integers of a resource map, such as the allocatable resources of a node."""
    return _integers(amounts_of(resources))


def requests_of(pod: Tree) -> Quantities:
    """Return the requests of a pod without those of zero."""
    requests = _integers(pod_resources(pod, "requests"))
    return {name: amount for name, amount in requests.items() if amount and name != "pods"}


def scored_requests_of(pod: Tree) -> Quantities:
    """Return the requests of cpu and memory that count in scores: a container without requests has
    the default ones."""
    spec = dict(pod.get("spec") or {})
    for field in ("containers", "initContainers"):
        spec[field] = [_with_default_requests(container) for container in spec.get(field) or ()]
    requests = _integers(pod_resources({"spec": spec}, "requests"))
    return {name: requests.get(name, 0) for name in SCORED}


def _with_default_requests(container: Tree) -> Tree:
    requests = value_at(container, "resources", "requests") or {}
    return container | {"resources": {"requests": _DEFAULT_REQUESTS | requests}}


def _integers(amounts: Amounts) -> Quantities:
    return {name: amount.scaled(-3 if name == "cpu" else 0) for name, amount in amounts.items()}
