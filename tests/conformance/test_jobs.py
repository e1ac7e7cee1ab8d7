"""sig-apps: Jobs. Annotations say how the pods end, in place of their programs."""

from __future__ import annotations

from tests.conformance.api_operations import check_status
from tests.conformance.cluster import (
    FATE,
    condition,
    meta,
    name_of,
    owner_of,
    spec,
    template,
)

RUNS = {"run-seconds": "1000000"}
FAILS = {"exit-code": "1", "run-seconds": "0"}
INDEX = "batch.kubernetes.io/job-completion-index"


def job(name="job", annotations=None, policy="Never", labels=None, **fields):
    of_pod = template(labels or {"job": name}, annotations, restartPolicy=policy)
    return meta(name, labels) | {"spec": {"template": of_pod} | fields}


def indexed(completions, **fields):
    fields = {"parallelism": completions} | fields
    return job(completions=completions, completionMode="Indexed", **fields)


def index_of(pod):
    return int(pod["metadata"]["annotations"][INDEX])


def end(cluster, pod, exit_code):
    """Let the containers of a pod end now, with an exit code."""
    cluster.server.pods.fail(name_of(pod), namespace=cluster.namespace, exit_code=exit_code)


def finish(cluster, name="job"):
    """Let time pass until the Job has ended, and return it."""
    for _ in range(20):
        found = cluster.get("jobs", name)
        if condition(found, "Complete") or condition(found, "Failed"):
            return found
        cluster.advance("60s")
    raise AssertionError(found["status"])


@spec("Job should run a job to completion when tasks sometimes fail and are locally restarted")
def test_local_restarts(cluster):
    """Containers fail once, and succeed when they are restarted."""
    cluster.create("jobs", job(annotations=FAILS, policy="OnFailure", parallelism=2, completions=4))
    for _ in range(2):
        for pod in cluster.pods():
            if pod["status"]["phase"] == "Running":
                assert pod["status"]["containerStatuses"][0]["restartCount"]
                succeeds = {f"{FATE}exit-code": "0"}
                cluster.patch("pods", name_of(pod), {"metadata": {"annotations": succeeds}})
        cluster.advance("20s")
    found = finish(cluster)
    assert found["status"]["succeeded"] == 4
    assert condition(found, "Complete")["reason"] == "CompletionsReached"
    assert len([each for each in cluster.pods() if each["status"]["phase"] == "Succeeded"]) == 4


@spec("Job should delete a job")
def test_delete(cluster):
    cluster.create("jobs", job(annotations=RUNS, parallelism=2, completions=4))
    assert cluster.get("jobs", "job")["status"]["active"] == 2
    cluster.delete("jobs", "job", propagationPolicy="Foreground")
    cluster.get("jobs", "job", status=404)
    assert cluster.list("pods") == []


@spec("Job should adopt matching orphans and release non-matching pods")
def test_adoption(cluster):
    cluster.create("jobs", job(annotations=RUNS, parallelism=2, completions=2))
    pod = cluster.pods()[0]
    cluster.change("pods", name_of(pod), lambda found: found["metadata"].pop("ownerReferences"))
    assert owner_of(cluster.get("pods", name_of(pod))) == "job"
    cluster.change("pods", name_of(pod), lambda found: found["metadata"].update(labels={}))
    assert owner_of(cluster.get("pods", name_of(pod))) == ""


@spec("Job should create pods for an Indexed job with completion indexes and specified hostname")
def test_indexes(cluster):
    cluster.create("jobs", indexed(4, parallelism=2))
    assert finish(cluster)["status"]["completedIndexes"] == "0-3"
    pods = cluster.pods()
    assert sorted(map(index_of, pods)) == [0, 1, 2, 3]
    assert {each["spec"]["hostname"] for each in pods} == {f"job-{index}" for index in range(4)}


@spec("Job should allow to use the pod failure policy on exit code to fail the job early")
def test_failure_policy(cluster):
    codes = {"operator": "In", "values": [1]}
    policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
    cluster.create("jobs", job(annotations=FAILS, backoffLimit=1, podFailurePolicy=policy))
    found = finish(cluster)
    assert condition(found, "Failed")["reason"] == "PodFailurePolicy"
    assert found["status"]["failed"] == 1


@spec(
    "Job should allow to use a pod failure policy to ignore failure matching on DisruptionTarget "
    "condition"
)
def test_ignored_eviction(cluster):
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    policy = {"rules": [rule]}
    cluster.create("jobs", job(annotations=RUNS, backoffLimit=0, podFailurePolicy=policy))
    (pod,) = cluster.pods()
    cluster.create("pods", meta(name_of(pod)), name_of(pod), "eviction")
    cluster.list("pods")
    cluster.advance("10s")  # the back-off of the Job
    (replacement,) = cluster.pods()
    assert name_of(replacement) != name_of(pod)
    end(cluster, replacement, 0)
    found = finish(cluster)
    assert condition(found, "Complete")["status"] == "True"
    assert not found["status"].get("failed")


