"""The controllers of ReplicaSets and of ReplicationControllers: they keep the number of pods.

`replicas` is their pure core. Mirrors pkg/controller/replicaset and pkg/controller/replication.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import is_terminating, uid_of, value_at
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import update_object
from kapiserver.controllers.workloads.claims import controller_uid
from kapiserver.controllers.workloads.owned_objects import (
    OwnedObjects,
    controller_keys,
    for_possible_owners,
)
from kapiserver.controllers.workloads.pod_control import (
    PodControl,
    PodError,
    pod_from_template,
)
from kapiserver.controllers.workloads.pods import (
    is_active,
    is_finished,
    seconds_to_next_available,
)
from kapiserver.controllers.workloads.replicas import replica_change, replica_status
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import Index

_APPS = GroupVersion("apps", "v1")


class ReplicaSetController(Controller[ObjectKey]):
    """Creates and deletes the pods of ReplicaSets."""

    workers = 5
    min_retry_seconds = 0.005
    max_retry_seconds = 1000.0
    version = _APPS
    kind = "ReplicaSet"
    resource = "replicasets"
    component = "replicaset-controller"
    """The source of the events."""
    counts_terminating = True
    """Whether the status has `terminatingReplicas`."""

    def set_up(self) -> None:
        """Watch the owners and the pods."""
        index = Index(controller_keys)
        self._owned = OwnedObjects(self.version, self.kind, index)
        self._owners_by_controller = Index(controller_keys)
        self._owners = self.watch(
            self.version, self.resource, for_object, self._owners_by_controller
        )
        of_pod = for_possible_owners(self.version, self.kind, self._owners)
        pods = self.watch(CORE, "pods", of_pod, index)
        events = EventRecorder(self.context, self.component)
        self._pods = PodControl(self.context, pods, events)

    async def reconcile(self, key: ObjectKey) -> None:
        """Create missing pods or delete surplus ones, and write the status."""
        entry = self._owners.lister.get(key)
        if entry is None:
            return
        owner = entry.tree()
        owners = self.context.resource(str(self.version), self.resource, namespace=key.namespace)
        active = await self._owned.claim(owner, owners, self._pods.pods(key.namespace), is_active)
        terminating = self._terminating_pods(owner) if self.counts_terminating else None
        now = self.clock.now()
        error = "" if is_terminating(owner) else await self._manage(owner, active, now)
        status = replica_status(owner, active, terminating, error, now)
        if status != owner.get("status"):
            await update_object(
                owners,
                key.name,
                lambda current: current | {"status": status},
                subresource="status",
                uid=uid_of(owner),
            )
        min_ready = value_at(owner, "spec", "minReadySeconds") or 0
        wait = seconds_to_next_available(active, min_ready, now)
        if wait is not None:
            self.queue.add_after(key, wait)
        if error:
            raise PodError(error)

    async def _manage(self, owner: Tree, active: list[Tree], now: float) -> str:
        """Create or delete pods; return the message of an error, or ""."""
        change = replica_change(owner, active, self._related_pods(owner), now)
        if change.create:
            template: Tree = value_at(owner, "spec", "template") or {}
            pods = [pod_from_template(template, owner) for _ in range(change.create)]
            _, error = await self._pods.create_all(owner, pods)
            return error
        return await self._pods.delete_all(owner, change.delete) if change.delete else ""

    def _terminating_pods(self, owner: Tree) -> list[Tree]:
        pods = self._owned.controlled_by(owner)
        return [pod for pod in pods if is_terminating(pod) and not is_finished(pod)]

    def _related_pods(self, owner: Tree) -> Iterator[Tree]:
        """Yield the pods of all ReplicaSets with the same controller as `owner`."""
        uid = controller_uid(owner)
        owners = self._owners_by_controller.get(uid) if uid else ()
        for replica_set in [entry.tree() for entry in owners] or [owner]:
            yield from self._owned.controlled_by(replica_set)


class ReplicationControllerController(ReplicaSetController):
    """Creates and deletes the pods of ReplicationControllers."""

    version = CORE
    kind = "ReplicationController"
    resource = "replicationcontrollers"
    component = "replication-controller"
    counts_terminating = False
