"""Write the condition Dangling of FlowSchemas: whether their priority level is missing.

Mirrors the status updates of apf_controller.go in k8s.io/apiserver/pkg/util/flowcontrol.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

_FLOWCONTROL = GroupVersion("flowcontrol.apiserver.k8s.io", "v1")


class FlowSchemaStatusController(Controller[ObjectKey]):
    """The control loop; its queue holds keys of FlowSchemas."""

    def set_up(self) -> None:
        """Watch flow schemas and priority levels, if their version is served."""
        if self.server.scheme.is_served(_FLOWCONTROL):
            self._levels = self.watch(_FLOWCONTROL, "prioritylevelconfigurations", self._schemas_of)
            self._schemas = self.watch(_FLOWCONTROL, "flowschemas", for_object)

    def _schemas_of(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Yield the schemas of a level that was created or deleted."""
        if change.new is None or change.old is None:
            for entry in self._schemas.lister.list():
                if _level_of(entry.tree()) == change.last.key.name:
                    yield entry.key

    async def reconcile(self, key: ObjectKey) -> None:
        """Write the condition of a schema, unless it is true already."""
        entry = self._schemas.lister.get(key)
        if entry is None:
            return
        level = _level_of(entry.tree())
        condition = self._condition(level)
        current = value_at(entry.tree(), "status", "conditions") or ()
        if all(condition != other | _time_of(condition) for other in current):
            await self._write(key.name, condition)

    def _condition(self, level: str) -> Tree:
        exists = self._levels.lister.get(ObjectKey("", level)) is not None
        suffix = "and it exists" if exists else "but there is no such object"
        return {
            "type": "Dangling",
            "status": str(not exists),
            "lastTransitionTime": timestamp(self.clock.now()),
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
        schemas = self.context.resource(str(_FLOWCONTROL), "flowschemas")
        manager = self.context.manager
        with suppress_reason("NotFound"):
            await schemas.apply(schema, manager=manager, subresource="status", force=1)


def _level_of(schema: Tree) -> str:
    return value_at(schema, "spec", "priorityLevelConfiguration", "name") or ""


def _time_of(condition: Tree) -> Tree:
    return {"lastTransitionTime": condition["lastTransitionTime"]}
