"""Small valid Jobs and CronJobs for tables of test cases."""

import copy

from tests.objects import defaulted, strategy

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
INDEXED = {"completionMode": "Indexed", "completions": 3}
NEGATIVE = "must be greater than or equal to 0"


def created(obj):
    """A copy as it would be stored."""
    stored = defaulted(obj)
    strategy(f"{obj['kind'].lower()}s").prepare_for_create(stored)
    return stored


def job(**spec):
    """A Job with these fields in its spec."""
    copied = copy.deepcopy(JOB)
    copied["spec"].update(spec)
    return copied


def true_conditions(*types):
    """Conditions of these types with status True."""
    return [{"type": type_, "status": "True"} for type_ in types]


START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
DONE = {
    "startTime": START,
    "completionTime": END,
    "conditions": true_conditions("SuccessCriteriaMet", "Complete"),
}
FAILED = {"startTime": START, "conditions": true_conditions("FailureTarget", "Failed")}
