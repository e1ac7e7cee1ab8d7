"""Keeps the Stages of each kind. Objects of kinds with Stages live as these say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kapiserver.api.group import CORE, GroupVersionKind
from kapiserver.controllers.loop.controller import AnyController
from kapiserver.controllers.loop.served_watch import ServedWatch
from kapiserver.simulation.kwok.kinds import KWOK
from kapiserver.simulation.kwok.stages.expressions import StageError
from kapiserver.simulation.kwok.stages.stage import Stage, compile_stage
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.objects.informer import ObjectChange

NODE = CORE.with_kind("Node")
POD = CORE.with_kind("Pod")


def lifecycles_of(entries: Sequence[Entry]) -> Mapping[GroupVersionKind, tuple[Stage, ...]]:
    """Return the stages that compile, by kind, in the order of their names. Those without a
    selector apply to nothing, and are left out."""
    stages_by_kind: dict[GroupVersionKind, tuple[Stage, ...]] = {}
    for entry in entries:
        try:
            stage = compile_stage(entry.tree())
        except StageError:
            continue  # the reporter says so in the status of the Stage
        if stage.requirements is not None:
            stages_by_kind[stage.kind] = (*stages_by_kind.get(stage.kind, ()), stage)
    return stages_by_kind


class StagedKind:
    """Whether a kind has Stages, for a simulator that leaves its objects to them.

    items   returns the items to queue when the kind gets its first Stage or loses its last one
    """

    def __init__(
        self, controller: AnyController, kind: GroupVersionKind, items: Callable[[], Iterable[Any]]
    ) -> None:
        self._kind = kind
        self._items = items
        self.has_stages = False
        self._stages = ServedWatch(controller, KWOK, "stages", self._on_stage)

    def _on_stage(self, _change: ObjectChange) -> Iterable[Any]:
        had_stages = self.has_stages
        self.has_stages = self._kind in lifecycles_of(self._stages.list())
        return () if self.has_stages == had_stages else self._items()
