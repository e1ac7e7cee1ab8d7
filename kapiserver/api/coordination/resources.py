"""The resources of the coordination group, in discovery's order. Knows no type."""

from __future__ import annotations

from kapiserver.api.group import Resource

RESOURCES = (
    Resource(
        group="coordination.k8s.io",
        name="leases",
        kind="Lease",
        namespaced=True,
        versions=("v1",),
        storage_version="v1",
    ),
)

UNSERVED = (
    Resource(
        group="coordination.k8s.io",
        name="leasecandidates",
        kind="LeaseCandidate",
        namespaced=True,
        versions=("v1beta1", "v1alpha2"),
        storage_version="v1beta1",
        selectable_fields=("spec.leaseName",),
    ),
)
"""Declared, with nothing behind them yet: not served."""
