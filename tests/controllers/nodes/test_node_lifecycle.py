"""The controllers of nodes, for nodes whose kubelets the test plays."""

from __future__ import annotations

import contextlib

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import open_cluster
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.shared_metadata import SharedMetadata
from kapiserver.controllers.manager import apiserver_context
from kapiserver.controllers.nodes.node_lifecycle import NodeLifecycleController
from kapiserver.controllers.nodes.taint_eviction import TaintEvictionController
from kapiserver.controllers.rbac.bootstrap import reconcile_policy
from kapiserver.controllers.registry import REGISTRY
from kapiserver.parts import Parts
from tests.clock import ManualClock
from tests.controllers.workloads.workloads import Workloads
from tests.times import text_of

pytestmark = pytest.mark.anyio
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Nodes(Workloads):
    """Nodes, and pods in the namespace shop."""

    @property
    def nodes(self):
        return self.client.resource("v1", "nodes")

    async def create_node(self, name, ready="True", **labels):
        await self.nodes.create({"metadata": {"name": name, "labels": labels}})
        if ready:
            await self.report(name, status=ready)
        await self.settle()

    async def report(self, name, **fields):
        """Play the kubelet, which reports the status of its node."""
        condition = READY | {"lastHeartbeatTime": text_of(self.clock.now())} | fields
        await self.nodes.patch(name, {"status": {"conditions": [condition]}}, subresource="status")
        await self.settle()

    async def create_pod(self, name, node, **spec):
        spec |= {"containers": [{"name": "main", "image": "busybox"}], "nodeName": node}
        await self.pods.create({"metadata": {"name": name}, "spec": spec})
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.pods.patch(name, {"status": status}, subresource="status")
        await self.settle()

    async def conditions(self, name):
        status = (await self.nodes.get(name))["status"]
        return {each["type"]: each for each in status["conditions"]}

    async def taints(self, name):
        taints = (await self.nodes.get(name))["spec"].get("taints", ())
        return {each["key"].rpartition("/")[2] + ":" + each["effect"] for each in taints}

    async def deleted(self):
        """The names of the pods that are being deleted."""
        pods = await self.items("pods", "v1")
        return {
            each["metadata"]["name"] for each in pods if "deletionTimestamp" in each["metadata"]
        }

    async def node_events(self):
        events = self.client.resource("v1", "events", namespace="default")
        return [(each["reason"], each["message"]) for each in (await events.list())["items"]]


@pytest.fixture
async def cluster():
    """A server with the controllers, which have the rights of their service accounts."""
    async with running() as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def running(**settings):
    clock = ManualClock()
    config = Config.of(authorization_mode=("RBAC",), **settings)
    async with open_cluster(config, Parts(clock=clock)) as opened:
        server = opened.server
        await reconcile_policy(apiserver_context(server), aggregate=True)
        await server.rbac.start()
        client = server.client(APISERVER, authorize=False)
        for name in ("shop", "default"):
            await client.resource("v1", "namespaces").create({"metadata": {"name": name}})
        accounts = client.resource("v1", "serviceaccounts", namespace="shop")
        await accounts.create({"metadata": {"name": "default"}})
        controllers = [
            each(context_of(server, name))
            for each, name in (
                (NodeLifecycleController, "node-lifecycle-controller"),
                (TaintEvictionController, "taint-eviction-controller"),
            )
        ]
        for controller in controllers:
            controller.start()
        cluster = Nodes(server, clock, controllers)
        try:
            await cluster.settle()
            yield cluster
        finally:
            for controller in controllers:
                await controller.stop()
            await server.rbac.stop()


def context_of(server, name):
    descriptor = next(each for each in REGISTRY if each.name == name)
    return ControllerContext(
        name=name, server=server, metadata=SharedMetadata(server), user=descriptor.user,
        manager=descriptor.manager,
    )  # fmt: skip


async def test_a_node_comes_and_goes(cluster):
    """Both are reported; labels are completed, and the taint of a new node is removed."""
    await cluster.create_node("one", **{"kubernetes.io/os": "linux"})
    node = await cluster.nodes.get("one")
    assert node["metadata"]["labels"]["beta.kubernetes.io/os"] == "linux"
    assert "taints" not in node["spec"]
    await cluster.nodes.delete("one")
    await cluster.settle()
    assert await cluster.node_events() == [
        ("RegisteredNode", "Node one event: Registered Node one in Controller"),
        ("RemovingNode", "Node one event: Removing Node one from Controller"),
    ]


