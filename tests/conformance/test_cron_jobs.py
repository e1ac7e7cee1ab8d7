"""sig-apps: CronJobs, and sig-apps' disruption budgets."""

from __future__ import annotations

from tests.conformance.api_operations import check_operations
from tests.conformance.cluster import meta, name_of, pod, spec, template
from tests.conformance.test_jobs import RUNS


def cron_job(name="cron", policy="Allow", schedule="*/1 * * * *", **fields):
    of_pod = template(annotations=RUNS, restartPolicy="OnFailure")
    fields |= {"schedule": schedule, "concurrencyPolicy": policy}
    return meta(name) | {"spec": {"jobTemplate": {"spec": {"template": of_pod}}} | fields}


@spec("CronJob should schedule multiple jobs concurrently")
def test_concurrent(cluster):
    cluster.create("cronjobs", cron_job())
    cluster.advance("2m")
    assert len(cluster.get("cronjobs", "cron")["status"]["active"]) >= 2
    assert len(cluster.list("jobs")) >= 2


@spec("CronJob should not schedule jobs when suspended")
def test_suspended(cluster):
    cluster.create("cronjobs", cron_job(suspend=True))
    cluster.advance("5m")
    assert cluster.list("jobs") == []


@spec("CronJob should not schedule new jobs when ForbidConcurrent")
def test_forbid(cluster):
    cluster.create("cronjobs", cron_job(policy="Forbid"))
    cluster.advance("1m")
    assert len(cluster.get("cronjobs", "cron")["status"]["active"]) == 1
    cluster.advance("6m")
    assert len(cluster.list("jobs")) == 1


@spec("CronJob should replace jobs when ReplaceConcurrent")
def test_replace(cluster):
    cluster.create("cronjobs", cron_job(policy="Replace"))
    cluster.advance("1m")
    (first,) = cluster.names("jobs")
    cluster.advance("2m")
    (second,) = cluster.names("jobs")
    assert second != first
    (active,) = cluster.get("cronjobs", "cron")["status"]["active"]
    assert active["name"] == second


@spec("CronJob should support CronJob API operations")
def test_cron_job_operations(cluster):
    status = {"lastScheduleTime": "2030-01-01T00:00:00Z"}
    check_operations(cluster, "cronjobs", cron_job(schedule="*/1 * * * ?"), status)


# Disruption budgets.


def budget(name="foo", minimum=1, labels=None):
    labels = labels or {"foo": "bar"}
    selector = {"matchLabels": labels}
    return meta(name, labels) | {"spec": {"selector": selector, "minAvailable": minimum}}


def evict(cluster, name, status=0):
    return cluster.create("pods", meta(name), name, "eviction", status=status)


@spec("DisruptionController should create a PodDisruptionBudget")
def test_budget(cluster):
    cluster.create("poddisruptionbudgets", budget())
    cluster.change("poddisruptionbudgets", "foo", lambda found: found["spec"].update(
        minAvailable=2))  # fmt: skip
    found = cluster.get("poddisruptionbudgets", "foo")
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    patch = {"spec": {"minAvailable": "3%"}}
    assert cluster.patch("poddisruptionbudgets", "foo", patch)["spec"]["minAvailable"] == "3%"
    cluster.delete("poddisruptionbudgets", "foo")
    cluster.get("poddisruptionbudgets", "foo", status=404)


@spec(
    "DisruptionController Listing PodDisruptionBudgets for all namespaces should list and delete a "
    "collection of PodDisruptionBudgets"
)
def test_budgets(cluster):
    other = type(cluster)(cluster.server, f"{cluster.namespace}-other")
    other.create("namespaces", meta(other.namespace))
    labels = {"special": cluster.namespace}
    for name in ("foo", "foo2"):
        cluster.create("poddisruptionbudgets", budget(name, labels=labels))
    other.create("poddisruptionbudgets", budget("foo3", labels=labels))
    selector = f"special={cluster.namespace}"
    found = cluster.list("poddisruptionbudgets", selector, everywhere=True)
    assert sorted(map(name_of, found)) == ["foo", "foo2", "foo3"]
    cluster.delete_all("poddisruptionbudgets", selector)
    found = cluster.list("poddisruptionbudgets", selector, everywhere=True)
    assert list(map(name_of, found)) == ["foo3"]
    other.delete("namespaces", other.namespace)


@spec("DisruptionController should observe PodDisruptionBudget status updated")
def test_budget_status(cluster):
    cluster.create("poddisruptionbudgets", budget(minimum=1))
    for number in range(3):
        cluster.create("pods", pod(f"pod-{number}", {"foo": "bar"}))
    cluster.list("pods")
    status = cluster.get("poddisruptionbudgets", "foo")["status"]
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (2, 3)


@spec("DisruptionController should update/patch PodDisruptionBudget status")
def test_budget_status_writes(cluster):
    cluster.create("poddisruptionbudgets", budget())
    cluster.create("pods", pod("pod-0", {"foo": "bar"}))
    cluster.get("poddisruptionbudgets", "foo")
    seen = "2030-01-01T00:00:00Z"
    patched = cluster.patch(
        "poddisruptionbudgets", "foo", {"status": {"disruptedPods": {"pod-0": seen}}}, "status"
    )
    assert patched["status"]["disruptedPods"] == {"pod-0": seen}
    updated = cluster.change(
        "poddisruptionbudgets", "foo",
        lambda found: found["status"].update(disruptedPods={"pod-9": seen}), "status",
    )  # fmt: skip
    assert updated["status"]["disruptedPods"] == {"pod-9": seen}


@spec("DisruptionController should block an eviction until the PDB is updated to allow it")
def test_blocked_eviction(cluster):
    labels = {"foo": "bar"}
    cluster.create("poddisruptionbudgets", budget(minimum=3, labels=labels))
    for number in range(3):
        cluster.create("pods", pod(f"pod-{number}", labels))
    cluster.get("poddisruptionbudgets", "foo")
    refused = evict(cluster, "pod-0", status=429)
    assert refused["details"]["causes"][0]["reason"] == "DisruptionBudget"
    cluster.patch("poddisruptionbudgets", "foo", {"spec": {"minAvailable": 2}})
    cluster.get("poddisruptionbudgets", "foo")
    evict(cluster, "pod-0")
    assert cluster.names("pods") == ["pod-1", "pod-2"]
    cluster.delete("poddisruptionbudgets", "foo")
    cluster.create("poddisruptionbudgets", budget(minimum=2, labels=labels))
    cluster.get("poddisruptionbudgets", "foo")
    assert evict(cluster, "pod-1", status=429)["reason"] == "TooManyRequests"
    cluster.delete("poddisruptionbudgets", "foo")
    evict(cluster, "pod-1")
    assert cluster.names("pods") == ["pod-2"]
