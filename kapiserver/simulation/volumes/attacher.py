"""The simulated attachers of all CSI drivers: they attach each volume at once."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import annotations_of, is_terminating, value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import field_value, for_object
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.controllers.volumes.matching import class_of
from kapiserver.controllers.volumes.persistent_volume_binder import STORAGE
from kapiserver.simulation.annotations import PREFIX
from kapiserver.simulation.volumes.volume_objects import is_simulated_class
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

ERROR = f"{PREFIX}attach-error"
"""The annotation of a volume that says why it cannot be attached."""


class AttacherSimulator(Controller[ObjectKey]):
    """Marks VolumeAttachments as attached."""

    workers = 5

    def set_up(self) -> None:
        """Watch classes, volumes and attachments."""
        volume_name = field_value("spec", "source", "persistentVolumeName")
        self._attachments_by_volume = Index(volume_name)
        self._classes = self.watch(STORAGE, "storageclasses")
        self._volumes = self.watch(CORE, "persistentvolumes", self._on_volume)
        self._attachments = self.watch(
            STORAGE, "volumeattachments", for_object, self._attachments_by_volume
        )

    def _on_volume(self, change: ObjectChange) -> Iterator[ObjectKey]:
        for entry in self._attachments_by_volume.get(change.last.key.name):
            yield entry.key

    async def reconcile(self, key: ObjectKey) -> None:
        """Attach a volume, or report why it cannot be attached."""
        entry = self._attachments.lister.get(key)
        if entry is None or is_terminating(entry.tree()):
            return
        attachment = entry.tree()
        name = value_at(attachment, "spec", "source", "persistentVolumeName") or ""
        volume = self._volumes.lister.get(ObjectKey("", name))
        if volume is None or not self._is_simulated(volume):
            return
        status = self._status_of(attachment, volume.tree())
        if status != attachment.get("status"):
            client = self.context.resource(str(STORAGE), "volumeattachments")
            # After a Conflict the change of the other writer is delivered and reconciled.
            with suppress_reason("NotFound", "Conflict"):
                await client.shared.update(attachment | {"status": status}, subresource="status")

    def _is_simulated(self, volume: Entry) -> bool:
        entry = self._classes.lister.get(ObjectKey("", class_of(volume.tree())))
        return entry is None or is_simulated_class(entry.tree())

    def _status_of(self, attachment: Tree, volume: Tree) -> Tree:
        status: Tree = attachment.get("status") or {}
        error = annotations_of(volume).get(ERROR)
        if status.get("attached") or not error:
            return {"attached": True}
        if value_at(status, "attachError", "message") == error:
            return status
        attach_error = {"time": timestamp(self.clock.now()), "message": error}
        return {"attached": False, "attachError": attach_error}
