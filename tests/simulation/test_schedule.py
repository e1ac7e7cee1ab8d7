"""Decisions of the scheduler: its messages, scores and victims, and made-up clusters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.schedule import Placement, Unschedulable, schedule
from tests.simulation.scheduling import a_node, a_pod, a_snapshot, decide, on

TAINT = {"key": "color", "value": "blue", "effect": "NoSchedule"}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def named(*names):
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {REQUIRED: terms}}


@pytest.mark.parametrize(
    ("pod", "nodes", "message"),
    [
        (a_pod(), [], "no nodes available to schedule pods"),
        (
            a_pod(requests={"cpu": "4"}),
            [a_node("a", taints=[TAINT]), a_node("b", cpu="1"), a_node("c", cpu="1")],
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
            "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        ),
        (
            a_pod(requests={"cpu": "9", "memory": "9Gi"}),
            [a_node("a"), a_node("b", memory="16Gi")],
            "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu. "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            a_pod(nodeSelector={"disk": "ssd"}),
            [a_node("a")],
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        ),
        (
            a_pod(affinity=named("a"), requests={"cpu": "5"}),
            [a_node("a"), a_node("b"), a_node("c")],
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) "
            "[NodeAffinity]. preemption: 0/3 nodes are available: 3 Preemption is not helpful for "
            "scheduling.",
        ),
        (
            a_pod(affinity=named()),
            [a_node("a")],
            "0/1 nodes are available: pod affinity terms conflict. preemption: 0/1 nodes are "
            "available: 1 Preemption is not helpful for scheduling.",
        ),
        (
            a_pod(preemptionPolicy="Never"),
            [a_node("a", unschedulable=True)],
            "0/1 nodes are available: 1 node(s) were unschedulable. preemption: not eligible due "
            "to preemptionPolicy=Never.",
        ),
    ],
)
def test_messages(pod, nodes, message):
    """The message counts the nodes of each reason, in the words of kube-scheduler."""
    assert decide(pod, a_snapshot(nodes)) == message


def test_message_without_victims():
    """Pods of the same priority are no victims."""
    running = on("a", a_pod("big", {"cpu": "3"}))
    assert decide(a_pod(requests={"cpu": "2"}), a_snapshot([a_node("a")], [running])) == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )


def preferring(**fields):
    term = {"weight": 10, "preference": {"matchExpressions": [fields]}}
    return {"nodeAffinity": {PREFERRED: [term]}}


def weighted(kind, labels):
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {kind: {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}


def replica(name):
    pod = a_pod(name)
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "uid": "r", "controller": True}]
    return pod


ZONE = {"topology.kubernetes.io/zone": "a"}
SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
WEB = {"app": "web"}
ANYWAY = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": WEB},
}


@pytest.mark.parametrize(
    ("pod", "nodes", "running", "best"),
    [
        (a_pod(), [a_node("b"), a_node("a")], [], "a"),
        (a_pod(), [a_node("a"), a_node("b")], [on("a", a_pod("x"))], "b"),
        (a_pod(requests={"cpu": "1"}), [a_node("a", cpu="2"), a_node("b", cpu="4")], [], "b"),
        (a_pod(affinity=preferring(**SSD)),
         [a_node("a"), a_node("b", labels={"disk": "ssd"})], [], "b"),
        (a_pod(), [a_node("a", taints=[TAINT | {"effect": "PreferNoSchedule"}]), a_node("b")],
         [], "b"),
        (a_pod(affinity=weighted("podAffinity", WEB)), [a_node("a"), a_node("b")],
         [on("b", a_pod("x", labels=WEB))], "b"),
        (a_pod(affinity=weighted("podAntiAffinity", WEB)), [a_node("a"), a_node("b", cpu="1")],
         [on("a", a_pod("x", labels=WEB))], "b"),
        (a_pod(labels=WEB), [a_node("a"), a_node("b")],
         [on("b", a_pod("x", affinity=weighted("podAffinity", WEB)))], "b"),
        (replica("new"), [a_node("a", labels=ZONE), a_node("b", cpu="1", labels=ZONE)],
         [on("a", replica("old"))], "b"),
        (replica("new"), [a_node("a", labels=ZONE), a_node("b", labels=ZONE), a_node("c", cpu="1")],
         [on("a", replica("old"))], "c"),
        (a_pod(), [a_node("a", cpu="1000"), a_node("b", cpu="1000")], [on("a", a_pod("x"))], "b"),
        (a_pod(labels=WEB, topologySpreadConstraints=[ANYWAY]), [a_node("a"), a_node("b", cpu="1")],
         [on("a", a_pod("x", labels=WEB))], "b"),
    ],
)  # fmt: skip
def test_scores(pod, nodes, running, best):
    """The node with the highest score gets the pod, of equal ones the emptiest."""
    assert decide(pod, a_snapshot(nodes, running)) == best


def preempt(pod, nodes, running, budgets=()):
    """The victims on the chosen node."""
    snapshot = a_snapshot(nodes, running)
    for index, each in enumerate(budgets):
        snapshot.budgets["shop", str(index)] = each
    decision = schedule(PodInfo(pod), snapshot)
    assert isinstance(decision, Unschedulable)
    if not decision.victims:
        return None
    victims = [victim.name for victim in decision.victims]
    text = f"found a potential placement for pod on node {decision.nominated_node}"
    assert decision.message.endswith(f"preemption: {text}, preempting {len(victims)} victims")
    return decision.nominated_node, victims


def low(node, name, cpu, priority=0, **fields):
    return on(node, a_pod(name, {"cpu": cpu}, priority=priority, **fields))


HIGH = a_pod("high", {"cpu": "2"}, priority=100)
STARTED = {"startTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("running", "victims"),
    [
        ([low("a", "x", "4")], ("a", ["x"])),
        ([low("a", "x", "4", priority=100)], None),
        ([low("a", "x", "2"), low("a", "y", "2", priority=1)], ("a", ["x"])),
        ([low("a", "x", "2", status=STARTED), low("a", "y", "2")], ("a", ["y"])),
        ([low("a", "x", "1"), low("a", "y", "1"), low("a", "z", "2")], ("a", ["z"])),
        ([low("a", "x", "3", priority=5), low("b", "y", "3", priority=1)], ("b", ["y"])),
        ([low("a", "x", "1"), low("a", "y", "3"), low("b", "z", "4", priority=1)], ("a", ["y"])),
        ([low("a", "x", "4", priority=100), low("b", "y", "4")], ("b", ["y"])),
    ],
)
def test_victims(running, victims):
    """The fewest and least important pods of lower priority end."""
    nodes = [a_node(name) for name in sorted({pod["spec"]["nodeName"] for pod in running})]
    assert preempt(HIGH, nodes, running) == victims


GIB = 1 << 30


def with_images(node, **images):
    found = [
        {"names": [f"{name}:latest", f"{name}@sha256:1"], "sizeBytes": size}
        for name, size in images.items()
    ]
    return node | {"status": node["status"] | {"images": found}}


@pytest.mark.parametrize(
    ("images", "best"),
    [
        ([{}, {}], "a"),
        ([{}, {"i": GIB}], "b"),
        ([{}, {"other": GIB}], "a"),
        ([{"i": GIB}, {"i": GIB}], "a"),
        ([{}, {"i": GIB // 1024}], "a"),
    ],
)
def test_images(images, best):
    """A node that has the image of a pod is better, unless the image is small."""
    nodes = [with_images(a_node(name), **each) for name, each in zip("ab", images, strict=True)]
    assert decide(a_pod(), a_snapshot(nodes)) == best


def test_images_of_nodes():
    """The snapshot counts the nodes with an image."""
    snapshot = a_snapshot([with_images(a_node(name), i=GIB) for name in "ab"])
    assert snapshot.nodes_with_image == {"i:latest": 2, "i@sha256:1": 2}
    snapshot.set_node(a_node("a"))
    assert snapshot.nodes_with_image == {"i:latest": 1, "i@sha256:1": 1}
    snapshot.remove_node("b")
    assert not snapshot.nodes_with_image


def budget(name, allowed, labels, **status):
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed} | status,
    }


GUARDED = {"app": "guarded"}


@pytest.mark.parametrize(
    ("budgets", "victims"),
    [
        ([], ("a", ["x"])),
        ([budget("b", 0, GUARDED)], ("b", ["y"])),
        ([budget("b", 1, GUARDED)], ("a", ["x"])),
        ([budget("b", 0, GUARDED, disruptedPods={"x": "2026-01-01T00:00:00Z"})], ("a", ["x"])),
        ([budget("b", 0, {})], ("a", ["x"])),
        ([budget("b", 0, GUARDED) | {"metadata": {"name": "b", "namespace": "other"}}],
         ("a", ["x"])),
    ],
)  # fmt: skip
def test_budgets(budgets, victims):
    """A node where no budget is violated is better than one with less important victims."""
    running = [low("a", "x", "4", labels=GUARDED), low("b", "y", "4", priority=10)]
    assert preempt(HIGH, [a_node("a"), a_node("b")], running, budgets) == victims


@pytest.mark.parametrize(
    ("running", "victims"),
    [
        ([low("a", "x", "2", labels=GUARDED), low("a", "y", "2", priority=5)], ["y"]),
        ([low("a", "x", "4", labels=GUARDED)], ["x"]),
        (
            [low("a", "x", "1", labels=GUARDED), low("a", "y", "1", 5), low("a", "z", "2", 9)],
            ["z"],
        ),
    ],
)
def test_protected_pods_are_put_back_first(running, victims):
    """On a node, a pod that a budget protects is a victim only if nothing else helps."""
    budgets = [budget("b", 0, GUARDED)]
    assert preempt(HIGH, [a_node("a")], running, budgets) == ("a", victims)


VICTIM = {
    "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    ]
}


def test_pods_that_end_for_other_reasons():
    """A pod that somebody deletes on the nominated node is no reason to wait."""
    pod = HIGH | {"status": {"nominatedNodeName": "b"}}
    ending = low("b", "x", "4")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    running = [low("a", "y", "4"), ending]
    assert preempt(pod, [a_node("a"), a_node("b")], running) == ("a", ["y"])


def test_nominated_pod_waits_for_its_victims():
    """A pod whose victims are ending causes no more victims, and gets its node when it is free."""
    pod = HIGH | {"status": {"nominatedNodeName": "b"}}
    ending = low("b", "x", "4", status=VICTIM)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    snapshot = a_snapshot([a_node("a"), a_node("b")], [low("a", "y", "4"), ending])
    assert decide(pod, snapshot).endswith(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    snapshot.remove_pod("shop/x")
    assert decide(pod, snapshot) == "b"


@pytest.mark.parametrize(("priority", "node"), [(0, "b"), (100, "b"), (101, "a")])
def test_nominated_pods_keep_their_room(priority, node):
    """A pod that is nominated for a node keeps the room there from pods of no higher priority."""
    snapshot = a_snapshot([a_node("a", cpu="4"), a_node("b", cpu="2")])
    snapshot.nominated["shop/high"] = PodInfo(a_pod("high", {"cpu": "3"}, priority=100), "a")
    assert decide(a_pod(requests={"cpu": "2"}, priority=priority), snapshot) == node
    assert not snapshot.node("a").pods


def test_nominated_pods_are_not_displaced():
    """A pod does not displace others for the room that a more important pod will take."""
    snapshot = a_snapshot([a_node("a", cpu="2")], [low("a", "x", "2")])
    snapshot.nominated["shop/high"] = PodInfo(a_pod("high", {"cpu": "2"}, priority=100), "a")
    decision = schedule(PodInfo(a_pod(requests={"cpu": "1"}, priority=50)), snapshot)
    assert (decision.nominated_node, decision.victims) == ("", ())


sizes = st.integers(min_value=0, max_value=5)


@settings(max_examples=200)
@given(
    capacities=st.lists(st.tuples(sizes, sizes, sizes), max_size=130),
    pods=st.lists(st.tuples(sizes, sizes), max_size=40),
)
def test_no_node_is_overcommitted(capacities, pods):
    """Whatever comes, no node gets more than it has, and a pod that would fit gets a node."""
    nodes = [
        a_node(f"n{index:03}", cpu=str(cpu), memory=f"{memory}Gi", pods=str(count))
        for index, (cpu, memory, count) in enumerate(capacities)
    ]
    snapshot = a_snapshot(nodes)
    free = {f"n{index:03}": list(capacity) for index, capacity in enumerate(capacities)}
    for index, (cpu, memory) in enumerate(pods):
        pod = a_pod(f"p{index}", {"cpu": str(cpu), "memory": f"{memory}Gi"})
        wanted = (cpu, memory, 1)
        fitting = {
            name
            for name, room in free.items()
            if room[2]
            and all(size <= left or not size for size, left in zip(wanted, room, strict=True))
        }
        decision = schedule(PodInfo(pod), snapshot)
        assert isinstance(decision, Placement) == bool(fitting)
        if isinstance(decision, Placement):
            assert decision.node in fitting
            free[decision.node] = [
                left - size for left, size in zip(free[decision.node], wanted, strict=True)
            ]
            snapshot.add_pod(PodInfo(pod, decision.node))


@settings(max_examples=150)
@given(
    cpus=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    running=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 3), st.booleans()),
        max_size=10,
    ),
    wanted=st.integers(1, 4),
    priority=st.integers(0, 3),
    allowed=st.integers(0, 3),
)
def test_made_up_preemptions(cpus, running, wanted, priority, allowed):
    """Victims have a lower priority and make room; without one of them the pod would not fit; and
    no budget is violated if another node has victims that violate none."""
    free, pods = dict(enumerate(cpus)), {}
    for index, (node, cpu, pod_priority, is_guarded) in enumerate(running):
        if free.get(node, 0) >= cpu:
            free[node] -= cpu
            labels = GUARDED if is_guarded else {}
            fields = {"priority": pod_priority, "labels": labels}
            pods[f"p{index}"] = (node, cpu, low(f"n{node}", f"p{index}", str(cpu), **fields))
    nodes = [a_node(f"n{node}", cpu=str(cpu)) for node, cpu in enumerate(cpus)]
    snapshot = a_snapshot(nodes, [pod for *_, pod in pods.values()])
    snapshot.budgets["shop", "b"] = budget("b", allowed, GUARDED)
    decision = schedule(PodInfo(a_pod("new", {"cpu": str(wanted)}, priority=priority)), snapshot)
    fits_now = any(room >= wanted for room in free.values())
    assert isinstance(decision, Placement) == fits_now
    if fits_now:
        return
    lower = {name for name, (*_, pod) in pods.items() if pod["spec"]["priority"] < priority}
    helps = {
        node
        for node, room in free.items()
        if room + sum(pods[name][1] for name in lower if pods[name][0] == node) >= wanted
    }
    assert bool(decision.victims) == bool(helps)
    if not decision.victims:
        return
    victims = {victim.name for victim in decision.victims}
    (node,) = {pods[name][0] for name in victims}
    assert decision.nominated_node == f"n{node}"
    assert victims <= lower
    sizes = [pods[name][1] for name in victims]
    assert free[node] + sum(sizes) >= wanted
    assert all(free[node] + sum(sizes) - size < wanted for size in sizes)
    guarded = sum(pods[name][2]["metadata"]["labels"] == GUARDED for name in victims)
    plain_helps = any(
        free[other]
        + sum(
            pods[name][1]
            for name in lower
            if pods[name][0] == other and not pods[name][2]["metadata"]["labels"]
        )
        >= wanted
        for other in helps
    )
    assert guarded <= allowed or not plain_helps
    assert len(snapshot.node(f"n{node}").pods) == sum(each[0] == node for each in pods.values())
