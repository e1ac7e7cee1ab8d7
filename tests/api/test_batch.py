"""Rules, defaults, generated selectors and cells of jobs and cron jobs."""

import copy
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.api.batch.indexes import first_common, intervals
from kapiserver.api.batch.schedule import schedule
from tests.objects import GONE, SCHEME, changed, defaulted, strategy, texts

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
POD = {
    "metadata": {},
    "spec": {
        "containers": [{"name": "c", "image": "busybox:1", "resources": {}}],
        "restartPolicy": "Never",
    },
}
JOB = {
    "kind": "Job",
    "apiVersion": "batch/v1",
    "metadata": {"name": "j", "namespace": "n", "uid": "u"},
    "spec": {"template": POD},
    "status": {},
}
CRON_JOB = {
    "kind": "CronJob",
    "apiVersion": "batch/v1",
    "metadata": {"name": "c", "namespace": "n"},
    "spec": {
        "schedule": "*/5 * * * *",
        "jobTemplate": {"metadata": {}, "spec": {"template": POD}},
    },
    "status": {},
}
LABELS = {
    "batch.kubernetes.io/controller-uid": "u",
    "batch.kubernetes.io/job-name": "j",
    "controller-uid": "u",
    "job-name": "j",
}
NEGATIVE = "must be greater than or equal to 0"
INDEXED = {"completionMode": "Indexed", "completions": 3}
RESTART = "spec/template/spec/restartPolicy"


def created(obj):
    """A copy as it would be stored."""
    found = defaulted(obj)
    strategy(f"{obj['kind'].lower()}s").prepare_for_create(found)
    return found


def job(**spec):
    """A job with more in its spec."""
    found = copy.deepcopy(JOB)
    found["spec"].update(spec)
    return found


def test_generated_selector():
    """A job selects its own pods by labels that the server makes."""
    obj = created(JOB)
    assert obj["spec"]["selector"] == {
        "matchLabels": {"batch.kubernetes.io/controller-uid": "u"},
    }
    assert obj["spec"]["template"]["metadata"]["labels"] == LABELS
    assert obj["metadata"]["labels"] == LABELS
    assert texts(strategy("jobs").validate(obj)) == []


def test_manual_selector():
    """Who says so brings a selector, which must select the pods."""
    obj = created(job(manualSelector=True))
    assert "selector" not in obj["spec"]
    assert texts(strategy("jobs").validate(obj)) == [
        "spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template "
        "`labels`",
    ]
    obj["spec"]["selector"] = {"matchLabels": {"a": "b"}}
    obj["spec"]["template"]["metadata"]["labels"] = {"a": "b"}
    assert texts(strategy("jobs").validate(obj)) == []


def test_labels_of_another_job():
    """Labels that the server would make may be given, but no others in their place."""
    template = {**POD, "metadata": {"labels": {"job-name": "other"}}}
    (found,) = texts(strategy("jobs").validate(created(job(template=template))))
    assert found.startswith("spec.template.metadata.labels[job-name]: Invalid value: {")
    assert found.endswith(": must be 'j'")


MANY = {**INDEXED, "completions": 200_000, "backoffLimitPerIndex": 1, "parallelism": 20_000}
JOBS = [
    ({"parallelism": -1}, [f"spec.parallelism: Invalid value: -1: {NEGATIVE}"]),
    ({"backoffLimit": -1}, [f"spec.backoffLimit: Invalid value: -1: {NEGATIVE}"]),
    (
        {"completionMode": "Odd"},
        [
            'spec.completionMode: Unsupported value: "Odd": supported values: "Indexed", '
            '"NonIndexed"'
        ],
    ),
    (
        {"completionMode": "Indexed", "parallelism": 2},
        ["spec.completions: Required value: when completion mode is Indexed"],
    ),
    (
        {"backoffLimitPerIndex": 1},
        ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
    ),
    (
        {**INDEXED, "maxFailedIndexes": 1},
        ["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"],
    ),
    (
        {**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 4},
        ["spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions"],
    ),
    (
        MANY,
        [
            "spec.maxFailedIndexes: Required value: must be specified when completions is above "
            "100000",
            "spec.parallelism: Invalid value: 20000: must be less than or equal to 10000 when "
            "completions are above 100000 and used with backoff limit per index",
        ],
    ),
    (
        {"managedBy": "me"},
        [
            'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as '
            '"acme.io/foo")'
        ],
    ),
    ({"managedBy": "example.com/me"}, []),
    (
        {"managedBy": "example.com/ m"},
        [
            'spec.managedBy: Invalid value: " m": Invalid path (regex used for validation is '
            "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
        ],
    ),
    (
        {"podReplacementPolicy": "Odd"},
        [
            'spec.podReplacementPolicy: Unsupported value: "Odd": supported values: "Failed", '
            '"TerminatingOrFailed"'
        ],
    ),
    (
        {"successPolicy": {"rules": []}},
        ['spec.successPolicy: Invalid value: {"rules":[]}: requires indexed completion mode'],
    ),
    (
        {**INDEXED, "successPolicy": {"rules": []}},
        [
            "spec.successPolicy.rules: Required value: at least one rules must be specified when "
            "the successPolicy is specified"
        ],
    ),
    (
        {
            **INDEXED,
            "successPolicy": {
                "rules": [
                    {},
                    {"succeededIndexes": "0-5"},
                    {"succeededIndexes": "0,1", "succeededCount": 4},
                ]
            },
        },
        [
            "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or "
            "succeededIndexes must be specified",
            'spec.successPolicy.rules[1].succeededIndexes: Invalid value: "0-5": error parsing '
            'succeededIndexes: too large index: "5"',
            "spec.successPolicy.rules[2].succeededCount: Invalid value: 4: must be less than or "
            "equal to 3 (the number of specified completions)",
            "spec.successPolicy.rules[2].succeededCount: Invalid value: 4: must be less than or "
            "equal to 2 (the number of indexes in the specified succeededIndexes field)",
        ],
    ),
]


