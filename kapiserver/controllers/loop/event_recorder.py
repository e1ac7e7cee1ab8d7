"""Write events about objects, as `kubectl describe` shows them.

Mirrors client-go's EventRecorder without its aggregation: a repeated event increases the count of
the first.
"""

from __future__ import annotations

import contextlib
import hashlib

from kapiserver.api.accessors import metadata_of, name_of, namespace_of, uid_of
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.storage.errors import StorageError
from kapiserver.storage.objects.lifecycle import timestamp

_CLUSTER_SCOPED_NAMESPACE = "default"
"""The namespace of events about cluster-scoped objects."""


class EventRecorder:
    """Writes the events of one controller."""

    def __init__(self, context: ControllerContext, component: str) -> None:
        self._context = context
        self._component = component

    async def warn(self, obj: Tree, reason: str, message: str) -> None:
        """Write a warning about an object, or increase the count of an earlier one. Errors are
        ignored: an event is not a reason to stop."""
        await self._try_to_record(obj, "Warning", reason, message)

    async def note(self, obj: Tree, reason: str, message: str) -> None:
        """Write an event of the type Normal, as `warn` does."""
        await self._try_to_record(obj, "Normal", reason, message)

    async def _try_to_record(self, obj: Tree, type_: str, reason: str, message: str) -> None:
        with contextlib.suppress(StatusError, StorageError):
            await self._record(obj, type_, reason, message)

    async def _record(self, obj: Tree, type_: str, reason: str, message: str) -> None:
        digest = hashlib.sha256(f"{uid_of(obj)}/{reason}/{message}".encode()).hexdigest()[:16]
        namespace = namespace_of(obj) or _CLUSTER_SCOPED_NAMESPACE
        name = f"{name_of(obj)[:200]}.{digest}"
        now = timestamp(self._context.server.clock.now())
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
            "type": type_,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        events = self._context.resource("v1", "events", namespace=namespace)
        try:
            await events.create(event)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            # The roles of controllers let them update events, but not read them.
            await events.update_with_retry(name, lambda event: _count_again(event, now))


def _count_again(event: Tree, now: str) -> Tree:
    return event | {"count": (event.get("count") or 0) + 1, "lastTimestamp": now}
