"""PodResizeValidator: refuses to resize a pod beyond what its node can allocate, or on a node that
does not run Linux.

Mirrors plugin/pkg/admission/podresize.
"""

from __future__ import annotations

import math

from kapiserver.api.accessors import labels_of, name_of, value_at
from kapiserver.api.core.pods.requests import amounts_of, pod_resources
from kapiserver.api.go_format import quote
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.nodes import node_of_changed_pod
from kapiserver.apiserver.admission.pod_cost import pod_cost
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

_OS = "kubernetes.io/os"
_UNITS = {"cpu": 1000, "memory": 1}
"""Resources that are compared, and into how many parts messages divide their unit."""


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raise Forbidden if the node cannot have the new size."""
    node = await node_of_changed_pod(server, attributes, new, old)
    if node is None or new is None:
        return
    cost = pod_cost(new["spec"])
    problems = await server.offloader.run(cost, _problems, new, node)
    if problems:
        raise attributes.forbidden(
            f"Node didn't have enough allocatable resources: {'; '.join(problems)}"
        )
    system = labels_of(node).get(_OS, "")
    if system != "linux":
        raise attributes.forbidden(
            f"pod resize is only supported on linux nodes, node {quote(name_of(node))} is "
            f"{quote(system)}"
        )


def _problems(pod: Tree, node: Tree) -> list[str]:
    allocatable = amounts_of(value_at(node, "status", "allocatable"))
    requests = pod_resources(pod, "requests")
    problems = []
    for name, parts in _UNITS.items():
        requested, limit = (
            math.ceil(amounts[name].decimal * parts) if name in amounts else 0
            for amounts in (requests, allocatable)
        )
        if requested > limit:
            problems.append(f"{name}, requested: {requested}, allocatable: {limit}")
    return problems