@spec("Job should execute all indexes despite some failing when using backoffLimitPerIndex")
def test_limit_per_index(cluster):
    cluster.create("jobs", indexed(2, annotations=RUNS, backoffLimitPerIndex=1))
    for _ in range(3):
        for pod in cluster.pods():
            if pod["status"]["phase"] == "Running":
                end(cluster, pod, 1 if index_of(pod) == 0 else 0)
        cluster.advance("60s")
    found = finish(cluster)
    assert condition(found, "Failed")["reason"] == "FailedIndexes"
    status = found["status"]
    assert (status["failedIndexes"], status["completedIndexes"]) == ("0", "1")
    assert (status["failed"], status["succeeded"]) == (2, 1)


@spec("Job should mark indexes as failed when the FailIndex action is matched in podFailurePolicy")
def test_fail_index(cluster):
    codes = {"operator": "In", "values": [42]}
    policy = {"rules": [{"action": "FailIndex", "onExitCodes": codes}]}
    limits = {"backoffLimitPerIndex": 1, "podFailurePolicy": policy}
    cluster.create("jobs", indexed(2, annotations=RUNS, **limits))
    for pod in cluster.pods():
        end(cluster, pod, 42 if index_of(pod) == 0 else 0)
    status = finish(cluster)["status"]
    assert (status["failedIndexes"], status["completedIndexes"]) == ("0", "1")
    assert (status["failed"], status["succeeded"]) == (1, 1)


@spec(
    "Job should terminate job execution when the number of failed indexes exceeds maxFailedIndexes"
)
def test_max_failed_indexes(cluster):
    limits = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 4}
    cluster.create("jobs", indexed(10, annotations=RUNS, **limits))
    for pod in cluster.pods():
        if index_of(pod) % 2 == 0:
            end(cluster, pod, 1)
    found = finish(cluster)
    assert condition(found, "Failed")["reason"] == "MaxFailedIndexesExceeded"
    assert found["status"]["failedIndexes"] == "0,2,4,6,8"


@spec("Job with successPolicy should succeeded when all indexes succeeded")
def test_success_of_all(cluster):
    rules = {"rules": [{"succeededIndexes": "0-1"}]}
    cluster.create("jobs", indexed(2, successPolicy=rules))
    found = finish(cluster)
    assert condition(found, "SuccessCriteriaMet")["reason"] in (
        "SuccessPolicy", "CompletionsReached",
    )  # fmt: skip
    assert found["status"]["completedIndexes"] == "0,1"


def check_success_policy(cluster, rule):
    cluster.create("jobs", indexed(5, annotations=RUNS, successPolicy={"rules": [rule]}))
    for pod in cluster.pods():
        if index_of(pod) == 0:
            end(cluster, pod, 0)
    found = finish(cluster)
    assert condition(found, "SuccessCriteriaMet")["reason"] == "SuccessPolicy"
    assert condition(found, "Complete")["reason"] == "SuccessPolicy"
    assert (found["status"]["completedIndexes"], found["status"]["succeeded"]) == ("0", 1)


@spec(
    "Job with successPolicy succeededIndexes rule should succeeded even when some indexes remain "
    "pending"
)
def test_succeeded_indexes(cluster):
    check_success_policy(cluster, {"succeededIndexes": "0"})


@spec(
    "Job with successPolicy succeededCount rule should succeeded even when some indexes remain "
    "pending"
)
def test_succeeded_count(cluster):
    check_success_policy(cluster, {"succeededCount": 1})


@spec("Job should apply changes to a job status")
def test_status(cluster):
    cluster.create("jobs", job(annotations=RUNS, parallelism=2, completions=4))
    cluster.list("pods")
    update = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set"}
    check_status(cluster, "jobs", "job", {"conditions": [update]})
    assert condition(cluster.get("jobs", "job"), "StatusUpdate")["reason"] == "E2E"


@spec("Job should manage the lifecycle of a job")
def test_lifecycle(cluster):
    labels = {"e2e-job": "lifecycle"}
    fields = {"suspend": True, "parallelism": 2, "completions": 4}
    created = cluster.create("jobs", job(annotations=RUNS, labels=labels, **fields))
    assert condition(cluster.get("jobs", "job"), "Suspended")["status"] == "True"
    patch = {"metadata": {"labels": {"job-e2e": "patched"}}, "spec": {"suspend": False}}
    cluster.patch("jobs", "job", patch)
    assert cluster.get("jobs", "job")["status"]["ready"] == 2
    cluster.change("jobs", "job", lambda found: found["spec"].update(parallelism=3))
    assert cluster.get("jobs", "job")["status"]["active"] == 3
    assert len(cluster.list("jobs", "e2e-job=lifecycle", everywhere=True)) == 1
    cluster.delete_all("jobs", "e2e-job=lifecycle")
    events = cluster.watch("jobs", created["metadata"]["resourceVersion"], "e2e-job=lifecycle")
    assert events[-1] == "DELETED"
    assert cluster.list("jobs") == []
