"""Write events about objects, as `kubectl describe` shows them.

Mirrors client-go's EventRecorder without its aggregation: a repeated event increases the count of
the first.
"""

from __future__ import annotations

import contextlib
import hashlib

from kapiserver.api.accessors import metadata_of, name_of, namespace_of, uid_of
from kapiserver.api.errors import APIError
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.controllers.bootstrap import decoded
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import AlreadyExists, StorageError
from kapiserver.storage.lifecycle import timestamp

_CLUSTER_SCOPED_NAMESPACE = "default"
"""Where events about cluster-scoped objects are written."""


class EventRecorder:
    """Writes the events of one controller."""

    def __init__(self, server: Server, component: str) -> None:
        self._server = server
        self._component = component

    async def warn(self, obj: Tree, reason: str, message: str) -> None:
        """Write a warning about an object, or increase the count of an earlier one. Errors are
        ignored: an event is no reason to stop."""
        with contextlib.suppress(APIError, StorageError):
            await self._record(obj, reason, message)

    async def _record(self, obj: Tree, reason: str, message: str) -> None:
        digest = hashlib.sha256(f"{uid_of(obj)}/{reason}/{message}".encode()).hexdigest()[:16]
        namespace = namespace_of(obj) or _CLUSTER_SCOPED_NAMESPACE
        name = f"{name_of(obj)[:200]}.{digest}"
        now = timestamp(self._server.clock.now())
        event = {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "kind": obj.get("kind"),
                "apiVersion": obj.get("apiVersion"),
                "namespace": namespace_of(obj),
                "name": name_of(obj),
                "uid": uid_of(obj),
                "resourceVersion": metadata_of(obj).get("resourceVersion"),
            },
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        store = self._server.stores.by_name(CORE, "events")
        made = decoded(self._server, event)
        try:
            await store.create(made, namespace=namespace)
        except AlreadyExists:
            await store.update(ObjectKey(namespace, name), lambda old: _count_again(old, now))


def _count_again(event: Tree | None, now: str) -> Tree:
    assert event is not None
    event["count"] = (event.get("count") or 0) + 1
    event["lastTimestamp"] = now
    return event
