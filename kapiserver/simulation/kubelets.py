"""The kubelets of all simulated nodes: they let pods live as `pod_life` says."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import is_terminating, name_of, namespace_of, uid_of, value_at
from kapiserver.api.core.pods.references import claim_names
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import field_value
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import delete_object, suppress_reason
from kapiserver.controllers.volumes.attach_plan import needs_attachment, unique_name
from kapiserver.controllers.volumes.matching import claim_key, is_in_bound_phase
from kapiserver.controllers.volumes.persistent_volume_binder import STORAGE, claim_keys
from kapiserver.controllers.workloads.pods import is_finished, node_of, phase_of, seconds_of
from kapiserver.simulation import pod_resize
from kapiserver.simulation.addresses import AddressPool
from kapiserver.simulation.fate import unreadable_annotations
from kapiserver.simulation.kubelet_events import events_between
from kapiserver.simulation.kwok.stages.lifecycles import POD, StagedKind
from kapiserver.simulation.node_objects import has_kubelet, internal_addresses, missing_images
from kapiserver.simulation.pod_admission import (
    AdmittedPods,
    Rejection,
    refusal,
    rejected_status,
)
from kapiserver.simulation.pod_life import Host, next_step
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange

EVENT_BURST = 100
"""How many events wait at most before events of the type Normal are dropped: --event-burst of a
kubelet. So the events of a few pods are complete, and those of thousands cost little."""

REJECTION_SECONDS = 1.0
"""The age at which a pod that does not fit is rejected. Its owner replaces it at once, and without
this delay the two would do nothing else, and the cluster would never settle."""


class KubeletSimulator(Controller[ObjectKey]):
    """Writes the status of the pods of simulated nodes, and removes those that have ended."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._addresses = AddressPool()
        self._admitted = AdmittedPods()
        self._events = EventRecorder(context, "kubelet")
        self._deferred: dict[str, set[ObjectKey]] = {}
        """The pods whose resize waits for room, by node."""

    def set_up(self) -> None:
        """Watch drivers, volumes, claims, nodes and pods."""
        self._pods_by_node = Index(field_value("spec", "nodeName"))
        self._pods_by_claim = Index(claim_keys)
        self._drivers = self.watch(STORAGE, "csidrivers")
        self._volumes = self.watch(CORE, "persistentvolumes", self._pods_of_volume)
        self._claims = self.watch(CORE, "persistentvolumeclaims", self._pods_of_claim)
        self._nodes = self.watch(CORE, "nodes", self._pods_of_node)
        indexes = (self._pods_by_node, self._pods_by_claim)
        self._pods = self.watch(CORE, "pods", self._bound_pod, *indexes)
        self._staged = StagedKind(self, POD, self._all_pods)

    def _pods_of_node(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue the pods of a node whose kubelet starts or stops, or makes itself known, or which
        can pull other images or has other resources."""
        before, after = (
            entry is not None and _can_run_pods(entry) for entry in (change.old, change.new)
        )
        if before != after or _offers(change.old) != _offers(change.new):
            for entry in self._pods_by_node.get(change.last.key.name):
                yield entry.key
        elif _attached_to(change.old) != _attached_to(change.new):
            yield from self._pods_that_wait(change.last.key.name)

    def _pods_that_wait(self, node: str) -> Iterator[ObjectKey]:
        """Return the pods of a node that may wait for a volume."""
        for entry in self._pods_by_node.get(node):
            if phase_of(entry.tree()) == "Pending" and any(claim_names(entry.tree())):
                yield entry.key

    def _pods_of_claim(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue the pods whose claim gets bound."""
        if change.new is not None and is_in_bound_phase(change.new.tree()):
            for entry in self._pods_by_claim.get(str(change.new.key)):
                yield entry.key

    def _pods_of_volume(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue the pods of a new volume, which may be delivered after its claim."""
        if change.old is None:
            for entry in self._pods_by_claim.get(claim_key(change.last.tree())):
                yield entry.key

    def _all_pods(self) -> Iterator[ObjectKey]:
        return (entry.key for entry in self._pods.lister.list())

    def _bound_pod(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue a pod that has a node, and those whose resize waits for room there."""
        pod, key = change.last.tree(), change.last.key
        node = node_of(pod)
        if not node:
            return
        self._addresses.note(pod, is_gone=change.new is None)
        self._note_admitted(change)
        deferred = self._deferred.setdefault(node, set())
        deferred.discard(key)
        yield from tuple(deferred)
        if change.new is not None:
            if pod_resize.is_deferred(pod):
                deferred.add(key)
            yield key

    def _note_admitted(self, change: ObjectChange) -> None:
        """Keep the pods that have started, with what they request now."""
        pod = change.last.tree()
        if change.new is None or is_finished(pod):
            self._admitted.remove(uid_of(pod))
        elif value_at(pod, "status", "startTime"):
            is_same = change.old is not None and change.old.tree().get("spec") == pod.get("spec")
            if uid_of(pod) not in self._admitted or not is_same:
                self._admitted.add(pod)

    async def reconcile(self, key: ObjectKey) -> None:
        """Let the next step of a pod's life happen."""
        entry = self._pods.lister.get(key)
        if entry is None or self._staged.has_stages or not node_of(entry.tree()):
            return
        pod = entry.tree()
        node = self._nodes.lister.get(ObjectKey("", node_of(pod)))
        if node is None or not _can_run_pods(node):
            return
        rejection = await self._admit(key)
        if rejection is not None:
            delay = _creation_seconds(pod) + REJECTION_SECONDS - self.clock.now()
            if delay > 0:
                self.queue.add_after(key, delay)
            else:
                await self._reject(pod, rejection)
            return
        host = self._host_of(pod, node.tree())
        step = next_step(pod, host, self.clock.now())
        if step.gone:
            pods = self.context.resource("v1", "pods", namespace=key.namespace)
            await delete_object(pods.shared, name_of(pod), uid=uid_of(pod), gracePeriodSeconds=0)
        elif step.status is not None:
            await self._write(pod, step.status, host)
        if step.wait:
            self.queue.add_after(key, step.wait)

    async def _admit(self, key: ObjectKey) -> Rejection | None:
        """Take a new pod, or return why its kubelet does not. Before that, wait for all changes: a
        scheduler may have seen a node or the end of a pod earlier."""
        if self._try_to_admit(key) is None:
            return None
        await self._nodes.fresh()
        await self._pods.fresh()
        return self._try_to_admit(key)

    def _try_to_admit(self, key: ObjectKey) -> Rejection | None:
        entry = self._pods.lister.get(key)
        pod: Tree = {} if entry is None else entry.tree()
        node = self._nodes.lister.get(ObjectKey("", node_of(pod)))
        is_known = value_at(pod, "status", "startTime") or uid_of(pod) in self._admitted
        if node is None or is_known or is_terminating(pod) or is_finished(pod):
            return None
        rejection = self._admitted.rejection(pod, node.tree())
        if rejection is None:
            self._admitted.add(pod)
        return rejection

    async def _reject(self, pod: Tree, rejection: Rejection) -> None:
        pods = self.context.resource("v1", "pods", namespace=namespace_of(pod))
        status = rejected_status(pod, rejection, self.clock.now())
        with suppress_reason("NotFound", "Conflict"):
            await pods.shared.update(pod | {"status": status}, subresource="status")
            reason, message = rejection
            await self._events.report(pod, "Warning", reason, message, host=node_of(pod))

    async def _write(self, pod: Tree, status: Tree, host: Host) -> None:
        """Write the status of a pod, and its events. After a Conflict the change of the other
        writer is delivered and reconciled."""
        await self._report(pod)
        pods = self.context.resource("v1", "pods", namespace=namespace_of(pod))
        with suppress_reason("NotFound", "Conflict"):
            await pods.shared.update(pod | {"status": status}, subresource="status")
            for event in events_between(pod, status, host):
                if event.type == "Warning" or self._events.queued < EVENT_BURST:
                    await self._events.report(
                        pod, event.type, event.reason, event.message,
                        field_path=event.field_path, host=node_of(pod),
                    )  # fmt: skip

    def _host_of(self, pod: Tree, node: Tree) -> Host:
        return Host(
            pod_ips=self._addresses_of(pod, node),
            host_ips=internal_addresses(node),
            missing_images=missing_images(node),
            refusal=self._refusal(pod, node) if pod_resize.wants_room(pod) else "",
            has_volumes=self._has_volumes(pod, node),
        )

    def _addresses_of(self, pod: Tree, node: Tree) -> list[str]:
        """Return the addresses of a pod, one in each network of its node."""
        if value_at(pod, "spec", "hostNetwork") or is_finished(pod):
            return []
        return self._addresses.take_all(uid_of(pod), node)

    def _refusal(self, pod: Tree, node: Tree) -> str:
        pods = (entry.tree() for entry in self._pods_by_node.get(name_of(node)))
        others = (
            other for other in pods if uid_of(other) != uid_of(pod) and not is_finished(other)
        )
        return refusal(pod, others, node)

    def _has_volumes(self, pod: Tree, node: Tree) -> bool:
        """Report whether all claims of a pod are bound, and their volumes attached to the node."""
        return all(
            self._has_volume(ObjectKey(namespace_of(pod), name), node) for name in claim_names(pod)
        )

    def _has_volume(self, key: ObjectKey, node: Tree) -> bool:
        entry = self._claims.lister.get(key)
        if entry is None or not is_in_bound_phase(entry.tree()):
            return False
        volume = self._volumes.lister.get(ObjectKey("", entry.tree()["spec"]["volumeName"]))
        if volume is None:
            return False
        name = value_at(volume.tree(), "spec", "csi", "driver") or ""
        driver = self._drivers.lister.get(ObjectKey("", name))
        if not needs_attachment(volume.tree(), None if driver is None else driver.tree()):
            return True
        attached = value_at(node, "status", "volumesAttached") or ()
        return unique_name(volume.tree()) in (
            attached_volume.get("name") for attached_volume in attached
        )

    async def _report(self, pod: Tree) -> None:
        """Warn about annotations that cannot be read, when the pod starts."""
        if value_at(pod, "status", "startTime"):
            return
        for problem in unreadable_annotations(pod):
            await self._events.warn(pod, "UnreadableAnnotation", problem)


def _can_run_pods(node: Entry) -> bool:
    """Report whether a simulated kubelet runs on a node, and has made itself known."""
    return has_kubelet(node) and bool(internal_addresses(node.tree()))


def _creation_seconds(pod: Tree) -> float:
    return seconds_of(value_at(pod, "metadata", "creationTimestamp")) or 0.0


def _attached_to(node: Entry | None) -> object:
    return None if node is None else value_at(node.tree(), "status", "volumesAttached")


def _offers(node: Entry | None) -> object:
    """Return what a node offers to its pods: images and resources."""
    if node is None:
        return None
    tree = node.tree()
    return missing_images(tree), value_at(tree, "status", "allocatable")
