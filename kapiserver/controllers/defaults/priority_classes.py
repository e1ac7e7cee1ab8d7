"""Create the two priority classes that every cluster has. Mirrors pkg/registry/scheduling/rest."""

from __future__ import annotations

from kapiserver.api.group import GroupVersion
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.writing import create_missing
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_SCHEDULING = GroupVersion("scheduling.k8s.io", "v1")
_BILLION = 1_000_000_000
_CLASSES = (
    (
        "system-node-critical",
        2 * _BILLION + 1000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2 * _BILLION,
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary.",
    ),
)


async def create_priority_classes(context: ControllerContext) -> None:
    """Create the missing classes. Raises StorageError, StatusError."""
    if context.server.scheme.is_served(_SCHEDULING):
        store = context.server.stores.by_name(_SCHEDULING, "priorityclasses")
        for name, value, description in _CLASSES:
            try:
                await store.get(ObjectKey("", name), resource_version="0")
            except NotFound:
                tree = {
                    "kind": "PriorityClass",
                    "apiVersion": str(_SCHEDULING),
                    "metadata": {"name": name},
                    "value": value,
                    "description": description,
                }
                await create_missing(context.resource(str(_SCHEDULING), "priorityclasses"), tree)
