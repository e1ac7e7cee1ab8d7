"""The resources of the coordination group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Deprecation, Resource

_coordination = partial(Resource, group="coordination.k8s.io", namespaced=True)

RESOURCES = (
    _coordination(
        name="leasecandidates",
        kind="LeaseCandidate",
        versions=("v1beta1", "v1alpha2"),
        storage_version="v1beta1",
        deprecations=(
            Deprecation(version="v1beta1", since=36, removed_in=39),
            Deprecation(version="v1alpha2", since=35, removed_in=38),
        ),
        selectable_fields=("spec.leaseName",),
    ),
    _coordination(name="leases", kind="Lease", versions=("v1",), storage_version="v1"),
)
