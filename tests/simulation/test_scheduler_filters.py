"""The filters of the scheduler: for each a table of nodes that pass and of reasons."""

from __future__ import annotations

import pytest

from kapiserver.simulation.scheduler.plugins.filters import checks_for, rejection_of
from kapiserver.simulation.scheduler.pod_info import PodInfo
from tests.simulation.scheduling import a_container, a_node, a_pod, a_snapshot, on

AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint(s)"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def reasons(pod, node, pods=(), **snapshot):
    """The reasons for which a pod cannot run on a node, the only one of the cluster."""
    snapshot = a_snapshot([node], pods, **snapshot)
    info = PodInfo(pod)
    rejection = rejection_of(snapshot.nodes[0], checks_for(info, snapshot))
    return set(rejection.reasons) if rejection else set()


def required(*terms):
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


ONE_CPU = a_container({"cpu": "1", "memory": "1Gi"})
SIDECAR = a_container({"cpu": "1"}, restartPolicy="Always")


@pytest.mark.parametrize(
    ("pod", "allocatable", "expected"),
    [
        (a_pod(requests={"cpu": "4"}), {}, set()),
        (a_pod(requests={"cpu": "4001m"}), {}, {"Insufficient cpu"}),
        (
            a_pod(requests={"cpu": "5", "memory": "9Gi"}),
            {},
            {"Insufficient cpu", "Insufficient memory"},
        ),
        (a_pod(), {"pods": "0"}, {"Too many pods"}),
        (a_pod(requests={"x.io/gpu": "1"}), {}, {"Insufficient x.io/gpu"}),
        (a_pod(requests={"x.io/gpu": "1"}), {"x.io/gpu": "1"}, set()),
        (a_pod(requests={"ephemeral-storage": "1"}), {}, {"Insufficient ephemeral-storage"}),
        (a_pod(requests={"cpu": "0"}), {"cpu": "0"}, set()),
        (a_pod(containers=[ONE_CPU, ONE_CPU]), {"cpu": "2"}, set()),
        (a_pod(containers=[ONE_CPU, ONE_CPU]), {"cpu": "1"}, {"Insufficient cpu"}),
        (a_pod(initContainers=[ONE_CPU, ONE_CPU]), {"cpu": "1"}, set()),
        (a_pod(initContainers=[SIDECAR, ONE_CPU]), {"cpu": "1"}, {"Insufficient cpu"}),
        (
            a_pod(containers=[ONE_CPU], initContainers=[SIDECAR]),
            {"cpu": "1999m"},
            {"Insufficient cpu"},
        ),
        (a_pod(overhead={"cpu": "1m"}, containers=[ONE_CPU]), {"cpu": "1"}, {"Insufficient cpu"}),
        (a_pod(resources={"requests": {"cpu": "2"}}), {"cpu": "1"}, {"Insufficient cpu"}),
    ],
)
def test_resources(pod, allocatable, expected):
    """Requests of containers, init containers, sidecars, the pod and its overhead must fit."""
    node = a_node()
    node["status"]["allocatable"] |= allocatable
    assert reasons(pod, node) == expected


def test_resources_of_running_pods():
    """What pods on the node request is not free; what they requested is, when they are removed."""
    big = a_pod("big", {"cpu": "3"})
    snapshot = a_snapshot([a_node()], [on("one", big)])
    pod = PodInfo(a_pod(requests={"cpu": "2"}))
    node = snapshot.nodes[0]
    assert rejection_of(node, checks_for(pod, snapshot)).reasons == ("Insufficient cpu",)
    snapshot.remove_pod("shop/big")
    assert rejection_of(node, checks_for(pod, snapshot)) is None
    assert set(node.requested.values()) == {0}


BLUE = {"key": "color", "value": "blue", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taint", "toleration", "expected"),
    [
        (BLUE, None, {TAINTED}),
        (BLUE | {"effect": "NoExecute"}, None, {TAINTED}),
        (BLUE | {"effect": "PreferNoSchedule"}, None, set()),
        (BLUE, {"key": "color", "operator": "Exists"}, set()),
        (BLUE, {"operator": "Exists"}, set()),
        (BLUE, {"key": "color", "value": "blue"}, set()),
        (BLUE, {"key": "color", "operator": "Equal", "value": "blue"}, set()),
        (BLUE, {"key": "color", "value": "red"}, {TAINTED}),
        (BLUE, {"key": "colour", "operator": "Exists"}, {TAINTED}),
        (BLUE, {"key": "color", "operator": "Exists", "effect": "NoExecute"}, {TAINTED}),
    ],
)
def test_taints(taint, toleration, expected):
    """A taint keeps pods away that do not tolerate it."""
    pod = a_pod(tolerations=[toleration] if toleration else [])
    assert reasons(pod, a_node(taints=[taint])) == expected


