"""The wait before failed pods of a Job are replaced: 10 s, doubled by each failure, at most 10 min.

Mirrors pkg/controller/job/backoff_utils.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kapiserver.api.accessors import is_terminating, metadata_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pods import seconds_of

FIRST_SECONDS = 10.0
MAX_SECONDS = 600.0
_MAX_DOUBLINGS = 10


class Backoff(Struct, frozen=True):
    """The failures of a Job's pods since its last success.

    failures      their number
    last_failure  the time of the latest one in seconds since 1970, or None
    """

    failures: int = 0
    last_failure: float | None = None

    def after(self, succeeded: Sequence[Tree], failed: Sequence[Tree]) -> Backoff:
        """Return the record after further pods have finished."""
        failures = sorted(map(finish_time, failed))
        if succeeded:
            last_success = max(map(finish_time, succeeded))
            failures = [time for time in failures if time > last_success]
            return Backoff(len(failures), failures[-1] if failures else None)
        if not failures:
            return self
        return Backoff(self.failures + len(failures), failures[-1])

    def remaining(self, now: float) -> float:
        """Return the seconds until pods may be created again."""
        return remaining_seconds(self.failures, self.last_failure, now)


def remaining_seconds(failures: int, last_failure: float | None, now: float) -> float:
    """Return the seconds that are left of the wait after a number of failures."""
    if not failures or last_failure is None:
        return 0.0
    wait = min(FIRST_SECONDS * (1 << min(failures - 1, _MAX_DOUBLINGS)), MAX_SECONDS)
    return max(wait - (now - last_failure), 0.0)


def finish_time(pod: Tree) -> float:
    """Return when a pod ended, as well as its status tells: when its last container ended, when it
    ceased to be ready, when it was deleted, or when it was created."""
    return (
        _containers_ended(pod)
        or _ceased_to_be_ready(pod)
        or _deleted(pod)
        or seconds_of(metadata_of(pod).get("creationTimestamp"))
        or 0.0
    )


def _containers_ended(pod: Tree) -> float | None:
    sidecars = {
        container.get("name")
        for container in value_at(pod, "spec", "initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    statuses = list(value_at(pod, "status", "containerStatuses") or ())
    for status in value_at(pod, "status", "initContainerStatuses") or ():
        if status.get("name") in sidecars:
            statuses.append(status)
    times = [
        seconds_of(value_at(container_status, "state", "terminated", "finishedAt"))
        for container_status in statuses
    ]
    ended = [time for time in times if time is not None]
    return max(ended) if ended and len(ended) == len(times) else None


def _ceased_to_be_ready(pod: Tree) -> float | None:
    for condition in value_at(pod, "status", "conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "False":
            return seconds_of(condition.get("lastTransitionTime"))
    return None


def _deleted(pod: Tree) -> float | None:
    if not is_terminating(pod):
        return None
    metadata = metadata_of(pod)
    time = seconds_of(metadata.get("deletionTimestamp"))
    grace = metadata.get("deletionGracePeriodSeconds") or 0
    return time - grace if time is not None else None
