"""DaemonSets: the plan by tables, and the controller on a server."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.controllers.workloads.daemon_set.controller import DaemonSetController
from kapiserver.controllers.workloads.daemon_set.daemon_pods import (
    daemon_tolerations,
    eligibility_of,
    target_node_of,
)
from kapiserver.controllers.workloads.daemon_set.plan import Delay, plan_daemon_set
from tests.controllers.workloads.workloads import running

NOW = 1_735_689_600.0
LABELS = {"app": "log"}


def daemon_set(image="log:1", spec=None, **more):
    template = {"containers": [{"name": "log", "image": image}]} | (spec or {})
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "log", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": template},
            **more,
        },
    }


def a_node(name, labels=None, *taints):
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": list(taints)}}


def taint(key, effect, value=""):
    return {"key": key, "effect": effect, "value": value}


def rolling(unavailable=1, surge=0):
    rolling_update = {"maxUnavailable": unavailable, "maxSurge": surge}
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling_update}}


ON_ONE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("spec", "node", "should_run", "may_continue"),
    [
        ({}, a_node("n"), True, True),
        ({"nodeName": "n"}, a_node("n"), True, True),
        ({"nodeName": "m"}, a_node("n"), False, False),
        ({"nodeSelector": {"zone": "a"}}, a_node("n", {"zone": "a"}), True, True),
        ({"nodeSelector": {"zone": "a"}}, a_node("n"), False, False),
        ({"affinity": ON_ONE}, a_node("n", {"zone": "a"}), True, True),
        ({"affinity": ON_ONE}, a_node("n", {"zone": "b"}), False, False),
        ({}, a_node("n", {}, taint("x", "NoSchedule")), False, True),
        ({}, a_node("n", {}, taint("x", "NoExecute")), False, False),
        ({}, a_node("n", {}, taint("x", "PreferNoSchedule")), True, True),
        ({}, a_node("n", {}, taint("node.kubernetes.io/unreachable", "NoExecute")), True, True),
        ({}, a_node("n", {}, taint("node.kubernetes.io/unschedulable", "NoSchedule")), True, True),
        (
            {},
            a_node("n", {}, taint("node.kubernetes.io/network-unavailable", "NoSchedule")),
            False,
            True,
        ),
        (
            {"hostNetwork": True},
            a_node("n", {}, taint("node.kubernetes.io/network-unavailable", "NoSchedule")),
            True,
            True,
        ),
        (
            {"tolerations": [{"key": "x", "value": "1"}]},
            a_node("n", {}, taint("x", "NoSchedule", "1")),
            True,
            True,
        ),
    ],
)
def test_eligibility(spec, node, should_run, may_continue):
    eligibility = eligibility_of(daemon_set(spec=spec))(node)
    assert (eligibility.should_run, eligibility.may_continue) == (should_run, may_continue)


def test_tolerations_are_added_once():
    own = {"key": "x", "operator": "Exists"}
    first = daemon_tolerations({"tolerations": [own]})
    assert first[0] == own
    assert len(first) == 7
    assert daemon_tolerations({"tolerations": first}) == first


LETTERS = {"r": "ready", "p": "pending", "f": "failed", "s": "succeeded", "t": "terminating"}


def pods_of(text):
    """The pods of the nodes n0, n1, ..., which are divided by spaces: the state in lower case for
    the old revision, in upper case for the new one, "." for none."""
    pods = []
    for node, letters in enumerate(text.split()):
        for number, letter in enumerate(letters.strip(".")):
            state = LETTERS[letter.lower()]
            phases = {"pending": "Pending", "failed": "Failed", "succeeded": "Succeeded"}
            status = {"phase": phases.get(state, "Running")}
            if state in ("ready", "terminating"):
                status["conditions"] = [{"type": "Ready", "status": "True"}]
            metadata = {
                "name": f"p{node}{number}",
                "namespace": "shop",
                "labels": {"controller-revision-hash": "new" if letter.isupper() else "old"},
            }
            if state == "terminating":
                metadata["deletionTimestamp"] = "2025-01-01T00:00:00Z"
            pods.append({"metadata": metadata, "spec": {"nodeName": f"n{node}"}, "status": status})
    return pods


@pytest.mark.parametrize(
    ("more", "pods", "create", "delete"),
    [
        # One pod on each node.
        ({}, ". .", "n0 n1", ""),
        ({}, "R .", "n1", ""),
        ({}, "R RR", "", "p11"),
        ({}, "R T", "", ""),
        ({}, "R F", "", "p10"),
        ({}, "R S", "", "p10"),
        # A rolling update without surge.
        (rolling(1), "r r", "", "p00"),
        (rolling(1), "T r", "", ""),
        (rolling(1), ". r", "n0", ""),
        (rolling(1), "P r", "", ""),
        (rolling(1), "R r", "", "p10"),
        (rolling(1), "p r", "", "p00"),
        (rolling(2), "r r r", "", "p00 p10"),
        (rolling("50%"), "r r r", "", "p00 p10"),
        (rolling("10%"), "r r r", "", "p00"),
        ({"updateStrategy": {"type": "OnDelete"}}, "r r", "", ""),
        # A rolling update with surge.
        (rolling(0, 1), "r r", "n0", ""),
        (rolling(0, 2), "r r r", "n0 n1", ""),
        (rolling(0, 1), "rP r", "", ""),
        (rolling(0, 1), "rR r", "", "p00"),
        (rolling(0, 1), "pP r", "", "p00"),
        (rolling(0, 1), "p r", "n0 n1", ""),
        (rolling(0, 1), "R T", "n1", ""),
    ],
)
def test_plan(more, pods, create, delete):
    nodes = [a_node(f"n{number}") for number in range(len(pods.split()))]
    plan = plan_daemon_set(daemon_set(**more), nodes, pods_of(pods), "new", {}, NOW)
    assert plan.create == create.split()
    assert sorted(pod["metadata"]["name"] for pod in plan.delete) == delete.split()


def test_pods_of_other_nodes():
    """A pod on a node that is not eligible is deleted; one of a missing node only if unbound."""
    pods = pods_of("R R R")
    waiting = pods[2]
    waiting["spec"] = {"affinity": {"nodeAffinity": {}}}
    assert target_node_of(waiting) == ""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    waiting["spec"] = {"affinity": {"nodeAffinity": required}}
    nodes = [a_node("n0", {}, taint("x", "NoExecute"))]
    plan = plan_daemon_set(daemon_set(), nodes, pods, "new", {}, NOW)
    assert [pod["metadata"]["name"] for pod in plan.delete] == ["p00", "p20"]
    assert plan.status["numberMisscheduled"] == 1


def test_failed_pods_are_deleted_with_backoff():
    """Each failure on a node doubles the delay before the next pod is deleted."""
    owner, nodes, failed = daemon_set(), [a_node("n0")], pods_of("F")
    plan = plan_daemon_set(owner, nodes, failed, "new", {}, NOW)
    assert plan.delays == {"n0": Delay(1.0, NOW)}
    assert [(each.type, each.reason, each.message) for each in plan.events] == [
        (
            "Warning",
            "FailedDaemonPod",
            "Found failed daemon pod shop/p00 on node n0, will try to kill it",
        )
    ]
    plan = plan_daemon_set(owner, nodes, pods_of("R"), "new", plan.delays, NOW)
    plan = plan_daemon_set(owner, nodes, failed, "new", plan.delays, NOW + 0.25)
    assert (plan.delete, plan.requeue_after) == ([], 0.75)
    plan = plan_daemon_set(owner, nodes, failed, "new", plan.delays, NOW + 1)
    assert len(plan.delete) == 1
    assert plan.delays == {"n0": Delay(2.0, NOW + 1)}
    plan = plan_daemon_set(owner, nodes, failed, "new", plan.delays, NOW + 3600)
    assert plan.delays == {"n0": Delay(1.0, NOW + 3600)}


# On a server.


async def add_nodes(cluster, *names):
    """Add nodes without the taint not-ready, which the server gives to new nodes."""
    nodes = cluster.client.resource("v1", "nodes")
    for name in names:
        await nodes.create({"metadata": {"name": name}})
        await nodes.patch(name, {"spec": {"taints": None}})
    await cluster.settle()


async def make_ready(cluster):
    """Bind each pod to its node and make it ready; end the pods that are being deleted."""
    for pod in await cluster.items("pods", "v1"):
        name = pod["metadata"]["name"]
        if pod["metadata"].get("deletionTimestamp"):
            await cluster.pods.delete(name, {"gracePeriodSeconds": 0})
        elif not pod["spec"].get("nodeName"):
            target = {"kind": "Node", "name": target_node_of(pod)}
            binding = {"metadata": {"name": name}, "target": target}
            await cluster.pods.create(binding, name=name, subresource="binding")
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await cluster.pods.patch(name, {"status": ready}, subresource="status")
    await cluster.settle()


async def images(cluster):
    return sorted(
        (target_node_of(pod), pod["spec"]["containers"][0]["image"])
        for pod in await cluster.items("pods", "v1")
    )


def test_each_node_gets_a_pod_and_updates():
    """Pods follow the nodes; an update replaces them within its limits, and revisions are kept."""

    async def run():
        async with running(DaemonSetController) as cluster:
            await add_nodes(cluster, "n1", "n2")
            sets = cluster.objects("daemonsets")
            await sets.create(daemon_set())
            await cluster.settle()
            pods = await cluster.items("pods", "v1")
            (revision,) = await cluster.items("controllerrevisions")
            text = revision["metadata"]["labels"]["controller-revision-hash"]
            assert revision["metadata"]["name"] == f"log-{text}"
            assert {pod["metadata"]["labels"]["controller-revision-hash"] for pod in pods} == {text}
            await make_ready(cluster)
            await add_nodes(cluster, "n3")
            await make_ready(cluster)
            assert [node for node, _ in await images(cluster)] == ["n1", "n2", "n3"]
            assert (await sets.get("log"))["status"] == {
                "observedGeneration": 1,
                "currentNumberScheduled": 3,
                "desiredNumberScheduled": 3,
                "numberMisscheduled": 0,
                "numberReady": 3,
                "updatedNumberScheduled": 3,
                "numberAvailable": 3,
            }
            container = {"name": "log", "image": "log:2"}
            await sets.patch("log", {"spec": {"template": {"spec": {"containers": [container]}}}})
            for _ in range(10):
                await cluster.settle()
                assert (await sets.get("log"))["status"].get("numberUnavailable", 0) <= 1
                await make_ready(cluster)
            assert await images(cluster) == [(f"n{each}", "log:2") for each in (1, 2, 3)]
            assert (await sets.get("log"))["status"]["updatedNumberScheduled"] == 3
            revisions = await cluster.items("controllerrevisions")
            assert sorted(each["revision"] for each in revisions) == [1, 2]
            nodes = cluster.client.resource("v1", "nodes")
            await nodes.patch("n1", {"spec": {"taints": [taint("x", "NoExecute")]}})
            await cluster.settle()
            await make_ready(cluster)
            assert [node for node, _ in await images(cluster)] == ["n2", "n3"]

    asyncio.run(run())
