"""Pods that somebody binds to a node by hand: the kubelet may reject them."""

from __future__ import annotations

import pytest

from kapiserver.apiserver.user import APISERVER
from kapiserver.simulation.pod_admission import AdmittedPods, rejected_status
from kapiserver.testing.server import TestServer
from tests.simulation.scheduling import a_container, a_node, a_pod, on

AFFINITY = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
PORTS = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
TAINTS = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
OS_LABEL = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
OS_FIELD = "Failed to admit pod as the OS field doesn't match node OS"
LACKS = "Node didn't have enough resource: "
WITH_PORT = [a_container(ports=[{"hostPort": 80, "containerPort": 80}])]
GPU = {"example.com/gpu": "2"}


@pytest.mark.parametrize(
    ("pod", "rejection"),
    [
        (a_pod(), None),
        (a_pod(requests={"cpu": "3"}), None),
        (
            a_pod(requests={"cpu": "3500m", "memory": "1Ti"}),
            ("OutOfcpu", f"{LACKS}cpu, requested: 3500, used: 1000, capacity: 4000"),
        ),
        (
            a_pod(requests={"memory": "9Gi"}),
            (
                "OutOfmemory",
                f"{LACKS}memory, requested: 9663676416, used: 0, capacity: 8589934592",
            ),
        ),
        (
            a_pod(requests={"ephemeral-storage": "1Gi"}),
            (
                "OutOfephemeral-storage",
                f"{LACKS}ephemeral-storage, requested: 1073741824, used: 0, capacity: 0",
            ),
        ),
        (
            a_pod(requests=GPU),
            ("OutOfexample.com/gpu", f"{LACKS}example.com/gpu, requested: 2, used: 0, capacity: 1"),
        ),
        (a_pod(requests={"example.com/unknown": "2"}), None),
        (a_pod(requests={"cpu": "100"}, priority=2_000_001_000), None),
        (a_pod(nodeSelector={"disk": "ssd"}), ("NodeAffinity", AFFINITY)),
        (a_pod(nodeSelector={"kubernetes.io/hostname": "one"}), None),
        (a_pod(containers=WITH_PORT), ("NodePorts", PORTS)),
        (a_pod(os={"name": "windows"}), ("PodOSNotSupported", OS_FIELD)),
        (
            a_pod(labels={"kubernetes.io/os": "windows"}),
            ("PodOSSelectorNodeLabelDoesNotMatch", OS_LABEL),
        ),
        (a_pod(os={"name": "linux"}, labels={"kubernetes.io/os": "linux"}), None),
    ],
)
def test_reasons(pod, rejection):
    """The first reason counts, beside a pod that has a port and a CPU."""
    admitted = AdmittedPods()
    admitted.add(on("one", a_pod("user", containers=[WITH_PORT[0] | a_container({"cpu": "1"})])))
    admitted.add(on("one", a_pod("port", containers=WITH_PORT)))
    admitted.add(on("two", a_pod("elsewhere", requests={"cpu": "4"})))
    assert admitted.rejection(pod, a_node(**{"example.com/gpu": "1"})) == rejection


def test_number_of_pods():
    admitted = AdmittedPods()
    node = a_node(pods="1")
    assert admitted.rejection(a_pod(), node) is None
    admitted.add(on("one", a_pod("other")))
    message = f"{LACKS}pods, requested: 1, used: 1, capacity: 1"
    assert admitted.rejection(a_pod(), node) == ("OutOfpods", message)
    admitted.remove("shop/other")
    assert admitted.rejection(a_pod(), node) is None


def test_taints():
    """Only taints that evict pods count."""
    admitted = AdmittedPods()
    assert (
        admitted.rejection(a_pod(), a_node(taints=[{"key": "a", "effect": "NoSchedule"}])) is None
    )
    node = a_node(taints=[{"key": "a", "effect": "NoExecute"}])
    assert admitted.rejection(a_pod(), node) == ("TaintToleration", TAINTS)
    assert admitted.rejection(a_pod(tolerations=[{"operator": "Exists"}]), node) is None


def test_status():
    pod = a_pod(nodeSelector={"disk": "ssd"}, status={"qosClass": "BestEffort", "conditions": []})
    rejection = AdmittedPods().rejection(pod, a_node())
    assert rejected_status(pod, rejection, 0) == {
        "observedGeneration": 0,
        "phase": "Failed",
        "reason": "NodeAffinity",
        "message": f"Pod was rejected: {AFFINITY}",
        "startTime": "1970-01-01T00:00:00Z",
        "qosClass": "BestEffort",
    }


@pytest.mark.anyio
async def test_pods_on_a_server():
    """Pods that come at the same time share the node; a rejected one fails, with an event, and its
    room is free when another pod ends."""
    async with TestServer(simulate=True) as server:
        await server.settle_async()
        client = server.running.cluster.server.client(APISERVER, authorize=False)
        pods = client.resource("v1", "pods", namespace="default")

        async def create(name, cpu):
            spec = a_pod(requests={"cpu": cpu}, nodeName="simulated-0")["spec"]
            await pods.create({"metadata": {"name": name}, "spec": spec})

        async def status(name):
            await server.settle_async()
            return (await pods.get(name))["status"]

        for name in ("one", "two", "three"):
            await create(name, "16")
        await server.clock.advance_async("1s")
        phases = [(await status(name))["phase"] for name in ("one", "two", "three")]
        assert sorted(phases) == ["Failed", "Running", "Running"]
        rejected = ("one", "two", "three")[phases.index("Failed")]
        found = await status(rejected)
        assert found["reason"] == "OutOfcpu"
        assert found["message"] == (
            f"Pod was rejected: {LACKS}cpu, requested: 16000, used: 32000, capacity: 32000"
        )
        events = await client.resource("v1", "events", namespace="default").list()
        (event,) = (each for each in events["items"] if each["reason"] == "OutOfcpu")
        assert (event["type"], event["involvedObject"]["name"]) == ("Warning", rejected)
        assert event["message"] == found["message"].removeprefix("Pod was rejected: ")
        await pods.delete(("one", "two", "three")[phases.index("Running")])
        await create("four", "16")
        assert (await status("four"))["phase"] == "Running"
