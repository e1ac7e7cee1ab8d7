"""`server.nodes`: a test decides how simulated nodes fare."""

from __future__ import annotations

import httpx
import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.testing import TestServer
from kapiserver.testing.determinism import clock

LABELS = {"app": "web"}
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "app", "image": "nginx"}]},
}
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.fixture(scope="module")
def simulating():
    with TestServer(simulate=True, simulate_nodes=3, insecure=True) as server:
        yield server


@pytest.fixture
def server(simulating):
    simulating.reset()
    simulating.settle()
    simulating.clock.freeze()
    yield simulating
    simulating.clock.resume()


def workload(kind, replicas):
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec}


class Cluster:
    """The objects of a server."""

    def __init__(self, server):
        self.server = server

    def all(self, kind, version="v1", namespace="default"):
        async def read():
            async with self.server.client() as client:
                objects = client.resource(version, kind, namespace=namespace)
                return (await objects.list())["items"]

        return self.server.run(read())

    def patch(self, kind, name, patch):
        async def write():
            async with self.server.client() as client:
                await client.resource("v1", kind).patch(name, patch)

        self.server.run(write())
        self.server.settle()

    def delete_node(self, name):
        async def write():
            async with self.server.client() as client:
                await client.resource("v1", "nodes").delete(name)

        self.server.run(write())
        self.server.settle()

    def node(self, name):
        return next(
            each for each in self.all("nodes", namespace="") if each["metadata"]["name"] == name
        )

    def conditions(self, name):
        return {each["type"]: each for each in self.node(name)["status"]["conditions"]}

    def taints(self, name):
        return {(each["key"], each["effect"]) for each in self.node(name)["spec"].get("taints", ())}

    def pods(self):
        """The node of each pod, whether it is ready, and whether it is being deleted."""
        return {
            pod["metadata"]["name"]: (
                pod["spec"].get("nodeName"),
                any(
                    each["type"] == "Ready" and each["status"] == "True"
                    for each in pod["status"]["conditions"]
                ),
                "deletionTimestamp" in pod["metadata"],
            )
            for pod in self.all("pods")
        }

    def log_status(self, pod):
        """The status code of a request for the log of a pod."""
        url = f"/api/v1/namespaces/default/pods/{pod}/log"
        with httpx.Client(base_url=self.server.insecure_url, timeout=60) as client:
            return client.get(url).status_code

    def events(self, reason):
        return [each for each in self.all("events") if each["reason"] == reason]


@pytest.fixture
def cluster(server):
    return Cluster(server)


def test_pods_of_a_stopped_node(server, cluster):
    """They keep their status until the node is noticed, are evicted after five minutes, and end
    when the kubelet is back."""
    server.state.load([workload("Deployment", 3)])
    server.objects.wait_for("deployment/web", "condition=Available")
    before = cluster.pods()
    node = next(iter(before.values()))[0]
    lost = {name for name, pod in before.items() if pod[0] == node}
    server.nodes.stop(node)
    assert cluster.log_status(min(lost)) == 500
    server.clock.advance("35s")
    assert cluster.pods() == before
    server.clock.advance("15s")
    ready = cluster.conditions(node)["Ready"]
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert ready["message"] == "Kubelet stopped posting node status."
    assert {each["status"] for each in cluster.conditions(node).values()} == {"Unknown"}
    assert cluster.taints(node) == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
    assert {cluster.pods()[name][1:] for name in lost} == {(False, False)}
    (event, *_) = cluster.events("NodeNotReady")
    assert event["message"] in (f"Node {node} status is now: NodeNotReady", "Node is not ready")
    # The last heartbeat was up to ten seconds before the clock stood still.
    server.clock.advance("285s")
    assert set(cluster.pods()) == set(before)
    server.clock.advance("15s")
    after = cluster.pods()
    assert {after[name] for name in lost} == {(node, False, True)}
    new = set(after) - set(before)
    assert len(new) == len(lost)
    assert {after[name][1:] for name in new} == {(True, False)}
    assert node not in {after[name][0] for name in new}
    server.clock.advance("10m")
    assert lost < set(cluster.pods())
    server.nodes.start(node)
    assert lost.isdisjoint(cluster.pods())
    assert cluster.conditions(node)["Ready"]["status"] == "True"
    assert cluster.taints(node) == set()


def test_node_that_is_back_in_time(server, cluster):
    """The eviction is cancelled, and the pods are ready again."""
    server.state.load([workload("Deployment", 3)])
    server.objects.wait_for("deployment/web", "condition=Available")
    before = cluster.pods()
    node = next(iter(before.values()))[0]
    server.nodes.stop(node)
    server.clock.advance("2m")
    server.nodes.start(node)
    assert cluster.pods() == before
    messages = {each["message"] for each in cluster.events("TaintManagerEviction")}
    lost = [name for name, pod in before.items() if pod[0] == node]
    assert messages == {f"Cancelling deletion of Pod default/{name}" for name in lost}
    server.clock.advance("10m")
    assert cluster.pods() == before


