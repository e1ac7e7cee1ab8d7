"""sig-apps: DaemonSets."""

from __future__ import annotations

import pytest

from tests.conformance.api_operations import check_status
from tests.conformance.cluster import (
    STRATEGIC,
    condition,
    images,
    is_ready,
    meta,
    name_of,
    spec,
    template,
)
from tests.conformance.test_deployments import image

LABELS = {"daemonset-name": "daemon-set"}
COLOR = "daemonset-color"


@pytest.fixture
def nodes(cluster):
    """The names of the nodes, which have no color when the test ends."""
    found = cluster.names("nodes")
    yield found
    for name in found:
        cluster.patch("nodes", name, {"metadata": {"labels": {COLOR: None}}})


def daemon_set(labels=None, strategy="RollingUpdate", **fields):
    labels = labels or LABELS
    return meta("daemon-set", labels) | {
        "spec": {
            "selector": {"matchLabels": labels},
            "template": template(labels, **fields),
            "updateStrategy": {"type": strategy},
        }
    }


def hosts(cluster):
    """The nodes where a daemon runs."""
    return sorted(each["spec"]["nodeName"] for each in cluster.pods() if is_ready(each))


@spec("Daemon set should run and stop simple daemon")
def test_simple_daemon(cluster, nodes):
    cluster.create("daemonsets", daemon_set())
    assert hosts(cluster) == nodes
    before = cluster.names("pods")
    cluster.delete("pods", before[0])
    assert hosts(cluster) == nodes
    assert cluster.names("pods") != before


@spec("Daemon set should run and stop complex daemon")
def test_complex_daemon(cluster, nodes):
    cluster.create("daemonsets", daemon_set(nodeSelector={COLOR: "blue"}))
    assert hosts(cluster) == []
    cluster.patch("nodes", nodes[0], {"metadata": {"labels": {COLOR: "blue"}}})
    assert hosts(cluster) == [nodes[0]]
    cluster.patch("nodes", nodes[0], {"metadata": {"labels": {COLOR: "green"}}})
    assert cluster.pods() == []
    patch = {"spec": {"template": {"spec": {"nodeSelector": {COLOR: "green"}}}}}
    cluster.patch("daemonsets", "daemon-set", patch)
    assert hosts(cluster) == [nodes[0]]


@spec("Daemon set should retry creating failed daemon pods")
def test_failed_pod(cluster, nodes):
    cluster.create("daemonsets", daemon_set())
    (first, _) = cluster.names("pods")
    cluster.patch("pods", first, {"status": {"phase": "Failed"}}, "status")
    cluster.get("pods", first, status=404)
    assert hosts(cluster) == nodes


@spec("Daemon set should update pod when spec was updated and update strategy is RollingUpdate")
def test_rolling_update(cluster, nodes):
    cluster.create("daemonsets", daemon_set())
    (first,) = cluster.list("controllerrevisions")
    cluster.patch("daemonsets", "daemon-set", image("agnhost"), type=STRATEGIC)
    assert hosts(cluster) == nodes
    assert images(cluster.pods()) == {"agnhost"}
    found = {each["revision"]: each for each in cluster.list("controllerrevisions")}
    assert sorted(found) == [1, 2]
    label = "controller-revision-hash"
    new = {each["metadata"]["labels"][label] for each in cluster.pods()}
    assert new == {found[2]["metadata"]["labels"][label]}
    assert new != {first["metadata"]["labels"][label]}


@spec("Daemon set should rollback without unnecessary restarts")
def test_rollback(cluster, nodes):
    """The pod of the old template stays when the template comes back."""
    cluster.create("daemonsets", daemon_set())
    before = {each["metadata"]["uid"] for each in cluster.pods()}
    cluster.server.images.fail("foo:non-existent")
    cluster.patch("daemonsets", "daemon-set", image("foo:non-existent"), type=STRATEGIC)
    kept = {each["metadata"]["uid"] for each in cluster.pods()} & before
    assert len(kept) == len(nodes) - 1
    cluster.patch("daemonsets", "daemon-set", image("httpd"), type=STRATEGIC)
    assert hosts(cluster) == nodes
    pods = cluster.pods()
    assert images(pods) == {"httpd"}
    assert kept <= {each["metadata"]["uid"] for each in pods}
    restarts = [each["status"]["containerStatuses"][0]["restartCount"] for each in pods]
    assert restarts == [0] * len(nodes)
    cluster.server.images.recover("foo:non-existent")


@spec("Daemon set should list and delete a collection of DaemonSets")
def test_collection(cluster, nodes):
    cluster.create("daemonsets", daemon_set())
    assert hosts(cluster) == nodes
    assert len(cluster.list("daemonsets", "daemonset-name=daemon-set", everywhere=True)) == 1
    cluster.delete_all("daemonsets", "daemonset-name=daemon-set")
    assert cluster.list("daemonsets") == []


@spec("Daemon set should verify changes to a daemon set status")
def test_status(cluster, nodes):
    cluster.create("daemonsets", daemon_set())
    assert hosts(cluster) == nodes
    update = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set"}
    check_status(cluster, "daemonsets", "daemon-set", {"conditions": [update]})
    found = cluster.get("daemonsets", "daemon-set")
    assert condition(found, "StatusUpdate")["reason"] == "E2E"
    assert name_of(found) == "daemon-set"
