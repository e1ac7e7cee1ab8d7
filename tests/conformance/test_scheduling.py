"""sig-scheduling: which nodes pods get, and which pods give way."""

from __future__ import annotations

import pytest

from tests.conformance.cluster import condition, meta, name_of, pod, spec

HOST = "kubernetes.io/hostname"
SCARCE = "scheduling.k8s.io/foo"


@pytest.fixture
def node(cluster):
    """The name of a node with five units of a resource; it goes when the test ends."""
    labels = {"simulation.kapiserver.dev/simulated": "true", HOST: f"n-{cluster.namespace}"}
    name = f"n-{cluster.namespace}"
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "20", SCARCE: "5"}
    cluster.create("nodes", meta(name, labels) | {"status": {"capacity": capacity}})
    assert condition(cluster.get("nodes", name), "Ready")["status"] == "True"
    yield name
    cluster.delete_all("pods")
    cluster.delete("nodes", name)


@pytest.fixture
def priorities(cluster):
    """The names of a low and a high priority class."""
    names = {"low": 1, "medium": 5, "high": 1000}
    found = {each: f"{each}-{cluster.namespace}" for each in names}
    for each, value in names.items():
        cluster.create("priorityclasses", meta(found[each]) | {"value": value})
    yield found
    for name in found.values():
        cluster.delete("priorityclasses", name)


def on(node, name, amount="1", resource=SCARCE, labels=None, **fields):
    """A pod for a node, which requests an amount of a resource."""
    found = pod(name, labels, nodeSelector={HOST: node}, **fields)
    resources = {"requests": {resource: amount}, "limits": {resource: amount}}
    found["spec"]["containers"][0]["resources"] = resources
    return found


def is_pending(cluster, name):
    found = cluster.get("pods", name)
    scheduled = condition(found, "PodScheduled")
    return (scheduled["status"], scheduled.get("reason")) == ("False", "Unschedulable")


@spec("SchedulerPredicates validates resource limits of pods that are allowed to run")
def test_limits(cluster, node):
    cluster.create("pods", on(node, "filler", "2800m", "cpu"))
    assert cluster.get("pods", "filler")["spec"]["nodeName"] == node
    cluster.create("pods", on(node, "additional", "2", "cpu"))
    assert is_pending(cluster, "additional")
    assert "Insufficient cpu" in cluster.events("FailedScheduling")[0]


@spec("SchedulerPredicates validates that NodeSelector is respected if not matching")
def test_selector_without_node(cluster):
    cluster.create("pods", pod("restricted", nodeSelector={"label": "nonempty"}))
    assert is_pending(cluster, "restricted")
    assert "didn't match Pod's node affinity/selector" in cluster.events("FailedScheduling")[0]


@spec("SchedulerPredicates validates that NodeSelector is respected if matching")
def test_selector(cluster, node):
    cluster.patch("nodes", node, {"metadata": {"labels": {"kubernetes.io/e2e": "42"}}})
    cluster.create("pods", pod("with-labels", nodeSelector={"kubernetes.io/e2e": "42"}))
    assert cluster.get("pods", "with-labels")["spec"]["nodeName"] == node


@spec(
    "SchedulerPredicates validates that there exists conflict between pods with same hostPort and "
    "protocol but one using 0.0.0.0 hostIP"
)
def test_host_ports(cluster, node):
    for name, address in (("pod4", "0.0.0.0"), ("pod5", "172.18.0.9")):
        port = {"containerPort": 80, "hostPort": 54322, "protocol": "TCP", "hostIP": address}
        found = pod(name, nodeSelector={HOST: node})
        found["spec"]["containers"][0]["ports"] = [port]
        cluster.create("pods", found)
        cluster.list("pods")
    assert cluster.get("pods", "pod4")["status"]["phase"] == "Running"
    assert is_pending(cluster, "pod5")


@spec("SchedulerPreemption validates basic preemption works")
def test_preemption(cluster, node, priorities):
    for name, priority, amount in (("victim", "low", "3"), ("other", "medium", "2")):
        cluster.create("pods", on(node, name, amount, priorityClassName=priorities[priority]))
        assert cluster.get("pods", name)["status"]["phase"] == "Running"
    cluster.create("pods", on(node, "preemptor", "3", priorityClassName=priorities["high"]))
    assert cluster.get("pods", "preemptor")["spec"]["nodeName"] == node
    cluster.get("pods", "victim", status=404)
    assert cluster.get("pods", "other")["status"]["phase"] == "Running"


@spec("SchedulerPreemption validates lower priority pod preemption by critical pod")
def test_critical_pod(cluster, node, priorities):
    cluster.create("pods", on(node, "victim", "5", priorityClassName=priorities["low"]))
    assert cluster.get("pods", "victim")["status"]["phase"] == "Running"
    system = type(cluster)(cluster.server, "kube-system")
    critical = on(node, "critical-pod", "3", priorityClassName="system-cluster-critical")
    system.create("pods", critical)
    assert system.get("pods", "critical-pod")["spec"]["nodeName"] == node
    cluster.get("pods", "victim", status=404)
    system.delete("pods", "critical-pod")


@spec("SchedulerPreemption validates pod disruption condition is added to the preempted pod")
def test_disruption_condition(cluster, node, priorities):
    victim = on(node, "victim", "5", priorityClassName=priorities["low"])
    victim["metadata"]["finalizers"] = ["example.com/test-finalizer"]
    cluster.create("pods", victim)
    assert cluster.get("pods", "victim")["status"]["phase"] == "Running"
    cluster.create("pods", on(node, "preemptor", "3", priorityClassName=priorities["high"]))
    found = condition(cluster.get("pods", "victim"), "DisruptionTarget")
    assert (found["status"], found["reason"]) == ("True", "PreemptionByScheduler")
    cluster.patch("pods", "victim", {"metadata": {"finalizers": None}})
    assert cluster.get("pods", "preemptor")["spec"]["nodeName"] == node


@spec(
    "SchedulerPreemption PreemptionExecutionPath runs ReplicaSets to verify preemption running path"
)
def test_replica_sets(cluster, node, priorities):
    """Pods of higher priorities take the place of lower ones, and no more than that."""
    for number, (priority, replicas) in enumerate((("low", 5), ("medium", 3), ("high", 1))):
        labels = {"name": f"rs-{number}"}
        of_pod = on(node, "unused", labels=labels, priorityClassName=priorities[priority])
        del of_pod["metadata"]["name"]
        fields = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": of_pod}
        cluster.create("replicasets", meta(f"rs-{number}", labels) | {"spec": fields})
        cluster.list("pods")
        cluster.advance("5s")

    def running(number):
        pods = cluster.pods(f"name=rs-{number}")
        return len([each for each in pods if each["status"]["phase"] == "Running"])

    assert [running(number) for number in range(3)] == [1, 3, 1]
    assert name_of(cluster.get("nodes", node)) == node
