"""The resources of the autoscaling group, in the order of discovery. Imports no types."""

from __future__ import annotations

from kapiserver.api.group import Resource, Subresource

RESOURCES = (
    Resource(
        group="autoscaling",
        name="horizontalpodautoscalers",
        kind="HorizontalPodAutoscaler",
        namespaced=True,
        versions=("v2", "v1"),
        storage_version="v2",
        short_names=("hpa",),
        categories=("all",),
        subresources=(Subresource(name="status"),),
    ),
)