async def test_a_node_that_never_reports(cluster):
    """It has a minute."""
    await cluster.create_node("other")
    await cluster.create_node("one", ready="")
    await cluster.advance(59)
    assert "conditions" not in (await cluster.nodes.get("one")).get("status", {})
    await cluster.report("other")
    await cluster.advance(1)
    conditions = await cluster.conditions("one")
    assert len(conditions) == 4
    assert {each["reason"] for each in conditions.values()} == {"NodeStatusNeverUpdated"}
    assert await cluster.taints("one") == {"unreachable:NoSchedule", "unreachable:NoExecute"}


async def test_heartbeats(cluster):
    """A renewed Lease counts, and so does a report of the status; another change does not."""
    leases = cluster.client.resource(
        "coordination.k8s.io/v1", "leases", namespace="kube-node-lease"
    )
    await cluster.client.resource("v1", "namespaces").create(
        {"metadata": {"name": "kube-node-lease"}}
    )
    await cluster.create_node("one")
    await cluster.create_node("two")
    await cluster.advance(40)
    time = text_of(cluster.clock.now()).replace("Z", ".000000Z")
    await leases.create({"metadata": {"name": "one"}, "spec": {"renewTime": time}})
    await cluster.nodes.patch("two", {"metadata": {"labels": {"a": "b"}}})
    await cluster.advance(10)
    assert (await cluster.conditions("one"))["Ready"]["status"] == "True"
    assert (await cluster.conditions("two"))["Ready"]["status"] == "Unknown"
    await cluster.report("one")
    await leases.patch("one", {"metadata": {"labels": {"a": "b"}}})
    await cluster.advance(49)
    assert (await cluster.conditions("one"))["Ready"]["status"] == "True"
    await cluster.advance(1)
    assert (await cluster.conditions("one"))["Ready"]["status"] == "Unknown"


async def test_pods_of_a_silent_node(cluster):
    """Its pods are not ready; those of a node whose kubelet says that it is not ready are left to
    the kubelet."""
    await cluster.create_node("one")
    await cluster.create_node("two")
    await cluster.create_pod("a", "one")
    await cluster.create_pod("b", "two")
    await cluster.report("two", status="False", reason="KubeletNotReady")
    await cluster.advance(30)
    await cluster.report("two", status="False", reason="KubeletNotReady")
    await cluster.advance(20)
    pods = {each["metadata"]["name"]: each["status"] for each in await cluster.items("pods", "v1")}
    assert pods["a"]["conditions"][0]["status"] == "False"
    assert pods["b"]["conditions"][0]["status"] == "True"
    assert ("a", "NodeNotReady", "Node is not ready") in await cluster.events()
    events = await cluster.node_events()
    assert ("NodeNotReady", "Node one status is now: NodeNotReady") in events
    assert ("NodeNotReady", "Node two status is now: NodeNotReady") not in events


async def test_taints_follow_conditions(cluster):
    """From not ready to unknown to ready; a taint that evicts is swapped at once."""
    await cluster.create_node("other")
    await cluster.advance(10)  # the rate of taints begins when the first node is ready
    await cluster.create_node("one", ready="False")
    assert await cluster.taints("one") == {"not-ready:NoSchedule", "not-ready:NoExecute"}
    await cluster.report("other")
    await cluster.advance(49)
    await cluster.report("other")
    await cluster.advance(1)
    assert await cluster.taints("one") == {"unreachable:NoSchedule", "unreachable:NoExecute"}
    await cluster.report("one", status="False")
    assert await cluster.taints("one") == {"not-ready:NoSchedule", "not-ready:NoExecute"}
    await cluster.report("one")
    assert await cluster.taints("one") == set()
    await cluster.nodes.patch("one", {"spec": {"unschedulable": True}})
    await cluster.settle()
    assert await cluster.taints("one") == {"unschedulable:NoSchedule"}
    await cluster.nodes.patch("one", {"spec": {"unschedulable": None}})
    await cluster.settle()
    assert await cluster.taints("one") == set()


async def test_rate(cluster):
    """In each zone one node in ten seconds loses its pods."""
    zones = {"a": 3, "b": 2}
    names = [f"{zone}-{number}" for zone, count in zones.items() for number in range(count)]
    for name in [*names, "c-0"]:
        await cluster.create_node(name, **{"topology.kubernetes.io/zone": name[0]})
    await cluster.advance(40)
    for _ in range(3):
        await cluster.report("c-0")
        await cluster.report("a-0")
        await cluster.advance(10)
    tainted = {name for name in names if "unreachable:NoExecute" in await cluster.taints(name)}
    assert tainted == {"a-1", "a-2", "b-0", "b-1"}


