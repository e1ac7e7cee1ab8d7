"""The resources of the coordination group, in discovery's order. Knows no type."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Resource

_coordination = partial(Resource, group="coordination.k8s.io", namespaced=True)

RESOURCES = (
    _coordination(
        name="leasecandidates",
        kind="LeaseCandidate",
        versions=("v1beta1", "v1alpha2"),
        storage_version="v1beta1",
        selectable_fields=("spec.leaseName",),
    ),
    _coordination(name="leases", kind="Lease", versions=("v1",), storage_version="v1"),
)
