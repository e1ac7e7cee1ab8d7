"""Deletes pods that nobody else ends.

| pods | when |
| --- | --- |
| of a node that is gone | 40 seconds after it was missed, if it does not exist then |
| of an out-of-service node | when they are being deleted, and the node is not ready |
| without a node | when they are being deleted |
| that have ended | every 20 seconds, the oldest above a number |

Changes and the clock lead to each of them: nothing is polled. Mirrors pkg/controller/podgc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from kapiserver.api.accessors import (
    generation_of,
    is_terminating,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE
from kapiserver.api.resource_client import STRATEGIC_MERGE_PATCH, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import field_value
from kapiserver.controllers.loop.writing import delete_object, suppress_reason
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

QUARANTINE_SECONDS = 40.0
"""The time after which a missing node counts as deleted."""
PERIOD_SECONDS = 20.0
"""The time after which ended pods are counted."""
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_NODE_IS_GONE = "PodGC: node no longer exists"
_ENDED = "ended"


class GCItem(NamedTuple):
    """What the queue holds: a pod that is being deleted, the name of a node that is missing, or the
    task to count ended pods."""

    what: Literal["pod", "missing node", "ended pods"]
    key: ObjectKey


_ENDED_PODS = GCItem("ended pods", ObjectKey("", ""))


class PodGC(Controller[GCItem]):
    """Deletes pods without a node, and ended pods above `--terminated-pod-gc-threshold`."""

    def set_up(self) -> None:
        """Watch nodes and pods."""
        self._ended_pods = self.server.config.controller_manager.terminated_pod_gc_threshold
        self._pods_by_node = Index(field_value("spec", "nodeName"))
        self._pods_that_ended = Index(_ended_keys)
        self._nodes = self.watch(CORE, "nodes", self._on_node)
        indexes = (self._pods_by_node, self._pods_that_ended)
        self._pods = self.watch(CORE, "pods", self._on_pod, *indexes)

    def _on_node(self, change: ObjectChange) -> Iterator[GCItem]:
        key = change.last.key
        if change.new is None:
            self._quarantine(key.name)
        elif is_out_of_service(change.new.tree()):
            for pod in self._pods_by_node.get(key.name):
                if is_terminating(pod.tree()):
                    yield GCItem("pod", pod.key)

    def _on_pod(self, change: ObjectChange) -> Iterable[GCItem]:
        if change.new is None:
            return ()
        pod = change.new.tree()
        node = value_at(pod, "spec", "nodeName") or ""
        if node and self._nodes.lister.get(ObjectKey("", node)) is None:
            self._quarantine(node)
        if has_ended(pod):
            self.queue.add_after(_ENDED_PODS, PERIOD_SECONDS)
        return (GCItem("pod", change.new.key),) if is_terminating(pod) else ()

    def _quarantine(self, node: str) -> None:
        self.queue.add_after(GCItem("missing node", ObjectKey("", node)), QUARANTINE_SECONDS)

    async def reconcile(self, item: GCItem) -> None:
        """Delete the pods of an item, if they are to be deleted."""
        if item.what == "pod":
            await self._delete_terminating(item.key)
        elif item.what == "missing node":
            await self._delete_orphans(item.key)
        else:
            ended = [entry.tree() for entry in self._pods_that_ended.get(_ENDED)]
            for pod in surplus_pods(ended, self._ended_pods):
                await self._delete(pod, "terminated")

    async def _delete_terminating(self, key: ObjectKey) -> None:
        """Delete a pod that is being deleted if it has no node, or the node is out of service."""
        entry = self._pods.lister.get(key)
        if entry is None or not is_terminating(entry.tree()):
            return
        name = value_at(entry.tree(), "spec", "nodeName") or ""
        node = self._nodes.lister.get(ObjectKey("", name)) if name else None
        if not name:
            await self._delete(entry.tree(), "unscheduled")
        elif node is not None and is_out_of_service(node.tree()):
            await self._delete(entry.tree(), "out-of-service")

    async def _delete_orphans(self, key: ObjectKey) -> None:
        """Delete the pods of a node unless it exists."""
        if self._nodes.lister.get(key) is not None or await self._exists(key.name):
            return
        for pod in self._pods_by_node.get(key.name):
            await self._delete(pod.tree(), "orphaned", _NODE_IS_GONE)

    async def _exists(self, node: str) -> bool:
        try:
            await self.context.resource("v1", "nodes").shared.get(node)
        except StatusError as error:
            if error.reason == "NotFound":
                return False
            raise
        return True

    async def _delete(self, pod: Tree, reason: str, message: str = "") -> None:
        """Mark a pod as failed unless it has ended, with a condition if there is a message, and
        delete it now. The reason is for the metric. Raises StatusError."""
        pods = self.context.resource("v1", "pods", namespace=namespace_of(pod))
        patch = failure_of(pod, message, self.clock.now())
        if patch is not None:
            with suppress_reason("NotFound"):
                await pods.patch(
                    name_of(pod), patch, type=STRATEGIC_MERGE_PATCH, subresource="status"
                )
        await delete_object(pods, name_of(pod), uid=uid_of(pod), gracePeriodSeconds=0)
        self.server.metrics.controllers.pods_deleted_by_gc.add((namespace_of(pod), reason))


def has_ended(pod: Tree) -> bool:
    """Report whether the pod has succeeded or failed."""
    return value_at(pod, "status", "phase") in ("Succeeded", "Failed")


def _ended_keys(entry: Entry) -> Iterable[str]:
    return (_ENDED,) if has_ended(entry.tree()) else ()


def is_out_of_service(node: Tree) -> bool:
    """Report whether a node is tainted as out of service, and is not ready."""
    taints = value_at(node, "spec", "taints") or ()
    conditions = value_at(node, "status", "conditions") or ()
    is_ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in conditions
    )
    return not is_ready and any(taint.get("key") == _OUT_OF_SERVICE for taint in taints)


def surplus_pods(pods: Sequence[Tree], limit: int) -> Sequence[Tree]:
    """Return the pods above a number: evicted pods before others, then the oldest."""
    surplus = len(pods) - limit
    return sorted(pods, key=_by_eviction_and_age)[:surplus] if limit > 0 and surplus > 0 else ()


def _by_eviction_and_age(pod: Tree) -> tuple[bool, str, str]:
    status = pod.get("status") or {}
    is_evicted = status.get("phase") == "Failed" and status.get("reason") == "Evicted"
    return not is_evicted, value_at(pod, "metadata", "creationTimestamp") or "", name_of(pod)


def failure_of(pod: Tree, message: str, now: float) -> Tree | None:
    """Return the patch that marks a pod as failed, with the condition DisruptionTarget if there is
    a message; None if the pod has ended."""
    if has_ended(pod):
        return None
    generation = generation_of(pod)
    status: Tree = {"phase": "Failed", "observedGeneration": generation}
    if message:
        condition = {
            "type": "DisruptionTarget",
            "observedGeneration": generation,
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": message,
            "lastTransitionTime": timestamp(now),
        }
        status["conditions"] = [condition]
    return {"metadata": {"uid": uid_of(pod)}, "status": status}
