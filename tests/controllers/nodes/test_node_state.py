"""What a Node should look like, as tables."""

from __future__ import annotations

import pytest

from kapiserver.controllers.nodes.node_lifecycle import without_readiness
from kapiserver.controllers.nodes.node_state import (
    needs_taint,
    reconciled,
    silent_status,
    tainted,
    zone_of,
)
from tests.times import text_of

NOW = 1_700_000_000
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def node_of(conditions=(), taints=(), labels=(), **spec):
    return {
        "metadata": {"name": "one", "labels": dict(labels), "creationTimestamp": text_of(NOW - 90)},
        "spec": spec | ({"taints": [taint(*each) for each in taints]} if taints else {}),
        "status": {"conditions": [{"type": name, "status": status} for name, status in conditions]},
    }


def taint(key, effect, **more):
    return {"key": key, "effect": effect, **more}


def taints_of(node):
    return [(each["key"], each["effect"]) for each in node["spec"].get("taints", ())]


@pytest.mark.parametrize(
    ("conditions", "taints", "expected"),
    [
        ([], [(NOT_READY, "NoSchedule")], []),
        ([("Ready", "True")], [(NOT_READY, "NoSchedule"), ("gpu", "NoSchedule")], ["gpu"]),
        ([("Ready", "False")], [], [NOT_READY]),
        ([("Ready", "Unknown")], [(NOT_READY, "NoSchedule")], [UNREACHABLE]),
        (
            [("MemoryPressure", "True"), ("DiskPressure", "True"), ("PIDPressure", "True")],
            [],
            [f"node.kubernetes.io/{name}-pressure" for name in ("memory", "disk", "pid")],
        ),
        ([("NetworkUnavailable", "True")], [], ["node.kubernetes.io/network-unavailable"]),
        ([("MemoryPressure", "Unknown"), ("Other", "True")], [], []),
    ],
)
def test_taints_that_keep_pods_away(conditions, taints, expected):
    node = reconciled(node_of(conditions, taints), NOW, evicts=True)
    assert taints_of(node) == [(key, "NoSchedule") for key in expected]
    assert reconciled(node, NOW + 1, evicts=True) is node


def test_a_cordoned_node():
    """Taints have the time at which they were added."""
    node = reconciled(node_of(unschedulable=True), NOW, evicts=True)
    key = "node.kubernetes.io/unschedulable"
    assert node["spec"]["taints"] == [taint(key, "NoSchedule", timeAdded=text_of(NOW))]
    free = reconciled(node | {"spec": {"taints": node["spec"]["taints"]}}, NOW, evicts=True)
    assert "taints" not in free["spec"]


@pytest.mark.parametrize(
    ("ready", "evicts", "before", "after"),
    [
        ("True", True, [NOT_READY, UNREACHABLE, "own"], ["own"]),
        ("False", True, ["own", UNREACHABLE], ["own", NOT_READY]),
        ("Unknown", True, [NOT_READY], [UNREACHABLE]),
        ("Unknown", True, [NOT_READY, UNREACHABLE], [UNREACHABLE]),
        ("Unknown", True, [], []),
        ("", True, [NOT_READY], [NOT_READY]),
        ("Unknown", False, [UNREACHABLE, "own"], ["own"]),
        ("", False, [NOT_READY], []),
    ],
)
def test_taints_that_evict(ready, evicts, before, after):
    """They are swapped and removed at once; only `tainted` adds the first one."""
    conditions = [("Ready", ready)] if ready else []
    node = node_of(conditions, [(key, "NoExecute") for key in before])
    changed = reconciled(node, NOW, evicts=evicts)
    keys = [key for key, effect in taints_of(changed) if effect == "NoExecute"]
    assert keys == after


@pytest.mark.parametrize(
    ("ready", "before", "after"),
    [
        ("True", [], []),
        ("", [], []),
        ("False", [], [NOT_READY]),
        ("Unknown", ["own"], ["own", UNREACHABLE]),
        ("Unknown", [NOT_READY], [UNREACHABLE]),
        ("Unknown", [UNREACHABLE], [UNREACHABLE]),
    ],
)
def test_tainted(ready, before, after):
    conditions = [("Ready", ready)] if ready else []
    node = node_of(conditions, [(key, "NoExecute") for key in before])
    assert needs_taint(node) is (before != after)
    assert taints_of(tainted(node, NOW)) == [(key, "NoExecute") for key in after]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, {}),
        ({"kubernetes.io/os": "linux"}, {"beta.kubernetes.io/os": "linux"}),
        (
            {"kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "amd64"},
            {"beta.kubernetes.io/arch": "arm64"},
        ),
        ({"beta.kubernetes.io/os": "linux"}, {}),
    ],
)
def test_labels(labels, expected):
    node = reconciled(node_of(labels=labels), NOW, evicts=True)
    assert node["metadata"]["labels"] == labels | expected


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ""),
        ({"topology.kubernetes.io/zone": "a"}, ":\0:a"),
        ({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "a"}, "r:\0:a"),
        (
            {
                "topology.kubernetes.io/zone": "a",
                "failure-domain.beta.kubernetes.io/zone": "older",
            },
            ":\0:older",
        ),
    ],
)
def test_zone(labels, zone):
    assert zone_of(node_of(labels=labels)) == zone


def test_the_status_of_a_silent_node():
    """What a kubelet reports is unknown; what others report stays."""
    node = node_of(
        [("Ready", "True"), ("DiskPressure", "Unknown"), ("NetworkUnavailable", "False")]
    )
    conditions = {each["type"]: each for each in silent_status(node, NOW)["conditions"]}
    assert conditions["NetworkUnavailable"] == {"type": "NetworkUnavailable", "status": "False"}
    assert conditions["DiskPressure"] == {"type": "DiskPressure", "status": "Unknown"}
    assert conditions["Ready"] == {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": text_of(NOW),
    }
    assert conditions["PIDPressure"] == {
        "type": "PIDPressure",
        "status": "Unknown",
        "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": text_of(NOW - 90),
        "lastTransitionTime": text_of(NOW),
    }


@pytest.mark.parametrize(
    ("status", "expected"), [("True", "False"), ("Unknown", "False"), ("False", None), ("", None)]
)
def test_pods_of_a_silent_node(status, expected):
    conditions = [{"type": "Ready", "status": status, "reason": "R"}] if status else []
    pod = {"status": {"conditions": conditions}}
    changed = without_readiness(pod, NOW)
    if expected is None:
        assert changed is pod
    else:
        assert changed["status"]["conditions"] == [
            {"type": "Ready", "status": expected, "reason": "R", "lastTransitionTime": text_of(NOW)}
        ]
