"""LimitPodHardAntiAffinityTopology: lets the required anti-affinity of a pod name nodes only, no
larger topology.

Mirrors plugin/pkg/admission/antiaffinity.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_HOSTNAME = "kubernetes.io/hostname"


async def validate(
    _server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raise Forbidden for a pod with another topology key."""
    for term in value_at(new or {}, "spec", "affinity", "podAntiAffinity", _REQUIRED) or ():
        key = term.get("topologyKey") or ""
        if key != _HOSTNAME:
            raise attributes.forbidden(
                f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only "
                f"key {_HOSTNAME} is allowed"
            )
