"""sig-apps: ReplicaSets and ReplicationControllers."""

from __future__ import annotations

import pytest

from tests.conformance.api_operations import check_scale, check_status
from tests.conformance.cluster import (
    MERGE,
    STRATEGIC,
    condition,
    images,
    is_ready,
    meta,
    owner_of,
    pod,
    spec,
    template,
    workload,
)

LABELS = {"name": "pod-adoption"}
PATCHES = [(MERGE, "1"), (STRATEGIC, "2")]


def controller(name, replicas=1, labels=None, **fields):
    """A ReplicationController."""
    labels = labels or {"name": name}
    fields |= {"replicas": replicas, "selector": labels, "template": template(labels)}
    return meta(name, labels) | {"spec": fields}


@spec("ReplicaSet should serve a basic image on each replica with a public image")
def test_replica_set(cluster):
    cluster.create("replicasets", workload("web", 2))
    pods = cluster.pods("app=web")
    assert len(pods) == 2
    assert all(is_ready(each) and each["status"]["podIP"] for each in pods)


@spec("ReplicationController should serve a basic image on each replica with a public image")
def test_replication_controller(cluster):
    cluster.create("replicationcontrollers", controller("web", 2))
    pods = cluster.pods("name=web")
    assert len(pods) == 2
    assert all(map(is_ready, pods))


@spec(
    "ReplicaSet should adopt matching pods on creation and release no longer matching pods",
)
def test_replica_set_adopts_and_releases(cluster):
    cluster.create("pods", pod("orphan", LABELS))
    cluster.create("replicasets", workload("adopts", 1, LABELS))
    assert owner_of(cluster.get("pods", "orphan")) == "adopts"
    cluster.patch("pods", "orphan", {"metadata": {"labels": {"name": "not-matching"}}})
    assert owner_of(cluster.get("pods", "orphan")) == ""
    assert len(cluster.pods("name=pod-adoption")) == 1


@spec("ReplicationController should adopt matching pods on creation")
def test_replication_controller_adopts(cluster):
    cluster.create("pods", pod("orphan", LABELS))
    cluster.create("replicationcontrollers", controller("adopts", 1, LABELS))
    assert owner_of(cluster.get("pods", "orphan")) == "adopts"
    assert cluster.names("pods") == ["orphan"]


@spec("ReplicationController should release no longer matching pods")
def test_replication_controller_releases(cluster):
    cluster.create("replicationcontrollers", controller("releases"))
    (name,) = cluster.names("pods")
    cluster.patch("pods", name, {"metadata": {"labels": {"name": "not-matching"}}})
    assert owner_of(cluster.get("pods", name)) == ""
    assert len(cluster.pods("name=releases")) == 1


@spec(
    "ReplicationController should surface a failure condition on a common issue like exceeded quota"
)
def test_exceeded_quota(cluster):
    cluster.create("resourcequotas", meta("condition-test") | {"spec": {"hard": {"pods": "2"}}})
    cluster.get("resourcequotas", "condition-test")
    cluster.create("replicationcontrollers", controller("condition-test", 3))
    found = cluster.get("replicationcontrollers", "condition-test")
    failure = condition(found, "ReplicaFailure")
    assert (failure["status"], failure["reason"]) == ("True", "FailedCreate")
    cluster.patch("replicationcontrollers", "condition-test", {"spec": {"replicas": 2}})
    found = cluster.get("replicationcontrollers", "condition-test")
    assert condition(found, "ReplicaFailure") == {}


@spec("ReplicaSet Replicaset should have a working scale subresource")
def test_replica_set_scale(cluster):
    cluster.create("replicasets", workload("scaled"))
    cluster.list("pods")
    check_scale(cluster, "replicasets", "scaled")


@spec("ReplicationController should get and update a ReplicationController scale")
def test_replication_controller_scale(cluster):
    cluster.create("replicationcontrollers", controller("scaled"))
    cluster.list("pods")
    check_scale(cluster, "replicationcontrollers", "scaled")


@spec("ReplicaSet Replace and Patch tests")
def test_replace_and_patch(cluster):
    cluster.create("replicasets", workload("web"))
    assert len(cluster.pods("app=web")) == 1
    cluster.change("replicasets", "web", lambda found: found["spec"].update(replicas=2))
    assert cluster.get("replicasets", "web")["status"]["readyReplicas"] == 2
    containers = [{"name": "app", "image": "pause"}]
    patch = {"spec": {"replicas": 3, "template": {"spec": {"containers": containers}}}}
    patched = cluster.patch("replicasets", "web", patch, type=STRATEGIC)
    assert patched["spec"]["template"]["spec"]["containers"][0]["image"] == "pause"
    assert cluster.get("replicasets", "web")["status"]["readyReplicas"] == 3
    assert images(cluster.pods("app=web")) == {"httpd", "pause"}


@spec("ReplicaSet should list and delete a collection of ReplicaSets")
def test_collection(cluster):
    labels = {"app": "collection"}
    cluster.create("replicasets", workload("web", 3, labels))
    assert cluster.get("replicasets", "web")["status"]["availableReplicas"] == 3
    cluster.create("replicasets", workload("other", 1))
    assert len(cluster.list("replicasets", "app=collection", everywhere=True)) == 1
    cluster.delete_all("replicasets", "app=collection")
    assert cluster.names("replicasets") == ["other"]
    assert cluster.pods("app=collection") == []


@spec("ReplicaSet should validate Replicaset Status endpoints")
def test_status(cluster):
    cluster.create("replicasets", workload("web"))
    cluster.list("pods")
    update = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set"}
    check_status(cluster, "replicasets", "web", {"conditions": [update]})
    assert condition(cluster.get("replicasets", "web"), "StatusUpdate")["reason"] == "E2E"


@spec("ReplicationController should test the lifecycle of a ReplicationController")
@pytest.mark.parametrize(("type", "value"), PATCHES)
def test_lifecycle(cluster, type, value):
    created = cluster.create("replicationcontrollers", controller("web", labels={"static": "true"}))
    version = created["metadata"]["resourceVersion"]
    assert cluster.get("replicationcontrollers", "web")["status"]["readyReplicas"] == 1
    patch = {"metadata": {"labels": {"patched": value}}}
    patched = cluster.patch("replicationcontrollers", "web", patch, type=type)
    assert patched["metadata"]["labels"]["patched"] == value
    status = {"status": {"readyReplicas": 0, "availableReplicas": 0}}
    cluster.patch("replicationcontrollers", "web", status, "status")
    assert cluster.get("replicationcontrollers", "web")["status"]["readyReplicas"] == 1
    cluster.patch("replicationcontrollers", "web", {"spec": {"replicas": 2}}, "scale")
    assert cluster.get("replicationcontrollers", "web")["status"]["availableReplicas"] == 2
    assert len(cluster.list("replicationcontrollers", "static=true", everywhere=True)) == 1
    cluster.delete_all("replicationcontrollers", "static=true")
    assert cluster.list("replicationcontrollers") == []
    events = cluster.watch("replicationcontrollers", version, "static=true")
    assert set(events) == {"MODIFIED", "DELETED"}
