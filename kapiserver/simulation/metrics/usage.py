"""What a simulated container uses of CPU and memory. All functions are pure.

    1. what an annotation says: `simulation.kapiserver.dev/cpu-usage.web` for the container `web`,
       else `simulation.kapiserver.dev/cpu-usage` for each container of the pod
    2. else what a ResourceUsage of kwok says
    3. else the usage of an idle container: a tenth of the CPU and half of the memory that it
       requests, or very little without a request

An annotation is a quantity, or a percentage of the request: `500m`, `80%`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.quantity import Amount, Format, parse
from kapiserver.api.types import Tree
from kapiserver.simulation.annotations import PREFIX

Usage: TypeAlias = dict[str, int]
"""What is used: nanocores of `cpu`, bytes of `memory`."""

_SCALES: Mapping[str, int] = {"cpu": -9, "memory": 0}
"""The power of ten in which each resource is measured."""
_FORMATS: Mapping[str, Format] = {"cpu": "DecimalSI", "memory": "BinarySI"}
_IDLE_PERCENT = {"cpu": 10, "memory": 50}
_IDLE = {"cpu": "1m", "memory": "10Mi"}
"""What a container without requests uses."""
_PERCENT = re.compile(r"(\d{1,6})%", re.ASCII)


def used(text: str, resource: str, request: str | None) -> int:
    """Return an amount of a resource, given as a quantity or as a percentage of a request, which is
    0 without one. Raises ValueError."""
    percent = _PERCENT.fullmatch(text)
    if percent is None:
        return max(parse(text).scaled(_SCALES[resource]), 0)
    requested = parse(request).scaled(_SCALES[resource]) if request else 0
    return requested * int(percent[1]) // 100


def read_cpu_usage(text: str) -> int:
    """Read an annotation about CPU. Raises ValueError."""
    return used(text, "cpu", None)


def read_memory_usage(text: str) -> int:
    """Read an annotation about memory. Raises ValueError."""
    return used(text, "memory", None)


def container_usage(
    pod: Tree, container: Tree, described: Mapping[str, float] | None = None
) -> Usage:
    """Return what a running container uses.

    described  what a ResourceUsage says, in CPUs and bytes; a resource that is not in it counts
               as 0. None: nothing says it
    """
    return {resource: _container_usage(pod, container, resource, described) for resource in _SCALES}


def _container_usage(
    pod: Tree, container: Tree, resource: str, described: Mapping[str, float] | None
) -> int:
    request = value_at(container, "resources", "requests", resource)
    annotations = annotations_of(pod)
    for suffix in (f".{container.get('name')}", ""):
        text = annotations.get(f"{PREFIX}{resource}-usage{suffix}")
        amount = _readable(text, resource, request)
        if amount is not None:
            return amount
    if described is not None:
        return round(described.get(resource, 0.0) * 10.0 ** -_SCALES[resource])
    if request is None:
        return used(_IDLE[resource], resource, None)
    return used(f"{_IDLE_PERCENT[resource]}%", resource, request)


def node_usage(node: Tree, pods: list[Usage]) -> Usage:
    """Return what a node uses: what its annotations say, or what its pods use together."""
    usage = {}
    for resource in _SCALES:
        capacity = value_at(node, "status", "allocatable", resource)
        text = annotations_of(node).get(f"{PREFIX}{resource}-usage")
        amount = _readable(text, resource, capacity)
        usage[resource] = sum(pod[resource] for pod in pods) if amount is None else amount
    return usage


def _readable(text: str | None, resource: str, request: str | None) -> int | None:
    """Return the amount that an annotation says; None if there is none, or it cannot be read."""
    if text is None:
        return None
    try:
        return used(text, resource, request)
    except ValueError:
        return None


def in_units(usage: Usage, resource: str) -> float:
    """Return what is used of a resource, in CPUs or bytes; 0 for another resource."""
    return usage.get(resource, 0) * 10.0 ** _SCALES.get(resource, 0)


def quantities(usage: Usage) -> dict[str, str]:
    """Return a usage as it is written in metrics.k8s.io."""
    return {
        name: str(Amount(amount, _SCALES[name], _FORMATS[name])) for name, amount in usage.items()
    }
