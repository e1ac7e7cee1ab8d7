"""The controller of Jobs: it carries out the plans of `plan`.

Mirrors pkg/controller/job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from kapiserver.api.accessors import (
    controller_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.resource_client import (
    STRATEGIC_MERGE_PATCH,
    StatusError,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.workloads.job.backoff import Backoff
from kapiserver.controllers.workloads.job.job_metrics import JobMeter
from kapiserver.controllers.workloads.job.job_pods import TRACKING_FINALIZER, is_tracked
from kapiserver.controllers.workloads.job.outcome import count_pods, finish_job, is_job_finished
from kapiserver.controllers.workloads.job.plan import JobPlan, plan_job
from kapiserver.controllers.workloads.owned_objects import (
    OwnedObjects,
    controller_keys,
    for_possible_owners,
)
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.controllers.workloads.pod_control import PodControl, PodError
from kapiserver.controllers.workloads.status import write_status
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.informer import Index, ObjectChange

_BATCH = GroupVersion("batch", "v1")
_OWN_NAME = "kubernetes.io/job-controller"
"""The value of `managedBy` that names this controller."""


class JobItem(NamedTuple):
    """What the queue holds: a Job to reconcile, or a pod whose finalizer nobody removes."""

    resource: Literal["jobs", "pods"]
    key: ObjectKey


class JobController(Controller[JobItem]):
    """Runs the pods of Jobs and counts how they end."""

    workers = 5
    min_retry_seconds = 1.0
    max_retry_seconds = 600.0

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._meter = JobMeter(context.server.metrics.controllers.jobs)
        self._backoffs: dict[str, Backoff] = {}
        """The failures of unfinished Jobs, by the uid of the Job."""

    def set_up(self) -> None:
        """Watch Jobs and pods."""
        index = Index(controller_keys)
        self._owned = OwnedObjects(_BATCH, "Job", index, finalizer=TRACKING_FINALIZER)
        self._jobs = self.watch(_BATCH, "jobs", self._on_job)
        self._possible_owners = for_possible_owners(_BATCH, "Job", self._jobs)
        self._pods_informer = self.watch(CORE, "pods", self._on_pod, index)
        events = self._events = EventRecorder(self.context, "job-controller")
        self._pods = PodControl(self.context, self._pods_informer, events)

    def _on_job(self, change: ObjectChange) -> Iterator[JobItem]:
        """Queue the Job; if it is gone or has ended, its pods that are still tracked, too."""
        yield JobItem("jobs", change.last.key)
        if change.new is None:
            self._backoffs.pop(uid_of(change.last.tree()), None)
        elif change.old is None and not _is_own(change.new.tree()):
            self._meter.count_external(change.new.tree())
        if change.new is None or is_job_finished(change.new.tree()):
            for pod in self._owned.controlled_by(change.last.tree()):
                if is_tracked(pod):
                    yield JobItem("pods", ObjectKey(change.last.key.namespace, name_of(pod)))

    def _on_pod(self, change: ObjectChange) -> Iterator[JobItem]:
        self._meter.count_finalizer(change)
        for key in self._possible_owners(change):
            yield JobItem("jobs", key)
        if change.new is not None and is_tracked(change.new.tree()):
            yield JobItem("pods", change.new.key)

    async def reconcile(self, item: JobItem) -> None:
        """Reconcile a Job, or remove the finalizer of a pod whose Job is gone or has ended."""
        if item.resource == "pods":
            await self._release_orphan(item.key)
            return
        entry = self._jobs.lister.get(item.key)
        if entry is None:
            return
        job = entry.tree()
        if is_job_finished(job):
            self._backoffs.pop(uid_of(job), None)
        elif _is_own(job):
            with self._meter.reconcile(job) as plans:
                await self._reconcile_job(item, job, plans)

    async def _reconcile_job(self, item: JobItem, job: Tree, plans: list[JobPlan]) -> None:
        namespace = item.key.namespace
        jobs = self.context.resource(str(_BATCH), "jobs", namespace=namespace)
        pods = await self._owned.claim(job, jobs, self._pods.pods(namespace), _any)
        backoff = self._backoffs.get(uid_of(job), Backoff())
        plan = plan_job(job, pods, backoff, self.clock.now())
        plans.append(plan)
        error = await self._write_pods(job, plan)
        await write_status(jobs, self._jobs, job, plan.status)
        self._backoffs[uid_of(job)] = plan.backoff
        removed = await self._remove_finalizers(namespace, plan.remove_finalizer)
        tracked = {uid_of(pod) for pod in pods if is_tracked(pod)} - removed
        status, events = count_pods(plan.status, tracked), plan.events
        if plan.outcome is not None:
            finished = finish_job(status, plan.outcome, self.clock.now())
            if finished is not None:
                status, event = finished
                events = [*events, event]
                self._meter.count_finished(job, plan.outcome)
        await write_status(jobs, self._jobs, job | {"status": plan.status}, status)
        self._meter.count_ended(job, plan, status)
        await self._record(job, events)
        if plan.requeue_after is not None:
            self.queue.add_after(item, plan.requeue_after)
        if error:
            raise PodError(error)

    async def _write_pods(self, job: Tree, plan: JobPlan) -> str:
        """Delete and create pods; return the message of an error, or ""."""
        if plan.forget:
            await self._remove_finalizers(namespace_of(job), plan.forget)
        error = ""
        if deleted := [*plan.forget, *plan.delete]:
            error = await self._pods.delete_all(job, deleted)
        if plan.create:
            created, error = await self._pods.create_all(job, plan.create)
            self._meter.count_created(job, plan, created)
            active = (plan.status.get("active") or 0) - len(plan.create) + created
            plan.status.pop("active", None)
            if active:
                plan.status["active"] = active
        return error

    async def _remove_finalizers(self, namespace: str, pods: Sequence[Tree]) -> set[str]:
        """Remove the finalizer of pods; return the uids of those that have lost it or are gone.
        After a conflict, the change that caused it leads to another reconcile."""
        results = await asyncio.gather(*(self._untrack(namespace, pod) for pod in pods))
        newest = max((revision for revision, _ in results), default=0)
        if newest:
            await self._pods_informer.wait_for(Revision(newest))
        return {uid for _, uid in results if uid}

    async def _untrack(self, namespace: str, pod: Tree) -> tuple[int, str]:
        """Return the revision of the change and the uid of the pod; 0 and the uid if the pod is
        gone, 0 and "" after a conflict."""
        removal = {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}
        patch = {"metadata": {"uid": uid_of(pod), **removal}}
        try:
            patched = await self._pods.pods(namespace).patch(
                name_of(pod), patch, type=STRATEGIC_MERGE_PATCH
            )
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            return 0, uid_of(pod) if error.reason == "NotFound" else ""
        return int(resource_version_of(patched)), uid_of(pod)

    async def _release_orphan(self, key: ObjectKey) -> None:
        entry = self._pods_informer.lister.get(key)
        if entry is None or not is_tracked(entry.tree()):
            return
        pod = entry.tree()
        owner = controller_of(pod)
        if owner is not None:
            if owner.get("kind") != "Job" or owner.get("apiVersion") != str(_BATCH):
                return
            job = self._jobs.lister.get(ObjectKey(key.namespace, owner.get("name") or ""))
            is_present = job is not None and uid_of(job.tree()) == owner.get("uid")
            if job is not None and is_present and not _has_ended(job.tree()):
                return
        await self._remove_finalizers(key.namespace, [pod])

    async def _record(self, job: Tree, events: Sequence[PlannedEvent]) -> None:
        for event in events:
            record = self._events.warn if event.type == "Warning" else self._events.note
            await record(job, event.reason, event.message)


def _has_ended(job: Tree) -> bool:
    """Report whether this controller has ended a Job. It never ends those of other controllers."""
    return _is_own(job) and is_job_finished(job)


def _is_own(job: Tree) -> bool:
    """Report whether this controller manages a Job."""
    return value_at(job, "spec", "managedBy") in (None, _OWN_NAME)


def _any(_pod: Tree) -> bool:
    return True