@pytest.mark.parametrize(("spec", "messages"), JOBS)
def test_jobs(spec, messages):
    """One broken rule gives its messages and no others."""
    assert texts(strategy("jobs").validate(created(job(**spec)))) == messages


RESTARTS = [
    ("Never", {}, None),
    ("OnFailure", {}, None),
    ("Always", {}, 'Required value: valid values: "OnFailure", "Never"'),
    ("Odd", {}, 'Unsupported value: "Odd": supported values: "Never", "OnFailure"'),
    (
        "OnFailure",
        {"podFailurePolicy": {"rules": []}},
        'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified',
    ),
]


@pytest.mark.parametrize(("policy", "spec", "message"), RESTARTS)
def test_restart_policy(policy, spec, message):
    """Pods of a job come to an end."""
    obj = created(changed(job(**spec), RESTART, policy))
    found = [
        text
        for text in texts(strategy("jobs").validate(obj))
        if message is None or text.endswith(message)
    ]
    assert found == ([f"spec.template.spec.restartPolicy: {message}"] if message else [])


RULE = "spec.podFailurePolicy.rules[0]"
FAILURES = [
    ({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}, []),
    (
        {"action": "", "onPodConditions": [{"type": "A", "status": "Maybe"}]},
        [
            f"{RULE}.action: Required value: valid values: "
            '["Count" "FailIndex" "FailJob" "Ignore"]',
            f'{RULE}.onPodConditions[0].status: Unsupported value: "Maybe": supported values: '
            '"False", "True", "Unknown"',
        ],
    ),
    (
        {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1]}},
        [f'{RULE}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'],
    ),
    (
        {"action": "Count"},
        [f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"],
    ),
    (
        {
            "action": "Count",
            "onExitCodes": {"operator": "In", "values": [1], "containerName": "d"},
            "onPodConditions": [{"type": "A"}],
        },
        [
            f'{RULE}.onExitCodes.containerName: Invalid value: "d": must be one of the container '
            "or initContainer names in the pod template",
            f"{RULE}: Invalid value: specifying both OnExitCodes and OnPodConditions is not "
            "supported",
        ],
    ),
    (
        {"action": "Odd", "onExitCodes": {"operator": "In", "values": [2, 0, 2]}},
        [
            f'{RULE}.action: Unsupported value: "Odd": supported values: "Count", "FailIndex", '
            '"FailJob", "Ignore"',
            f"{RULE}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
            f"{RULE}.onExitCodes.values[2]: Duplicate value: 2",
            f"{RULE}.onExitCodes.values: Invalid value: [2,0,2]: must be ordered",
        ],
    ),
    (
        {"action": "Count", "onExitCodes": {"operator": "Is", "values": []}},
        [
            f'{RULE}.onExitCodes.operator: Unsupported value: "Is": supported values: "In", '
            '"NotIn"',
            f"{RULE}.onExitCodes.values: Invalid value: []: at least one value is required",
        ],
    ),
]


@pytest.mark.parametrize(("rule", "messages"), FAILURES)
def test_pod_failure_policy(rule, messages):
    """Each rule of a failure policy looks at exit codes or at conditions."""
    obj = created(job(podFailurePolicy={"rules": [rule]}))
    assert texts(strategy("jobs").validate(obj)) == messages


def test_hosts_of_indexed_jobs():
    """The last pod of an indexed job must still have a host name."""
    name = "j" * 62
    obj = created(changed(job(**INDEXED), "metadata/name", name))
    assert texts(strategy("jobs").validate(obj)) == [
        f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS '
        f"label: {name}-2"
    ]


