"""The kubelets of all simulated nodes: they let pods live as `pod_life` says."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import name_of, uid_of, value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import field_value
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import delete_object, suppress_reason
from kapiserver.controllers.workloads.pods import is_finished, node_of
from kapiserver.simulation.addresses import AddressPool
from kapiserver.simulation.fate import unreadable_annotations
from kapiserver.simulation.node_objects import has_kubelet, internal_address
from kapiserver.simulation.pod_life import Addresses, next_step
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange


class KubeletSimulator(Controller[ObjectKey]):
    """Writes the status of the pods of simulated nodes, and removes those that have ended."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._addresses = AddressPool()
        self._events = EventRecorder(context, "kubelet")

    def set_up(self) -> None:
        """Watch pods and nodes."""
        self._pods_by_node = Index(field_value("spec", "nodeName"))
        self._nodes = self.watch(CORE, "nodes", self._pods_of_node)
        self._pods = self.watch(CORE, "pods", self._bound_pod, self._pods_by_node)

    def _pods_of_node(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue the pods of a node whose kubelet starts or stops, or makes itself known."""
        before, after = (
            entry is not None and _can_run_pods(entry) for entry in (change.old, change.new)
        )
        if before != after:
            for entry in self._pods_by_node.get(change.last.key.name):
                yield entry.key

    def _bound_pod(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue a pod that has a node, and keep or release its address."""
        pod = change.last.tree()
        address = value_at(pod, "status", "podIP")
        if change.new is None or is_finished(pod):
            self._addresses.release(uid_of(pod))
        elif address and not value_at(pod, "spec", "hostNetwork"):
            self._addresses.keep(uid_of(pod), address)
        if change.new is not None and node_of(pod):
            yield change.new.key

    async def reconcile(self, key: ObjectKey) -> None:
        """Let the next step of a pod's life happen."""
        entry = self._pods.lister.get(key)
        if entry is None:
            return
        pod = entry.tree()
        node = self._nodes.lister.get(ObjectKey("", node_of(pod)))
        if node is None or not _can_run_pods(node):
            return
        step = next_step(pod, self._addresses_of(pod, node.tree()), self.clock.now())
        pods = self.context.resource("v1", "pods", namespace=key.namespace)
        if step.gone:
            await delete_object(pods.shared, name_of(pod), uid=uid_of(pod), gracePeriodSeconds=0)
        elif step.status is not None:
            await self._report(pod)
            # After a Conflict the change of the other writer is delivered and reconciled.
            with suppress_reason("NotFound", "Conflict"):
                await pods.shared.update(pod | {"status": step.status}, subresource="status")
        if step.wait:
            self.queue.add_after(key, step.wait)

    def _addresses_of(self, pod: Tree, node: Tree) -> Addresses:
        host = internal_address(node)
        if value_at(pod, "spec", "hostNetwork") or is_finished(pod):
            return Addresses(host=host)
        network = value_at(node, "spec", "podCIDR") or ""
        return Addresses(self._addresses.take(uid_of(pod), network), host)

    async def _report(self, pod: Tree) -> None:
        """Warn about annotations that cannot be read, when the pod starts."""
        if value_at(pod, "status", "startTime"):
            return
        for problem in unreadable_annotations(pod):
            await self._events.warn(pod, "UnreadableAnnotation", problem)


def _can_run_pods(node: Entry) -> bool:
    """Report whether a simulated kubelet runs on a node, and has made itself known."""
    return has_kubelet(node) and bool(internal_address(node.tree()))
