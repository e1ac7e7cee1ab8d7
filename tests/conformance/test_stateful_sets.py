"""sig-apps: StatefulSets."""

from __future__ import annotations

from tests.conformance.api_operations import check_scale, check_status
from tests.conformance.cluster import (
    FATE,
    STRATEGIC,
    condition,
    images,
    is_ready,
    name_of,
    pod,
    spec,
    workload,
)
from tests.conformance.test_deployments import image

BASIC = "StatefulSet Basic StatefulSet functionality "
LABELS = {"baz": "blah", "foo": "bar"}


def stateful_set(replicas=3, **fields):
    return workload("ss", replicas, LABELS, serviceName="test", **fields)


def set_ready(cluster, name, ready):
    """What the tests do by moving the page that the readiness probe asks for."""
    cluster.patch("pods", name, {"metadata": {"annotations": {f"{FATE}ready": ready}}})


def ready_pods(cluster):
    return [name_of(each) for each in cluster.pods() if is_ready(each)]


def hashes(cluster):
    """The revision of each pod."""
    return {
        name_of(each): each["metadata"]["labels"]["controller-revision-hash"]
        for each in cluster.pods()
    }


@spec(BASIC + "should have a working scale subresource")
def test_scale(cluster):
    cluster.create("statefulsets", stateful_set(1))
    cluster.list("pods")
    check_scale(cluster, "statefulsets", "ss")


@spec(BASIC + "should list, patch and delete a collection of StatefulSets")
def test_collection(cluster):
    cluster.create("statefulsets", stateful_set(1))
    patch = image("pause") | {"metadata": {"labels": {"test-ss": "patched"}}}
    patch["spec"]["replicas"] = 2
    cluster.patch("statefulsets", "ss", patch, type=STRATEGIC)
    found = cluster.get("statefulsets", "ss")
    assert (found["status"]["readyReplicas"], images(cluster.pods())) == (2, {"pause"})
    assert len(cluster.list("statefulsets", "test-ss=patched", everywhere=True)) == 1
    cluster.delete_all("statefulsets", "test-ss=patched")
    assert cluster.list("statefulsets") == []


@spec(BASIC + "should validate Statefulset Status endpoints")
def test_status(cluster):
    cluster.create("statefulsets", stateful_set(1))
    cluster.list("pods")
    update = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set"}
    check_status(cluster, "statefulsets", "ss", {"conditions": [update]})
    assert condition(cluster.get("statefulsets", "ss"), "StatusUpdate")["reason"] == "E2E"


@spec(BASIC + "should perform rolling updates and roll backs of template modifications")
def test_rolling_update(cluster):
    cluster.create("statefulsets", stateful_set())
    before = cluster.get("statefulsets", "ss")["status"]
    assert before["currentRevision"] == before["updateRevision"]
    assert set(hashes(cluster).values()) == {before["currentRevision"]}
    set_ready(cluster, "ss-1", "false")
    cluster.patch("statefulsets", "ss", image("httpd:new"), type=STRATEGIC)
    status = cluster.get("statefulsets", "ss")["status"]
    assert status["currentRevision"] != status["updateRevision"]
    assert set(hashes(cluster).values()) == {status["currentRevision"]}
    set_ready(cluster, "ss-1", "true")
    assert set(hashes(cluster).values()) == {status["updateRevision"]}
    status = cluster.get("statefulsets", "ss")["status"]
    assert status["currentRevision"] == status["updateRevision"]
    cluster.patch("statefulsets", "ss", image("httpd"), type=STRATEGIC)
    assert set(hashes(cluster).values()) == {before["currentRevision"]}
    assert images(cluster.pods()) == {"httpd"}


