"""The controller of Deployments: it carries out the plans of `plan`.

Mirrors pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Iterable

from kapiserver.api.accessors import (
    annotations_of,
    controller_of,
    copy_tree,
    metadata_of,
    name_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import suppress_reason, update_object
from kapiserver.controllers.workloads.deployment.plan import Plan, plan_deployment
from kapiserver.controllers.workloads.deployment.replica_sets import REVISION, has_collided
from kapiserver.controllers.workloads.deployment.status import DeploymentStatus
from kapiserver.controllers.workloads.owned_objects import (
    OwnedObjects,
    controller_keys,
    for_possible_owners,
)
from kapiserver.controllers.workloads.pod_control import has_cause
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.informer import Index, ObjectChange

_APPS = GroupVersion("apps", "v1")
_SELECTS_ALL = "This deployment is selecting all pods. A non-empty selector is required."


class DeploymentController(Controller[ObjectKey]):
    """Rolls out the templates of Deployments by way of ReplicaSets."""

    workers = 5
    min_retry_seconds = 0.005
    max_retry_seconds = 1000.0

    def set_up(self) -> None:
        """Watch Deployments, their ReplicaSets and the pods of these."""
        sets_by_controller, pods_by_controller = Index(controller_keys), Index(controller_keys)
        self._owned_sets = OwnedObjects(_APPS, "Deployment", sets_by_controller)
        self._owned_pods = OwnedObjects(_APPS, "ReplicaSet", pods_by_controller)
        self._deployments = self.watch(_APPS, "deployments", for_object)
        of_set = for_possible_owners(_APPS, "Deployment", self._deployments)
        self._sets = self.watch(_APPS, "replicasets", of_set, sets_by_controller)
        self.watch(CORE, "pods", self._deployment_of_deleted_pod, pods_by_controller)
        self._events = EventRecorder(self.context, "deployment-controller")

    def _deployment_of_deleted_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Queue the Deployment of a deleted pod: a recreation waits for the last one."""
        owner = controller_of(change.last.tree()) if change.new is None else None
        if owner is None or owner.get("kind") != "ReplicaSet":
            return ()
        key = ObjectKey(change.last.key.namespace, owner.get("name") or "")
        entry = self._sets.lister.get(key)
        above = controller_of(entry.tree()) if entry is not None else None
        return (ObjectKey(key.namespace, above["name"]),) if above is not None else ()

    async def reconcile(self, key: ObjectKey) -> None:
        """Plan the next step of the rollout and carry it out."""
        entry = self._deployments.lister.get(key)
        if entry is None:
            return
        deployment = entry.tree()
        deployments = self.context.resource(str(_APPS), "deployments", namespace=key.namespace)
        if not value_at(deployment, "spec", "selector"):
            await self._events.warn(deployment, "SelectingAll", _SELECTS_ALL)
            return
        sets = self.context.resource(str(_APPS), "replicasets", namespace=key.namespace)
        owned = await self._owned_sets.claim(deployment, deployments, sets, _any)
        pods = {
            uid_of(replica_set): self._owned_pods.controlled_by(replica_set)
            for replica_set in owned
        }
        plan = plan_deployment(deployment, owned, pods, self.clock.now())
        if not await self._write_sets(deployment, deployments, sets, plan):
            return
        for event in plan.events:
            await self._events.note(deployment, event.reason, event.message)
        await self._write_status(deployments, deployment, plan.status, plan.revision)
        if plan.requeue_after is not None:
            self.queue.add_after(key, plan.requeue_after)

    async def _write_sets(
        self, deployment: Tree, deployments: ResourceClient, sets: ResourceClient, plan: Plan
    ) -> bool:
        """Create, update and delete ReplicaSets, and wait until the informer shows it. Return False
        after a collision of names, which the next reconcile solves."""
        newest = 0
        if plan.create is not None:
            created = await self._create(deployment, deployments, sets, plan.create)
            if created is None:
                return False
            newest = int(resource_version_of(created))
        for changed in plan.update:
            updated = await sets.update(copy_tree(changed))
            newest = int(resource_version_of(updated))
        for old in plan.delete:
            with suppress_reason("NotFound"):
                await sets.delete(name_of(old), {"preconditions": {"uid": uid_of(old)}})
        if newest:
            await self._sets.wait_for(Revision(newest))
        return True

    async def _create(
        self, deployment: Tree, deployments: ResourceClient, sets: ResourceClient, new: Tree
    ) -> Tree | None:
        try:
            return await sets.create(copy_tree(new))
        except StatusError as error:
            if error.reason == "AlreadyExists":
                existing = await sets.get(name_of(new))
                if not has_collided(deployment, existing):
                    return existing
                await self._count_collision(deployments, deployment)
                return None
            if not has_cause(error, "NamespaceTerminating"):
                await self._report_failure(deployment, deployments, new, error)
            raise

    async def _count_collision(self, deployments: ResourceClient, deployment: Tree) -> None:
        status = deployment.get("status") or {}
        count = (status.get("collisionCount") or 0) + 1
        await self._write_status(deployments, deployment, status | {"collisionCount": count})

    async def _report_failure(
        self, deployment: Tree, deployments: ResourceClient, new: Tree, error: StatusError
    ) -> None:
        message = f'Failed to create new replica set "{name_of(new)}": {error}'
        status = DeploymentStatus(deployment, self.clock.now()).note_not_created(message)
        await self._write_status(deployments, deployment, status)
        await self._events.warn(deployment, "ReplicaSetCreateError", message)

    async def _write_status(
        self, deployments: ResourceClient, deployment: Tree, status: Tree, revision: str = ""
    ) -> None:
        if status == deployment.get("status") and not revision:
            return

        def change(current: Tree) -> Tree:
            current["status"] = status
            if revision:
                annotations = {**annotations_of(current), REVISION: revision}
                metadata_of(current)["annotations"] = annotations
            return current

        updated = await update_object(
            deployments,
            name_of(deployment),
            change,
            subresource="status",
            uid=uid_of(deployment),
        )
        if updated is not None:
            await self._deployments.wait_for(Revision(int(resource_version_of(updated))))


def _any(_replica_set: Tree) -> bool:
    return True
