"""storagemigration.k8s.io/v1: migrations of stored objects to the current storage version."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, GroupResource, ObjectMeta
from kapiserver.api.types import Kind, Type, field


class StorageVersionMigration(Kind):
    """Rewrites all stored objects of a resource in its current storage version. Create one for each
    migration."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: StorageVersionMigrationSpec = field(2, doc="The resource to migrate. Cannot be updated.")
    status: StorageVersionMigrationStatus = field(3, doc="Progress of the migration.")


class StorageVersionMigrationSpec(Type):
    """The resource of a migration."""

    resource: GroupResource = field(
        1,
        doc="Resource whose objects are rewritten, by group and plural name. Cannot be updated.",
        required=True,
    )


class StorageVersionMigrationStatus(Type):
    """The progress of a migration."""

    conditions: list[Condition] = field(
        1,
        keys=("type",),
        merge="type",
        doc=(
            "Progress of the migration, at most one condition per type: Running, Succeeded or "
            "Failed. The last two end it."
        ),
    )
    resourceVersion: str = field(
        2,
        doc=(
            "Version of the collection when the migration started: objects that are older have to "
            "be rewritten. Cannot be updated once set."
        ),
    )
