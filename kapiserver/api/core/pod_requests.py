"""What a pod takes of the node it is on: requests or limits of all its containers together.

Knows no status: what is asked for counts, not what was given. Mirrors PodRequests and PodLimits of
k8s.io/component-helpers/resource.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from kapiserver.api.objects import value_at
from kapiserver.api.quantity import Amount, parse, plus
from kapiserver.api.types import Tree

Amounts: TypeAlias = dict[str, Amount]
Part: TypeAlias = Literal["requests", "limits"]

_POD_LEVEL = ("cpu", "memory")
HUGE = "hugepages-"


def amounts_of(quantities: Tree | None) -> Amounts:
    """The amounts of a map of quantities; what is none is left out: validation says so."""
    found: Amounts = {}
    for name, text in (quantities or {}).items():
        try:
            found[name] = parse(text)
        except ValueError:
            continue
    return found


def added(added: Amounts, other: Amounts) -> Amounts:
    """The sum, of all that either has."""
    total = dict(added)
    for name, amount in other.items():
        total[name] = plus(total[name], amount) if name in total else amount
    return total


def pod_resources(pod: Tree, part: Part) -> Amounts:
    """What all containers take together, or what the pod says of itself; with the overhead."""
    spec = pod.get("spec") or {}
    total = container_resources(spec, part)
    for name, amount in amounts_of(value_at(spec, "resources", part)).items():
        if is_pod_level(name):
            total[name] = amount
    overhead = amounts_of(spec.get("overhead"))
    if part == "limits":  # without a limit there is none with the overhead
        overhead = {name: one for name, one in overhead.items() if name in total}
    return added(total, overhead)


def is_pod_level(name: str) -> bool:
    """Whether a pod as a whole can have requests and limits of a resource."""
    return name in _POD_LEVEL or name.startswith(HUGE)


def container_resources(spec: Tree, part: Part) -> Amounts:
    """Containers at once, or the hungriest of those that run before."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = added(total, amounts_of(value_at(container, "resources", part)))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = amounts_of(value_at(container, "resources", part))
        if container.get("restartPolicy") == "Always":
            total, sidecars = added(total, own), added(sidecars, own)
            own = sidecars
        else:
            own = added(own, sidecars)
        starting = _larger(starting, own)
    return _larger(total, starting)


def _larger(larger: Amounts, other: Amounts) -> Amounts:
    result = dict(larger)
    for name, amount in other.items():
        if name not in result or amount.decimal > result[name].decimal:
            result[name] = amount
    return result