async def test_first_nodes_that_lose_their_pods(cluster):
    for number in range(4):
        await cluster.create_node(f"node-{number}")
    await cluster.advance(40)
    await cluster.report("node-0")
    await cluster.report("node-1")
    await cluster.advance(10)

    async def tainted():
        return [
            "unreachable:NoExecute" in await cluster.taints(name) for name in ("node-2", "node-3")
        ]

    assert sorted(await tainted()) == [False, True]
    await cluster.advance(10)
    assert await tainted() == [True, True]


async def test_eviction(cluster):
    """Pods leave when their tolerations end; the reason is a condition and an event."""
    await cluster.create_node("one")
    forever = {"key": "maintenance", "operator": "Exists"}
    await cluster.create_pod("daemon", "one", tolerations=[forever])
    await cluster.create_pod("patient", "one", tolerations=[
        forever | {"effect": "NoExecute", "tolerationSeconds": 20}
    ])  # fmt: skip
    await cluster.create_pod("web", "one")
    taint = {"key": "maintenance", "effect": "NoExecute"}
    await cluster.nodes.patch("one", {"spec": {"taints": [taint]}})
    await cluster.settle()
    assert await cluster.deleted() == {"web"}
    (condition,) = [
        each for each in (await cluster.pods.get("web"))["status"]["conditions"]
        if each["type"] == "DisruptionTarget"
    ]  # fmt: skip
    assert condition["reason"] == "DeletionByTaintManager"
    await cluster.advance(19)
    assert await cluster.deleted() == {"web"}
    await cluster.advance(1)
    assert await cluster.deleted() == {"web", "patient"}
    assert [event for event in await cluster.events() if event[1] == "TaintManagerEviction"] == [
        ("patient", "TaintManagerEviction", "Marking for deletion Pod shop/patient"),
        ("web", "TaintManagerEviction", "Marking for deletion Pod shop/web"),
    ]


async def test_cancelled_eviction(cluster):
    """A taint that goes, and a toleration that comes, keep a pod."""
    await cluster.create_node("one")
    some = {"key": "maintenance", "operator": "Exists", "tolerationSeconds": 20}
    for name in ("a", "b"):
        await cluster.create_pod(name, "one", tolerations=[some | {"effect": "NoExecute"}])
    taint = {"key": "maintenance", "effect": "NoExecute"}
    await cluster.nodes.patch("one", {"spec": {"taints": [taint]}})
    await cluster.advance(10)
    await cluster.pods.delete("a", {"gracePeriodSeconds": 0})
    await cluster.nodes.patch("one", {"spec": {"taints": None}})
    await cluster.advance(60)
    assert await cluster.deleted() == set()
    messages = {event[2] for event in await cluster.events()}
    assert messages == {f"Cancelling deletion of Pod shop/{name}" for name in ("a", "b")}


async def test_pods_that_a_new_run_finds():
    """A controller that starts marks the pods of nodes that are lost already."""
    async with running() as cluster:
        await cluster.create_node("other")
        await cluster.create_node("one", ready="Unknown")
        for controller in cluster.controllers:
            await controller.stop()
        cluster.controllers = []
        await cluster.create_pod("web", "one")
        lifecycle = NodeLifecycleController(context_of(cluster.server, "node-lifecycle-controller"))
        lifecycle.start()
        cluster.controllers = [lifecycle]
        await cluster.settle()
        assert (await cluster.pods.get("web"))["status"]["conditions"][0]["status"] == "False"


async def test_settings():
    """The periods are flags."""
    async with running(node_monitor_grace_period=5.0, node_startup_grace_period=7.0) as cluster:
        await cluster.create_node("one")
        await cluster.create_node("two", ready="")
        await cluster.advance(5)
        assert (await cluster.conditions("one"))["Ready"]["status"] == "Unknown"
        await cluster.advance(2)
        assert (await cluster.conditions("two"))["Ready"]["reason"] == "NodeStatusNeverUpdated"


def test_names():
    """The controllers have the names and the user of kube-controller-manager's."""
    users = {each.name: each.user.name for each in REGISTRY}
    for name in ("node-lifecycle-controller", "taint-eviction-controller"):
        assert users[name] == "system:serviceaccount:kube-system:node-controller"