@pytest.mark.parametrize("way", ["back", "deleted", "out of service"])
def test_stateful_set(server, cluster, way):
    """A pod with an identity is replaced only when it is certain that the lost one is gone."""
    server.state.load([workload("StatefulSet", 2)])
    server.objects.wait_for("pod/web-1", "condition=Ready")
    node = cluster.pods()["web-1"][0]
    (uid,) = [each["metadata"]["uid"] for each in cluster.all("pods")
              if each["metadata"]["name"] == "web-1"]  # fmt: skip
    server.nodes.stop(node)
    server.clock.advance("10m")
    assert cluster.pods()["web-1"] == (node, False, True)
    if way == "back":
        server.nodes.start(node)
    elif way == "deleted":
        cluster.delete_node(node)
        server.clock.advance("1m")
    else:
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        taints = [*cluster.node(node)["spec"]["taints"], taint]
        cluster.patch("nodes", node, {"spec": {"taints": taints}})
    pod = server.objects.wait_for("pod/web-1", "condition=Ready")
    assert pod["metadata"]["uid"] != uid


def test_all_nodes_are_stopped(server, cluster):
    """Then the fault may be with the control plane: no pod is evicted."""
    server.state.load([workload("Deployment", 3)])
    server.objects.wait_for("deployment/web", "condition=Available")
    before = cluster.pods()
    names = [f"simulated-{number}" for number in range(3)]
    for name in names:
        server.nodes.stop(name)
    server.clock.advance("10m")
    assert {frozenset(cluster.taints(name)) for name in names} == {
        frozenset({(UNREACHABLE, "NoSchedule")})
    }
    assert {pod[2] for pod in cluster.pods().values()} == {False}
    for name in names:
        server.nodes.start(name)
    server.clock.advance("10m")
    assert cluster.pods() == before


def test_long_jumps(server, cluster, monkeypatch):
    """A jump of the clock in which no kubelet could renew its Lease changes nothing; a kubelet that
    is stopped is noticed all the same."""
    monkeypatch.setattr(clock, "MAX_STEPS", 100)
    names = [f"simulated-{number}" for number in range(3)]
    before = [cluster.conditions(name)["Ready"]["lastTransitionTime"] for name in names]
    server.nodes.stop("simulated-2")
    server.clock.advance("3d")  # in steps of 43 minutes
    after = [cluster.conditions(name)["Ready"] for name in names]
    assert [each["status"] for each in after] == ["True", "True", "Unknown"]
    assert [each["lastTransitionTime"] for each in after][:2] == before[:2]


def test_heartbeats(server, cluster):
    """Leases are renewed every ten seconds, the status is reported every five minutes; a kubelet
    that is stopped does neither."""

    def renewed():
        leases = cluster.all("leases", "coordination.k8s.io/v1", "kube-node-lease")
        return {each["metadata"]["name"]: each["spec"]["renewTime"] for each in leases}

    def reported(name):
        return {each["lastHeartbeatTime"] for each in cluster.conditions(name).values()}

    server.nodes.stop("simulated-0")
    before, statuses = renewed(), [reported("simulated-0"), reported("simulated-1")]
    server.clock.advance("11s")
    after = renewed()
    assert [after[name] > before[name] for name in sorted(after)] == [False, True, True]
    server.clock.advance("5m")
    assert reported("simulated-0") == statuses[0]
    (time,) = reported("simulated-1")
    assert time > max(statuses[1])


def test_conditions(server, cluster):
    """Unhealthy conditions lead to taints; of a node that is not ready the pods are evicted."""
    server.state.load([workload("Deployment", 3)])
    server.objects.wait_for("deployment/web", "condition=Available")
    node = next(iter(cluster.pods().values()))[0]
    server.nodes.set_healthy(node, False, condition="MemoryPressure")
    assert cluster.conditions(node)["MemoryPressure"]["reason"] == "KubeletHasInsufficientMemory"
    assert cluster.taints(node) == {("node.kubernetes.io/memory-pressure", "NoSchedule")}
    server.nodes.set_healthy(node, False)
    server.nodes.set_healthy(node, True, condition="MemoryPressure")
    not_ready = "node.kubernetes.io/not-ready"
    server.clock.advance("10s")
    assert cluster.taints(node) == {(not_ready, "NoSchedule"), (not_ready, "NoExecute")}
    server.clock.advance("5m")
    assert node not in {pod[0] for pod in cluster.pods().values()}
    server.nodes.set_healthy(node, True)
    assert cluster.taints(node) == set()


def test_unknown_condition(server):
    with pytest.raises(ValueError, match=r"one of MemoryPressure, .*, not 'Hungry'"):
        server.nodes.set_healthy("simulated-0", False, condition="Hungry")


def test_idempotent(server, cluster):
    for _ in range(2):
        server.nodes.stop("simulated-0")
    for _ in range(2):
        server.nodes.start("simulated-0")
    server.clock.advance("10m")
    assert cluster.conditions("simulated-0")["Ready"]["status"] == "True"


def test_missing_node(server):
    with pytest.raises(StatusError, match='nodes "absent" not found'):
        server.nodes.stop("absent")


def test_server_that_does_not_simulate():
    with TestServer() as server, pytest.raises(RuntimeError, match="simulate=True"):
        server.nodes.stop("simulated-0")
