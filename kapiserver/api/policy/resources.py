"""The resources of the policy group, in the order of discovery. Imports no types."""

from __future__ import annotations

from kapiserver.api.group import Resource, Subresource

RESOURCES = (
    Resource(
        group="policy",
        name="poddisruptionbudgets",
        kind="PodDisruptionBudget",
        namespaced=True,
        versions=("v1",),
        storage_version="v1",
        short_names=("pdb",),
        subresources=(Subresource(name="status"),),
    ),
)
