"""The simulated resizers of all classes: they expand the volumes of claims that ask for more.
`resize_step` decides."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.controllers.volumes.matching import class_of
from kapiserver.controllers.volumes.persistent_volume_binder import STORAGE, claim_keys
from kapiserver.controllers.workloads.pods import phase_of
from kapiserver.simulation.volumes.resize_step import ResizeStep, resize_step
from kapiserver.simulation.volumes.volume_objects import DRIVER, is_simulated_class
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange


class ResizerSimulator(Controller[ObjectKey]):
    """Expands volumes."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, DRIVER)

    def set_up(self) -> None:
        """Watch classes, volumes, pods and claims."""
        self._pods_by_claim = Index(claim_keys)
        self._classes = self.watch(STORAGE, "storageclasses")
        self._volumes = self.watch(CORE, "persistentvolumes", _claim_of_volume)
        self._pods = self.watch(CORE, "pods", _claims_of_pod, self._pods_by_claim)
        self._claims = self.watch(CORE, "persistentvolumeclaims", for_object)

    async def reconcile(self, key: ObjectKey) -> None:
        """Take the next step of the expansion of a claim."""
        entry = self._claims.lister.get(key)
        claim = {} if entry is None else entry.tree()
        name = value_at(claim, "spec", "volumeName")
        volume = self._volumes.lister.get(ObjectKey("", name)) if name else None
        if volume is None or not self._is_simulated(claim):
            return
        pods = (pod.tree() for pod in self._pods_by_claim.get(f"{key.namespace}/{key.name}"))
        is_used = any(phase_of(pod) == "Running" for pod in pods)
        step = resize_step(claim, volume.tree(), self.clock.now(), is_used=is_used)
        # After a Conflict the change of the other writer is delivered and reconciled.
        with suppress_reason("NotFound", "Conflict"):
            await self._carry_out(claim, step)

    def _is_simulated(self, claim: Tree) -> bool:
        """Report whether the class of a claim allows the expansion, and its resizer is
        simulated."""
        entry = self._classes.lister.get(ObjectKey("", class_of(claim)))
        storage_class = {} if entry is None else entry.tree()
        return bool(storage_class.get("allowVolumeExpansion")) and is_simulated_class(storage_class)

    async def _carry_out(self, claim: Tree, step: ResizeStep) -> None:
        """Write the step; the change leads to the next one."""
        if step.volume is not None:
            await self.context.resource("v1", "persistentvolumes").shared.update(step.volume)
        if step.claim is not None:
            namespace = claim["metadata"]["namespace"]
            claims = self.context.resource("v1", "persistentvolumeclaims", namespace=namespace)
            await claims.shared.update(step.claim, subresource="status")
        if step.event is not None:
            record = self._events.warn if step.event.type == "Warning" else self._events.note
            await record(claim, step.event.reason, step.event.message)


def _claim_of_volume(change: ObjectChange) -> Iterator[ObjectKey]:
    reference = value_at(change.last.tree(), "spec", "claimRef")
    if reference:
        yield ObjectKey(reference.get("namespace") or "", reference.get("name") or "")


def _claims_of_pod(change: ObjectChange) -> Iterator[ObjectKey]:
    """Queue the claims of a pod that starts to run."""
    before, after = (
        entry is not None and phase_of(entry.tree()) == "Running"
        for entry in (change.old, change.new)
    )
    if after and not before:
        for key in claim_keys(change.last):
            yield ObjectKey(*key.split("/"))
