"""Resource requests and limits of a pod: the sum of those of its containers.

Reads the spec only, not the status. Mirrors PodRequests and PodLimits of
k8s.io/component-helpers/resource.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from kapiserver.api.accessors import value_at
from kapiserver.api.quantity import Amount, add, parse
from kapiserver.api.types import Tree

Amounts: TypeAlias = dict[str, Amount]
ResourceMap: TypeAlias = Literal["requests", "limits"]

_POD_LEVEL = ("cpu", "memory")
HUGEPAGES_PREFIX = "hugepages-"


def amounts_of(quantities: Tree | None) -> Amounts:
    """Return the parsed quantities of a resource map. Invalid ones are omitted: validation reports
    them."""
    amounts: Amounts = {}
    for name, text in (quantities or {}).items():
        try:
            amounts[name] = parse(text)
        except ValueError:
            continue
    return amounts


def add_amounts(first: Amounts, second: Amounts) -> Amounts:
    """Return the sum of two resource maps."""
    total = dict(first)
    for name, amount in second.items():
        total[name] = add(total[name], amount) if name in total else amount
    return total


def pod_resources(pod: Tree, resource_map: ResourceMap) -> Amounts:
    """Return the requests or limits of a pod: pod-level resources or the sum of its containers, and
    the overhead."""
    spec = pod.get("spec") or {}
    total = container_resources(spec, resource_map)
    for name, amount in amounts_of(value_at(spec, "resources", resource_map)).items():
        if is_pod_level(name):
            total[name] = amount
    overhead = amounts_of(spec.get("overhead"))
    if resource_map == "limits":  # a resource without a limit stays unlimited
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return add_amounts(total, overhead)


def is_pod_level(name: str) -> bool:
    """Return whether a pod can have pod-level requests and limits of a resource."""
    return name in _POD_LEVEL or name.startswith(HUGEPAGES_PREFIX)


def container_resources(spec: Tree, resource_map: ResourceMap) -> Amounts:
    """Return the requests or limits of all containers: the sum of the regular containers and
    sidecars, or the largest init container with the sidecars started before it, if that is more."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = add_amounts(total, amounts_of(value_at(container, "resources", resource_map)))
    sidecars: Amounts = {}
    init_maximum: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = amounts_of(value_at(container, "resources", resource_map))
        if container.get("restartPolicy") == "Always":
            total, sidecars = add_amounts(total, amounts), add_amounts(sidecars, amounts)
            amounts = sidecars
        else:
            amounts = add_amounts(amounts, sidecars)
        init_maximum = max_amounts(init_maximum, amounts)
    return max_amounts(total, init_maximum)


def max_amounts(first: Amounts, second: Amounts) -> Amounts:
    result = dict(first)
    for name, amount in second.items():
        if name not in result or amount.decimal > result[name].decimal:
            result[name] = amount
    return result
