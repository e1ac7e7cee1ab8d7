"""Validation, defaults and generated selectors of jobs."""

import pytest

from tests.jobs import (
    CRON_JOB,
    INDEXED,
    JOB,
    NEGATIVE,
    POD,
    created,
    job,
)
from tests.objects import SCHEME, changed, defaulted, strategy, texts

LABELS = {
    "batch.kubernetes.io/controller-uid": "u",
    "batch.kubernetes.io/job-name": "j",
    "controller-uid": "u",
    "job-name": "j",
}
RESTART = "spec/template/spec/restartPolicy"


def test_generated_selector():
    """A job selects its pods by generated labels."""
    obj = created(JOB)
    assert obj["spec"]["selector"] == {
        "matchLabels": {"batch.kubernetes.io/controller-uid": "u"},
    }
    assert obj["spec"]["template"]["metadata"]["labels"] == LABELS
    assert obj["metadata"]["labels"] == LABELS
    assert texts(strategy("jobs").validate(obj)) == []


def test_scheduling():
    """The field of a disabled feature is dropped, unless the old job has it."""
    policy = {"schedulingPolicy": {"basic": {}}}
    assert "scheduling" not in created(job(scheduling=policy))["spec"]
    old = changed(created(JOB), "spec/scheduling", policy)
    new = changed(old, "spec/parallelism", 2)
    strategy("jobs").prepare_for_update(new, old)
    assert new["spec"]["scheduling"] == policy
    inner = {"template": POD, "scheduling": policy}
    cron = changed(CRON_JOB, "spec/jobTemplate/spec", inner)
    strategy("cronjobs").prepare_for_create(cron)
    assert "scheduling" not in cron["spec"]["jobTemplate"]["spec"]


def test_manual_selector():
    """With manualSelector, the client's selector must match the template."""
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
    """A client may set the generated labels, but not to other values."""
    template = {**POD, "metadata": {"labels": {"job-name": "other"}}}
    (messages,) = texts(strategy("jobs").validate(created(job(template=template))))
    assert messages.startswith("spec.template.metadata.labels[job-name]: Invalid value: {")
    assert messages.endswith(": must be 'j'")


def test_older_jobs():
    """Jobs that were stored without prefixed labels stay valid without them."""
    old = created(JOB)
    for key in ("batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"):
        del old["spec"]["template"]["metadata"]["labels"][key]
    old["spec"]["selector"] = {"matchLabels": {"controller-uid": "u"}}
    assert updated("spec/parallelism", 2, old=old) == []
    new = created(JOB)
    del new["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"]
    assert texts(strategy("jobs").validate(new)) == [
        "spec.template.metadata.labels[batch.kubernetes.io/job-name]: Required value: must be 'j'"
    ]


MANY = {**INDEXED, "completions": 200_000, "backoffLimitPerIndex": 1, "parallelism": 20_000}
JOBS = [
    ({"parallelism": -1}, [f"spec.parallelism: Invalid value: -1: {NEGATIVE}"]),
    ({"backoffLimit": -1}, [f"spec.backoffLimit: Invalid value: -1: {NEGATIVE}"]),
    (
        {"completionMode": "Odd"},
        [
            'spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", '
            '"Indexed"'
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
    """Each invalid field gives exactly its messages."""
    assert texts(strategy("jobs").validate(created(job(**spec)))) == messages


RESTARTS = [
    ("Never", {}, None),
    ("OnFailure", {}, None),
    ("Always", {}, 'Required value: valid values: "OnFailure", "Never"'),
    ("Odd", {}, 'Unsupported value: "Odd": supported values: "OnFailure", "Never"'),
    (
        "OnFailure",
        {"podFailurePolicy": {"rules": []}},
        'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified',
    ),
]


@pytest.mark.parametrize(("policy", "spec", "message"), RESTARTS)
def test_restart_policy(policy, spec, message):
    """Pods of a job may not have restartPolicy Always."""
    obj = created(changed(job(**spec), RESTART, policy))
    messages = [
        text
        for text in texts(strategy("jobs").validate(obj))
        if message is None or text.endswith(message)
    ]
    assert messages == ([f"spec.template.spec.restartPolicy: {message}"] if message else [])


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
    """Each rule of a pod failure policy has either exit codes or conditions."""
    obj = created(job(podFailurePolicy={"rules": [rule]}))
    assert texts(strategy("jobs").validate(obj)) == messages


def test_hosts_of_indexed_jobs():
    """The last pod of an indexed job must have a valid host name."""
    name = "j" * 62
    obj = created(changed(job(**INDEXED), "metadata/name", name))
    assert texts(strategy("jobs").validate(obj)) == [
        f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS '
        f"label: {name}-2"
    ]


def updated(path, value, *, old):
    """Return the distinct messages about an update of one field."""
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
def test_immutable_fields(path, value, messages):
    """Parallelism and suspension of a job are mutable, most other fields are not."""
    assert updated(path, value, old=created(JOB)) == messages


def test_elastic_jobs():
    """Indexed jobs may change completions together with parallelism."""
    old = created(job(**INDEXED, parallelism=3))
    scaled = changed(old, "spec/parallelism", 5)
    assert updated("spec/completions", 5, old=scaled) == []
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


@pytest.mark.parametrize(("path", "value", "is_mutable"), TEMPLATES)
def test_templates_of_suspended_jobs(path, value, is_mutable):
    """Scheduling constraints and resources are mutable while a job is suspended and has no pods."""
    path = f"spec/template/spec/{path}"
    suspended = created(job(suspend=True))
    assert bool(updated(path, value, old=suspended)) is not is_mutable
    running = created(JOB)
    assert updated(path, value, old=running)
    started = {"startTime": "2026-01-01T00:00:00Z"}
    assert updated(path, value, old={**suspended, "status": started})
    resting = {**started, "conditions": [{"type": "Suspended", "status": "True"}]}
    assert bool(updated(path, value, old={**suspended, "status": resting})) is not is_mutable
    if not is_mutable:
        (message,) = updated(path, value, old=suspended)
        assert message.startswith("spec.template.spec: Invalid value: ")


def test_defaults():
    """Defaults of a job depend on its other fields."""
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


def test_warnings():
    """Names that are no DNS labels, and very large jobs, give warnings."""
    obj = created(changed(JOB, "metadata/name", "a.b"))
    assert "a DNS label is recommended" in strategy("jobs").warnings(obj, None)[0]
    huge = created(job(**{**MANY, "maxFailedIndexes": 5}))
    assert strategy("jobs").warnings(huge, None)[0].startswith("In Indexed Jobs with a number of")
    assert strategy("jobs").warnings(huge, huge) == []
    assert strategy("cronjobs").warnings(created(CRON_JOB), None) == []


def test_selectable_fields():
    """status.successful is a selectable field of jobs."""
    fields = SCHEME.field_extractor(
        next(resource for resource in SCHEME.resources("batch") if resource.name == "jobs")
    )
    assert fields(JOB)["status.successful"] == "0"
    assert fields({**JOB, "status": {"succeeded": 2}})["status.successful"] == "2"
