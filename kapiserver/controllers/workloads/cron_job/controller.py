"""The controller of CronJobs: it carries out the plans of `plan`.

Mirrors pkg/controller/cronjob.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kapiserver.api.accessors import (
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_owner
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.workloads.claims import controller_uid
from kapiserver.controllers.workloads.cron_job.plan import (
    CronJobPlan,
    active_of,
    forget_active,
    plan_cron_job,
    seconds_to_start,
    times_of,
)
from kapiserver.controllers.workloads.owned_objects import controller_keys
from kapiserver.controllers.workloads.pod_control import has_cause
from kapiserver.controllers.workloads.pods import seconds_of
from kapiserver.controllers.workloads.status import write_status
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.informer import Index, ObjectChange

_BATCH = GroupVersion("batch", "v1")


class JobError(Exception):
    """An active Job could not be replaced; its CronJob is retried later."""


class CronJobController(Controller[ObjectKey]):
    """Creates Jobs by the schedules of CronJobs."""

    workers = 5
    min_retry_seconds = 0.005
    max_retry_seconds = 1000.0

    def set_up(self) -> None:
        """Watch CronJobs and their Jobs."""
        self._jobs_by_controller = Index(controller_keys)
        of_cron_job = for_owner(_BATCH, "CronJob")
        self._jobs = self.watch(_BATCH, "jobs", of_cron_job, self._jobs_by_controller)
        self._cron_jobs = self.watch(_BATCH, "cronjobs", self._on_cron_job)
        self._events = EventRecorder(self.context, "cronjob-controller")

    def _on_cron_job(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Queue the CronJob now, or after a change of its schedule, at its next start: a start that
        only the new schedule has missed does not happen. An invalid schedule is reported now."""
        key = change.last.key
        if change.old is None or change.new is None:
            return (key,)
        new = change.new.tree()
        if _timing(change.old.tree()) == _timing(new):
            return (key,)
        try:
            times = times_of(new.get("spec") or {})
        except ValueError:
            return (key,)
        seconds = seconds_to_start(new, new.get("status") or {}, times, self.clock.now())
        if seconds is None:
            return (key,)
        self.queue.add_after(key, seconds)
        return ()

    async def reconcile(self, key: ObjectKey) -> None:
        """Count the Jobs of a CronJob, and start one if it is due."""
        entry = self._cron_jobs.lister.get(key)
        if entry is None:
            return
        cron_job = entry.tree()
        missing = await self._missing(cron_job)
        jobs = [entry.tree() for entry in self._jobs_by_controller.get(uid_of(cron_job))]
        plan = plan_cron_job(cron_job, jobs, missing, self.clock.now())
        client = self.context.resource(str(_BATCH), "jobs", namespace=key.namespace)
        for job in plan.delete:
            await self._delete(client, cron_job, name_of(job))
        for event in plan.events:
            record = self._events.warn if event.type == "Warning" else self._events.note
            await record(cron_job, event.reason, event.message)
        try:
            if plan.create is not None:
                await self._start(client, cron_job, plan, plan.create)
        finally:
            cron_jobs = self.context.resource(
                str(_BATCH), "cronjobs", namespace=namespace_of(cron_job)
            )
            await write_status(cron_jobs, self._cron_jobs, cron_job, plan.status)
        if plan.requeue_after is not None:
            self.queue.add_after(key, plan.requeue_after)

    async def _missing(self, cron_job: Tree) -> Sequence[str]:
        """Return the uids in `status.active` of Jobs that do not exist."""
        missing = self._uids_without_job(cron_job)
        if missing:
            await self._jobs.fresh()
            missing = self._uids_without_job(cron_job)
        return missing

    def _uids_without_job(self, cron_job: Tree) -> Sequence[str]:
        namespace, lister = namespace_of(cron_job), self._jobs.lister
        return [
            reference["uid"]
            for reference in active_of(cron_job.get("status") or {})
            if lister.get(ObjectKey(namespace, reference.get("name") or "")) is None
        ]

    async def _start(
        self, client: ResourceClient, cron_job: Tree, plan: CronJobPlan, new: Tree
    ) -> None:
        """Delete the Jobs to replace, create the Job that is due, and note both in the status of
        the plan. Raises JobError and StatusError."""
        for reference in plan.replace:
            if not await self._delete(client, cron_job, reference["name"]):
                raise JobError(f"could not replace job {namespace_of(cron_job)}/{name_of(new)}")
            forget_active(plan.status, (reference["uid"],))
        job = await self._create(client, cron_job, plan, new)
        if job is not None:
            plan.status = plan.started | {
                "active": [*active_of(plan.started), _reference(job)],
            }

    async def _create(
        self, client: ResourceClient, cron_job: Tree, plan: CronJobPlan, new: Tree
    ) -> Tree | None:
        """Create a Job and return it, or the one that an earlier try has created; None if the name
        belongs to a Job of somebody else. Raises StatusError."""
        try:
            job = await client.create(new)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                existing = await client.get(name_of(new))
                return existing if controller_uid(existing) == uid_of(cron_job) else None
            if not has_cause(error, "NamespaceTerminating"):
                message = f"Error creating job: {error}"
                await self._events.warn(cron_job, "FailedCreate", message)
            raise
        scheduled = seconds_of(plan.started.get("lastScheduleTime"))
        if scheduled is not None:
            skew = self.server.metrics.controllers.cron_job_skew
            skew.observe("", self.clock.now() - scheduled)
        await self._events.note(cron_job, "SuccessfulCreate", f"Created job {name_of(job)}")
        await self._jobs.wait_for(Revision(int(resource_version_of(job))))
        return job

    async def _delete(self, client: ResourceClient, cron_job: Tree, name: str) -> bool:
        """Delete a Job, and its pods later; report whether it worked."""
        try:
            await client.delete(name, {"propagationPolicy": "Background"})
        except StatusError as error:
            await self._events.warn(cron_job, "FailedDelete", f"Deleted job: {error}")
            return False
        await self._events.note(cron_job, "SuccessfulDelete", f"Deleted job {name}")
        await self._jobs.fresh()
        return True


def _timing(cron_job: Tree) -> tuple[str | None, str | None]:
    schedule, zone = (value_at(cron_job, "spec", name) for name in ("schedule", "timeZone"))
    return schedule, zone


def _reference(job: Tree) -> Tree:
    return {
        "apiVersion": str(_BATCH),
        "kind": "Job",
        "namespace": namespace_of(job),
        "name": name_of(job),
        "uid": uid_of(job),
        "resourceVersion": resource_version_of(job),
    }
