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
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.writing import delete_object, suppress_reason
from kapiserver.storage.cache.entry import ObjectKey

_BATCH = GroupVersion("batch", "v1")
_FINISHED = ("Complete", "Failed")


class TTLAfterFinishedController(Controller[ObjectKey]):
    """The control loop; its queue holds keys of Jobs, also of those that wait for their time."""

    workers = 5
    """The default of --concurrent-ttl-after-finished-syncs of kube-controller-manager."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._durations = context.server.metrics.controllers.job_deletion_seconds

    def set_up(self) -> None:
        """Watch Jobs."""
        self._jobs = self.watch(_BATCH, "jobs", for_object)

    async def reconcile(self, key: ObjectKey) -> None:
        """Delete an expired Job; come back when another one expires."""
        entry = self._jobs.lister.get(key)
        if entry is None or self._expiry(key, entry.tree()) is None:
            return
        jobs = self.context.resource(str(_BATCH), "jobs", namespace=key.namespace)
        with suppress_reason("NotFound"):
            job = await jobs.get(key.name)
            expiry = self._expiry(key, job)
            if expiry is not None:
                await delete_object(jobs, key.name, uid=uid_of(job), propagationPolicy="Foreground")
                self._durations.observe("", self.clock.now() - expiry)

    def _expiry(self, key: ObjectKey, job: Tree) -> float | None:
        """Return when a Job expired, in seconds since 1970. A Job that expires later is queued for
        that time."""
        expiry = expiry_of(job)
        if expiry is not None and expiry > self.clock.now():
            self.queue.add_after(key, expiry - self.clock.now())
            return None
        return expiry


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
