"""The resources of the coordination group, in discovery's order. Knows no type."""

from __future__ import annotations

from kapiserver.api.group import Resource

RESOURCES = (
    Resource(
        group="coordination.k8s.io",
        name="leases",
        kind="Lease",
        namespaced=True,
        versions=("v1",),
        storage_version="v1",
    ),
)
