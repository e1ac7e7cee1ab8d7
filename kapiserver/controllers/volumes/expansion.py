"""Reports that a claim waits for somebody else to expand its volume.

CSI drivers expand all volumes; Kubernetes itself expands none any more. Mirrors
pkg/controller/volume/expand.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.volumes.matching import (
    current_size,
    is_in_bound_phase,
    is_reserved_for,
    requested_size,
)
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

_MESSAGE = "waiting for an external controller to expand this PVC"


class ExpansionController(Controller[ObjectKey]):
    """Reports expansions."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, "volume_expand")

    def set_up(self) -> None:
        """Watch volumes and claims."""
        self._volumes = self.watch(CORE, "persistentvolumes")
        self._claims = self.watch(CORE, "persistentvolumeclaims", _on_claim)

    async def reconcile(self, key: ObjectKey) -> None:
        """Report the expansion of a claim."""
        claim = self._claims.lister.get(key)
        name = value_at(claim.tree(), "spec", "volumeName") if claim is not None else ""
        volume = self._volumes.lister.get(ObjectKey("", name)) if name else None
        if claim is None or volume is None:
            return
        event = expansion_event(claim.tree(), volume.tree())
        if event is not None:
            record = self._events.warn if event.type == "Warning" else self._events.note
            await record(claim.tree(), event.reason, event.message)


def _on_claim(change: ObjectChange) -> Iterator[ObjectKey]:
    """Queue a claim that asks for more than before."""
    if change.new is None:
        return
    before = requested_size(change.old.tree()) if change.old is not None else 0
    if requested_size(change.new.tree()) > before and is_in_bound_phase(change.new.tree()):
        yield change.new.key


def expansion_event(claim: Tree, volume: Tree) -> PlannedEvent | None:
    """Return the event about a claim that asks for more than its volume has, or None. It is a
    warning if no CSI driver can expand the volume."""
    if not is_reserved_for(volume, claim) or requested_size(claim) <= current_size(claim):
        return None
    has_driver = any(value_at(volume, "spec", source) for source in ("csi", "flexVolume"))
    return PlannedEvent("ExternalExpanding", _MESSAGE, "Normal" if has_driver else "Warning")
