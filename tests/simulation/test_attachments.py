"""A server with `--simulate`: volumes are attached to the nodes of their pods. The controllers have
the rights of their own roles."""

from __future__ import annotations

import pytest

from kapiserver.testing.server import TestServer
from tests.simulation.test_simulated_volumes import a_claim, a_pod, objects, phase, using

pytestmark = pytest.mark.anyio
ERROR = "simulation.kapiserver.dev/attach-error"
HOST = "kubernetes.io/hostname"


@pytest.fixture
async def server():
    async with TestServer(simulate=True, simulate_nodes=2) as server:
        await server.settle_async()
        server.clock.freeze()
        yield server


async def make_pod(server, name="web", node="simulated-0"):
    pod = a_pod(name, using("data"), nodeSelector={HOST: node}, terminationGracePeriodSeconds=0)
    await objects(server, "pods").create(pod)
    await server.settle_async()


async def make_claim(server):
    await objects(server, "persistentvolumeclaims").create(a_claim())
    await server.settle_async()
    return (await objects(server, "persistentvolumeclaims").get("data"))["spec"]["volumeName"]


async def attachments(server):
    """The nodes to which something is attached."""
    client = objects(server, "volumeattachments", "storage.k8s.io/v1", "")
    return [
        (each["spec"]["nodeName"], each["status"]["attached"])
        for each in (await client.list())["items"]
    ]


async def status_of(server, node="simulated-0"):
    """The volumes that a node uses, and those attached to it."""
    status = (await objects(server, "nodes", namespace="").get(node))["status"]
    attached = status.get("volumesAttached") or []
    return status.get("volumesInUse") or [], [each["name"] for each in attached]


async def events(server, name):
    items = (await objects(server, "events").list())["items"]
    about = [each for each in items if each["involvedObject"]["name"] == name]
    return {(each["reason"], each["message"]) for each in about}


async def test_attaching_and_detaching(server):
    """The volume is attached before the pod runs, the node says so, and both end with the pod."""
    volume = await make_claim(server)
    assert await attachments(server) == []
    await make_pod(server)
    name = f"kubernetes.io/csi/csi.simulation.kapiserver.dev^{volume}"
    assert await attachments(server) == [("simulated-0", True)]
    assert await status_of(server) == ([name], [name])
    assert await phase(server, "web", "pods") == "Running"
    message = f'AttachVolume.Attach succeeded for volume "{volume}" '
    assert ("SuccessfulAttachVolume", message) in await events(server, "web")
    await objects(server, "pods").delete("web")
    await server.settle_async()
    assert await attachments(server) == []
    assert await status_of(server) == ([], [])


async def test_two_nodes(server):
    """A pod on another node waits until the volume is detached, with an event."""
    volume = await make_claim(server)
    await make_pod(server)
    await make_pod(server, "other", "simulated-1")
    assert await phase(server, "other", "pods") == "Pending"
    message = f'Waiting for detach for volume "{volume}" Volume is already used by pod(s) web'
    assert ("FailedAttachVolume", message) in await events(server, "other")
    await objects(server, "pods").delete("web")
    await server.settle_async()
    assert await attachments(server) == [("simulated-1", True)]
    assert await phase(server, "other", "pods") == "Running"


async def test_lost_node(server):
    """A volume of a node that is lost is detached six minutes after its pod is gone; at once if
    the node is out of service."""
    await make_claim(server)
    await make_pod(server)
    nodes, pods = objects(server, "nodes", namespace=""), objects(server, "pods")
    label = "simulation.kapiserver.dev/simulated"
    await nodes.patch("simulated-0", {"metadata": {"labels": {label: None}}})
    await server.clock.advance_async("60s")
    await pods.delete("web", {"gracePeriodSeconds": 0})
    await server.settle_async()
    assert await attachments(server) == [("simulated-0", True)]
    await server.clock.advance_async("359s")
    assert await attachments(server) == [("simulated-0", True)]
    await server.clock.advance_async("2s")
    assert await attachments(server) == []


async def test_out_of_service_node(server):
    """The volume is free at once, and the pod can start elsewhere."""
    await make_claim(server)
    await make_pod(server)
    nodes, pods = objects(server, "nodes", namespace=""), objects(server, "pods")
    label = "simulation.kapiserver.dev/simulated"
    await nodes.patch("simulated-0", {"metadata": {"labels": {label: None}}})
    await pods.delete("web", {"gracePeriodSeconds": 0})
    await server.settle_async()
    assert await attachments(server) == [("simulated-0", True)]
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    await nodes.patch("simulated-0", {"spec": {"taints": [taint]}})
    await server.settle_async()
    assert await attachments(server) == []


async def test_attach_error(server):
    """The pod waits, with an event, until the volume can be attached."""
    volume = await make_claim(server)
    volumes = objects(server, "persistentvolumes", namespace="")
    await volumes.patch(volume, {"metadata": {"annotations": {ERROR: "no slot"}}})
    await make_pod(server)
    assert await phase(server, "web", "pods") == "Pending"
    message = f'AttachVolume.Attach failed for volume "{volume}" : no slot'
    assert ("FailedAttachVolume", message) in await events(server, "web")
    await volumes.patch(volume, {"metadata": {"annotations": {ERROR: None}}})
    await server.settle_async()
    assert await phase(server, "web", "pods") == "Running"


async def test_a_driver_that_does_not_attach(server):
    """Without attachRequired nothing is attached, and the pod runs."""
    driver = {"metadata": {"name": "csi.simulation.kapiserver.dev"}}
    drivers = objects(server, "csidrivers", "storage.k8s.io/v1", "")
    await drivers.create(driver | {"spec": {"attachRequired": False}})
    await make_claim(server)
    await make_pod(server)
    assert await attachments(server) == []
    assert await phase(server, "web", "pods") == "Running"


async def test_volumes_do_not_wake_each_other(server):
    """The work to attach volumes grows with their number, not with its square."""
    observed = server.running.cluster.server.metrics.workqueues.work_seconds.values

    async def reconciles(first, last):
        """How often the controller works until these pods with claims run."""
        before = sum(observed["persistentvolume-attach-detach-controller"].counts)
        for number in range(first, last):
            name = f"data-{number}"
            await objects(server, "persistentvolumeclaims").create(a_claim(name))
            pod = a_pod(name, using(name), nodeSelector={HOST: "simulated-0"})
            await objects(server, "pods").create(pod)
            await server.settle_async()
            assert await phase(server, name, "pods") == "Running"
        return sum(observed["persistentvolume-attach-detach-controller"].counts) - before

    await reconciles(0, 1)
    few = await reconciles(1, 6)
    await reconciles(6, 16)
    assert await reconciles(16, 21) < 1.5 * few