def test_unschedulable():
    """A cordoned node takes only pods that tolerate it, as those of DaemonSets do."""
    node = a_node(unschedulable=True)
    cordoned = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    assert reasons(a_pod(), node) == {"node(s) were unschedulable"}
    assert reasons(a_pod(tolerations=[cordoned]), node) == set()


@pytest.mark.parametrize(
    ("spec", "matches"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"affinity": required(expression("zone", "In", "a", "b"))}, True),
        ({"affinity": required(expression("zone", "In", "b"))}, False),
        ({"affinity": required(expression("disk", "In", "b"))}, False),
        ({"affinity": required(expression("zone", "NotIn", "b"))}, True),
        ({"affinity": required(expression("zone", "NotIn", "a"))}, False),
        ({"affinity": required(expression("disk", "NotIn", "a"))}, True),
        ({"affinity": required(expression("zone", "Exists"))}, True),
        ({"affinity": required(expression("disk", "Exists"))}, False),
        ({"affinity": required(expression("disk", "DoesNotExist"))}, True),
        ({"affinity": required(expression("zone", "DoesNotExist"))}, False),
        ({"affinity": required(expression("size", "Gt", "4"))}, True),
        ({"affinity": required(expression("size", "Gt", "5"))}, False),
        ({"affinity": required(expression("size", "Lt", "6"))}, True),
        ({"affinity": required(expression("size", "Lt", "5"))}, False),
        ({"affinity": required(expression("zone", "Gt", "1"))}, False),
        ({"affinity": required(expression("disk", "Lt", "1"))}, False),
        ({"affinity": required({})}, False),
        ({"affinity": required(expression("zone", "In", "b"), expression("size", "Exists"))}, True),
        (
            {"nodeSelector": {"zone": "b"}, "affinity": required(expression("size", "Exists"))},
            False,
        ),
        (
            {
                "affinity": required(
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["one"]}]}
                )
            },
            True,
        ),
    ],
)
def test_node_affinity(spec, matches):
    """All labels of the node selector and one term of the affinity must select the node."""
    node = a_node(labels={"zone": "a", "size": "5"})
    assert reasons(a_pod(**spec), node) == (set() if matches else {AFFINITY})


