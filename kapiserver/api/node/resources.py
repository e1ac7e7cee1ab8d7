"""The resources of the node group, in the order of discovery. Imports no types."""

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
