"""Deletes pods from nodes with NoExecute taints that the pods do not tolerate, or not for ever.

    the pod                             what happens
    does not tolerate some taint        it is deleted now
    tolerates all, some for seconds     it is deleted after the fewest of these seconds
    tolerates all for ever              it stays
    the taints are gone meanwhile       it stays

The seconds count from the time when this controller sees the taints, which it forgets when it
stops. A planned deletion keeps its time when another taint or toleration asks for another one.
`next_eviction` decides this, and is pure. Mirrors pkg/controller/tainteviction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kapiserver.api.accessors import (
    generation_of,
    is_terminating,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.core.pods.tolerations import tolerates
from kapiserver.api.group import CORE
from kapiserver.api.resource_client import STRATEGIC_MERGE_PATCH
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import field_value
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import delete_object, suppress_reason
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.controllers.workloads.pods import node_of
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

_REASON = "DeletionByTaintManager"
_MESSAGE = "Taint manager: deleting due to NoExecute taint"


class Eviction(NamedTuple):
    """A planned deletion of a pod.

    uid     the uid of the pod
    since   when it was planned, in seconds since 1970
    due     when the pod is to be deleted
    """

    uid: str
    since: float
    due: float


class TaintEvictionController(Controller[ObjectKey]):
    """The control loop; its queue holds the keys of pods."""

    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, "taint-eviction-controller")
        self._planned: dict[ObjectKey, Eviction] = {}

    def set_up(self) -> None:
        """Watch nodes and pods."""
        self._pods_by_node = Index(field_value("spec", "nodeName"))
        self._nodes = self.watch(CORE, "nodes", self._on_node)
        self._pods = self.watch(CORE, "pods", self._on_pod, self._pods_by_node)

    def _on_node(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue the pods of a node whose taints have changed."""
        old, new = (
            no_execute_taints(entry.tree()) if entry is not None else []
            for entry in (change.old, change.new)
        )
        if old != new and change.new is not None:
            for pod in self._pods_by_node.get(change.last.key.name):
                yield pod.key

    def _on_pod(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue a pod that gets a node or other tolerations, or goes."""
        old, new = (
            (node_of(entry.tree()), value_at(entry.tree(), "spec", "tolerations"))
            if entry is not None
            else None
            for entry in (change.old, change.new)
        )
        if old != new:
            yield change.last.key

    async def reconcile(self, key: ObjectKey) -> None:
        """Delete a pod, or plan or cancel its deletion."""
        entry, planned = self._pods.lister.get(key), self._planned.get(key)
        eviction = self._next(entry, planned)
        if planned is not None and eviction != planned:
            del self._planned[key]
            await self._report(key, "Cancelling deletion of Pod")
        if entry is None or eviction is None:
            return
        self._planned[key] = eviction
        wait = eviction.due - self.clock.now()
        if wait > 0:
            self.queue.add_after(key, wait)
        else:
            await self._evict(key, entry.tree())
            del self._planned[key]
            metrics = self.server.metrics.controllers.nodes
            metrics.evicted_pods.add("")
            metrics.eviction_seconds.observe("", -wait)

    def _next(self, entry: Entry | None, planned: Eviction | None) -> Eviction | None:
        if entry is None or is_terminating(entry.tree()):
            return None
        pod = entry.tree()
        if planned is not None and planned.uid != uid_of(pod):
            planned = None
        node = self._nodes.lister.get(ObjectKey("", node_of(pod)))
        if node is None:
            return planned
        return next_eviction(pod, no_execute_taints(node.tree()), planned, self.clock.now())

    async def _evict(self, key: ObjectKey, pod: Tree) -> None:
        await self._report(key, "Marking for deletion Pod")
        await evict_pod(self.context, pod, _REASON, _MESSAGE)

    async def _report(self, key: ObjectKey, message: str) -> None:
        metadata = {"namespace": key.namespace, "name": key.name}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        await self._events.note(
            pod, "TaintManagerEviction", f"{message} {key.namespace}/{key.name}"
        )


def no_execute_taints(node: Tree) -> list[Tree]:
    """Return the taints of a node that evict pods."""
    taints = value_at(node, "spec", "taints") or ()
    return [taint for taint in taints if taint.get("effect") == "NoExecute"]


def tolerated_seconds(tolerations: Sequence[Tree], taints: Sequence[Tree]) -> float | None:
    """Return how long a pod tolerates all taints; None for ever. Of several tolerations of one
    taint the first counts."""
    seconds: list[float] = []
    for taint in taints:
        matching = next(
            (toleration for toleration in tolerations if tolerates([toleration], taint)), None
        )
        if matching is None:
            return 0.0
        if (limit := matching.get("tolerationSeconds")) is not None:
            seconds.append(max(float(limit), 0.0))
    return min(seconds, default=None)


def next_eviction(
    pod: Tree, taints: Sequence[Tree], planned: Eviction | None, now: float
) -> Eviction | None:
    """Return when a pod is to be deleted from a node with these taints; None if it may stay.

    planned     the deletion that is planned so far, if there is one
    """
    seconds = tolerated_seconds(value_at(pod, "spec", "tolerations") or (), taints)
    if seconds is None:
        return None
    if planned is not None and seconds:
        return planned
    return Eviction(uid_of(pod), now, now + seconds)


async def evict_pod(context: ControllerContext, pod: Tree, reason: str, message: str) -> None:
    """Say in the status of a pod why it is deleted, and delete it. Raises StatusError."""
    pods = context.resource("v1", "pods", namespace=namespace_of(pod))
    patch = disruption_patch(pod, reason, message, context.server.clock.now())
    with suppress_reason("NotFound"):
        await pods.patch(name_of(pod), patch, type=STRATEGIC_MERGE_PATCH, subresource="status")
    await delete_object(pods, name_of(pod), uid=uid_of(pod))


def disruption_patch(pod: Tree, reason: str, message: str, now: float) -> Tree:
    """Return the patch of the status that says why a pod is deleted."""
    condition: Tree = {
        "type": "DisruptionTarget",
        "observedGeneration": generation_of(pod),
        "status": "True",
        "reason": reason,
        "message": message,
    }
    conditions = value_at(pod, "status", "conditions") or ()
    present = find_condition(conditions, "DisruptionTarget") or {}
    if present.get("status") != "True":
        condition["lastTransitionTime"] = timestamp(now)
    return {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
