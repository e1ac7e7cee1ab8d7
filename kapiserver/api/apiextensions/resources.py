"""The resources of the apiextensions group, in the order of discovery. Knows no type."""

from __future__ import annotations

from kapiserver.api.group import Resource, Subresource

RESOURCES = (
    Resource(
        group="apiextensions.k8s.io",
        name="customresourcedefinitions",
        kind="CustomResourceDefinition",
        namespaced=False,
        versions=("v1",),
        storage_version="v1",
        storage_prefix="apiextensions.k8s.io/customresourcedefinitions",
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(Subresource(name="status"),),
    ),
)
