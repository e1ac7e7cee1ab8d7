"""sig-apps: Jobs. Annotations say how the pods end, in place of their programs."""

from __future__ import annotations

from tests.conformance.cluster import (
    FATE,
    STRATEGIC,
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
    of_pod = template({"job": name}, annotations, restartPolicy=policy)
    if "nodeName" in fields:
        of_pod["spec"]["nodeName"] = fields.pop("nodeName")
    return meta(name, labels) | {"spec": {"template": of_pod} | fields}


def indexed(completions, **fields):
    fields = {"parallelism": completions} | fields
    return job(completions=completions, completionMode="Indexed", **fields)


def index_of(pod):
    return int(pod["metadata"].get("annotations", {}).get(INDEX, 0))


def end(cluster, pod, exit_code):
    """Let the containers of a pod end with an exit code."""
    cluster.server.pods.fail(name_of(pod), namespace=cluster.namespace, exit_code=exit_code)
    cluster.advance("1s")


def has_ended(job):
    return bool(condition(job, "Complete") or condition(job, "Failed"))


def finish(cluster, exit_code=None, name="job"):
    """Let time pass until the Job has ended, and return it. `exit_code` takes a pod and says how
    its program ends; one pod ends after the other, in the order of their indexes."""
    for _ in range(40):
        found = cluster.get("jobs", name)
        if has_ended(found):
            return found
        running = [each for each in cluster.pods() if each["status"]["phase"] == "Running"]
        if running and exit_code is not None:
            pod = min(running, key=index_of)
            end(cluster, pod, exit_code(pod))
        else:
            cluster.advance("10s")
    raise AssertionError(found["status"])


def fails_if_odd(pod):
    return index_of(pod) % 2


def check_nothing_runs(job):
    status = job["status"]
    assert (status.get("active", 0), status["ready"], status["terminating"]) == (0, 0, 0)


def wait_for_pods(cluster, count):
    """Return the pods of the Job, which all run."""
    pods = cluster.pods("job=job")
    assert [each["status"]["phase"] for each in pods] == ["Running"] * count
    return pods


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
    wait_for_pods(cluster, 2)
    cluster.delete("jobs", "job", propagationPolicy="Background")
    assert cluster.list("pods") == []
    cluster.get("jobs", "job", status=404)


@spec("Job should adopt matching orphans and release non-matching pods")
def test_adoption(cluster):
    uid = cluster.create("jobs", job(annotations=RUNS, parallelism=2, completions=4))["metadata"][
        "uid"
    ]
    name = name_of(wait_for_pods(cluster, 2)[0])
    cluster.change("pods", name, lambda found: found["metadata"].pop("ownerReferences"))
    (owner,) = cluster.get("pods", name)["metadata"]["ownerReferences"]
    assert owner["controller"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", "job", uid)
    cluster.change("pods", name, lambda found: found["metadata"].pop("labels"))
    assert owner_of(cluster.get("pods", name)) == ""


@spec("Job should create pods for an Indexed job with completion indexes and specified hostname")
def test_indexes(cluster):
    cluster.create("jobs", indexed(4, parallelism=2))
    found = finish(cluster)
    assert found["status"]["succeeded"] == 4
    assert condition(found, "Complete")["reason"] == "CompletionsReached"
    pods = [each for each in cluster.pods("job=job") if each["status"]["phase"] == "Succeeded"]
    assert sorted(map(index_of, pods)) == [0, 1, 2, 3]
    assert all(each["spec"]["hostname"] == f"job-{index_of(each)}" for each in pods)


@spec("Job should allow to use the pod failure policy on exit code to fail the job early")
def test_failure_policy(cluster):
    """The first pod fails; the others would succeed."""
    codes = {"operator": "In", "values": [1]}
    policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
    fields = {"parallelism": 2, "completions": 4, "backoffLimit": 6, "podFailurePolicy": policy}
    cluster.create("jobs", job(annotations=RUNS, nodeName="simulated-0", **fields))
    first = wait_for_pods(cluster, 2)[0]
    end(cluster, first, 1)
    found = finish(cluster, lambda _pod: 0)
    assert condition(found, "Failed")["status"] == "True"
    assert condition(found, "Failed")["reason"] == "PodFailurePolicy"


@spec(
    "Job should allow to use a pod failure policy to ignore failure matching on DisruptionTarget "
    "condition"
)
def test_ignored_eviction(cluster):
    """All pods are evicted; those that replace them succeed."""
    pattern = {"type": "DisruptionTarget", "status": "True"}
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [pattern]}]}
    fields = {"nodeName": "simulated-0", "backoffLimit": 2, "podFailurePolicy": policy}
    cluster.create("jobs", indexed(3, annotations=RUNS, **fields))
    assert cluster.get("jobs", "job")["status"]["ready"] == 3
    for pod in wait_for_pods(cluster, 3):
        cluster.create("pods", meta(name_of(pod)), name_of(pod), "eviction")
        cluster.get("pods", name_of(pod), status=404)
    found = finish(cluster, lambda _pod: 0)
    assert found["status"]["succeeded"] == 3
    assert condition(found, "Complete")["reason"] == "CompletionsReached"
    assert not found["status"].get("failed")


@spec("Job should execute all indexes despite some failing when using backoffLimitPerIndex")
def test_limit_per_index(cluster):
    limits = {"parallelism": 2, "backoffLimitPerIndex": 1}
    cluster.create("jobs", indexed(4, annotations=RUNS, **limits))
    found = finish(cluster, fails_if_odd)
    assert condition(found, "Failed")["reason"] == "FailedIndexes"
    status = found["status"]
    assert (status["failedIndexes"], status["completedIndexes"]) == ("1,3", "0,2")
    assert (status["failed"], status["succeeded"]) == (4, 2)


