"""The resources of the lifecycle group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Resource, Subresource

_lifecycle = partial(
    Resource,
    group="lifecycle.k8s.io",
    versions=("v1alpha1",),
    storage_version="v1alpha1",
)
_STATUS = Subresource(name="status")

RESOURCES = (
    _lifecycle(
        name="evictionrequests", kind="EvictionRequest", namespaced=True, subresources=(_STATUS,)
    ),
    _lifecycle(name="evictions", kind="Eviction", namespaced=True, subresources=(_STATUS,)),
)
