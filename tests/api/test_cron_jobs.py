"""Validation of cron jobs and their schedules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.api.batch.schedule import schedule_problems
from tests.jobs import (
    CRON_JOB,
    NEGATIVE,
    created,
)
from tests.objects import GONE, changed, strategy, texts, write_errors

LONG = "c" * 53
CRON_JOBS = [
    ("", GONE, []),
    ("spec/timeZone", "Europe/Rome", []),
    ("spec/timeZone", "UTC", []),
    (
        "metadata/name",
        LONG,
        [f'metadata.name: Invalid value: "{LONG}": must be no more than 52 characters'],
    ),
    ("spec/schedule", "", ["spec.schedule: Required value"]),
    (
        "spec/schedule",
        "TZ=UTC 0 * * * *",
        [
            'spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in '
            "schedule, use timeZone field instead"
        ],
    ),
    (
        "spec/timeZone",
        "",
        ['spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string'],
    ),
    (
        "spec/timeZone",
        "Europe/Nowhere",
        ['spec.timeZone: Invalid value: "Europe/Nowhere": unknown time zone Europe/Nowhere'],
    ),
    (
        "spec/timeZone",
        "Local",
        [
            'spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as '
            "defined in https://www.iana.org/time-zones"
        ],
    ),
    (
        "spec/concurrencyPolicy",
        "Odd",
        [
            'spec.concurrencyPolicy: Unsupported value: "Odd": supported values: "Allow", '
            '"Forbid", "Replace"'
        ],
    ),
    (
        "spec/jobTemplate/spec/selector",
        {"matchLabels": {"a": "b"}},
        [
            'spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` '
            "will be auto-generated"
        ],
    ),
    (
        "spec/jobTemplate/spec/manualSelector",
        True,
        [
            "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "
            '"nil", "false"'
        ],
    ),
    (
        "spec/failedJobsHistoryLimit",
        -1,
        [f"spec.failedJobsHistoryLimit: Invalid value: -1: {NEGATIVE}"],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), CRON_JOBS)
def test_cron_jobs(path, value, messages):
    """Each invalid field gives exactly its messages."""
    obj = created(changed(CRON_JOB, path, value))
    assert write_errors("cronjobs", obj) == messages


def test_old_schedules():
    """A time zone in the schedule, and a long name, may stay in an update."""
    old = created(changed(CRON_JOB, "spec/schedule", "TZ=UTC 0 * * * *"))
    old["metadata"]["name"] = LONG
    kind_strategy = strategy("cronjobs")
    assert texts(kind_strategy.validate_update(changed(old, "spec/suspend", True), old)) == []
    assert texts(kind_strategy.validate_update(changed(old, "spec/timeZone", "UTC"), old)) == [
        'spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use both timeZone field and TZ '
        "or CRON_TZ in schedule"
    ]


SCHEDULES = [
    ("* * * * *", None),
    ("0,30 1-5/2 ? JAN-mar SUN", None),
    ("*/15 */2 1 */3 mon-fri", None),
    ("5/10 * * * *", None),
    ("@daily", None),
    ("@every 1h30m", None),
    ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
    ("@never", "unrecognized descriptor: @never"),
    ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
    ("60 * * * *", "end of range (60) above maximum (59): 60"),
    ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
    ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
    ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
    ("1/2/3 * * * *", "too many slashes: 1/2/3"),
    ("*/0 * * * *", "step of range should be a positive number: */0"),
    ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
    ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
]


@pytest.mark.parametrize(("text", "message"), SCHEDULES)
def test_schedules(text, message):
    """Schedules are parsed as by cron, with the messages of Kubernetes' parser."""
    assert schedule_problems(text) == ([message] if message else [])


@given(st.text(alphabet="0123456789*/-, @TZ=a", max_size=30))
def test_any_schedule(text):
    """Any text is either a valid schedule or gives a message."""
    assert len(schedule_problems(text)) <= 1


def test_warnings_of_time_zones():
    """A time zone in the schedule gives a warning on each write."""
    old = created(changed(CRON_JOB, "spec/schedule", "TZ=UTC * * * * *"))
    (warning,) = strategy("cronjobs").warnings(old, old)
    assert warning.startswith("CRON_TZ or TZ used in spec.spec.schedule is not officially")
    assert strategy("cronjobs").warnings(old, None) == [warning]
