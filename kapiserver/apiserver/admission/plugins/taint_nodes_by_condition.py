"""TaintNodesByCondition: taints a new node as not ready, until a controller removes the taint.

Mirrors plugin/pkg/admission/nodetaint.
"""

from __future__ import annotations

from kapiserver.api.core import v1
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


async def admit(
    _server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Add the taint if the node does not have it."""
    if new is None or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    taints = spec.get("taints") or []
    identity_fields = ("key", "effect")
    if all(
        tuple(taint.get(n) for n in identity_fields) != tuple(NOT_READY[n] for n in identity_fields)
        for taint in taints
    ):
        spec["taints"] = [*taints, dict(NOT_READY)]
        reorder_keys(spec, v1.NodeSpec)
        reorder_keys(new, v1.Node)
