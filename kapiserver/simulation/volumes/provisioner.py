"""The simulated provisioners of all classes: they make a volume for each claim that asks for one,
and delete it when it is released. `volume_objects` decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kapiserver.api.accessors import (
    annotations_of,
    finalizers_of,
    metadata_of,
    name_of,
    namespace_of,
    uid_of,
)
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.plugins.default_class import STORAGE_CLASS_MARKS, newest_default
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import create_missing, delete_object, update_object
from kapiserver.controllers.volumes.annotations import SELECTED_NODE
from kapiserver.controllers.volumes.matching import class_of
from kapiserver.controllers.volumes.persistent_volume_binder import STORAGE, BinderItem
from kapiserver.simulation.volumes.volume_objects import (
    DRIVER,
    FINALIZER,
    STANDARD_CLASS,
    is_released,
    new_volume,
    provisioning_error,
    volume_name,
    wants_volume,
)
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange

_STANDARD = BinderItem("claim", ObjectKey("", "standard"))
"""The task to make the default class; no claim is without a namespace."""


class ProvisionerSimulator(Controller[BinderItem]):
    """Makes and deletes volumes. The class `standard` is made once, unless there is a default."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, DRIVER)

    def set_up(self) -> None:
        """Watch classes, nodes, volumes and claims."""
        self._claims_by_class = Index(lambda entry: (class_of(entry.tree()),))
        self._classes = self.watch(STORAGE, "storageclasses", self._on_class)
        self._nodes = self.watch(CORE, "nodes")
        self._volumes = self.watch(CORE, "persistentvolumes", _on_volume)
        self._claims = self.watch(CORE, "persistentvolumeclaims", _on_claim, self._claims_by_class)
        self.queue.add(_STANDARD)

    def _on_class(self, change: ObjectChange) -> Iterator[BinderItem]:
        for entry in self._claims_by_class.get(change.last.key.name):
            yield BinderItem("claim", entry.key)

    async def reconcile(self, item: BinderItem) -> None:
        """Make the volume of a claim, or delete a released volume."""
        if item == _STANDARD:
            await self._make_standard_class()
        elif item.kind == "claim":
            await self._provision(self._claims.lister.get(item.key))
        else:
            await self._delete(self._volumes.lister.get(item.key))

    async def _make_standard_class(self) -> None:
        classes = [entry.tree() for entry in self._classes.lister.list()]
        if not newest_default(classes, STORAGE_CLASS_MARKS):
            client = self.context.resource(str(STORAGE), "storageclasses")
            await create_missing(client, STANDARD_CLASS)

    def _class_of(self, obj: Tree) -> Tree | None:
        entry = self._classes.lister.get(ObjectKey("", class_of(obj)))
        return None if entry is None else entry.tree()

    async def _provision(self, entry: Entry | None) -> None:
        claim = {} if entry is None else entry.tree()
        if self._volumes.lister.get(ObjectKey("", volume_name(claim))) is not None:
            return
        storage_class = self._class_of(claim)
        if storage_class is None or not wants_volume(claim, storage_class):
            return
        message = f'failed to provision volume with StorageClass "{name_of(storage_class)}": '
        error = provisioning_error(claim, storage_class)
        if error:
            await self._events.warn(claim, "ProvisioningFailed", message + error)
            return
        selected = annotations_of(claim).get(SELECTED_NODE)
        node = self._nodes.lister.get(ObjectKey("", selected)) if selected else None
        volume = new_volume(claim, storage_class, None if node is None else node.tree())
        key = f"{namespace_of(claim)}/{name_of(claim)}"
        message = f'External provisioner is provisioning volume for claim "{key}"'
        await self._events.note(claim, "Provisioning", message)
        await create_missing(self.context.resource("v1", "persistentvolumes"), volume)
        message = f"Successfully provisioned volume {name_of(volume)}"
        await self._events.note(claim, "ProvisioningSucceeded", message)

    async def _delete(self, entry: Entry | None) -> None:
        volume = {} if entry is None else entry.tree()
        if not is_released(volume, self._class_of(volume)):
            return
        volumes = self.context.resource("v1", "persistentvolumes")
        await delete_object(volumes, name_of(volume), uid=uid_of(volume))
        await update_object(volumes, name_of(volume), _without_finalizer, uid=uid_of(volume))


def _on_volume(change: ObjectChange) -> Iterable[BinderItem]:
    return (BinderItem("volume", change.last.key),)


def _on_claim(change: ObjectChange) -> Iterable[BinderItem]:
    return (BinderItem("claim", change.last.key),)


def _without_finalizer(volume: Tree) -> Tree:
    finalizers = [finalizer for finalizer in finalizers_of(volume) if finalizer != FINALIZER]
    metadata = {key: value for key, value in metadata_of(volume).items() if key != "finalizers"}
    return volume | {"metadata": metadata | ({"finalizers": finalizers} if finalizers else {})}