def updated(path, value, *, old):
    """The distinct messages against one change."""
    new = changed(old, path, value)
    return list(dict.fromkeys(texts(strategy("jobs").validate_update(new, old))))


FIXED = [
    ("spec/completions", 2, ["spec.completions: Invalid value: 2: field is immutable"]),
    ("spec/managedBy", "a.b/c", ['spec.managedBy: Invalid value: "a.b/c": field is immutable']),
    ("spec/parallelism", 7, []),
    ("spec/suspend", True, []),
    ("spec/backoffLimit", 7, []),
]


@pytest.mark.parametrize(("path", "value", "messages"), FIXED)
def test_what_stays(path, value, messages):
    """A job may run more or fewer pods at once, or none, and little else changes."""
    assert updated(path, value, old=created(JOB)) == messages


def test_elastic_jobs():
    """Indexed jobs grow, all at once."""
    old = created(job(**INDEXED, parallelism=3))
    both = changed(old, "spec/parallelism", 5)
    assert updated("spec/completions", 5, old=both) == []
    assert updated("spec/completions", 5, old=old) == [
        "spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"
    ]


TEMPLATES = [
    ("nodeSelector", {"a": "b"}, True),
    ("tolerations", [{"operator": "Exists"}], True),
    ("affinity", {"nodeAffinity": {}}, True),
    ("affinity", {"podAffinity": {}}, False),
    ("containers/0/resources", {"requests": {"cpu": "1"}}, True),
    ("containers/0/image", "other:1", False),
]


@pytest.mark.parametrize(("path", "value", "may"), TEMPLATES)
def test_templates_of_suspended_jobs(path, value, may):
    """While a job is suspended and has no pods, where they will run and what they will get may
    change."""
    path = f"spec/template/spec/{path}"
    suspended = created(job(suspend=True))
    assert bool(updated(path, value, old=suspended)) is not may
    running = created(JOB)
    assert updated(path, value, old=running)
    started = {"startTime": "2026-01-01T00:00:00Z"}
    assert updated(path, value, old={**suspended, "status": started})
    resting = {**started, "conditions": [{"type": "Suspended", "status": "True"}]}
    assert bool(updated(path, value, old={**suspended, "status": resting})) is not may


def true(*types):
    """Conditions that are true."""
    return [{"type": type_, "status": "True"} for type_ in types]


