"""Says in the status of each Stage whether it compiles, and in the log if it does not."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kapiserver.api.accessors import value_at
from kapiserver.api.errors import NotRegistered
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.simulation.kwok.kinds import KWOK
from kapiserver.simulation.kwok.served_watch import ServedWatch
from kapiserver.simulation.kwok.stages.expressions import StageError
from kapiserver.simulation.kwok.stages.stage import compile_stage
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.lifecycle import timestamp

COMPILED = "Compiled"
"""The type of the condition."""

_log = logging.getLogger(__name__)


class StageReporter(Controller[ObjectKey]):
    """Writes the condition Compiled of Stages."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, "kwok")

    def set_up(self) -> None:
        """Watch Stages, and the definitions of kinds that they may be for."""
        self._stages = ServedWatch(self, KWOK, "stages", for_object)
        self.add_subscription(self.server.custom_resources.subscribe(self._on_definitions))

    def _on_definitions(self, _names: Sequence[str]) -> None:
        for entry in self._stages.list():
            self.queue.add(entry.key)

    async def reconcile(self, key: ObjectKey) -> None:
        """Write the condition of a Stage unless it says so already."""
        entry = self._stages.get(key)
        if entry is None:
            return
        stage = entry.tree()
        reason, problem = self._problem(stage)
        condition = {
            "type": COMPILED,
            "status": "False" if problem else "True",
            "reason": reason,
            "message": problem,
        }
        present = find_condition(value_at(stage, "status", "conditions") or (), COMPILED)
        if present is not None and condition.items() <= present.items():
            return
        if problem:
            _log.warning("the Stage %s is ignored: %s", key.name, problem)
            await self._events.warn(stage, reason, problem)
        await self._write(stage, condition | {"lastTransitionTime": timestamp(self.clock.now())})

    def _problem(self, stage: Tree) -> tuple[str, str]:
        """Return the reason of the condition, and why the Stage cannot be used, or ""."""
        try:
            self.server.scheme.resource_of(compile_stage(stage).kind)
        except StageError as error:
            return "CompileFailed", str(error)
        except NotRegistered as error:
            return "KindNotServed", str(error)
        return COMPILED, ""

    async def _write(self, stage: Tree, condition: Tree) -> None:
        """Write the condition. After a Conflict the change of the other writer is reconciled."""
        present = value_at(stage, "status", "conditions") or ()
        others = [each for each in present if each.get("type") != COMPILED]
        status = (stage.get("status") or {}) | {"conditions": [*others, condition]}
        stages = self.context.resource(str(KWOK), "stages")
        with suppress_reason("NotFound", "Conflict"):
            await stages.shared.update(stage | {"status": status}, subresource="status")
