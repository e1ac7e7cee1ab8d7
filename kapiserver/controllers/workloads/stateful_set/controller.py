"""The controller of StatefulSets: it carries out the plans of `plan`.

Mirrors pkg/controller/statefulset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api.accessors import (
    copy_tree,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import delete_object
from kapiserver.controllers.workloads.owned_objects import (
    OwnedObjects,
    controller_keys,
    for_possible_owners,
)
from kapiserver.controllers.workloads.pod_control import PodError
from kapiserver.controllers.workloads.revision_history import RevisionHistory
from kapiserver.controllers.workloads.stateful_set.identity import (
    is_member,
    ordinal_of,
    ordinals_of,
    revision_of,
)
from kapiserver.controllers.workloads.stateful_set.plan import Step, plan_stateful_set
from kapiserver.controllers.workloads.stateful_set.status import Revisions
from kapiserver.controllers.workloads.stateful_set.volume_claims import (
    claim_name,
    claim_templates,
)
from kapiserver.controllers.workloads.status import write_status
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange

_APPS = GroupVersion("apps", "v1")
_HASH_LABEL = "controller.kubernetes.io/hash"
_NO_RECREATE = (
    "statefulset {}/{} uses Recreate strategy but feature gate StatefulSetRecreateStrategy is "
    "disabled"
)
_CONFLICT = (
    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, "
    "the retention policy is ignored for this claim"
)


class StatefulSetController(Controller[ObjectKey]):
    """Creates, updates and deletes the pods of StatefulSets and their PersistentVolumeClaims."""

    workers = 5
    min_retry_seconds = 0.005
    max_retry_seconds = 1000.0

    def set_up(self) -> None:
        """Watch StatefulSets, their pods, claims and revisions."""
        index, revision_index = Index(controller_keys), Index(controller_keys)
        self._owned = OwnedObjects(_APPS, "StatefulSet", index)
        self._sets = self.watch(_APPS, "statefulsets", for_object)
        of_pod = for_possible_owners(_APPS, "StatefulSet", self._sets)
        self._pods = self.watch(CORE, "pods", of_pod, index)
        self._claims = self.watch(CORE, "persistentvolumeclaims", self._owners_of_deleted_claim)
        revisions = self.watch(_APPS, "controllerrevisions", _no_keys, revision_index)
        self._history = RevisionHistory(
            self.context, revisions, revision_index, kind="StatefulSet", hash_label=_HASH_LABEL
        )
        self._events = EventRecorder(self.context, "statefulset-controller")

    def _owners_of_deleted_claim(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue the StatefulSet whose pod waits until a claim is gone."""
        if change.new is None:
            key = change.last.key
            for entry in self._sets.lister.list(key.namespace):
                templates = claim_templates(entry.tree())
                prefixes = (f"{name_of(template)}-{entry.key.name}-" for template in templates)
                if key.name.startswith(tuple(prefixes)):
                    yield entry.key

    async def reconcile(self, key: ObjectKey) -> None:
        """Carry out the next steps and write the status."""
        entry = self._sets.lister.get(key)
        if entry is None:
            return
        owner = entry.tree()
        if value_at(owner, "spec", "updateStrategy", "type") == "Recreate":
            message = _NO_RECREATE.format(key.namespace, key.name)
            await self._events.warn(owner, "UnknownStrategy", message)
            return
        owners = self.context.resource(str(_APPS), "statefulsets", namespace=key.namespace)
        history = await self._history.claim(owner, owners)
        pods = await self._owned.claim(
            owner, owners, self._objects(owner, "pods"), lambda pod: is_member(owner, pod)
        )
        revisions = await self._revisions(owner, history)
        plan = plan_stateful_set(
            owner, pods, self._present_claims(owner, pods), revisions, self.clock.now()
        )
        error = await self._carry_out(owner, plan.steps)
        await write_status(owners, self._sets, owner, plan.status)
        live = {name_of(revisions.current), name_of(revisions.update), *map(revision_of, pods)}
        await self._history.truncate(owner, history, live)
        if plan.requeue_after is not None:
            self.queue.add_after(key, plan.requeue_after)
        if error:
            raise PodError(error)

    async def _revisions(self, owner: Tree, history: list[Tree]) -> Revisions:
        update, collisions = await self._history.update_revision(owner, history)
        name = value_at(owner, "status", "currentRevision")
        current = next((revision for revision in history if name_of(revision) == name), update)
        return Revisions(current, update, collisions)

    def _present_claims(self, owner: Tree, pods: list[Tree]) -> dict[str, Tree]:
        """Return the present claims of the pods that exist or are wanted, by name."""
        claims = {}
        for ordinal in {*ordinals_of(owner), *map(ordinal_of, pods)}:
            for template in claim_templates(owner):
                name = claim_name(owner, template, ordinal)
                entry = self._claims.lister.get(ObjectKey(namespace_of(owner), name))
                if entry is not None:
                    claims[name] = entry.tree()
        return claims

    # Writes.

    def _objects(self, owner: Tree, resource: str) -> ResourceClient:
        return self.context.resource("v1", resource, namespace=namespace_of(owner))

    async def _carry_out(self, owner: Tree, steps: Sequence[Step]) -> str:
        """Carry out steps until one fails, and wait until the informers show the changes. Return
        the message of the error, or ""."""
        error = ""
        for step in steps:
            error = await self._carry_out_step(owner, step)
            if error:
                break
        if steps:
            await self._pods.fresh()
            await self._claims.fresh()
        return error

    async def _carry_out_step(self, owner: Tree, step: Step) -> str:
        """Create claims, write the pod and update claims; record events. Return the message of an
        error, or ""."""
        error = await self._create_claims(owner, step)
        if not error:
            try:
                await self._write_pod(owner, step)
                await self._update_claims(owner, step)
            except StatusError as failure:
                error = str(failure)
                if step.verb == "create" and failure.reason == "AlreadyExists":
                    return error
        if step.verb:
            verb = step.verb.title()
            message = f"{verb} Pod {name_of(step.pod)} in StatefulSet {name_of(owner)}"
            if error:
                await self._events.warn(owner, f"Failed{verb}", f"{message} failed error: {error}")
            else:
                await self._events.note(owner, f"Successful{verb}", f"{message} successful")
        return error

    async def _create_claims(self, owner: Tree, step: Step) -> str:
        """Create the missing claims of a pod; return the message of an error, or ""."""
        errors = []
        for claim in step.new_claims:
            name, pod = name_of(claim), name_of(step.pod)
            end = f"Pod {pod} in StatefulSet {name_of(owner)}"
            try:
                await self._objects(owner, "persistentvolumeclaims").create(copy_tree(claim))
            except StatusError as failure:
                errors.append(f"failed to create PVC {name}: {failure}")
                if failure.reason != "AlreadyExists":
                    message = f"Create Claim {name} for {end} failed error: {failure}"
                    await self._events.warn(owner, "FailedCreate", message)
            else:
                message = f"Create Claim {name} {end} success"
                await self._events.note(owner, "SuccessfulCreate", message)
        errors += [f"pvc {name} is being deleted" for name in step.leaving_claims]
        return f"[{', '.join(errors)}]" if len(errors) > 1 else "".join(errors)

    async def _write_pod(self, owner: Tree, step: Step) -> None:
        pods = self._objects(owner, "pods")
        if step.verb == "create":
            await pods.create(copy_tree(step.pod))
        elif step.verb == "update":
            await pods.update(copy_tree(step.pod))
        elif step.verb == "delete":
            await delete_object(pods, name_of(step.pod), uid=uid_of(step.pod))

    async def _update_claims(self, owner: Tree, step: Step) -> None:
        for name in step.conflicts:
            await self._events.warn(owner, "ConflictingController", _CONFLICT.format(name))
        for claim in step.changed_claims:
            await self._objects(owner, "persistentvolumeclaims").update(copy_tree(claim))


def _no_keys(_change: ObjectChange) -> tuple[()]:
    return ()
