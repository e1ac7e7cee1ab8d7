"""The resources of the apiserverinternal group, in the order of discovery. Imports no types."""

from __future__ import annotations

from kapiserver.api.group import Resource, Subresource

RESOURCES = (
    Resource(
        group="internal.apiserver.k8s.io",
        name="storageversions",
        kind="StorageVersion",
        namespaced=False,
        versions=("v1alpha1",),
        storage_version="v1alpha1",
        subresources=(Subresource(name="status"),),
    ),
)
