"""storagemigration.k8s.io/v1beta1: rewriting stored objects in the newest version."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, GroupResource, ObjectMeta
from kapiserver.api.types import Kind, Type, field


class StorageVersionMigration(Kind):
    """Asks for all objects of a resource to be rewritten."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: StorageVersionMigrationSpec = field(2, doc="The desired state.")
    status: StorageVersionMigrationStatus = field(3, doc="The observed state.")


class StorageVersionMigrationSpec(Type):
    """The resource."""

    resource: GroupResource = field(1, doc="The resource.", required=True)


class StorageVersionMigrationStatus(Type):
    """How far the rewriting is."""

    conditions: list[Condition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )
    resourceVersion: str = field(2, doc="The version of the object.")