@pytest.mark.parametrize(
    ("taken", "wanted", "conflicts"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
        ({"hostPort": 80}, {"containerPort": 80}, False),
        ({"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True),
    ],
)
def test_ports(taken, wanted, conflicts):
    """A port of the host is given once for each address and protocol."""
    other = on("one", a_pod("other", containers=[a_container(ports=[taken])]))
    pod = a_pod(containers=[a_container(ports=[wanted])])
    expected = (
        {"node(s) didn't have free ports for the requested pod ports"} if conflicts else set()
    )
    assert reasons(pod, a_node(), [other]) == expected


def pod_terms(kind, labels=None, key="zone", **fields):
    term = {"labelSelector": {"matchLabels": labels or {"app": "db"}}, "topologyKey": key}
    return {kind: {REQUIRED: [term | fields]}}


DB = on("one", a_pod("db", labels={"app": "db"}))
ELSEWHERE = on("one", a_pod("db", labels={"app": "db"}, namespace="bank"))
NEAR, FAR = "podAffinity", "podAntiAffinity"
ALONE = on("one", a_pod("x", affinity=pod_terms(FAR, {"app": "web"})))
NO_AFFINITY = {"node(s) didn't match pod affinity rules"}
ANTI_AFFINITY = {"node(s) didn't match pod anti-affinity rules"}
EXISTING = {"node(s) didn't satisfy existing pods anti-affinity rules"}


@pytest.mark.parametrize(
    ("affinity", "labels", "running", "expected"),
    [
        (pod_terms(NEAR), {}, [DB], set()),
        (pod_terms(NEAR), {}, [], NO_AFFINITY),
        (pod_terms(NEAR), {"app": "db"}, [], set()),
        (pod_terms(NEAR, key="rack"), {"app": "db"}, [DB], NO_AFFINITY),
        (pod_terms(NEAR), {}, [ELSEWHERE], NO_AFFINITY),
        (pod_terms(NEAR, namespaces=["bank"]), {}, [ELSEWHERE], set()),
        (pod_terms(NEAR, namespaceSelector={}), {}, [ELSEWHERE], set()),
        (
            pod_terms(NEAR, namespaceSelector={"matchLabels": {"team": "shop"}}),
            {},
            [ELSEWHERE],
            NO_AFFINITY,
        ),
        (pod_terms(FAR), {}, [DB], ANTI_AFFINITY),
        (pod_terms(FAR), {}, [], set()),
        (pod_terms(FAR, key="rack"), {}, [DB], set()),
        (
            {},
            {"app": "web"},
            [ALONE],
            EXISTING,
        ),
        (
            {},
            {"app": "api"},
            [ALONE],
            set(),
        ),
    ],
)
def test_pod_affinity(affinity, labels, running, expected):
    """Required affinity, anti-affinity, and the anti-affinity of pods that run already."""
    pod = a_pod(labels=labels, affinity=affinity)
    namespaces = {"shop": {"team": "shop"}, "bank": {"team": "bank"}}
    assert reasons(pod, a_node(labels={"zone": "a"}), running, namespaces=namespaces) == expected


def test_affinity_reaches_over_the_domain():
    """Nodes with the same value of the topology key are one domain."""
    nodes = [
        a_node(name, labels={"zone": zone})
        for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"))
    ]
    snapshot = a_snapshot(nodes, [on("a1", a_pod("db", labels={"app": "db"}))])
    for kind, fitting in ((NEAR, {"a1", "a2"}), (FAR, {"b1"})):
        pod = PodInfo(a_pod(affinity=pod_terms(kind)))
        checks = checks_for(pod, snapshot)
        assert {node.name for node in snapshot.nodes if not rejection_of(node, checks)} == fitting


def spread(**fields):
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    } | fields


@pytest.mark.parametrize(
    ("constraint", "zones", "fitting"),
    [
        (spread(), "a", {"b1"}),
        (spread(), "", {"a1", "a2", "b1"}),
        (spread(), "ab", {"a1", "a2", "b1"}),
        (spread(maxSkew=2), "aa", {"b1"}),
        (spread(maxSkew=2), "a", {"a1", "a2", "b1"}),
        (spread(whenUnsatisfiable="ScheduleAnyway"), "aa", {"a1", "a2", "b1"}),
        (spread(topologyKey="rack"), "", set()),
        (spread(minDomains=3), "ab", set()),
        (spread(minDomains=2), "ab", {"a1", "a2", "b1"}),
        (spread(labelSelector={"matchLabels": {"app": "db"}}), "aa", {"a1", "a2", "b1"}),
    ],
)
def test_topology_spread(constraint, zones, fitting):
    """No domain gets more pods than the least one and the skew; `zones` has one letter a pod."""
    nodes = [a_node(name, labels={"zone": name[0]}) for name in ("a1", "a2", "b1")]
    running = [
        on(f"{zone}1", a_pod(f"web-{index}", labels={"app": "web"}))
        for index, zone in enumerate(zones)
    ]
    snapshot = a_snapshot(nodes, running)
    pod = PodInfo(a_pod(labels={"app": "web"}, topologySpreadConstraints=[constraint]))
    checks = checks_for(pod, snapshot)
    assert {node.name for node in snapshot.nodes if not rejection_of(node, checks)} == fitting


@pytest.mark.parametrize(("policy", "fits"), [(None, False), ("Ignore", False), ("Honor", True)])
def test_spread_leaves_tainted_nodes_out(policy, fits):
    """With the policy Honor, an empty domain whose nodes are tainted does not count."""
    nodes = [a_node("a1", labels={"zone": "a"}), a_node("b1", labels={"zone": "b"}, taints=[BLUE])]
    snapshot = a_snapshot(nodes, [on("a1", a_pod("web-0", labels={"app": "web"}))])
    constraint = spread() | ({"nodeTaintsPolicy": policy} if policy else {})
    pod = PodInfo(a_pod(labels={"app": "web"}, topologySpreadConstraints=[constraint]))
    rejection = rejection_of(snapshot.node("a1"), checks_for(pod, snapshot))
    assert (rejection is None) == fits
