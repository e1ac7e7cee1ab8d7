"""Says in the status of kwok's objects whether their expressions compile, and in the log and in an
event if they do not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from kapiserver.api.accessors import value_at
from kapiserver.api.cel.program import CompileError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.served_watch import ServedWatch
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.controllers.workloads.conditions import find_condition, without_condition
from kapiserver.simulation.kwok.expressions import compile_cached
from kapiserver.simulation.kwok.kinds import KWOK
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.lifecycle import timestamp

COMPILED = "Compiled"
"""The type of the condition."""

_log = logging.getLogger(__name__)


class ExpressionReporter(Controller[ObjectKey]):
    """Writes the condition Compiled of the objects of one resource."""

    resource = ""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, "kwok")

    def set_up(self) -> None:
        """Watch the objects."""
        self.objects = ServedWatch(self, KWOK, self.resource, for_object)

    async def reconcile(self, key: ObjectKey) -> None:
        """Write the condition of an object unless it says so already."""
        entry = self.objects.get(key)
        if entry is None:
            return
        obj = entry.tree()
        reason, problem = self.problem(obj)
        condition = {
            "type": COMPILED,
            "status": "False" if problem else "True",
            "reason": reason if problem else COMPILED,
            "message": problem,
        }
        conditions = value_at(obj, "status", "conditions") or ()
        present = find_condition(conditions, COMPILED)
        if present is not None and condition.items() <= present.items():
            return
        if problem:
            _log.warning("%s %s: %s", self.resource, key.name, problem)
            await self._events.warn(obj, reason, problem)
        condition["lastTransitionTime"] = timestamp(self.clock.now())
        others = without_condition(conditions, COMPILED)
        status = (obj.get("status") or {}) | {"conditions": [*others, condition]}
        objects = self.context.resource(str(KWOK), self.resource, namespace=key.namespace)
        # After a Conflict the change of the other writer is delivered and reconciled.
        with suppress_reason("NotFound", "Conflict"):
            await objects.shared.update(obj | {"status": status}, subresource="status")

    def problem(self, obj: Tree) -> tuple[str, str]:
        """Return a reason, and why an object cannot be used; "" if it can."""
        return "CompileFailed", problem_of(obj)


class ResourceUsageReporter(ExpressionReporter):
    """Reports about ResourceUsages."""

    resource = "resourceusages"


class ClusterResourceUsageReporter(ExpressionReporter):
    """Reports about ClusterResourceUsages."""

    resource = "clusterresourceusages"


class MetricReporter(ExpressionReporter):
    """Reports about Metrics."""

    resource = "metrics"


def problem_of(obj: Tree) -> str:
    """Return why an expression of an object does not compile; "" if all do."""
    for path, source in _expressions(obj.get("spec") or {}):
        try:
            compile_cached(source)
        except CompileError as error:
            return f"spec{path}: {error}"
    return ""


def _expressions(spec: Tree) -> Iterator[tuple[str, str]]:
    """Yield the expressions of an object, each with its path in the spec."""
    for index, entry in enumerate(spec.get("usages") or ()):
        for resource, amount in (entry.get("usage") or {}).items():
            if amount.get("expression"):
                path = f".usages[{index}].usage.{resource}.expression"
                yield path, amount["expression"]
    for index, config in enumerate(spec.get("metrics") or ()):
        path = f".metrics[{index}]"
        if config.get("value"):
            yield f"{path}.value", config["value"]
        for field in ("labels", "buckets"):
            items: list[Any] = config.get(field) or []
            for position, item in enumerate(items):
                yield f"{path}.{field}[{position}].value", item.get("value") or ""
