"""Simulated nodes, their addresses, and the addresses of their pods."""

from __future__ import annotations

import pytest

from kapiserver.simulation.addresses import AddressPool
from kapiserver.simulation.node_objects import (
    SIMULATED,
    internal_address,
    network_index,
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
    assert internal_address({"status": node_status(node, "v1.37.0", NOW)}) == address


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
    """A node that somebody has made gets a network, and loses only the taint of a new node."""
    taints = [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "gpu", "effect": "NoSchedule"},
    ]
    node = {"metadata": {"name": "gpu", "labels": {SIMULATED: "true"}}, "spec": {"taints": taints}}
    spec = node_spec(node, lambda: 7)
    assert spec == {
        "podCIDR": "10.128.7.0/24",
        "podCIDRs": ["10.128.7.0/24"],
        "taints": taints[1:],
    }
    assert node_spec(node | {"spec": spec}, lambda: 8) == spec


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
