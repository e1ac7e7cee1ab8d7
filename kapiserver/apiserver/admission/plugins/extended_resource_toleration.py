"""ExtendedResourceToleration: lets a pod that requests an extended resource tolerate the taint of
the nodes that have it. The taint's key is the name of the resource.

Mirrors plugin/pkg/admission/extendedresourcetoleration.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.core import v1
from kapiserver.api.core.validation.resources import is_extended
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.pod_cost import pod_cost
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

_IDENTITY = ("key", "effect", "operator", "value")
"""The fields by which two tolerations are of the same taint."""


async def admit(
    server: Server, _attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Add the tolerations that the pod does not have."""
    if new is None:
        return
    spec = new.setdefault("spec", {})
    await server.offloader.run(pod_cost(spec), _add_tolerations, spec)


def _add_tolerations(spec: Tree) -> None:
    names = {
        name
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
        for name in value_at(container, "resources", "requests") or ()
        if is_extended(name)
    }
    if not names:
        return
    tolerations = list(spec.get("tolerations") or ())
    for name in sorted(names):
        toleration = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
        matching_indices = [
            index for index, present in enumerate(tolerations) if _is_same(present, toleration)
        ]
        for index in matching_indices:
            tolerations[index] = dict(toleration)
        if not matching_indices:
            tolerations.append(toleration)
    spec["tolerations"] = tolerations
    reorder_keys(spec, v1.PodSpec)


def _is_same(left: Tree, right: Tree) -> bool:
    return all((left.get(field) or "") == (right.get(field) or "") for field in _IDENTITY)
