"""Simulated nodes, their addresses, and the addresses of their pods."""

from __future__ import annotations

import pytest

from kapiserver.simulation.addresses import AddressPool
from kapiserver.simulation.networks import MAX_NODES, NetworkPool, network_index
from kapiserver.simulation.node_conditions import seconds_to_report
from kapiserver.simulation.node_objects import (
    SIMULATED,
    internal_addresses,
    new_node,
    node_spec,
    node_status,
)
from tests.times import text_of

NOW = 1_700_000_000


@pytest.mark.parametrize(
    ("index", "network", "address"),
    [
        (0, "10.128.0.0/24", "172.18.0.2"),
        (1, "10.128.1.0/24", "172.18.0.3"),
        (300, "10.129.44.0/24", "172.18.1.46"),
        (9999, "10.167.15.0/24", "172.18.39.17"),
    ],
)
def test_networks(index, network, address):
    """Each node has a network of pods and an address of its own, by its number."""
    node = new_node(index)
    assert node["spec"]["podCIDRs"] == [network]
    assert network_index(node) == index
    assert internal_addresses({"status": node_status(node, "v1.37.0", NOW)}) == [address]


def test_status():
    """A kubelet reports its node as ready; what the node says already stays."""
    node = new_node(0) | {"status": {"capacity": {"cpu": "2", "pods": "5"}}}
    status = node_status(node, "v1.37.0", NOW)
    assert status["allocatable"] == {"cpu": "2", "pods": "5"}
    assert status["nodeInfo"]["kubeletVersion"] == "v1.37.0"
    conditions = {each["type"]: each for each in status["conditions"]}
    assert set(conditions) == {"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"}
    assert conditions["Ready"]["status"] == "True"
    assert conditions["Ready"]["lastTransitionTime"] == text_of(NOW)
    assert node_status(node | {"status": status}, "v1.37.0", NOW + 60) == status


def test_spec_of_an_own_node():
    """A node that somebody has made gets a network, which it keeps."""
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    node = {"metadata": {"name": "gpu", "labels": {SIMULATED: "true"}}, "spec": {"taints": taints}}
    spec = node_spec(node, lambda: 7)
    assert spec == {
        "podCIDR": "10.128.7.0/24",
        "podCIDRs": ["10.128.7.0/24"],
        "taints": taints,
    }
    assert node_spec(node | {"spec": spec}, lambda: 8) == spec
    assert node_spec(node, lambda: None) == {"taints": taints}


def test_heartbeats_of_the_status():
    """A kubelet reports every five minutes, and at once when somebody has changed a condition."""
    first = node_status(new_node(0), "v1.37.0", NOW)
    node = new_node(0) | {"status": first}
    assert node_status(node, "v1.37.0", NOW + 299) == first
    later = node_status(node, "v1.37.0", NOW + 300)["conditions"]
    times = {(each["lastHeartbeatTime"], each["lastTransitionTime"]) for each in later}
    assert times == {(text_of(NOW + 300), text_of(NOW))}
    assert seconds_to_report(later, NOW + 310) == 290
    lost = [each | {"status": "Unknown"} for each in first["conditions"]]
    back = node_status({"status": first | {"conditions": lost}}, "v1.37.0", NOW + 60)["conditions"]
    assert {each["lastTransitionTime"] for each in back} == {text_of(NOW + 60)}


def test_unhealthy_conditions():
    """An annotation makes conditions unhealthy; types that are not known are left out."""
    annotations = {"simulation.kapiserver.dev/unhealthy-conditions": "Ready DiskPressure Other"}
    node = {"metadata": {"name": "one", "annotations": annotations}}
    status = node_status(node, "v1.37.0", NOW)
    found = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    assert found == {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("True", "KubeletHasDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
        "Ready": ("False", "KubeletNotReady"),
    }


def test_network_pool():
    """Each node has a network of its own; free ones are found again."""
    pool = NetworkPool(2)
    pool.keep("own", 3)
    assert [pool.take(name) for name in ("a", "b", "a", "own")] == [2, 4, 2, 3]
    pool.release("a")
    pool.release("a")
    assert pool.take("c") == 5
    assert [pool.take(f"more-{number}") for number in range(6, MAX_NODES)][-1] == MAX_NODES - 1
    assert pool.take("last") == 2
    assert pool.take("none") is None


def test_addresses():
    """Pods get the addresses of a network in turn; each pod keeps its own until it goes."""
    pool = AddressPool()
    assert [pool.take(uid, "10.0.0.0/29") for uid in "abab"] == [
        "10.0.0.2", "10.0.0.3", "10.0.0.2", "10.0.0.3",
    ]  # fmt: skip
    pool.release("a")
    assert [pool.take(uid, "10.0.0.0/29") for uid in "cdefg"] == [
        "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.2", "",
    ]  # fmt: skip
    pool.release("a")
    pool.release("unknown")


def test_kept_address():
    """An address that a pod has from an earlier run of the server is not given to another one."""
    pool = AddressPool()
    pool.keep("a", "10.0.0.2")
    assert pool.take("b", "10.0.0.0/29") == "10.0.0.3"
    assert pool.take("a", "10.0.0.0/29") == "10.0.0.2"
    assert pool.take("c", "fd00::/64") == ""
