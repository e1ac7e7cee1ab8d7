"""A server with `--simulate`: workloads roll out, pods live and go."""

from __future__ import annotations

import sys
import time

import pytest

from kapiserver.api.resource_client import STRATEGIC_MERGE_PATCH
from kapiserver.apiserver.health import Unhealthy
from kapiserver.apiserver.user import APISERVER
from kapiserver.controllers.registry import REGISTRY
from kapiserver.simulation.controllers import CONTROLLERS, SIMULATORS
from kapiserver.testing.server import TestServer
from tests.simulation.pods import pod_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server():
    async with TestServer(simulate=True, simulate_nodes=2) as server:
        await server.settle_async()
        yield server


def objects(server, name, version="v1", namespace="default"):
    client = server.running.cluster.server.client(APISERVER, authorize=False)
    return client.resource(version, name, namespace=namespace)


def deployment(name="web", replicas=3):
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "app", "image": "nginx"}]},
            },
        },
    }


def bare_pod(name, **options):
    """A pod that no scheduler has seen."""
    pod = pod_of(**options)
    del pod["status"], pod["spec"]["nodeName"]
    pod["metadata"] = {"name": name, "annotations": pod["metadata"]["annotations"]}
    return pod


async def test_nodes(server):
    """Each node is ready, without a taint, and has a network of its own and a Lease."""
    nodes = (await objects(server, "nodes", namespace="").list())["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["simulated-0", "simulated-1"]
    assert [node["spec"] for node in nodes] == [
        {"podCIDR": f"10.128.{number}.0/24", "podCIDRs": [f"10.128.{number}.0/24"]}
        for number in (0, 1)
    ]
    await server.clock.advance_async("10s")
    leases = objects(server, "leases", "coordination.k8s.io/v1", "kube-node-lease")
    before = (await leases.get("simulated-1"))["spec"]
    assert (before["holderIdentity"], before["leaseDurationSeconds"]) == ("simulated-1", 40)
    await server.clock.advance_async("10s")
    assert (await leases.get("simulated-1"))["spec"]["renewTime"] > before["renewTime"]


async def test_nodes_of_a_new_server():
    """The first request finds the nodes, and the server is ready when they exist."""
    async with TestServer(simulate=True, simulate_nodes=20) as server:
        checks = server.running.cluster.server.health.checks("readyz")
        with pytest.raises(Unhealthy):
            await checks["poststarthook/simulated-nodes"]()
        async with server.client() as client:
            assert len((await client.resource("v1", "nodes").list())["items"]) == 20
        await checks["poststarthook/simulated-nodes"]()


async def test_deleted_node(server):
    """A node that somebody deletes stays deleted; one that somebody makes is simulated."""
    nodes = objects(server, "nodes", namespace="")
    await nodes.delete("simulated-1")
    labels = {"simulation.kapiserver.dev/simulated": "true"}
    await nodes.create({"metadata": {"name": "own", "labels": labels}})
    await server.clock.advance_async("20s")
    assert [each["metadata"]["name"] for each in (await nodes.list())["items"]] == [
        "own", "simulated-0",
    ]  # fmt: skip
    own = await nodes.get("own")
    assert own["spec"]["podCIDR"] == "10.128.2.0/24"
    assert own["status"]["conditions"][-1]["reason"] == "KubeletReady"


async def test_stopped_node(server):
    """Without its label the kubelet of a node stops: pods stay as they are, and its Lease, too;
    with the label it goes on."""
    pods, nodes = objects(server, "pods"), objects(server, "nodes", namespace="")
    leases = objects(server, "leases", "coordination.k8s.io/v1", "kube-node-lease")
    await pods.create(bare_pod("web"))
    await server.settle_async()
    node = (await pods.get("web"))["spec"]["nodeName"]
    label = "simulation.kapiserver.dev/simulated"
    await nodes.patch(node, {"metadata": {"labels": {label: None}}})
    await server.settle_async()
    annotations = {"simulation.kapiserver.dev/exit-code": "1"}
    await pods.patch("web", {"metadata": {"annotations": annotations}})
    lease = await leases.get(node)
    await server.clock.advance_async("30s")
    assert await leases.get(node) == lease
    assert (await pods.get("web"))["status"]["containerStatuses"][0]["restartCount"] == 0
    await nodes.patch(node, {"metadata": {"labels": {label: "true"}}})
    await server.clock.advance_async("10s")
    assert (await pods.get("web"))["status"]["containerStatuses"][0]["restartCount"] > 0
    assert await leases.get(node) != lease


async def test_rollout(server):
    """A deployment becomes available, and its pods have addresses of their node."""
    deployments = objects(server, "deployments", "apps/v1")
    await deployments.create(deployment())
    await server.settle_async()
    assert (await deployments.get("web"))["status"]["availableReplicas"] == 3
    pods = (await objects(server, "pods").list())["items"]
    assert len({pod["status"]["podIP"] for pod in pods}) == 3
    assert {pod["status"]["podIP"].rpartition(".")[0] for pod in pods} <= {"10.128.0", "10.128.1"}
    await deployments.patch("web", {"spec": {"replicas": 1}})
    await server.settle_async()
    assert len((await objects(server, "pods").list())["items"]) == 1


async def test_crash_loop(server):
    """The clock decides when a container is restarted."""
    pods = objects(server, "pods")
    await pods.create(bare_pod("crash", annotations={"exit-code": "1"}))
    await server.settle_async()
    server.clock.freeze()
    await server.clock.advance_async("60s")
    status = (await pods.get("crash"))["status"]["containerStatuses"][0]
    assert status["restartCount"] == 3
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    await server.clock.advance_async("41s")
    assert (await pods.get("crash"))["status"]["containerStatuses"][0]["restartCount"] == 4


async def test_deletion(server):
    """A deleted pod goes at once, and its address can be used again."""
    pods = objects(server, "pods")
    await pods.create(bare_pod("web"))
    await server.settle_async()
    assert (await pods.get("web"))["status"]["phase"] == "Running"
    await pods.delete("web")
    await server.settle_async()
    assert not (await pods.list())["items"]


async def test_unreadable_annotation(server):
    """An annotation that cannot be read is reported in an event about the pod."""
    await objects(server, "pods").create(bare_pod("web", annotations={"exit-code": "many"}))
    await server.settle_async()
    events = (await objects(server, "events").list())["items"]
    assert ("UnreadableAnnotation", "simulation.kapiserver.dev/exit-code: 'many'") in [
        (event["reason"], event["message"]) for event in events
    ]


async def test_reset(server):
    """The nodes belong to the state after the start, to which a reset brings a server back."""
    async with server.client() as client:  # its first write waits for the state after the start
        await client.resource("v1", "pods", namespace="default").create(bare_pod("web"))
    await server.settle_async()
    await server.reset_async()
    assert not (await objects(server, "pods").list())["items"]
    assert len((await objects(server, "nodes", namespace="").list())["items"]) == 2
    await objects(server, "pods").create(bare_pod("web"))
    await server.settle_async()
    assert (await objects(server, "pods").get("web"))["status"]["phase"] == "Running"


async def test_other_servers():
    """Without `simulate` there are no nodes, and a deployment stays as it is."""
    async with TestServer() as server:
        await objects(server, "deployments", "apps/v1").create(deployment())
        await server.settle_async()
        assert not (await objects(server, "nodes", namespace="").list())["items"]
        assert not (await objects(server, "pods").list())["items"]


async def test_disabled_controller():
    """`controllers` turns off what `simulate` turns on."""
    async with TestServer(simulate=True, controllers=["-deployment-controller", "*"]) as server:
        await objects(server, "deployments", "apps/v1").create(deployment())
        await server.settle_async()
        assert not (await objects(server, "replicasets", "apps/v1").list())["items"]


def test_controllers():
    """`simulate` turns on what is off by default, but for the controllers of bootstrap tokens,
    which kube-controller-manager turns off as well."""
    known = (*REGISTRY, *SIMULATORS)
    off = {each.name for each in known if each.selectable and not each.enabled_by_default}
    assert set(CONTROLLERS) == off - {"bootstrap-signer-controller", "token-cleaner-controller"}


async def test_without_the_scheduler():
    """A cluster without the scheduler leaves the pods to another one, and runs what has a node."""
    async with TestServer(simulate=True, controllers=("-kube-scheduler", "*")) as server:
        await server.settle_async()
        pods = objects(server, "pods", "v1")
        for name, node in (("waiting", {}), ("bound", {"nodeName": "simulated-0"})):
            spec = {"containers": [{"name": "a", "image": "a"}]} | node
            await pods.create({"metadata": {"name": name}, "spec": spec})
        await server.settle_async()
        assert (await pods.get("bound"))["status"]["phase"] == "Running"
        waiting = await pods.get("waiting")
        assert "nodeName" not in waiting["spec"]
        assert "conditions" not in waiting["status"]


@pytest.mark.own_process
async def test_cost_of_a_rollout():
    """A rollout of three pods takes less than 100 ms of CPU in a warm server."""
    async with TestServer(simulate=True) as server:
        deployments, seconds = objects(server, "deployments", "apps/v1"), []
        for number in range(4):
            await server.settle_async()
            begin = time.process_time()
            await deployments.create(deployment(f"web-{number}"))
            await server.settle_async()
            seconds.append(time.process_time() - begin)
            status = (await deployments.get(f"web-{number}"))["status"]
            assert status["availableReplicas"] == 3
        assert min(seconds[1:]) < 0.1


@pytest.mark.own_process
async def test_modules_without_simulation():
    """A server that does not simulate loads neither simulators nor controllers of workloads."""
    async with TestServer() as server:
        await objects(server, "pods").create(bare_pod("web"))
        await server.settle_async()
    prefixes = ("kapiserver.simulation.nodes", "kapiserver.simulation.kubelets")
    prefixes += ("kapiserver.simulation.scheduler", "kapiserver.controllers.workloads.deployment")
    assert [name for name in sys.modules if name.startswith(prefixes)] == []


async def test_seed():
    """Servers with the same seed report the same addresses, names and times."""

    async def pods():
        async with TestServer(simulate=True, seed=1) as server:
            await objects(server, "deployments", "apps/v1").create(deployment())
            await server.settle_async()
            return (await objects(server, "pods").list())["items"]

    first = await pods()
    assert [pod["status"]["phase"] for pod in first] == ["Running"] * 3
    assert await pods() == first


async def test_events_of_kubelets(server):
    """Events name the container and the node."""
    pods = objects(server, "pods")
    await pods.create(bare_pod("web"))
    await server.settle_async()
    events = (await objects(server, "events").list())["items"]
    found = [each for each in events if each["source"]["component"] == "kubelet"]
    assert [each["reason"] for each in found] == ["Pulling", "Pulled", "Created", "Started"]
    node = (await pods.get("web"))["spec"]["nodeName"]
    assert {each["source"]["host"] for each in found} == {node}
    assert {each["involvedObject"]["fieldPath"] for each in found} == {"spec.containers{app}"}


async def test_resize_without_room(server):
    """A resize is deferred, and done when another pod has left the node."""
    pods = objects(server, "pods")
    for name in ("one", "two"):
        pod = bare_pod(name)
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "16"}}
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "simulated-0"}
        await pods.create(pod)
    await server.settle_async()
    containers = [{"name": "app", "resources": {"requests": {"cpu": "20"}}}]
    await pods.patch("one", {"spec": {"containers": containers}}, type=STRATEGIC_MERGE_PATCH,
                     subresource="resize")  # fmt: skip
    await server.settle_async()

    async def conditions():
        found = (await pods.get("one"))["status"]["conditions"]
        return {each["type"]: each.get("message") for each in found}

    assert (await conditions())["PodResizePending"] == (
        "Node didn't have enough resource: cpu, requested: 20000, used: 16000, capacity: 32000"
    )
    await pods.delete("two")
    await server.settle_async()
    assert "PodResizePending" not in await conditions()
    status = (await pods.get("one"))["status"]["containerStatuses"][0]
    assert status["allocatedResources"] == {"cpu": "20"}
    assert status["resources"] == {"requests": {"cpu": "20"}}


async def test_settle_with_a_seed():
    """Pods that wait for a later time do not keep a server with a seed busy."""
    async with TestServer(simulate=True, seed=1) as server:
        pods = objects(server, "pods")
        for number in range(3):
            await pods.create(bare_pod(f"web-{number}", annotations={"run-seconds": "3"}))
        await server.settle_async()
        rounds = []
        fire = server.clock.fire_short_timers
        server.clock.fire_short_timers = lambda: rounds.append(1) or fire()
        await server.settle_async()
        assert len(rounds) == 1
