"""Notices nodes that are silent, and taints nodes so that pods leave them or do not come.

| what is seen | what is done |
| --- | --- |
| no heartbeat for the grace period | the conditions become Unknown; the pods are not ready |
| a condition, or `spec.unschedulable` | a taint that keeps new pods away (NoSchedule), at once |
| a node that is not ready | a taint that evicts its pods (NoExecute), limited by `zones.Zones` |
| a node that is ready again | no such taints |

A heartbeat is a renewed Lease in kube-node-lease, or a new time in the node's Ready condition. Each
node is checked when its grace period may end, by a timer of its own: nothing is polled. The taint
eviction controller deletes the pods. Mirrors pkg/controller/nodelifecycle.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from kapiserver.api.accessors import (
    metadata_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import field_value
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import update_object
from kapiserver.controllers.nodes.heartbeats import Heartbeats
from kapiserver.controllers.nodes.node_state import (
    counts_for_zone,
    needs_taint,
    ready_condition,
    ready_status,
    reconciled,
    silent_status,
    tainted,
    zone_of,
)
from kapiserver.controllers.nodes.zones import Disruption, NodeHealth, Zones
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.controllers.workloads.pods import node_of, seconds_of
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.informer import Index, ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

_COORDINATION = GroupVersion("coordination.k8s.io", "v1")
_LEASE_NAMESPACE = "kube-node-lease"


class NodeLifecycleItem(NamedTuple):
    """What the queue holds: a node whose taints and labels are to be reconciled, a node whose
    heartbeat is to be checked, a pod whose node may not be ready, or all zones."""

    what: Literal["node", "heartbeat", "pod", "zones"]
    key: ObjectKey


_ZONES = NodeLifecycleItem("zones", ObjectKey("", ""))


class NodeLifecycleController(Controller[NodeLifecycleItem]):
    """The control loop."""

    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._settings = context.server.config.node_lifecycle
        self._events = EventRecorder(context, "node-controller")
        self._heartbeats = Heartbeats(self._settings.node_monitor_period)
        self._zones = Zones(self._settings)
        self._metrics = context.server.metrics.controllers.nodes
        self._registered: dict[str, Tree] = {}
        """The nodes whose registration has been reported, by name: what events about them need."""

    def set_up(self) -> None:
        """Watch nodes, Leases and pods."""
        self._pods_by_node = Index(field_value("spec", "nodeName"))
        self._nodes = self.watch(CORE, "nodes", self._on_node)
        self._leases = self.watch(_COORDINATION, "leases", self._on_lease)
        self._pods = self.watch(CORE, "pods", self._on_pod, self._pods_by_node)

    # Event handlers.

    def _on_node(self, change: ObjectChange) -> Iterator[NodeLifecycleItem]:
        key, now = change.last.key, self.clock.now()
        health = None
        if change.new is None:
            self._heartbeats.remove(key.name)
        else:
            node = change.new.tree()
            health = health_of(node)
            before = change.old and _heartbeat_of(change.old.tree())
            after = _heartbeat_of(node)
            if key.name not in self._heartbeats or (after and not before):
                self._begin_checks(node, now)
            elif before != after:
                self._heartbeats.hear(key.name, now)
        if self._zones.observe(key.name, health):
            yield _ZONES
        yield NodeLifecycleItem("node", key)

    def _begin_checks(self, node: Tree, now: float) -> None:
        """Expect heartbeats of a node that is new here, or has reported for the first time. If it
        has never reported, its time began with its creation."""
        name, seen, grace = name_of(node), now, self._settings.node_monitor_grace_period
        if ready_condition(node) is None:
            seen = seconds_of(metadata_of(node).get("creationTimestamp")) or now
            grace = self._settings.node_startup_grace_period
        self._heartbeats.add(name, seen, grace)
        self._check_later(ObjectKey("", name))

    def _check_later(self, key: ObjectKey) -> None:
        wait = self._heartbeats.wait(key.name, self.clock.now())
        self.queue.add_after(NodeLifecycleItem("heartbeat", key), wait, is_regular=True)

    def _on_lease(self, change: ObjectChange) -> Iterator[NodeLifecycleItem]:
        key = change.last.key
        if key.namespace == _LEASE_NAMESPACE and change.new is not None:
            renewed = value_at(change.new.tree(), "spec", "renewTime") or ""
            before = change.old is not None and value_at(change.old.tree(), "spec", "renewTime")
            if renewed > (before or ""):
                self._heartbeats.hear(key.name, self.clock.now())
        yield from ()

    def _on_pod(self, change: ObjectChange) -> Iterator[NodeLifecycleItem]:
        """Queue a pod that is new on its node, and was ready before: this controller may have
        missed that the node is not."""
        if change.new is None:
            return
        pod = change.new.tree()
        is_new = change.old is None or node_of(change.old.tree()) != node_of(pod)
        if is_new and node_of(pod) and without_readiness(pod, 0) != pod:
            yield NodeLifecycleItem("pod", change.new.key)

    # What is done.

    async def reconcile(self, item: NodeLifecycleItem) -> None:
        """Do what an item asks for."""
        if item.what == "node":
            await self._reconcile_node(item.key)
        elif item.what == "heartbeat":
            await self._check_heartbeat(item.key)
        elif item.what == "pod":
            await self._mark_pod(item.key)
        else:
            await self._reconcile_zones()

    async def _reconcile_node(self, key: ObjectKey) -> None:
        """Report that a node comes or goes, and write its labels and taints."""
        entry, known = self._nodes.lister.get(key), self._registered.get(key.name)
        name = key.name
        if known is not None and (entry is None or uid_of(entry.tree()) != uid_of(known)):
            del self._registered[name]
            message = f"Node {name} event: Removing Node {name} from Controller"
            await self._events.note(known, "RemovingNode", message)
        if entry is None:
            return
        if name not in self._registered:
            self._registered[name] = _reference(entry.tree())
            message = f"Node {name} event: Registered Node {name} in Controller"
            await self._events.note(self._registered[name], "RegisteredNode", message)
        evicts, now = not self._zones.are_disrupted, self.clock.now()
        await self._write(key, lambda node: reconciled(node, now, evicts=evicts))

    async def _check_heartbeat(self, key: ObjectKey) -> None:
        """Mark a node that is silent, and plan the next check."""
        started = time.perf_counter()
        if self._is_silent(key.name):
            # A Lease that was renewed a moment ago may not have been delivered.
            await self._leases.fresh()
            if self._is_silent(key.name):
                await self._mark_silent(key)
        if key.name in self._heartbeats:
            self._check_later(key)
        self._metrics.health_seconds.observe("", time.perf_counter() - started)

    def _is_silent(self, name: str) -> bool:
        return name in self._heartbeats and self._heartbeats.is_silent(name, self.clock.now())

    async def _mark_silent(self, key: ObjectKey) -> None:
        """Write that the conditions of a node are unknown. Its pods are not ready any more."""
        entry, now = self._nodes.lister.get(key), self.clock.now()
        if entry is None:
            return
        was_ready = ready_status(entry.tree()) == "True"
        await self._write(
            key, lambda node: node | {"status": silent_status(node, now)}, subresource="status"
        )
        if was_ready:
            message = f"Node {key.name} status is now: NodeNotReady"
            await self._events.note(_reference(entry.tree()), "NodeNotReady", message)
            for pod in self._pods_by_node.get(key.name):
                self.queue.add(NodeLifecycleItem("pod", pod.key))

    async def _mark_pod(self, key: ObjectKey) -> None:
        """Write that a pod is not ready if its node is not."""
        entry = self._pods.lister.get(key)
        node = entry and self._nodes.lister.get(ObjectKey("", node_of(entry.tree())))
        if entry is None or node is None or ready_status(node.tree()) in ("", "True"):
            return
        pod, now = entry.tree(), self.clock.now()
        if without_readiness(pod, now) == pod:
            return
        pods = self.context.resource("v1", "pods", namespace=namespace_of(pod))
        updated = await update_object(
            pods, name_of(pod), lambda pod: without_readiness(pod, now),
            subresource="status", uid=uid_of(pod),
        )  # fmt: skip
        if updated is not None:
            await self._events.warn(pod, "NodeNotReady", "Node is not ready")

    async def _reconcile_zones(self) -> None:
        """Compute the health of the zones, and taint the nodes whose turn it is."""
        disruption = self._zones.update(self.clock.now())
        self._measure_zones()
        if disruption is Disruption.BEGINS:
            for entry in self._nodes.lister.list():
                self.queue.add(NodeLifecycleItem("node", entry.key))
        elif disruption is Disruption.ENDS:
            self._heartbeats.hear_all(self.clock.now())
        while (name := self._zones.take_next(self.clock.now())) is not None:
            change = functools.partial(tainted, now=self.clock.now())
            node = self._nodes.lister.get(ObjectKey("", name))
            await self._write(ObjectKey("", name), change)
            if node is not None:
                self._metrics.evictions.add(zone_of(node.tree()))
        wait = self._zones.wait(self.clock.now())
        if wait is not None:
            self.queue.add_after(_ZONES, wait)

    def _measure_zones(self) -> None:
        for name, (ready, unhealthy) in self._zones.counts().items():
            size = ready + unhealthy
            self._metrics.zone_size.set(name, size)
            self._metrics.zone_health.set(name, 100 * ready / size if size else 100)
            self._metrics.unhealthy_nodes.set(name, unhealthy)
            self._metrics.evictions.add(name, 0)

    async def _write(
        self, key: ObjectKey, change: Callable[[Tree], Tree], *, subresource: str = ""
    ) -> None:
        """Change a node, unless the change is there already, and wait until the informer shows it.
        Raises StatusError."""
        entry = self._nodes.lister.get(key)
        if entry is None or change(entry.tree()) == entry.tree():
            return
        nodes = self.context.resource("v1", "nodes")
        uid = uid_of(entry.tree())
        updated = await update_object(nodes, key.name, change, subresource=subresource, uid=uid)
        if updated is not None:
            await self._nodes.wait_for(Revision(int(resource_version_of(updated))))


def health_of(node: Tree) -> NodeHealth:
    """Return what the zones need to know of a node."""
    return NodeHealth(
        zone=zone_of(node),
        ready=ready_status(node) == "True",
        counts=counts_for_zone(node),
        waits=needs_taint(node),
    )


def _heartbeat_of(node: Tree) -> str | None:
    return (ready_condition(node) or {}).get("lastHeartbeatTime")


def _reference(node: Tree) -> Tree:
    metadata = {"name": name_of(node), "uid": uid_of(node)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def without_readiness(pod: Tree, now: float) -> Tree:
    """Return a pod whose Ready condition, if it has one, is False."""
    conditions = value_at(pod, "status", "conditions") or ()
    ready = find_condition(conditions, "Ready")
    if ready is None or ready.get("status") == "False":
        return pod
    not_ready = ready | {"status": "False", "lastTransitionTime": timestamp(now)}
    changed = [not_ready if condition is ready else condition for condition in conditions]
    return pod | {"status": pod["status"] | {"conditions": changed}}
