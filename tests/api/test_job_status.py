"""Validation of job statuses, and columns of jobs and cron jobs."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.api.batch.indexes import first_common, parse_intervals
from tests.jobs import (
    CRON_JOB,
    DONE,
    END,
    FAILED,
    INDEXED,
    JOB,
    NEGATIVE,
    START,
    created,
    job,
    true_conditions,
)
from tests.objects import SCHEME, defaulted, strategy, texts

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
C = "status.conditions: Invalid value:"
REPORTS = [
    ({}, {}, DONE, []),
    ({}, {}, FAILED, []),
    ({}, {}, {"active": -1}, [f"status.active: Invalid value: -1: {NEGATIVE}"]),
    ({}, DONE, DONE, []),
    (
        {},
        {},
        {"startTime": START, "conditions": true_conditions("Failed")},
        [f"{C} cannot set Failed=True condition without the FailureTarget=true condition"],
    ),
    (
        {},
        {},
        {**DONE, "conditions": true_conditions("Complete")},
        [f"{C} cannot set Complete=True condition without the SuccessCriteriaMet=true condition"],
    ),
    (
        {},
        {},
        {**DONE, "conditions": true_conditions("SuccessCriteriaMet", "Complete", "FailureTarget")},
        [
            f"{C} cannot set Complete=True and FailureTarget=true conditions",
            f"{C} cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ],
    ),
    (
        {},
        {},
        {"completionTime": END},
        [
            f'status.completionTime: Invalid value: "{END}": cannot set completionTime when there '
            "is no Complete=True condition"
        ],
    ),
    (
        {},
        {},
        {"conditions": DONE["conditions"]},
        [
            "status.completionTime: Required value: completionTime is required for Complete jobs",
            "status.startTime: Required value: startTime is required for finished job",
        ],
    ),
    (
        {},
        {},
        {**DONE, "startTime": END, "completionTime": START},
        [f'status.completionTime: Invalid value: "{START}": must be equal to or after `startTime`'],
    ),
    (
        {},
        {},
        {**FAILED, "active": 1, "terminating": 1, "uncountedTerminatedPods": {"failed": ["a"]}},
        [
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
            'status.uncountedTerminatedPods: Invalid value: {"failed":["a"]}: must be empty for '
            "finished job",
            "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
        ],
    ),
    (
        {},
        {},
        {"ready": 2, "active": 1},
        ["status.ready: Invalid value: 2: cannot set more ready pods than active"],
    ),
    (
        {},
        {},
        {"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}},
        [
            'status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty',
            'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"',
        ],
    ),
    (
        {},
        {},
        {"completedIndexes": "0"},
        [
            'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes '
            "when non-indexed completion mode"
        ],
    ),
    (
        {**INDEXED, "backoffLimitPerIndex": 1},
        {},
        {"completedIndexes": "1,2", "failedIndexes": "0-1"},
        [
            'status.failedIndexes: Invalid value: "0-1": failedIndexes and completedIndexes '
            "overlap at index: 1"
        ],
    ),
    (
        INDEXED,
        {},
        {"completedIndexes": "2,1"},
        [
            'status.completedIndexes: Invalid value: "2,1": error parsing completedIndexes: '
            "non-increasing order, previous: 2, current: 1"
        ],
    ),
    (
        {},
        {"failed": 2, "succeeded": 2},
        {"failed": 1, "succeeded": 1},
        [
            "status.failed: Invalid value: 1: cannot decrease the failed counter",
            "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
        ],
    ),
    (
        {},
        FAILED,
        {"startTime": START},
        [
            f"{C} cannot disable the terminal Failed=True condition",
            f"{C} cannot disable the terminal FailureTarget=True condition",
        ],
    ),
    (
        {},
        {"startTime": START},
        {},
        ["status.startTime: Invalid value: null: field is immutable for unsuspended job once set"],
    ),
    (
        {},
        DONE,
        {**DONE, "completionTime": "2026-01-01T09:00:00Z"},
        ['status.completionTime: Invalid value: "2026-01-01T09:00:00Z": field is immutable'],
    ),
    ({"suspend": True}, {"startTime": START}, {}, []),
]


@pytest.mark.parametrize(("spec", "old_status", "status", "messages"), REPORTS)
def test_reports(spec, old_status, status, messages):
    """Job statuses are validated, and final states cannot be reverted."""
    old = {**created(job(**spec)), "status": old_status}
    new = {**old, "status": status}
    assert texts(strategy("jobs/status").validate_update(new, old)) == messages


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_sets_of_indexes(left, right):
    """Sets of indexes are parsed, and their first common index is found."""
    text = ",".join(map(str, sorted(left)))
    assert parse_intervals(text, 41) == [(index, index) for index in sorted(left)]
    rows = [parse_intervals(",".join(map(str, sorted(indexes))), 41) for indexes in (left, right)]
    assert first_common(*rows) == min(left & right, default=None)


def _cells(obj):
    columns = SCHEME.columns("batch", obj["kind"])
    row = columns.cells(obj, NOW)
    return dict(zip((column.name for column in columns.columns), row, strict=True))


STATES = [
    ({}, {}, "Running"),
    ({}, {"conditions": true_conditions("Complete", "SuccessCriteriaMet")}, "Complete"),
    ({}, {"conditions": true_conditions("Failed", "FailureTarget")}, "Failed"),
    ({}, {"conditions": true_conditions("FailureTarget")}, "FailureTarget"),
    ({}, {"conditions": true_conditions("Suspended")}, "Suspended"),
    ({"deletionTimestamp": START}, {"conditions": true_conditions("Suspended")}, "Terminating"),
]


@pytest.mark.parametrize(("metadata", "status", "state"), STATES)
def test_status_column(metadata, status, state):
    """A column shows the state of a job."""
    obj = {**JOB, "metadata": {**JOB["metadata"], **metadata}, "status": status}
    assert _cells(obj)["Status"] == state


COMPLETIONS = [
    ({"completions": 3}, "1/3"),
    ({"parallelism": 2}, "1/1 of 2"),
    ({"parallelism": 1}, "1/1"),
]


@pytest.mark.parametrize(("spec", "text"), COMPLETIONS)
def test_completions(spec, text):
    """A column shows succeeded pods and required completions."""
    assert _cells({**job(**spec), "status": {"succeeded": 1}})["Completions"] == text


def test_durations():
    """A column shows the duration of finished and running jobs."""
    assert _cells(JOB)["Duration"] == ""
    assert _cells({**JOB, "status": {"startTime": START}})["Duration"] == "60m"
    assert _cells({**JOB, "status": DONE})["Duration"] == "60s"


def test_cells_of_a_cron_job():
    """Columns show the last schedule and the number of active jobs."""
    obj = defaulted(CRON_JOB)
    cells = {
        "Schedule": "*/5 * * * *",
        "Timezone": "<none>",
        "Suspend": "False",
        "Active": 0,
        "Last Schedule": "<none>",
        "Containers": "c",
        "Images": "busybox:1",
        "Selector": "<none>",
    }
    row = _cells(obj)
    assert {name: row[name] for name in cells} == cells
    busy = _cells({**obj, "status": {"active": [{}], "lastScheduleTime": START}})
    assert (busy["Active"], busy["Last Schedule"]) == (1, "60m")
