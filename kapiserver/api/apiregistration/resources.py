"""The resources of the apiregistration group, in the order of discovery. Imports no types."""

from __future__ import annotations

from kapiserver.api.group import Resource, Subresource

RESOURCES = (
    Resource(
        group="apiregistration.k8s.io",
        name="apiservices",
        kind="APIService",
        namespaced=False,
        versions=("v1",),
        storage_version="v1",
        storage_prefix="apiregistration.k8s.io/apiservices",
        categories=("api-extensions",),
        subresources=(Subresource(name="status"),),
    ),
)
