"""The scheduler and the binder on a server in memory: pods with claims."""

from __future__ import annotations

import asyncio

from kapiserver.controllers.volumes.persistent_volume_binder import PersistentVolumeBinder
from kapiserver.simulation.scheduler.controller import Scheduler
from tests.controllers.volumes.storage import a_class
from tests.controllers.volumes.test_persistent_volume_binder import Storage
from tests.controllers.workloads.workloads import running
from tests.simulation.test_scheduler import Cluster

SELECTED = "volume.kubernetes.io/selected-node"
WAIT = a_class("wait", volumeBindingMode="WaitForFirstConsumer")


def on_cluster(test):
    """Run a test on a server with a scheduler and a binder, and one node."""

    async def run():
        async with running(Scheduler, PersistentVolumeBinder) as workloads:
            cluster, storage = Cluster(workloads), Storage(workloads)
            await storage.classes.create(WAIT)
            await cluster.add_node()
            await test(cluster, storage)

    def run_test():
        asyncio.run(run())

    run_test.__doc__ = test.__doc__
    return run_test


async def add_pod(it, name="web", claim="data"):
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    await it.add_pod(name, volumes=[volume])


@on_cluster
async def test_immediate_claims(it, storage):
    """A pod waits until its claim exists, and is bound to a volume."""
    await add_pod(it)
    assert 'persistentvolumeclaim "data" not found' in (await it.condition())["message"]
    await storage.add_claim()
    assert "unbound immediate PersistentVolumeClaims" in (await it.condition())["message"]
    await storage.add_volume()
    assert await it.node_of() == "one"
    assert await storage.claim() == ("Bound", "disk")


@on_cluster
async def test_volumes_of_the_first_consumer(it, storage):
    """The scheduler reserves a free volume, the binder binds it, and the pod is bound then. A
    second pod with another claim gets another volume."""
    for name in ("a", "b"):
        await storage.add_volume(name, storageClassName="wait")
        await storage.add_claim(f"data-{name}", storageClassName="wait")
    await add_pod(it, "web-a", "data-a")
    await add_pod(it, "web-b", "data-b")
    assert await it.node_of("web-a") == await it.node_of("web-b") == "one"
    assert await storage.claim("data-a") == ("Bound", "a")
    assert await storage.claim("data-b") == ("Bound", "b")
    await storage.check()


@on_cluster
async def test_selected_node(it, storage):
    """The scheduler selects the node for the provisioner, and the pod waits without a condition
    until the provisioner has made the volume. A provisioner that gives up removes the node, and the
    scheduler selects one again."""
    await storage.add_claim(storageClassName="wait")
    await add_pod(it)
    claim = await storage.claims.get("data")
    assert claim["metadata"]["annotations"][SELECTED] == "one"
    assert await it.node_of() is None
    assert await it.condition() is None
    await storage.claims.patch("data", {"metadata": {"annotations": {SELECTED: None}}})
    await storage.settle()
    claim = await storage.claims.get("data")
    assert claim["metadata"]["annotations"][SELECTED] == "one"
    fields = {"namespace": "shop", "name": "data", "uid": claim["metadata"]["uid"]}
    await storage.add_volume(storageClassName="wait", claimRef=fields)
    assert await it.node_of() == "one"


@on_cluster
async def test_room_of_a_pod_that_waits(it, storage):
    """A pod whose volume is being made keeps its room on the node."""
    await it.nodes.patch("one", {"status": {"allocatable": {"pods": "1"}}}, subresource="status")
    await storage.add_claim(storageClassName="wait")
    await add_pod(it)
    await it.add_pod("other")
    assert "Too many pods" in (await it.condition("other"))["message"]
    await it.pods.delete("web")
    await it.settle()
    assert await it.node_of("other") == "one"
