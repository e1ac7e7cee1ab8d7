"""The resources of the metrics group, in the order of discovery. Imports no types."""

from __future__ import annotations

from kapiserver.api.group import Resource

_GROUP = "metrics.k8s.io"
_READ = ("get", "list")

RESOURCES = (
    Resource(
        group=_GROUP,
        name="nodes",
        kind="NodeMetrics",
        namespaced=False,
        versions=("v1beta1",),
        storage_version="v1beta1",
        verbs=_READ,
        stored=False,
    ),
    Resource(
        group=_GROUP,
        name="pods",
        kind="PodMetrics",
        namespaced=True,
        versions=("v1beta1",),
        storage_version="v1beta1",
        verbs=_READ,
        stored=False,
    ),
)
