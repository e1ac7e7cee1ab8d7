"""Write the condition Dangling of FlowSchemas: whether their priority level is missing.

Mirrors the status updates of apf_controller.go in k8s.io/apiserver/pkg/util/flowcontrol.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.subscriptions import Subscriptions
from kapiserver.controllers.loop.workqueue import WorkQueue
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

NAME = "flow-schema-status-controller"
_FLOWCONTROL = GroupVersion("flowcontrol.apiserver.k8s.io", "v1")


class FlowSchemaStatusController:
    """The control loop; its queue holds names of FlowSchemas."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._server = server = context.server
        self._subscriptions = Subscriptions(server)
        self._queue: WorkQueue[str] = context.work_queue(self._reconcile, workers=1, name=NAME)

    async def start(self) -> None:
        """Subscribe to flow schemas and priority levels, if their version is served."""
        if self._server.scheme.is_served(_FLOWCONTROL):
            add = self._subscriptions.add
            self._levels = add(_FLOWCONTROL, "prioritylevelconfigurations", self._on_level)
            self._schemas = add(_FLOWCONTROL, "flowschemas", self._on_schema)

    async def stop(self) -> None:
        """Stop, and cancel the reconcile in progress."""
        self._subscriptions.cancel()
        await self._queue.stop()

    def _on_schema(self, change: ObjectChange) -> None:
        if change.new is not None:
            self._queue.add(change.new.key.name)

    def _on_level(self, change: ObjectChange) -> None:
        if change.new is not None and change.old is not None:
            return
        for entry in self._schemas.lister.list():
            if _level_of(entry.tree()) == change.last.key.name:
                self._queue.add(entry.key.name)

    async def _reconcile(self, name: str) -> None:
        await self._subscriptions.wait_synced()
        entry = self._schemas.lister.get(ObjectKey("", name))
        if entry is None:
            return
        level = _level_of(entry.tree())
        condition = self._condition(level)
        current = value_at(entry.tree(), "status", "conditions") or ()
        if all(condition != each | _time_of(condition) for each in current):
            await self._write(name, condition)

    def _condition(self, level: str) -> Tree:
        exists = self._levels.lister.get(ObjectKey("", level)) is not None
        suffix = "and it exists" if exists else "but there is no such object"
        return {
            "type": "Dangling",
            "status": str(not exists),
            "lastTransitionTime": timestamp(self._server.clock.now()),
            "reason": "Found" if exists else "NotFound",
            "message": "This FlowSchema references the PriorityLevelConfiguration object named "
            f'"{level}" {suffix}',
        }

    async def _write(self, name: str, condition: Tree) -> None:
        schema = {
            "kind": "FlowSchema",
            "apiVersion": str(_FLOWCONTROL),
            "metadata": {"name": name},
            "status": {"conditions": [condition]},
        }
        schemas = self._context.resource(str(_FLOWCONTROL), "flowschemas")
        manager = self._context.manager
        with suppress_reason("NotFound"):
            await schemas.apply(schema, manager=manager, subresource="status", force=1)


def _level_of(schema: Tree) -> str:
    return value_at(schema, "spec", "priorityLevelConfiguration", "name") or ""


def _time_of(condition: Tree) -> Tree:
    return {"lastTransitionTime": condition["lastTransitionTime"]}
