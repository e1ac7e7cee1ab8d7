"""sig-apps: Deployments."""

from __future__ import annotations

from tests.conformance.api_operations import check_scale, check_status
from tests.conformance.cluster import (
    STRATEGIC,
    condition,
    images,
    meta,
    name_of,
    owner_of,
    spec,
    template,
    workload,
)

REVISION = "deployment.kubernetes.io/revision"
FULL = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


def image(name):
    """A strategic merge patch of the image of the pods."""
    containers = [{"name": "app", "image": name}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def is_complete(deployment):
    status, replicas = deployment["status"], deployment["spec"]["replicas"]
    keys = ("replicas", "updatedReplicas", "availableReplicas")
    return (
        status["observedGeneration"] == deployment["metadata"]["generation"]
        and [status.get(key, 0) for key in keys] == [replicas] * 3
    )  # fmt: skip


def sizes(cluster):
    """The replicas of each ReplicaSet by the image of its pods."""
    return {
        next(iter(images([each["spec"]["template"]]))): each["spec"]["replicas"]
        for each in cluster.list("replicasets")
    }


@spec("Deployment Deployment should have a working scale subresource")
def test_scale(cluster):
    cluster.create("deployments", workload("scaled"))
    cluster.list("pods")
    check_scale(cluster, "deployments", "scaled")
    assert len(cluster.pods("app=scaled")) == 4


@spec("Deployment RecreateDeployment should delete old pods and create new ones")
def test_recreate(cluster):
    cluster.create("deployments", workload("web", strategy={"type": "Recreate"}))
    assert is_complete(cluster.get("deployments", "web"))
    before = set(cluster.names("pods"))
    cluster.patch("deployments", "web", image("agnhost"), type=STRATEGIC)
    assert is_complete(cluster.get("deployments", "web"))
    pods = cluster.pods()
    assert images(pods) == {"agnhost"}
    assert not before & {name_of(each) for each in pods}
    assert cluster.get("deployments", "web")["metadata"]["annotations"][REVISION] == "2"


@spec("Deployment RollingUpdateDeployment should delete old pods and create new ones")
def test_rolling_update(cluster):
    """An existing ReplicaSet is adopted, and its pods are replaced."""
    labels = {"name": "sample-pod"}
    old = workload("controller", 1, labels)
    old["metadata"]["annotations"] = {REVISION: "3546343826724305832"}
    cluster.create("replicasets", old)
    assert len(cluster.pods()) == 1
    cluster.create("deployments", workload("web", 1, labels, image="agnhost"))
    assert is_complete(cluster.get("deployments", "web"))
    annotations = cluster.get("deployments", "web")["metadata"]["annotations"]
    assert annotations[REVISION] == "3546343826724305833"
    assert sizes(cluster) == {"httpd": 0, "agnhost": 1}
    assert {owner_of(each) for each in cluster.list("replicasets")} == {"web"}


@spec("Deployment deployment should delete old replica sets")
def test_clean_up(cluster):
    labels = {"name": "cleanup-pod"}
    cluster.create("replicasets", workload("controller", 1, labels))
    assert len(cluster.pods()) == 1
    cluster.create(
        "deployments", workload("web", 1, labels, image="agnhost", revisionHistoryLimit=0)
    )
    assert is_complete(cluster.get("deployments", "web"))
    assert sizes(cluster) == {"agnhost": 1}


@spec("Deployment deployment should support rollover")
def test_rollover(cluster):
    """A rollout whose image is missing gives way to the next one."""
    labels = {"name": "rollover-pod"}
    cluster.create("replicasets", workload("controller", 1, labels))
    assert cluster.get("replicasets", "controller")["status"]["availableReplicas"] == 1
    deployment = workload("web", 1, labels, image="redis-slave", minReadySeconds=10, strategy=FULL)
    cluster.server.images.fail("redis-slave")
    cluster.create("deployments", deployment)
    assert sizes(cluster) == {"httpd": 1, "redis-slave": 1}
    cluster.patch("deployments", "web", image("agnhost"), type=STRATEGIC)
    assert sizes(cluster) == {"httpd": 1, "redis-slave": 0, "agnhost": 1}
    cluster.advance("10s")
    assert sizes(cluster) == {"httpd": 0, "redis-slave": 0, "agnhost": 1}
    assert is_complete(cluster.get("deployments", "web"))
    cluster.server.images.recover("redis-slave")


@spec("Deployment deployment should support proportional scaling")
def test_proportional_scaling(cluster):
    rolling = {"maxSurge": 3, "maxUnavailable": 2}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    cluster.create("deployments", workload("web", 10, strategy=strategy))
    assert cluster.get("deployments", "web")["status"]["availableReplicas"] == 10
    cluster.server.images.fail("webserver:404")
    cluster.patch("deployments", "web", image("webserver:404"), type=STRATEGIC)
    assert sizes(cluster) == {"httpd": 8, "webserver:404": 5}
    assert cluster.get("deployments", "web")["status"]["availableReplicas"] == 8
    cluster.patch("deployments", "web", {"spec": {"replicas": 30}})
    assert sizes(cluster) == {"httpd": 20, "webserver:404": 13}
    cluster.server.images.recover("webserver:404")


@spec("Deployment should run the lifecycle of a Deployment")
def test_lifecycle(cluster):
    labels = {"test-deployment-static": "true"}
    created = cluster.create("deployments", workload("web", 1, labels))
    version = created["metadata"]["resourceVersion"]
    assert cluster.get("deployments", "web")["status"]["availableReplicas"] == 1
    patch = image("agnhost") | {"metadata": {"labels": {"test-deployment": "patched"}}}
    patch["spec"]["replicas"] = 2
    cluster.patch("deployments", "web", patch, type=STRATEGIC)
    found = cluster.get("deployments", "web")
    assert found["metadata"]["labels"]["test-deployment"] == "patched"
    assert (found["status"]["availableReplicas"], images(cluster.pods())) == (2, {"agnhost"})
    assert len(cluster.list("deployments", "test-deployment-static=true", everywhere=True)) == 1
    cluster.patch(
        "deployments", "web", {"status": {"readyReplicas": 0, "availableReplicas": 0}}, "status"
    )
    assert cluster.get("deployments", "web", "status")["status"]["readyReplicas"] == 2

    def update(found):
        found["metadata"]["labels"]["test-deployment"] = "updated"
        found["spec"]["template"]["spec"]["containers"][0]["image"] = "httpd"

    cluster.change("deployments", "web", update)
    assert is_complete(cluster.get("deployments", "web"))
    assert images(cluster.pods()) == {"httpd"}
    cluster.delete_all("deployments", "test-deployment-static=true")
    assert cluster.list("deployments") == []
    assert cluster.pods() == []
    events = cluster.watch("deployments", version, "test-deployment-static=true")
    assert set(events) == {"MODIFIED", "DELETED"}


@spec("Deployment should validate Deployment Status endpoints")
def test_status(cluster):
    cluster.create("deployments", workload("web"))
    cluster.list("pods")
    update = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set"}
    check_status(cluster, "deployments", "web", {"conditions": [update]})
    found = cluster.get("deployments", "web")
    assert condition(found, "StatusUpdate")["message"] == "Set"
    assert condition(found, "Available") == {} or condition(found, "Available")["status"] == "True"


@spec("ControllerRevision should manage the lifecycle of a ControllerRevision")
def test_controller_revisions(cluster):
    labels = {"app": "revisions"}
    daemon_set = meta("revisions", labels) | {
        "spec": {"selector": {"matchLabels": labels}, "template": template(labels)}
    }
    cluster.create("daemonsets", daemon_set)
    (first,) = cluster.list("controllerrevisions", "app=revisions")
    assert owner_of(first) == "revisions"
    patched = {"metadata": {"labels": {name_of(first): "patched"}}}
    cluster.patch("controllerrevisions", name_of(first), patched)
    other = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 2}
    other |= meta("other", labels, ownerReferences=first["metadata"]["ownerReferences"])
    cluster.create("controllerrevisions", other | {"data": first["data"]})
    assert len(cluster.list("controllerrevisions", "app=revisions")) == 2
    cluster.delete("controllerrevisions", name_of(first))
    names = cluster.names("controllerrevisions", "app=revisions")
    assert name_of(first) not in names
    cluster.patch("daemonsets", "revisions", image("agnhost"), type=STRATEGIC)
    newest = max(cluster.list("controllerrevisions"), key=lambda each: each["revision"])
    label = {"metadata": {"labels": {name_of(newest): "updated"}}}
    cluster.patch("controllerrevisions", name_of(newest), label)
    cluster.delete_all("controllerrevisions", f"{name_of(newest)}=updated")
    assert name_of(newest) not in names
