"""CSINodes and CSIStorageCapacities of simulated drivers."""

from __future__ import annotations

import pytest

from kapiserver.simulation.volumes.csi_nodes import csi_node
from kapiserver.simulation.volumes.storage_capacities import storage_capacities
from kapiserver.simulation.volumes.volume_objects import DRIVER
from kapiserver.testing.server import TestServer
from tests.controllers.volumes.storage import a_class, a_volume
from tests.simulation.test_simulated_volumes import a_claim, a_pod, classes, objects, using

STORAGE = "storage.k8s.io/v1"
ZONE = "topology.kubernetes.io/zone"
CAPACITY = "simulation.kapiserver.dev/capacity"


def a_node(zone=""):
    labels = {"simulation.kapiserver.dev/simulated": "true"} | ({ZONE: zone} if zone else {})
    return {"metadata": {"name": f"node-{zone}", "uid": "1", "labels": labels}}


def in_zone(zone):
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def test_drivers_of_a_node():
    """Missing drivers are added, with the topology of the node; the others stay as they are."""
    made = csi_node(a_node("a"), None, ["one"])
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert made["spec"]["drivers"] == [{"name": "one", "nodeID": "node-a", "topologyKeys": [ZONE]}]
    limited = {"metadata": made["metadata"], "spec": {"drivers": [
        {"name": "one", "nodeID": "node-a", "allocatable": {"count": 3}},
    ]}}  # fmt: skip
    assert csi_node(a_node(), limited, ["one"]) is limited
    assert csi_node(a_node(), limited, []) is limited
    both = csi_node(a_node(), limited, ["one", "two"])["spec"]["drivers"]
    assert both == [*limited["spec"]["drivers"], {"name": "two", "nodeID": "node-"}]


def test_capacity_of_each_topology():
    """Volumes take their part of the capacity of the zones that reach them."""
    storage_class = a_class() | {
        "metadata": {"name": "fast", "annotations": {CAPACITY: "10Gi"}},
    }
    volumes = [
        a_volume("one", "3Gi", nodeAffinity=in_zone("a")), a_volume("two", "1Gi"),
        a_volume("three", "20Gi", nodeAffinity=in_zone("c")),
    ]  # fmt: skip
    nodes = [a_node("a"), a_node("a"), a_node("b"), a_node("c"), {"metadata": {"name": "real"}}]
    found = storage_capacities(storage_class, nodes, volumes).values()
    gibibytes = {
        each["nodeTopology"]["matchLabels"][ZONE]: int(each["capacity"]) / 2**30 for each in found
    }
    assert gibibytes == {"a": 6, "b": 9, "c": 0}
    (everywhere,) = storage_capacities(a_class(), [a_node()], []).values()
    assert everywhere["nodeTopology"] == {}
    assert int(everywhere["capacity"]) == 2**50
    with pytest.raises(ValueError, match="quantities must match"):
        storage_capacities(a_class() | {"metadata": {"annotations": {CAPACITY: "much"}}}, [], [])


@pytest.fixture
async def server():
    async with TestServer(simulate=True, simulate_nodes=2) as server:
        await server.settle_async()
        yield server


@pytest.mark.anyio
async def test_csi_nodes(server):
    """Each node has a CSINode with the drivers of all classes, and loses it with the node."""
    csi_nodes = objects(server, "csinodes", STORAGE, "")

    async def drivers():
        await server.settle_async()
        listed = (await csi_nodes.list())["items"]
        return {each["metadata"]["name"]: [
            driver["name"] for driver in each["spec"]["drivers"]
        ] for each in listed}  # fmt: skip

    both = ("simulated-0", "simulated-1")
    assert await drivers() == {each: [DRIVER] for each in both}
    await classes(server).create(a_class(provisioner="disk.example.com"))
    assert await drivers() == {each: [DRIVER, "disk.example.com"] for each in both}
    await objects(server, "nodes", namespace="").delete("simulated-0")
    assert await drivers() == {"simulated-1": [DRIVER, "disk.example.com"]}


@pytest.mark.anyio
async def test_capacity_is_used_up(server):
    """A pod waits while its class has no room, and runs when another volume is gone."""
    drivers = objects(server, "csidrivers", STORAGE, "")
    name = "disk.example.com"
    await drivers.create({"metadata": {"name": name}, "spec": {"storageCapacity": True}})
    metadata = {"name": "fast", "annotations": {CAPACITY: "1536Mi"}}
    waiting = a_class(provisioner=name, volumeBindingMode="WaitForFirstConsumer")
    await classes(server).create(waiting | {"metadata": metadata})
    claims, pods = objects(server, "persistentvolumeclaims"), objects(server, "pods")
    for each in ("one", "two"):
        await server.settle_async()
        await claims.create(a_claim(each, storageClassName="fast"))
        await pods.create(a_pod(each, using(each)))
    await server.settle_async()
    assert (await pods.get("one"))["status"]["phase"] == "Running"
    (condition,) = (await pods.get("two"))["status"]["conditions"]
    assert condition["message"].startswith(
        "0/2 nodes are available: 2 node(s) did not have enough free storage."
    )
    await pods.delete("one", {"gracePeriodSeconds": 0})
    await claims.delete("one")
    await server.settle_async()
    assert (await pods.get("two"))["status"]["phase"] == "Running"
    await drivers.delete(name)
    await server.settle_async()
    capacities = objects(server, "csistoragecapacities", STORAGE, "kube-system")
    assert (await capacities.list())["items"] == []


@pytest.mark.anyio
async def test_annotation_that_is_no_quantity(server):
    """It is reported, and there is room."""
    drivers = objects(server, "csidrivers", STORAGE, "")
    await drivers.create({"metadata": {"name": "d.example.com"}, "spec": {"storageCapacity": True}})
    metadata = {"name": "fast", "annotations": {CAPACITY: "much"}}
    await classes(server).create(a_class(provisioner="d.example.com") | {"metadata": metadata})
    await server.settle_async()
    events = (await objects(server, "events").list())["items"]
    assert [each["reason"] for each in events if each["involvedObject"]["name"] == "fast"] == [
        "UnreadableAnnotation"
    ]
    capacities = objects(server, "csistoragecapacities", STORAGE, "kube-system")
    assert len((await capacities.list())["items"]) == 1
