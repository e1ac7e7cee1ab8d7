"""The resources of the storagemigration group, in the order of discovery. Imports no types."""

from __future__ import annotations

from kapiserver.api.group import Deprecation, GroupVersionKind, Resource, Subresource

RESOURCES = (
    Resource(
        group="storagemigration.k8s.io",
        name="storageversionmigrations",
        kind="StorageVersionMigration",
        namespaced=False,
        versions=("v1", "v1beta1"),
        storage_version="v1beta1",
        deprecations=(
            Deprecation(
                version="v1beta1",
                since=37,
                removed_in=40,
                replacement=GroupVersionKind(
                    "storagemigration.k8s.io", "v1", "StorageVersionMigration"
                ),
            ),
        ),
        subresources=(Subresource(name="status"),),
    ),
)
