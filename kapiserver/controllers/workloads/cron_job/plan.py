"""The core of CronJobs: which Jobs to delete and to create, and the status.

A Job is named after the minute at which it is scheduled, so that a start that is repeated after a
crash finds the Job and creates no second one. Mirrors syncCronJob of pkg/controller/cronjob.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct, field

from kapiserver.api.accessors import (
    annotations_of,
    copy_tree,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.batch.schedule import parse_schedule
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.claims import controller_reference
from kapiserver.controllers.workloads.cron_job.times import (
    MANY_MISSED,
    ScheduleTimes,
    missed_starts,
    next_start,
)
from kapiserver.controllers.workloads.job.outcome import finished_condition
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.controllers.workloads.pods import seconds_of
from kapiserver.storage.objects.lifecycle import timestamp

SCHEDULED_TIMESTAMP = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_TOO_MANY_MISSED = (
    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
)
_FORBIDDEN = "Not starting job because prior execution is running and concurrency policy is Forbid"
_DOCUMENTATION = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"


class CronJobPlan(Struct):
    """The actions for one CronJob, in the order in which they are carried out.

    delete         finished Jobs above the limits of the history
    events         events about what was seen
    replace        references to active Jobs that are deleted before `create`
    create         the Job that is due, or None
    status         the status without what `replace` and `create` change
    started        the status after `create`, without the new Job in `active`
    requeue_after  seconds until the next start, or None
    """

    status: Tree
    delete: Sequence[Tree] = ()
    events: list[PlannedEvent] = field(default_factory=list)
    replace: Sequence[Tree] = ()
    create: Tree | None = None
    started: Tree = field(default_factory=dict)
    requeue_after: float | None = None


def plan_cron_job(
    cron_job: Tree, jobs: Sequence[Tree], missing: Collection[str], now: float
) -> CronJobPlan:
    """Return the plan for a CronJob.

    jobs     the Jobs that the CronJob controls
    missing  the uids in `status.active` of Jobs that do not exist
    """
    status: Tree = copy_tree(cron_job.get("status") or {})
    plan = CronJobPlan(status, delete=surplus_jobs(cron_job.get("spec") or {}, jobs))
    forget_active(status, {uid_of(job) for job in plan.delete})
    for job in jobs:
        plan.events += _observe(status, job)
    for reference in active_of(status):
        if reference["uid"] in missing:
            message = f"Active job went missing: {reference['name']}"
            plan.events.append(PlannedEvent("MissingJob", message))
    forget_active(status, missing)
    if not is_terminating(cron_job):
        _plan_start(plan, cron_job, now)
    return plan


def active_of(status: Tree) -> Sequence[Tree]:
    """Return the references to active Jobs."""
    return status.get("active") or ()


def forget_active(status: Tree, uids: Collection[str]) -> None:
    """Remove the references to Jobs with these uids from a status."""
    left = [reference for reference in active_of(status) if reference["uid"] not in uids]
    status.pop("active", None)
    if left:
        status["active"] = left


def surplus_jobs(spec: Tree, jobs: Iterable[Tree]) -> list[Tree]:
    """Return the oldest finished Jobs above the two limits of the history."""
    limits = {
        "Complete": spec.get("successfulJobsHistoryLimit"),
        "Failed": spec.get("failedJobsHistoryLimit"),
    }
    finished: dict[str, list[Tree]] = {"Complete": [], "Failed": []}
    for job in jobs:
        if condition := finished_condition(job):
            finished[condition].append(job)
    return [
        job
        for condition, limit in limits.items()
        if limit is not None
        for job in _oldest(finished[condition], len(finished[condition]) - limit)
    ]


def _oldest(jobs: list[Tree], count: int) -> list[Tree]:
    return sorted(jobs, key=_by_start)[:count] if count > 0 else []


def _by_start(job: Tree) -> tuple[bool, float, str]:
    seconds = seconds_of(value_at(job, "status", "startTime"))
    return seconds is None, seconds or 0.0, name_of(job)


def _observe(status: Tree, job: Tree) -> Iterator[PlannedEvent]:
    """Bring the status up to date with a Job."""
    name, uid, condition = name_of(job), uid_of(job), finished_condition(job)
    is_known = any(reference["uid"] == uid for reference in active_of(status))
    if not condition:
        if not is_known:
            message = f"Saw a job that the controller did not create or forgot: {name}"
            yield PlannedEvent("UnexpectedJob", message, "Warning")
        return
    if is_known:
        forget_active(status, (uid,))
        message = f"Saw completed job: {name}, condition: {condition}"
        yield PlannedEvent("SawCompletedJob", message)
    completed = value_at(job, "status", "completionTime")
    if condition == "Complete" and completed:
        before = seconds_of(status.get("lastSuccessfulTime"))
        if before is None or (seconds_of(completed) or 0.0) > before:
            status["lastSuccessfulTime"] = completed


def _plan_start(plan: CronJobPlan, cron_job: Tree, now: float) -> None:
    """Plan the start that is due, and the time of the next reconcile."""
    spec: Tree = cron_job.get("spec") or {}
    zone = spec.get("timeZone")
    if zone is not None and _zone(zone) is None:
        message = f'invalid timeZone: "{zone}": unknown time zone {zone}'
        plan.events.append(PlannedEvent("UnknownTimeZone", message, "Warning"))
        return
    if spec.get("suspend"):
        return
    text = spec.get("schedule") or ""
    if "TZ" in text:
        message = (
            f'CRON_TZ or TZ used in schedule "{text}" is not officially supported, '
            f"see {_DOCUMENTATION} for more details"
        )
        plan.events.append(PlannedEvent("UnsupportedSchedule", message, "Warning"))
    try:
        times = times_of(spec)
    except ValueError as error:
        message = f'unparseable schedule: "{text}" : {error}'
        plan.events.append(PlannedEvent("UnparseableSchedule", message, "Warning"))
        return
    try:
        scheduled = _due_start(plan, cron_job, times, now)
    except ValueError as error:
        message = f"invalid schedule: {text} : {error}"
        plan.events.append(PlannedEvent("InvalidSchedule", message, "Warning"))
        return
    if scheduled is not None and not _is_held_back(plan, cron_job, scheduled):
        if spec.get("concurrencyPolicy") == "Replace":
            plan.replace = active_of(plan.status)
        plan.create = job_from_template(cron_job, scheduled)
        plan.started = plan.status | {"lastScheduleTime": timestamp(scheduled)}
        if plan.replace:
            plan.started.pop("active")
    plan.requeue_after = seconds_to_start(cron_job, plan.started or plan.status, times, now)


def seconds_to_start(
    cron_job: Tree, status: Tree, times: ScheduleTimes, now: float
) -> float | None:
    """Return the seconds until the next start; None if there is none.

    The time has no margin for skewed clocks, as Kubernetes' has, because one clock measures it: a
    reconcile that comes too early waits again.
    """
    start = next_start(times, last_start(cron_job, status), now)
    return start - now if start is not None else None


def last_start(cron_job: Tree, status: Tree) -> float:
    """Return the last scheduled time, or the time of the creation."""
    last = status.get("lastScheduleTime") or metadata_of(cron_job).get("creationTimestamp")
    return seconds_of(last) or 0.0


def _due_start(plan: CronJobPlan, cron_job: Tree, times: ScheduleTimes, now: float) -> int | None:
    """Return the most recent start that is due and not later than `startingDeadlineSeconds` allow.
    Raises ValueError."""
    since = last_start(cron_job, plan.status)
    deadline = value_at(cron_job, "spec", "startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, now - deadline)
    missed = missed_starts(times, since, now)
    if missed.latest is not None and missed.count > MANY_MISSED:
        plan.events.append(PlannedEvent("TooManyMissedTimes", _TOO_MANY_MISSED, "Warning"))
    return missed.latest


def _is_held_back(plan: CronJobPlan, cron_job: Tree, scheduled: int) -> bool:
    """Report whether a start that is due does not happen, because it has happened before, or must
    not run at the same time as an active Job."""
    active = active_of(plan.status)
    name = job_name(cron_job, scheduled)
    if any(reference.get("name") == name for reference in active):
        return True
    if seconds_of(plan.status.get("lastScheduleTime")) == scheduled:
        return True
    if value_at(cron_job, "spec", "concurrencyPolicy") == "Forbid" and active:
        plan.events.append(PlannedEvent("JobAlreadyActive", _FORBIDDEN))
        return True
    return False


def job_name(cron_job: Tree, scheduled: int) -> str:
    """Return the name of the Job of a start: that of the CronJob and the minutes since 1970."""
    return f"{name_of(cron_job)}-{scheduled // 60}"


def job_from_template(cron_job: Tree, scheduled: int) -> Tree:
    """Return the Job of a start."""
    template: Tree = value_at(cron_job, "spec", "jobTemplate") or {}
    zone = _zone(value_at(cron_job, "spec", "timeZone") or "UTC") or UTC
    moment = datetime.fromtimestamp(scheduled, zone).isoformat().replace("+00:00", "Z")
    metadata: Tree = {
        "name": job_name(cron_job, scheduled),
        "namespace": namespace_of(cron_job),
        "annotations": {**annotations_of(template), SCHEDULED_TIMESTAMP: moment},
        "ownerReferences": [controller_reference(cron_job, "batch/v1", "CronJob")],
    }
    if labels := labels_of(template):
        metadata["labels"] = dict(labels)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": copy_tree(template.get("spec") or {}),
    }


def times_of(spec: Tree) -> ScheduleTimes:
    """Return the times of a CronJob's schedule in its time zone, which is UTC unless the schedule
    or `timeZone` names another. Raises ValueError."""
    schedule = parse_schedule(spec.get("schedule") or "")
    name = schedule.zone or spec.get("timeZone") or "UTC"
    zone = _zone(name)
    if zone is None:
        raise ValueError(f"provided bad location {name}: unknown time zone {name}")
    return ScheduleTimes(schedule, zone)


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