START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
DONE = {
    "startTime": START,
    "completionTime": END,
    "conditions": true("SuccessCriteriaMet", "Complete"),
}
FAILED = {"startTime": START, "conditions": true("FailureTarget", "Failed")}
C = "status.conditions: Invalid value:"
REPORTS = [
    ({}, {}, DONE, []),
    ({}, {}, FAILED, []),
    ({}, {}, {"active": -1}, [f"status.active: Invalid value: -1: {NEGATIVE}"]),
    ({}, DONE, DONE, []),
    (
        {},
        {},
        {"startTime": START, "conditions": true("Failed")},
        [f"{C} cannot set Failed=True condition without the FailureTarget=true condition"],
    ),
    (
        {},
        {},
        {**DONE, "conditions": true("Complete")},
        [f"{C} cannot set Complete=True condition without the SuccessCriteriaMet=true condition"],
    ),
    (
        {},
        {},
        {**DONE, "conditions": true("SuccessCriteriaMet", "Complete", "FailureTarget")},
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
        [
            f'status.completionTime: Invalid value: "{START}": completionTime cannot be set before '
            "startTime"
        ],
    ),
    (
        {},
        {},
        {**FAILED, "active": 1, "terminating": 1, "uncountedTerminatedPods": {"failed": ["a"]}},
        [
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
            'status.uncountedTerminatedPods: Invalid value: {"failed":["a"]}: '
            "uncountedTerminatedPods needs to be empty for finished job",
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
        ["status.startTime: Required value: startTime cannot be removed for unsuspended job"],
    ),
    ({"suspend": True}, {"startTime": START}, {}, []),
]


@pytest.mark.parametrize(("spec", "before", "status", "messages"), REPORTS)
def test_reports(spec, before, status, messages):
    """Whoever runs a job reports what makes sense, and takes no end back."""
    old = {**created(job(**spec)), "status": before}
    new = {**old, "status": status}
    assert texts(strategy("jobs/status").validate_update(new, old)) == messages


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
            '"false", "nil"'
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
    """One broken rule gives its messages and no others."""
    obj = created(changed(CRON_JOB, path, value))
    assert texts(strategy("cronjobs").validate(obj)) == messages


def test_old_schedules():
    """A time zone in a schedule, and a long name, may stay where they are."""
    old = created(changed(CRON_JOB, "spec/schedule", "TZ=UTC 0 * * * *"))
    old["metadata"]["name"] = LONG
    found = strategy("cronjobs")
    assert texts(found.validate_update(changed(old, "spec/suspend", True), old)) == []
    assert texts(found.validate_update(changed(old, "spec/timeZone", "UTC"), old)) == [
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
    """Schedules are those of cron, and messages those of Kubernetes' parser."""
    assert schedule(text) == ([message] if message else [])


@given(st.text(alphabet="0123456789*/-, @TZ=a", max_size=30))
def test_any_schedule(text):
    """Any text is a schedule or is told why not."""
    assert len(schedule(text)) <= 1


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_sets_of_indexes(some, others):
    """Sets of indexes are read as they are written, and the first in common is found."""
    text = ",".join(map(str, sorted(some)))
    assert intervals(text, 41) == [(index, index) for index in sorted(some)]
    rows = [intervals(",".join(map(str, sorted(one))), 41) for one in (some, others)]
    assert first_common(*rows) == min(some & others, default=None)


def test_defaults():
    """What is left out of a job depends on what is not."""
    assert {
        name: defaulted(JOB)["spec"][name]
        for name in ("completions", "parallelism", "backoffLimit", "podReplacementPolicy")
    } == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    assert "completions" not in defaulted(job(parallelism=2))["spec"]
    assert defaulted(job(backoffLimitPerIndex=1))["spec"]["backoffLimit"] == 2**31 - 1
    failing = defaulted(job(podFailurePolicy={"rules": []}))
    assert failing["spec"]["podReplacementPolicy"] == "Failed"
    labelled = defaulted(job(template={**POD, "metadata": {"labels": {"a": "b"}}}))
    assert labelled["metadata"]["labels"] == {"a": "b"}
    assert defaulted(CRON_JOB)["spec"]["successfulJobsHistoryLimit"] == 3


def _cells(obj):
    columns = SCHEME.columns("batch", obj["kind"])
    found = columns.cells(obj, NOW)
    return dict(zip((column.name for column in columns.columns), found, strict=True))


STATES = [
    ({}, {}, "Running"),
    ({}, {"conditions": true("Complete", "SuccessCriteriaMet")}, "Complete"),
    ({}, {"conditions": true("Failed", "FailureTarget")}, "Failed"),
    ({}, {"conditions": true("FailureTarget")}, "FailureTarget"),
    ({}, {"conditions": true("Suspended")}, "Suspended"),
    ({"deletionTimestamp": START}, {"conditions": true("Suspended")}, "Terminating"),
]


@pytest.mark.parametrize(("metadata", "status", "state"), STATES)
def test_state_in_a_word(metadata, status, state):
    """A table says how a job stands."""
    obj = {**JOB, "metadata": {**JOB["metadata"], **metadata}, "status": status}
    assert _cells(obj)["Status"] == state


COMPLETIONS = [
    ({"completions": 3}, "1/3"),
    ({"parallelism": 2}, "1/1 of 2"),
    ({"parallelism": 1}, "1/1"),
]


@pytest.mark.parametrize(("spec", "text"), COMPLETIONS)
def test_completions(spec, text):
    """A table counts the pods that succeeded, of those that must."""
    assert _cells({**job(**spec), "status": {"succeeded": 1}})["Completions"] == text


def test_durations():
    """A table shows how long a job took, or has been taking."""
    assert _cells(JOB)["Duration"] == ""
    assert _cells({**JOB, "status": {"startTime": START}})["Duration"] == "60m"
    assert _cells({**JOB, "status": DONE})["Duration"] == "60s"


def test_cells_of_a_cron_job():
    """A table shows when jobs were last due and are."""
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
    found = _cells(obj)
    assert {name: found[name] for name in cells} == cells
    busy = _cells({**obj, "status": {"active": [{}], "lastScheduleTime": START}})
    assert (busy["Active"], busy["Last Schedule"]) == (1, "60m")


def test_warnings():
    """Names that make bad host names, and jobs too big to be tracked, are told of."""
    obj = created(changed(JOB, "metadata/name", "a.b"))
    assert "a DNS label is recommended" in strategy("jobs").warnings(obj, None)[0]
    huge = created(job(**{**MANY, "maxFailedIndexes": 5}))
    assert strategy("jobs").warnings(huge, None)[0].startswith("In Indexed Jobs with a number of")
    assert strategy("jobs").warnings(huge, huge) == []
    assert strategy("cronjobs").warnings(created(CRON_JOB), None) == []


def test_selectable_fields():
    """Jobs are selected by how many of their pods succeeded."""
    fields = SCHEME.fields(next(one for one in SCHEME.resources("batch") if one.name == "jobs"))
    assert fields(JOB)["status.successful"] == "0"
    assert fields({**JOB, "status": {"succeeded": 2}})["status.successful"] == "2"
