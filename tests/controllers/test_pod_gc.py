"""Garbage collection of pods, on a clock that the test moves."""

import asyncio

import pytest

from kapiserver.controllers.nodes.pod_gc import failure_of, is_out_of_service, surplus_pods
from tests.controllers.workloads.workloads import running

NOW = 1_700_000_000.0


class Pods:
    """Pods in one namespace, and nodes."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.nodes = cluster.client.resource("v1", "nodes")
        self.pods = cluster.pods

    async def create(self, name, node="", phase="", **metadata):
        spec = {"containers": [{"name": "main", "image": "busybox"}]}
        if node:
            spec["nodeName"] = node
        await self.pods.create({"metadata": {"name": name, **metadata}, "spec": spec})
        if phase:
            await self.pods.patch(name, {"status": {"phase": phase}}, subresource="status")
        await self.cluster.settle()

    async def names(self):
        return sorted(pod["metadata"]["name"] for pod in (await self.pods.list())["items"])


def on_pods(test, **settings):
    async def run():
        async with running("pod-garbage-collector-controller", **settings) as cluster:
            await test(Pods(cluster))

    asyncio.run(run())


def test_the_pods_of_a_deleted_node():
    async def run(pods):
        await pods.nodes.create({"metadata": {"name": "one"}})
        await pods.nodes.create({"metadata": {"name": "two"}})
        await pods.create("web", "one", "Running", finalizers=["test/held"])
        await pods.create("done", "one", "Succeeded")
        await pods.create("other", "two", "Running")
        await pods.nodes.delete("one")
        await pods.cluster.advance(39)
        assert await pods.names() == ["done", "other", "web"]
        await pods.cluster.advance(1)
        assert await pods.names() == ["other", "web"]
        pod = await pods.pods.get("web")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 0
        assert pod["status"]["phase"] == "Failed"
        (condition,) = pod["status"]["conditions"]
        assert condition["type"] == "DisruptionTarget"
        assert condition["reason"] == "DeletionByPodGC"
        assert condition["message"] == "PodGC: node no longer exists"

    on_pods(run)


def test_a_node_that_comes_late():
    async def run(pods):
        await pods.create("web", "late", "Running")
        await pods.create("lost", "never", "Running")
        await pods.cluster.advance(30)
        await pods.nodes.create({"metadata": {"name": "late"}})
        await pods.cluster.advance(10)
        assert await pods.names() == ["web"]

    on_pods(run)


def test_a_terminating_pod_without_a_node():
    """The server deletes such a pod at once; only a finalizer keeps it, as a failed pod."""

    async def run(pods):
        await pods.create("web", finalizers=["test/held"])
        await pods.pods.delete("web")
        await pods.cluster.settle()
        assert (await pods.pods.get("web"))["status"]["phase"] == "Failed"

    on_pods(run)


def test_an_out_of_service_node():
    """Only pods that are being deleted are given up with their node."""

    async def run(pods):
        await pods.nodes.create({"metadata": {"name": "one"}})
        await pods.create("gone", "one", "Running")
        await pods.create("kept", "one", "Running")
        await pods.pods.delete("gone")
        await pods.cluster.settle()
        assert await pods.names() == ["gone", "kept"]
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        await pods.nodes.patch("one", {"spec": {"taints": [taint]}})
        await pods.cluster.settle()
        assert await pods.names() == ["kept"]
        await pods.pods.delete("kept")
        await pods.cluster.settle()
        assert await pods.names() == []

    on_pods(run)


def test_ended_pods():
    async def run(pods):
        await pods.nodes.create({"metadata": {"name": "one"}})
        for number in range(4):
            await pods.create(f"pod-{number}", "one", "Failed" if number else "Succeeded")
        assert len(await pods.names()) == 4
        await pods.cluster.advance(20)
        assert await pods.names() == ["pod-2", "pod-3"]

        deleted = pods.cluster.server.metrics.controllers.pods_deleted_by_gc.values
        assert deleted == {("shop", "terminated"): 2}

    on_pods(run, terminated_pod_gc_threshold=2)


def pod(name, created="2026-01-01T00:00:00Z", phase="Failed", **status):
    return {
        "metadata": {"name": name, "creationTimestamp": created, "uid": name, "generation": 3},
        "status": {"phase": phase, **status},
    }


@pytest.mark.parametrize(
    ("limit", "names"),
    [(0, []), (1, ["evicted", "old", "a"]), (3, ["evicted"]), (4, []), (9, [])],
)
def test_surplus(limit, names):
    """Evicted pods go first, then the oldest. No limit keeps all."""
    pods = [
        pod("b", "2026-01-03T00:00:00Z"),
        pod("a", "2026-01-03T00:00:00Z", "Succeeded"),
        pod("old", "2026-01-02T00:00:00Z"),
        pod("evicted", "2026-01-04T00:00:00Z", reason="Evicted"),
    ]
    assert [each["metadata"]["name"] for each in surplus_pods(pods, limit)] == names


def test_failures():
    assert failure_of(pod("a"), "why", NOW) is None
    assert failure_of(pod("a", phase="Running"), "", NOW) == {
        "metadata": {"uid": "a"},
        "status": {"phase": "Failed", "observedGeneration": 3},
    }
    (condition,) = failure_of(pod("a", phase="Running"), "why", NOW)["status"]["conditions"]
    assert (condition["observedGeneration"], condition["message"]) == (3, "why")


@pytest.mark.parametrize(
    ("taint", "ready", "expected"),
    [
        ("node.kubernetes.io/out-of-service", "Unknown", True),
        ("node.kubernetes.io/out-of-service", "False", True),
        ("node.kubernetes.io/out-of-service", "True", False),
        ("node.kubernetes.io/not-ready", "False", False),
    ],
)
def test_out_of_service(taint, ready, expected):
    node = {
        "spec": {"taints": [{"key": taint}]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }
    assert is_out_of_service(node) is expected
