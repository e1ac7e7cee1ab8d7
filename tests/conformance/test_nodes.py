"""sig-node: nodes, and pods that taints evict from them."""

from __future__ import annotations

from tests.conformance.api_operations import check_operations
from tests.conformance.cluster import is_ready, meta, name_of, pod, spec


@spec("Node Lifecycle should run through the lifecycle of a node")
def test_node(cluster):
    obj = meta(f"node-{cluster.namespace}") | {"spec": {"unschedulable": True}}
    check_operations(cluster, "nodes", obj, {"phase": "Running"})


def taint(cluster, node, *taints):
    cluster.patch("nodes", node, {"spec": {"taints": list(taints)}})


EVICT = {"key": "kubernetes.io/e2e-evict-taint-key", "value": "v", "effect": "NoExecute"}


def tolerant(name, seconds, node):
    toleration = {"key": EVICT["key"], "value": "v", "operator": "Equal", "effect": "NoExecute"}
    toleration["tolerationSeconds"] = seconds
    return pod(name, {"group": "taint-eviction"}, nodeName=node, tolerations=[toleration])


@spec("NoExecuteTaintManager Single Pod removing taint cancels eviction")
def test_removed_taint(cluster):
    cluster.create("pods", tolerant("web", 60, "simulated-0"))
    assert is_ready(cluster.get("pods", "web"))
    taint(cluster, "simulated-0", EVICT)
    cluster.server.settle()
    cluster.advance("30s")
    assert name_of(cluster.get("pods", "web")) == "web"
    taint(cluster, "simulated-0")
    cluster.server.settle()
    cluster.advance("2m")
    assert is_ready(cluster.get("pods", "web"))


@spec("NoExecuteTaintManager Multiple Pods evicts pods with minTolerationSeconds")
def test_shortest_toleration(cluster):
    for name, seconds in (("one", 5), ("two", 25)):
        cluster.create("pods", tolerant(name, seconds, "simulated-0"))
    cluster.list("pods")
    taint(cluster, "simulated-0", EVICT)
    cluster.server.settle()
    cluster.advance("6s")
    assert cluster.names("pods") == ["two"]
    cluster.advance("20s")
    assert cluster.names("pods") == []
    taint(cluster, "simulated-0")
