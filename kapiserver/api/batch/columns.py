"""Table columns of the batch group. Mirrors pkg/printers/internalversion of Kubernetes."""

from __future__ import annotations

from kapiserver.api.accessors import is_terminating, value_at
from kapiserver.api.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Age,
    Column,
    Columns,
    age_of,
    human_duration,
    parse_time,
    pod_template_columns,
    selector_column,
    text,
)
from kapiserver.api.types import Tree

_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),  # not a condition
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
)


def _status(job: Tree) -> str:
    states = {
        condition.get("type")
        for condition in value_at(job, "status", "conditions") or ()
        if condition.get("status") == "True"
    }
    if is_terminating(job):
        states.add("")
    return next((text for type_, text in _STATES if type_ in states), "Running")


def _completions(job: Tree) -> str:
    succeeded = value_at(job, "status", "succeeded") or 0
    completions = value_at(job, "spec", "completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = value_at(job, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Tree) -> str | Age:
    start = parse_time(value_at(job, "status", "startTime"))
    end = parse_time(value_at(job, "status", "completionTime"))
    if start is None:
        return ""
    return human_duration((end - start).total_seconds()) if end else Age(start.timestamp())


def _suspend(cron_job: Tree) -> str:
    suspend = value_at(cron_job, "spec", "suspend")
    return UNSET if suspend is None else str(bool(suspend))


def _active(cron_job: Tree) -> int:
    return len(value_at(cron_job, "status", "active") or ())


def _last_schedule(cron_job: Tree) -> str | Age:
    last_schedule_time = value_at(cron_job, "status", "lastScheduleTime")
    return age_of(last_schedule_time) if last_schedule_time else NONE


COLUMNS: dict[str, Columns] = {
    "CronJob": Columns(
        (
            NAME,
            Column("Schedule", text("spec", "schedule"), "Schedule in cron format."),
            Column("Timezone", text("spec", "timeZone", empty=NONE), "Time zone of the schedule."),
            Column(
                "Suspend",
                _suspend,
                "Whether the start of further jobs is suspended.",
                type="boolean",
            ),
            Column("Active", _active, "Number of running jobs.", type="integer"),
            Column("Last Schedule", _last_schedule, "Time since a job was last scheduled."),
            AGE,
            *pod_template_columns("spec", "jobTemplate", "spec", "template"),
            selector_column("spec", "jobTemplate", "spec", "selector"),
        )
    ),
    "Job": Columns(
        (
            NAME,
            Column(
                "Status",
                _status,
                "State of the job: Complete, Failed, Running, Suspended or Terminating.",
            ),
            Column(
                "Completions",
                _completions,
                "Number of succeeded pods and number of required completions.",
            ),
            Column("Duration", _duration, "How long the job ran, or has run so far."),
            AGE,
            *pod_template_columns("spec", "template"),
            selector_column("spec", "selector"),
        )
    ),
}
