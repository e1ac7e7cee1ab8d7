"""The resources of the apps group, in discovery's order. Knows no type."""

from __future__ import annotations

from kapiserver.api.group import GroupVersionKind, Resource, Subresource

RESOURCES = (
    Resource(
        group="apps",
        name="deployments",
        kind="Deployment",
        namespaced=True,
        versions=("v1",),
        storage_version="v1",
        short_names=("deploy",),
        categories=("all",),
        subresources=(
            Subresource(name="scale", kind=GroupVersionKind("autoscaling", "v1", "Scale")),
            Subresource(name="status"),
        ),
    ),
)
