"""The resources of the scheduling group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Resource, Subresource

_scheduling = partial(
    Resource,
    group="scheduling.k8s.io",
    versions=("v1beta1", "v1alpha3"),
    storage_version="v1beta1",
)
_STATUS = Subresource(name="status")

RESOURCES = (
    _scheduling(
        name="compositepodgroups",
        kind="CompositePodGroup",
        namespaced=True,
        versions=("v1alpha3",),
        storage_version="v1alpha3",
        subresources=(_STATUS,),
    ),
    _scheduling(name="podgroups", kind="PodGroup", namespaced=True, subresources=(_STATUS,)),
    _scheduling(
        name="priorityclasses",
        kind="PriorityClass",
        namespaced=False,
        versions=("v1",),
        storage_version="v1",
        short_names=("pc",),
    ),
    _scheduling(name="workloads", kind="Workload", namespaced=True),
)
