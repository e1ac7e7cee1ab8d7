"""Says in the status of each Stage whether it compiles, and whether its kind is served."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.errors import NotRegistered
from kapiserver.api.types import Tree
from kapiserver.simulation.kwok.expression_reporter import ExpressionReporter
from kapiserver.simulation.kwok.stages.expressions import StageError
from kapiserver.simulation.kwok.stages.stage import compile_stage


class StageReporter(ExpressionReporter):
    """Reports about Stages."""

    resource = "stages"

    def set_up(self) -> None:
        """Watch Stages, and the definitions of kinds that they may be for."""
        super().set_up()
        self.add_subscription(self.server.custom_resources.subscribe(self._on_definitions))

    def _on_definitions(self, _names: Sequence[str]) -> None:
        for entry in self.objects.list():
            self.queue.add(entry.key)

    def problem(self, obj: Tree) -> tuple[str, str]:
        """Return a reason, and why a Stage cannot be used; "" if it can."""
        try:
            self.server.scheme.resource_of(compile_stage(obj).kind)
        except StageError as error:
            return "CompileFailed", str(error)
        except NotRegistered as error:
            return "KindNotServed", str(error)
        return "", ""