@spec(BASIC + "should perform canary updates and phased rolling updates of template modifications")
def test_canary(cluster):
    def partition(number):
        return {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}

    cluster.create("statefulsets", stateful_set(updateStrategy=partition(3)))
    cluster.patch("statefulsets", "ss", image("httpd:new"), type=STRATEGIC)
    status = cluster.get("statefulsets", "ss")["status"]
    current, update = status["currentRevision"], status["updateRevision"]
    assert current != update
    assert set(hashes(cluster).values()) == {current}
    cluster.patch("statefulsets", "ss", {"spec": {"updateStrategy": partition(2)}})
    assert hashes(cluster) == {"ss-0": current, "ss-1": current, "ss-2": update}
    for name in ("ss-0", "ss-2"):
        cluster.delete("pods", name)
    assert hashes(cluster) == {"ss-0": current, "ss-1": current, "ss-2": update}
    for number, expected in ((1, [current, update, update]), (0, [update] * 3)):
        cluster.patch("statefulsets", "ss", {"spec": {"updateStrategy": partition(number)}})
        assert [hashes(cluster)[f"ss-{at}"] for at in range(3)] == expected
    assert cluster.get("statefulsets", "ss")["status"]["currentRevision"] == update


@spec(
    BASIC + "Scaling should happen in predictable order and halt if any stateful pod is unhealthy"
)
def test_order(cluster):
    cluster.create("statefulsets", stateful_set(1))
    assert ready_pods(cluster) == ["ss-0"]
    set_ready(cluster, "ss-0", "false")
    cluster.patch("statefulsets", "ss", {"spec": {"replicas": 3}}, "scale")
    assert cluster.names("pods") == ["ss-0"]
    set_ready(cluster, "ss-0", "true")
    assert ready_pods(cluster) == ["ss-0", "ss-1", "ss-2"]
    times = [each["metadata"]["creationTimestamp"] for each in cluster.pods()]
    assert times == sorted(times)
    for name in ("ss-0", "ss-1", "ss-2"):
        set_ready(cluster, name, "false")
    cluster.patch("statefulsets", "ss", {"spec": {"replicas": 0}}, "scale")
    assert cluster.names("pods") == ["ss-0", "ss-1", "ss-2"]
    while names := cluster.names("pods"):
        set_ready(cluster, names[-1], "true")


@spec(BASIC + "Burst scaling should run to completion even with unhealthy pods")
def test_burst(cluster):
    cluster.create("statefulsets", stateful_set(1, podManagementPolicy="Parallel"))
    set_ready(cluster, "ss-0", "false")
    cluster.patch("statefulsets", "ss", {"spec": {"replicas": 3}}, "scale")
    assert cluster.names("pods") == ["ss-0", "ss-1", "ss-2"]
    set_ready(cluster, "ss-0", "true")
    assert cluster.get("statefulsets", "ss")["status"]["readyReplicas"] == 3
    set_ready(cluster, "ss-1", "false")
    cluster.patch("statefulsets", "ss", {"spec": {"replicas": 0}}, "scale")
    assert cluster.names("pods") == []


@spec(BASIC + "Should recreate evicted statefulset")
def test_recreation(cluster):
    """A pod whose port another pod has fails and is made again, until the port is free."""
    ports = [{"containerPort": 21017, "hostPort": 21017}]
    on_node = {"nodeName": "simulated-0"}
    containers = [{"name": "app", "image": "httpd", "ports": ports}]
    cluster.create("pods", pod("test-pod") | {"spec": {"containers": containers} | on_node})
    stateful = stateful_set(1)
    stateful["spec"]["template"]["spec"] |= {"containers": containers} | on_node
    created = cluster.create("statefulsets", stateful)
    rejected = cluster.get("pods", "ss-0")
    assert rejected["status"]["phase"] == "Pending"
    cluster.advance("2s")
    changes = cluster.changes("pods", created["metadata"]["resourceVersion"], "baz=blah")
    assert ("MODIFIED", "NodePorts") in [
        (kind, each["status"].get("reason")) for kind, each in changes
    ]
    assert "DELETED" in [kind for kind, _ in changes]
    cluster.delete("pods", "test-pod")
    cluster.advance("2s")
    recreated = cluster.get("pods", "ss-0")
    assert recreated["status"]["phase"] == "Running"
    assert recreated["metadata"]["uid"] != rejected["metadata"]["uid"]