@spec("Job should mark indexes as failed when the FailIndex action is matched in podFailurePolicy")
def test_fail_index(cluster):
    codes = {"operator": "In", "values": [1]}
    policy = {"rules": [{"action": "FailIndex", "onExitCodes": codes}]}
    limits = {"backoffLimitPerIndex": 1, "podFailurePolicy": policy}
    cluster.create("jobs", indexed(2, annotations=RUNS, **limits))
    found = finish(cluster, fails_if_odd)
    assert condition(found, "Failed")["status"] == "True"
    status = found["status"]
    assert (status["failedIndexes"], status["completedIndexes"]) == ("1", "0")
    assert (status["failed"], status["succeeded"]) == (1, 1)


@spec(
    "Job should terminate job execution when the number of failed indexes exceeds maxFailedIndexes"
)
def test_max_failed_indexes(cluster):
    limits = {"parallelism": 1, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0}
    cluster.create("jobs", indexed(4, annotations=FAILS, **limits))
    found = finish(cluster)
    assert condition(found, "Failed")["reason"] == "MaxFailedIndexesExceeded"
    assert (found["status"]["failedIndexes"], found["status"]["failed"]) == ("0", 1)


@spec("Job with successPolicy should succeeded when all indexes succeeded")
def test_success_of_all(cluster):
    found = check_success_policy(cluster, {"succeededCount": 2}, completions=2, succeeded=2)
    assert not found["status"].get("failed")


def check_success_policy(cluster, rule, completions=5, succeeded=1, **fields):
    """Run a Job whose pods with odd indexes would fail, unless all have to succeed, and return it
    when the policy has ended it."""
    fields |= {"parallelism": 2, "successPolicy": {"rules": [rule]}}
    cluster.create("jobs", indexed(completions, annotations=RUNS, **fields))
    found = finish(cluster, (lambda _pod: 0) if succeeded > 1 else fails_if_odd)
    assert condition(found, "SuccessCriteriaMet")["reason"] == "SuccessPolicy"
    assert condition(found, "Complete")["reason"] == "SuccessPolicy"
    assert found["status"]["succeeded"] == succeeded
    check_nothing_runs(found)
    return found


@spec(
    "Job with successPolicy succeededIndexes rule should succeeded even when some indexes remain "
    "pending"
)
def test_succeeded_indexes(cluster):
    found = check_success_policy(cluster, {"succeededIndexes": "0"})
    assert found["status"]["completedIndexes"] == "0"


@spec(
    "Job with successPolicy succeededCount rule should succeeded even when some indexes remain "
    "pending"
)
def test_succeeded_count(cluster):
    found = check_success_policy(cluster, {"succeededCount": 1}, backoffLimit=2147483647)
    assert found["status"]["completedIndexes"] == "0"


@spec("Job should apply changes to a job status")
def test_status(cluster):
    created = cluster.create("jobs", job(annotations=RUNS, parallelism=2, completions=4))
    wait_for_pods(cluster, 2)
    first, second = "2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z"
    custom = {"type": "CustomConditionType", "status": "True", "lastTransitionTime": first}
    patch = {"metadata": {"annotations": {"patchedstatus": "true"}}}
    patched = cluster.patch("jobs", "job", patch | {"status": {"conditions": [custom]}}, "status")
    assert condition(patched, "CustomConditionType")["lastTransitionTime"] == first
    assert patched["metadata"]["annotations"]["patchedstatus"] == "true"

    def change(found):
        condition(found, "CustomConditionType")["lastTransitionTime"] = second

    updated = cluster.change("jobs", "job", change, "status")
    assert condition(updated, "CustomConditionType")["lastTransitionTime"] == second
    uid = cluster.get("jobs", "job", "status")["metadata"]["uid"]
    assert uid == created["metadata"]["uid"]


@spec("Job should manage the lifecycle of a job")
def test_lifecycle(cluster):
    labels, selector = {"job": "job", "e2e-job-label": "e2e"}, "e2e-job-label=e2e"
    fields = {"suspend": True, "parallelism": 2, "completions": 4}
    created = cluster.create("jobs", job(labels=labels, **fields))
    patch = {"metadata": {"labels": {"e2e": "patched"}}}
    patched = cluster.patch("jobs", "job", patch, type=STRATEGIC)
    versions = [int(each["metadata"]["resourceVersion"]) for each in (created, patched)]
    assert versions[0] < versions[1]
    assert patched["metadata"]["labels"]["e2e"] == "patched"

    def resume(found):
        found["spec"]["suspend"] = False
        found["metadata"].setdefault("annotations", {})["updated"] = "true"

    updated = cluster.change("jobs", "job", resume)
    assert updated["metadata"]["annotations"]["updated"] == "true"
    assert [name_of(each) for each in cluster.list("jobs", selector, everywhere=True)] == ["job"]
    found = finish(cluster)
    assert found["status"]["succeeded"] == 4
    assert condition(found, "Complete")["reason"] == "CompletionsReached"
    cluster.delete_all("jobs", selector)
    changes = cluster.changes("jobs", str(versions[0]), selector)
    modified = [obj["metadata"] for kind, obj in changes if kind == "MODIFIED"]
    assert any(each["labels"].get("e2e") == "patched" for each in modified)
    assert any(each.get("annotations", {}).get("updated") == "true" for each in modified)
    assert (changes[-1][0], name_of(changes[-1][1])) == ("DELETED", "job")
    assert cluster.list("jobs", selector, everywhere=True) == []
