"""The CSIStorageCapacities of simulated drivers: how much room a class has in each topology.

A driver publishes them if its CSIDriver says `storageCapacity: true`. The annotation
`simulation.kapiserver.dev/capacity` of a class says how much storage each topology has, and volumes
take their part of it. Mirrors the capacity controller of CSI's external-provisioner.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from kapiserver.api.accessors import annotations_of, labels_of, name_of, value_at
from kapiserver.api.group import CORE
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import create_missing, delete_object, suppress_reason
from kapiserver.controllers.volumes.matching import capacity_of, class_of, is_reachable
from kapiserver.controllers.volumes.persistent_volume_binder import STORAGE
from kapiserver.simulation.annotations import PREFIX
from kapiserver.simulation.node_objects import is_simulated
from kapiserver.simulation.volumes.volume_objects import (
    DRIVER,
    TOPOLOGY,
    driver_of,
    is_simulated_class,
)
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange

CAPACITY = f"{PREFIX}capacity"
"""The annotation of a class with the storage of each topology."""
_NAMESPACE = "kube-system"
_DEFAULT = "1Pi"
_DRIVER_LABEL = "csi.storage.k8s.io/drivername"
_MANAGER_LABEL = "csi.storage.k8s.io/managed-by"


@dataclass
class Segment:
    """The nodes of a region and zone, by their labels."""

    labels: Mapping[str, str]
    name: str = ""


def storage_capacities(
    storage_class: Tree, nodes: Iterable[Tree], volumes: Sequence[Tree]
) -> dict[str, Tree]:
    """Return the objects of a class, by name.

    volumes  the volumes of the class
    Raises ValueError for an annotation that is not a quantity.
    """
    total = parse(annotations_of(storage_class).get(CAPACITY, _DEFAULT)).decimal
    capacities = {}
    for segment in _segments(nodes):
        sizes = (capacity_of(volume) for volume in volumes if is_reachable(volume, segment))
        room = max(total - sum(sizes, Decimal(0)), Decimal(0))
        published = _storage_capacity(storage_class, segment, room)
        capacities[name_of(published)] = published
    return capacities


def _segments(nodes: Iterable[Tree]) -> list[Segment]:
    labels = {
        tuple((key, labels_of(node)[key]) for key in TOPOLOGY if key in labels_of(node))
        for node in nodes
        if is_simulated(node)
    }
    return [Segment(dict(pairs)) for pairs in sorted(labels)]


def _storage_capacity(storage_class: Tree, segment: Segment, capacity: Decimal) -> Tree:
    text = repr((name_of(storage_class), sorted(segment.labels.items())))
    driver = driver_of(storage_class)
    return {
        "metadata": {
            "name": f"csisc-{hashlib.sha256(text.encode()).hexdigest()[:10]}",
            "namespace": _NAMESPACE,
            "labels": {_DRIVER_LABEL: driver, _MANAGER_LABEL: DRIVER},
        },
        "capacity": str(int(capacity)),
        "nodeTopology": {"matchLabels": segment.labels} if segment.labels else {},
        "storageClassName": name_of(storage_class),
    }


class StorageCapacitySimulator(Controller[ObjectKey]):
    """Publishes the capacities of simulated drivers. Its queue holds classes."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, DRIVER)

    def set_up(self) -> None:
        """Watch drivers, nodes, volumes, published capacities and classes."""
        self._volumes_by_class = Index(_class_of)
        self._drivers = self.watch(STORAGE, "csidrivers", self._on_driver)
        self._nodes = self.watch(CORE, "nodes", self._on_node)
        self.watch(CORE, "persistentvolumes", _on_volume, self._volumes_by_class)
        self._published_by_class = Index(_class_of_managed)
        self._published = self.watch(
            STORAGE, "csistoragecapacities", _no_keys, self._published_by_class
        )
        self._classes = self.watch(STORAGE, "storageclasses", for_object)

    def _on_driver(self, change: ObjectChange) -> Iterator[ObjectKey]:
        for entry in self._classes.lister.list():
            if driver_of(entry.tree()) == change.last.key.name:
                yield entry.key

    def _on_node(self, change: ObjectChange) -> Iterator[ObjectKey]:
        before, after = (
            entry and [entry.labels.get(key) for key in TOPOLOGY]
            for entry in (change.old, change.new)
        )
        if before != after:
            yield from (entry.key for entry in self._classes.lister.list())

    async def reconcile(self, key: ObjectKey) -> None:
        """Create, update and delete the objects of a class."""
        present = {entry.key.name: entry.tree() for entry in self._published_by_class.get(key.name)}
        storage_class = self._classes.lister.get(key)
        desired = {} if storage_class is None else await self._capacities(storage_class.tree())
        client = self.context.resource(str(STORAGE), "csistoragecapacities", namespace=_NAMESPACE)
        for name in present.keys() - desired.keys():
            await delete_object(client, name)
        for name, tree in desired.items():
            if name not in present:
                await create_missing(client, tree)
            elif present[name].get("capacity") != tree["capacity"]:
                with suppress_reason("NotFound", "Conflict"):
                    await client.update(present[name] | {"capacity": tree["capacity"]})
        if present or desired:
            await self._published.fresh()

    async def _capacities(self, storage_class: Tree) -> dict[str, Tree]:
        """Return what is to be published for a class: nothing unless its driver asks for it."""
        driver = self._drivers.lister.get(ObjectKey("", driver_of(storage_class)))
        is_published = driver is not None and value_at(driver.tree(), "spec", "storageCapacity")
        if not is_published or not is_simulated_class(storage_class):
            return {}
        nodes = (entry.tree() for entry in self._nodes.lister.list())
        volumes = [entry.tree() for entry in self._volumes_by_class.get(name_of(storage_class))]
        try:
            return storage_capacities(storage_class, nodes, volumes)
        except ValueError as error:
            problem = f"annotation {CAPACITY} is ignored: {error}"
            await self._events.warn(storage_class, "UnreadableAnnotation", problem)
            without = storage_class | {"metadata": {"name": name_of(storage_class)}}
            return storage_capacities(without, nodes, volumes)


def _class_of(entry: Entry) -> tuple[str]:
    return (class_of(entry.tree()),)


def _class_of_managed(entry: Entry) -> tuple[str, ...]:
    """Return the class of an object that this simulator has published."""
    is_managed = entry.labels.get(_MANAGER_LABEL) == DRIVER
    return (entry.tree().get("storageClassName") or "",) if is_managed else ()


def _on_volume(change: ObjectChange) -> Iterator[ObjectKey]:
    name = class_of(change.last.tree())
    if name and (change.old is None or change.new is None):
        yield ObjectKey("", name)


def _no_keys(_change: ObjectChange) -> tuple[()]:
    return ()
