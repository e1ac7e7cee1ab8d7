"""How a Job ends: its outcome, the counting of its pods, and its last status."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.storage.objects.lifecycle import timestamp

SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"


class Outcome(Struct, frozen=True):
    """Why a Job is about to end: `type` is SuccessCriteriaMet or FailureTarget."""

    type: str
    reason: str
    message: str


def is_job_finished(job: Tree) -> bool:
    """Report whether the Job is complete or has failed."""
    return finished_condition(job) != ""


def finished_condition(job: Tree) -> str:
    """Return the type of the condition that ends the Job, Complete or Failed, or ""."""
    for condition in value_at(job, "status", "conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return ""


def count_pods(status: Tree, still_tracked: Iterable[str]) -> Tree:
    """Return the status after step 3: the uncounted pods whose uids are not in `still_tracked` are
    counted."""
    tracked_uids = frozenset(still_tracked)
    uncounted, counted = status.get("uncountedTerminatedPods") or {}, dict(status)
    remaining: Tree = {}
    for name in ("succeeded", "failed"):
        uids = uncounted.get(name) or []
        remaining[name] = [uid for uid in uids if uid in tracked_uids]
        number = (status.get(name) or 0) + len(uids) - len(remaining[name])
        if number:
            counted[name] = number
    counted["uncountedTerminatedPods"] = {name: uids for name, uids in remaining.items() if uids}
    return counted


def finish_job(status: Tree, outcome: Outcome, now: float) -> tuple[Tree, PlannedEvent] | None:
    """Return the status of a finished Job and the event about it; None while pods are uncounted or
    have not ended."""
    if status.get("uncountedTerminatedPods") or status.get("terminating"):
        return None
    succeeded = outcome.type == SUCCESS
    type_ = "Complete" if succeeded else "Failed"
    condition = job_condition(type_, "True", outcome.reason, outcome.message, now)
    finished = status | {"conditions": [*(status.get("conditions") or ()), condition]}
    if succeeded:
        finished["completionTime"] = timestamp(now)
        return finished, PlannedEvent("Completed", "Job completed")
    return finished, PlannedEvent(outcome.reason, outcome.message, "Warning")


def job_condition(type_: str, status: str, reason: str, message: str, now: float) -> Tree:
    """Return a condition that changes at `now`."""
    return {
        "type": type_,
        "status": status,
        "lastProbeTime": timestamp(now),
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }
