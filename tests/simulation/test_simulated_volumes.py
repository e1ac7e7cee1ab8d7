"""A server with `--simulate`: claims get volumes, and pods wait for them. The controllers have the
rights of their own roles."""

from __future__ import annotations

import pytest

from kapiserver.apiserver.user import APISERVER
from kapiserver.testing.server import TestServer
from tests.controllers.volumes.storage import a_class

pytestmark = pytest.mark.anyio
ERROR = "simulation.kapiserver.dev/provisioning-error"


@pytest.fixture
async def server():
    async with TestServer(simulate=True, simulate_nodes=2) as server:
        await server.settle_async()
        yield server


def objects(server, name, version="v1", namespace="default"):
    client = server.running.cluster.server.client(APISERVER, authorize=False)
    return client.resource(version, name, namespace=namespace)


def classes(server):
    return objects(server, "storageclasses", "storage.k8s.io/v1", "")


def a_claim(name="data", size="1Gi", **spec):
    resources = {"requests": {"storage": size}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources} | spec
    return {"metadata": {"name": name}, "spec": spec}


def a_pod(name="web", *volumes, **spec):
    containers = [{"name": "app", "image": "nginx"}]
    return {
        "metadata": {"name": name},
        "spec": {"containers": containers, "volumes": list(volumes), **spec},
    }


def using(claim):
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


async def phase(server, name, resource="persistentvolumeclaims", namespace="default"):
    obj = await objects(server, resource, namespace=namespace).get(name)
    return obj["status"]["phase"]


async def reasons(server, name):
    events = (await objects(server, "events").list())["items"]
    return {each["reason"] for each in events if each["involvedObject"]["name"] == name}


async def test_default_class(server):
    """A claim without a class is bound to a new volume, which goes with the claim."""
    claims = objects(server, "persistentvolumeclaims")
    await claims.create(a_claim())
    await server.settle_async()
    claim = await claims.get("data")
    assert (claim["status"]["phase"], claim["spec"]["storageClassName"]) == ("Bound", "standard")
    assert claim["status"]["capacity"] == {"storage": "1Gi"}
    name = claim["spec"]["volumeName"]
    assert name == f"pvc-{claim['metadata']['uid']}"
    assert await phase(server, name, "persistentvolumes", "") == "Bound"
    assert await reasons(server, "data") == {
        "ExternalProvisioning", "Provisioning", "ProvisioningSucceeded",
    }  # fmt: skip
    await claims.delete("data")
    await server.settle_async()
    assert (await objects(server, "persistentvolumes", namespace="").list())["items"] == []


async def test_other_provisioners(server):
    """Each provisioner is simulated, but for that of a class that says otherwise."""
    await classes(server).create(a_class("fast", "ebs.csi.aws.com"))
    opted_out = {"name": "own", "annotations": {"simulation.kapiserver.dev/simulated": "false"}}
    await classes(server).create(a_class("own") | {"metadata": opted_out})
    claims = objects(server, "persistentvolumeclaims")
    for name in ("fast", "own"):
        await claims.create(a_claim(name, storageClassName=name))
    await server.settle_async()
    assert await phase(server, "fast") == "Bound"
    assert await phase(server, "own") == "Pending"


async def test_provisioning_error(server):
    """A claim whose volume cannot be made waits, and its pod with it, until the error is gone."""
    claim = a_claim()
    claim["metadata"]["annotations"] = {ERROR: "no room"}
    claims = objects(server, "persistentvolumeclaims")
    await claims.create(claim)
    await objects(server, "pods").create(a_pod("web", using("data")))
    await server.settle_async()
    assert await phase(server, "data") == "Pending"
    assert "ProvisioningFailed" in await reasons(server, "data")
    assert await phase(server, "web", "pods") == "Pending"
    await claims.patch("data", {"metadata": {"annotations": {ERROR: None}}})
    await server.settle_async()
    assert await phase(server, "data") == "Bound"
    assert await phase(server, "web", "pods") == "Running"


async def test_first_consumer(server):
    """The volume of a class that waits is made in the zone of the pod's node."""
    nodes = objects(server, "nodes", namespace="")
    labels = {"topology.kubernetes.io/zone": "a"}
    await nodes.patch("simulated-1", {"metadata": {"labels": labels}})
    await classes(server).create(a_class("wait", volumeBindingMode="WaitForFirstConsumer"))
    claims = objects(server, "persistentvolumeclaims")
    await claims.create(a_claim(storageClassName="wait"))
    await server.settle_async()
    assert await phase(server, "data") == "Pending"
    pod = a_pod("web", using("data"), nodeSelector={"kubernetes.io/hostname": "simulated-1"})
    await objects(server, "pods").create(pod)
    await server.settle_async()
    assert await phase(server, "web", "pods") == "Running"
    claim = await claims.get("data")
    volume = await objects(server, "persistentvolumes", namespace="").get(
        claim["spec"]["volumeName"]
    )
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    ]


async def test_ephemeral_volume(server):
    """A generic ephemeral volume gets a claim, which goes with the pod."""
    template = {"spec": a_claim()["spec"]}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    await objects(server, "pods").create(a_pod("web", volume))
    await server.settle_async()
    assert await phase(server, "web", "pods") == "Running"
    assert await phase(server, "web-scratch") == "Bound"
    await objects(server, "pods").delete("web")
    await server.settle_async()
    assert (await objects(server, "persistentvolumeclaims").list())["items"] == []
    assert (await objects(server, "persistentvolumes", namespace="").list())["items"] == []


async def test_a_pod_without_scheduler(server):
    """A pod that names its node waits there, with its containers not created."""
    pods = objects(server, "pods")
    await pods.create(a_pod("web", using("data"), nodeName="simulated-0"))
    await server.settle_async()
    status = (await pods.get("web"))["status"]
    assert status["phase"] == "Pending"
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "ContainerCreating"}
    await objects(server, "persistentvolumeclaims").create(a_claim())
    await server.settle_async()
    assert await phase(server, "web", "pods") == "Running"


async def test_stateful_set(server):
    """The pods of a StatefulSet with a template of claims get ready by themselves."""
    labels = {"app": "db"}
    pod = a_pod()["spec"] | {"volumes": []}
    spec = {
        "replicas": 3,
        "serviceName": "db",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        "volumeClaimTemplates": [a_claim()],
    }
    sets = objects(server, "statefulsets", "apps/v1")
    await sets.create({"metadata": {"name": "db"}, "spec": spec})
    await server.settle_async()
    assert (await sets.get("db"))["status"]["availableReplicas"] == 3
    for number in range(3):
        assert await phase(server, f"data-db-{number}") == "Bound"


async def test_own_default_class(server):
    """The class `standard` is made once; a server whose user has removed it keeps it so."""
    await classes(server).delete("standard")
    await server.clock.advance_async("1h")
    assert (await classes(server).list())["items"] == []


async def test_expansion(server):
    """A claim that asks for more gets it when a pod uses it, with events."""
    claims = objects(server, "persistentvolumeclaims")
    await claims.create(a_claim())
    await server.settle_async()
    await claims.patch("data", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    await server.settle_async()
    claim = await claims.get("data")
    assert claim["status"]["capacity"] == {"storage": "1Gi"}
    assert [each["type"] for each in claim["status"]["conditions"]] == ["FileSystemResizePending"]
    volumes = objects(server, "persistentvolumes", namespace="")
    volume = await volumes.get(claim["spec"]["volumeName"])
    assert volume["spec"]["capacity"] == {"storage": "2Gi"}
    await objects(server, "pods").create(a_pod("web", using("data")))
    await server.settle_async()
    claim = await claims.get("data")
    assert claim["status"]["capacity"] == {"storage": "2Gi"}
    assert not claim["status"].get("conditions")
    assert await reasons(server, "data") >= {
        "ExternalExpanding", "Resizing", "FileSystemResizeRequired", "FileSystemResizeSuccessful",
    }  # fmt: skip
