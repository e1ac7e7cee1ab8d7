"""Binds pending pods to the first simulated node."""

from __future__ import annotations

from kapiserver.api.accessors import is_terminating, name_of, uid_of, value_at
from kapiserver.api.group import CORE
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.controllers.workloads.pods import node_of
from kapiserver.simulation.nodes import simulated_nodes
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange


class Binder(Controller[ObjectKey]):
    """Binds each pod that waits for a scheduler and has no scheduling gates."""

    def set_up(self) -> None:
        """Watch pods and nodes."""
        self._pods = self.watch(CORE, "pods", for_object)
        self._nodes = self.watch(CORE, "nodes", self._pending_pods)

    def _pending_pods(self, change: ObjectChange) -> list[ObjectKey]:
        """Queue all pods without a node for the first nodes."""
        if change.old is not None:
            return []
        entries = self._pods.lister.list()
        return [entry.key for entry in entries if not node_of(entry.tree())]

    async def reconcile(self, key: ObjectKey) -> None:
        """Bind a pod."""
        entry, nodes = self._pods.lister.get(key), simulated_nodes(self._nodes)
        if entry is None or not nodes:
            return
        pod = entry.tree()
        gates = value_at(pod, "spec", "schedulingGates")
        if node_of(pod) or gates or is_terminating(pod):
            return
        binding = {
            "metadata": {"name": key.name, "uid": uid_of(pod)},
            "target": {"kind": "Node", "name": name_of(nodes[0])},
        }
        pods = self.context.resource("v1", "pods", namespace=key.namespace)
        with suppress_reason("NotFound", "Conflict"):
            await pods.create(binding, name=key.name, subresource="binding")
