"""The resources of the discovery group, in the order of discovery. Imports no types."""

from __future__ import annotations

from kapiserver.api.group import Resource

RESOURCES = (
    Resource(
        group="discovery.k8s.io",
        name="endpointslices",
        kind="EndpointSlice",
        namespaced=True,
        versions=("v1",),
        storage_version="v1",
    ),
)
