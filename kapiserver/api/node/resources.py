"""The resources of the node group, in discovery's order. Knows no type."""

from __future__ import annotations

from kapiserver.api.group import Resource

RESOURCES = (
    Resource(
        group="node.k8s.io",
        name="runtimeclasses",
        kind="RuntimeClass",
        namespaced=False,
        versions=("v1",),
        storage_version="v1",
    ),
)
