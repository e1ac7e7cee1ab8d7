"""sig-apps: Deployments."""

from __future__ import annotations

from tests.conformance.api_operations import check_scale
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


def image(name, container="app"):
    """A strategic merge patch of the image of the pods."""
    containers = [{"name": container, "image": name}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def replace_container(name):
    """A change of a Deployment: its pods have another container with another image."""

    def change(deployment):
        deployment["spec"]["template"]["spec"]["containers"][0] |= {"name": name, "image": name}

    return change


def revision_and_image(cluster, name="web"):
    """The revision of a Deployment, if its newest ReplicaSet has it, and the image of that."""
    revision = cluster.get("deployments", name)["metadata"]["annotations"][REVISION]
    (newest,) = [
        each
        for each in cluster.list("replicasets")
        if each["metadata"].get("annotations", {}).get(REVISION) == revision
    ]
    (name,) = images([newest["spec"]["template"]])
    return revision, name


def history(cluster, name="web"):
    """The status of each revision of a Deployment."""
    revisions = cluster.server.objects.history("Deployment", name, namespace=cluster.namespace)
    return [each.object.get("status", {}) for each in revisions if each.object]


def old_replica_set(cluster, labels):
    """Create a ReplicaSet whose pods a Deployment with these labels adopts, and wait for it."""
    old = workload("controller", 1, labels | {"pod": "httpd"})
    cluster.create("replicasets", old)
    assert [each["status"]["phase"] for each in cluster.pods()] == ["Running"]
    return old


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
    assert revision_and_image(cluster, "scaled") == ("1", "httpd")
    assert is_complete(cluster.get("deployments", "scaled"))
    check_scale(cluster, "deployments", "scaled")


@spec("Deployment RecreateDeployment should delete old pods and create new ones")
def test_recreate(cluster):
    cluster.create("deployments", workload("web", strategy={"type": "Recreate"}))
    assert revision_and_image(cluster) == ("1", "httpd")
    assert is_complete(cluster.get("deployments", "web"))
    cluster.change("deployments", "web", replace_container("agnhost"))
    assert is_complete(cluster.get("deployments", "web"))
    assert images(cluster.pods()) == {"agnhost"}
    updated = 0
    for status in history(cluster):
        total, updated = status.get("replicas", 0), status.get("updatedReplicas", 0)
        assert not updated or total == updated  # no new pod runs beside old ones
    assert updated == 1


@spec("Deployment RollingUpdateDeployment should delete old pods and create new ones")
def test_rolling_update(cluster):
    """An existing ReplicaSet is adopted, and its pods are replaced."""
    labels = {"name": "sample-pod"}
    old = workload("controller", 1, labels | {"pod": "httpd"})
    old["metadata"]["annotations"] = {REVISION: "3546343826724305832"}
    cluster.create("replicasets", old)
    assert [each["status"]["phase"] for each in cluster.pods("name=sample-pod")] == ["Running"]
    cluster.create("deployments", workload("web", 1, labels, image="agnhost"))
    assert revision_and_image(cluster) == ("3546343826724305833", "agnhost")
    assert is_complete(cluster.get("deployments", "web"))
    assert sizes(cluster) == {"httpd": 0, "agnhost": 1}
    assert {owner_of(each) for each in cluster.list("replicasets")} == {"web"}


@spec("Deployment deployment should delete old replica sets")
def test_clean_up(cluster):
    """The old ReplicaSet is deleted, and only one pod is created, that of the Deployment."""
    labels = {"name": "cleanup-pod"}
    old_replica_set(cluster, labels)
    version = cluster.request("GET", cluster.path("pods"))["metadata"]["resourceVersion"]
    deployment = workload("web", 1, labels, image="agnhost", revisionHistoryLimit=0)
    cluster.create("deployments", deployment)
    assert sizes(cluster) == {"agnhost": 1}
    changes = cluster.changes("pods", version)
    assert images([obj for kind, obj in changes if kind == "ADDED"]) == {"agnhost"}
    assert [kind for kind, _ in changes].count("ADDED") == 1


@spec("Deployment deployment should support rollover")
def test_rollover(cluster):
    """A rollout whose image is missing gives way to the next one."""
    labels = {"name": "rollover-pod"}
    old_replica_set(cluster, labels)
    assert cluster.get("replicasets", "controller")["status"]["readyReplicas"] == 1
    deployment = workload("web", 1, labels, image="redis-slave", minReadySeconds=10, strategy=FULL)
    cluster.server.images.fail("redis-slave")
    cluster.create("deployments", deployment)
    assert cluster.get("deployments", "web")["status"]["updatedReplicas"] == 1
    assert revision_and_image(cluster) == ("1", "redis-slave")
    assert sizes(cluster) == {"httpd": 1, "redis-slave": 1}
    changed = cluster.change("deployments", "web", replace_container("agnhost"))
    observed = cluster.get("deployments", "web")["status"]["observedGeneration"]
    assert observed == changed["metadata"]["generation"]
    assert revision_and_image(cluster) == ("2", "agnhost")
    cluster.advance("10s")
    assert is_complete(cluster.get("deployments", "web"))
    assert all(status["replicas"] <= 2 for status in history(cluster) if "replicas" in status)
    assert sizes(cluster) == {"httpd": 0, "redis-slave": 0, "agnhost": 1}
    cluster.server.images.recover("redis-slave")


@spec("Deployment deployment should support proportional scaling")
def test_proportional_scaling(cluster):
    rolling = {"maxSurge": 3, "maxUnavailable": 2}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    cluster.create("deployments", workload("web", 10, strategy=strategy))
    assert [each["status"]["phase"] for each in cluster.pods()] == ["Running"] * 10
    assert is_complete(cluster.get("deployments", "web"))
    cluster.server.images.fail("webserver:404")
    changed = cluster.patch("deployments", "web", image("webserver:404"), type=STRATEGIC)
    status = cluster.get("deployments", "web")["status"]
    assert status["observedGeneration"] == changed["metadata"]["generation"]
    assert status["availableReplicas"] == 8
    old, new = sorted(cluster.list("replicasets"), key=lambda each: -each["spec"]["replicas"])
    assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (8, 5)
    assert (old["status"]["availableReplicas"], old["status"]["replicas"]) == (8, 8)
    assert (new["status"].get("availableReplicas", 0), new["status"]["replicas"]) == (0, 5)
    cluster.patch("deployments", "web", {"spec": {"replicas": 30}})
    assert sizes(cluster) == {"httpd": 20, "webserver:404": 13}
    cluster.server.images.recover("webserver:404")


@spec("Deployment should run the lifecycle of a Deployment")
def test_lifecycle(cluster):
    labels, selector = {"test-deployment-static": "true"}, "test-deployment-static=true"
    deployment = workload("web", 2, labels)
    deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    created = cluster.create("deployments", deployment)
    version = created["metadata"]["resourceVersion"]
    assert cluster.get("deployments", "web")["status"]["readyReplicas"] == 2

    patch = image("pause") | {"metadata": {"labels": {"test-deployment": "patched"}}}
    patch["spec"]["replicas"] = 1
    patch["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 2
    patched = cluster.patch("deployments", "web", patch, type=STRATEGIC)
    assert int(version) < int(patched["metadata"]["resourceVersion"])
    check_rolled_out(cluster, 1, "pause")
    found = cluster.get("deployments", "web")
    assert found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 2
    everywhere = cluster.list("deployments", selector, everywhere=True)
    assert [name_of(each) for each in everywhere] == ["web"]

    updated = workload("web", 2, labels, image="agnhost")
    updated["metadata"]["labels"] = labels | {"test-deployment": "updated"}
    cluster.update("deployments", updated)
    found = cluster.get("deployments", "web", "status")
    assert images([found["spec"]["template"]]) == {"agnhost"}
    assert found["metadata"]["labels"]["test-deployment"] == "updated"
    check_rolled_out(cluster, 2, "agnhost")

    status = {"status": {"readyReplicas": 0, "availableReplicas": 0}}
    patched = cluster.patch("deployments", "web", status, "status", type=STRATEGIC)
    assert patched["status"].get("readyReplicas", 0) == 0
    assert patched["status"].get("availableReplicas", 0) == 0
    found = cluster.get("deployments", "web", "status")
    assert found["metadata"]["labels"]["test-deployment"] == "updated"
    check_rolled_out(cluster, 2, "agnhost")

    cluster.delete_all("deployments", selector)
    assert cluster.list("deployments") == []
    assert cluster.pods() == []
    events = cluster.watch("deployments", version, selector)
    assert set(events) == {"MODIFIED", "DELETED"}


def check_rolled_out(cluster, replicas, image_name):
    found = cluster.get("deployments", "web")
    status = found["status"]
    assert (status["readyReplicas"], status["updatedReplicas"]) == (replicas, replicas)
    assert not status.get("unavailableReplicas")
    assert images([found["spec"]["template"]]) == {image_name}


@spec("Deployment should validate Deployment Status endpoints")
def test_status(cluster):
    version = cluster.create("deployments", workload("web", 1, {"e2e": "testing"}))["metadata"][
        "resourceVersion"
    ]
    assert revision_and_image(cluster) == ("1", "httpd")
    assert is_complete(cluster.get("deployments", "web"))
    cluster.get("deployments", "web", "status")
    added = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set by e2e"}
    cluster.change(
        "deployments", "web", lambda found: found["status"]["conditions"].append(added), "status"
    )
    patch = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
    cluster.patch("deployments", "web", patch, "status")
    cluster.delete("deployments", "web")
    changes = [obj for _, obj in cluster.changes("deployments", version, "e2e=testing")]
    assert any(condition(each, "StatusUpdate").get("reason") == "E2E" for each in changes)
    assert any(condition(each, "StatusPatched").get("status") == "True" for each in changes)


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
