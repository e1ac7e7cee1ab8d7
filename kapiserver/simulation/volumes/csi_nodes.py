"""The CSINodes of simulated nodes: each lists the drivers of all simulated classes.

A kubelet creates the CSINode of its node, and lists the drivers that register with it. A limit of
volumes (`allocatable.count`) stays as somebody else has written it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api.accessors import labels_of, name_of, uid_of, value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.controllers.volumes.persistent_volume_binder import STORAGE
from kapiserver.simulation.node_objects import has_kubelet
from kapiserver.simulation.volumes.volume_objects import TOPOLOGY, driver_of, is_simulated_class
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange


class CSINodeSimulator(Controller[ObjectKey]):
    """Writes the CSINodes. Its queue holds nodes."""

    def set_up(self) -> None:
        """Watch classes, CSINodes and nodes."""
        self._classes = self.watch(STORAGE, "storageclasses", self._all_nodes)
        self._csi_nodes = self.watch(STORAGE, "csinodes", for_object)
        self._nodes = self.watch(CORE, "nodes", for_object)

    def _all_nodes(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue all nodes when a class appears: a driver stays on its nodes."""
        if change.old is None:
            for entry in self._nodes.lister.list():
                yield entry.key

    async def reconcile(self, key: ObjectKey) -> None:
        """Write the CSINode of a node whose kubelet runs."""
        node = self._nodes.lister.get(key)
        if node is None or not has_kubelet(node):
            return
        entry = self._csi_nodes.lister.get(key)
        present = None if entry is None else entry.tree()
        desired = csi_node(node.tree(), present, self._drivers())
        client = self.context.resource(str(STORAGE), "csinodes")
        with suppress_reason("AlreadyExists", "Conflict", "NotFound"):
            if present is None:
                await client.create(desired)
            elif desired != present:
                await client.update(desired)
            else:
                return
        await self._csi_nodes.fresh()

    def _drivers(self) -> Sequence[str]:
        classes = (entry.tree() for entry in self._classes.lister.list())
        return sorted({driver_of(class_) for class_ in classes if is_simulated_class(class_)})


def csi_node(node: Tree, present: Tree | None, drivers: Sequence[str]) -> Tree:
    """Return the CSINode of a node with these drivers, and those that it has already.

    present  the CSINode, or None if it does not exist
    """
    name = name_of(node)
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(node)}
    current = present or {"metadata": {"name": name, "ownerReferences": [owner]}}
    known = list(value_at(current, "spec", "drivers") or ())
    missing = set(drivers) - {driver["name"] for driver in known}
    if present is not None and not missing:
        return present
    keys = [key for key in TOPOLOGY if key in labels_of(node)]
    new = [
        {"name": driver, "nodeID": name} | ({"topologyKeys": keys} if keys else {})
        for driver in sorted(missing)
    ]
    return current | {"spec": {"drivers": known + new}}
