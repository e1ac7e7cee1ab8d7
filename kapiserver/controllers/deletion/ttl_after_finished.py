"""Deletes Jobs when `ttlSecondsAfterFinished` have passed since they finished.

A Job may change while it waits, so it is read again just before it is deleted: from the store,
because the informer may lag behind. Mirrors pkg/controller/ttlafterfinished.
"""

from __future__ import annotations

from kapiserver.api.accessors import is_terminating, uid_of, value_at
from kapiserver.api.columns import parse_time
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.subscriptions import Subscriptions
from kapiserver.controllers.loop.workqueue import WorkQueue
from kapiserver.controllers.loop.writing import delete_object, suppress_reason
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

NAME = "ttl-after-finished-controller"
WORKERS = 5
"""The default of --concurrent-ttl-after-finished-syncs of kube-controller-manager."""
_BATCH = GroupVersion("batch", "v1")
_FINISHED = ("Complete", "Failed")


class TTLAfterFinishedController:
    """The control loop; its queue holds keys of Jobs, and schedules those that wait."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._clock = context.server.clock
        self._durations = context.server.metrics.job_deletion_seconds
        self._subscriptions = Subscriptions(context.server)
        self._queue: WorkQueue[ObjectKey] = context.work_queue(
            self._reconcile, workers=WORKERS, name=NAME
        )

    async def start(self) -> None:
        """Subscribe to Jobs."""
        self._jobs = self._subscriptions.add(_BATCH, "jobs", self._on_job)

    async def stop(self) -> None:
        """Stop, and cancel the reconciles in progress."""
        self._subscriptions.cancel()
        await self._queue.stop()

    def _on_job(self, change: ObjectChange) -> None:
        if change.new is None:
            self._queue.unschedule(change.last.key)
        else:
            self._queue.add(change.new.key)

    async def _reconcile(self, key: ObjectKey) -> None:
        entry = self._jobs.lister.get(key)
        if entry is None or self._expiry(key, entry.tree()) is None:
            return
        jobs = self._context.resource(str(_BATCH), "jobs", namespace=key.namespace)
        with suppress_reason("NotFound"):
            job = await jobs.get(key.name)
            expiry = self._expiry(key, job)
            if expiry is not None:
                await delete_object(jobs, key.name, uid=uid_of(job), propagationPolicy="Foreground")
                self._durations.observe("", self._clock.now() - expiry)

    def _expiry(self, key: ObjectKey, job: Tree) -> float | None:
        """Return when a Job expired, in seconds since 1970. A Job that has not expired is scheduled
        for that time, if it has one."""
        expiry = expiry_of(job)
        seconds = 0.0 if expiry is None else expiry - self._clock.now()
        if seconds <= 0:
            self._queue.unschedule(key)
            return expiry
        self._queue.schedule(key, seconds)
        return None


def expiry_of(job: Tree) -> float | None:
    """Return when a Job expires, in seconds since 1970; None if it has not finished, has no time to
    live or is being deleted."""
    ttl = value_at(job, "spec", "ttlSecondsAfterFinished")
    if ttl is None or is_terminating(job):
        return None
    for condition in value_at(job, "status", "conditions") or ():
        if condition.get("type") in _FINISHED and condition.get("status") == "True":
            finished = parse_time(condition.get("lastTransitionTime"))
            if finished is not None:
                return finished.timestamp() + int(ttl)
    return None
