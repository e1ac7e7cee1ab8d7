"""The scheduler on a server in memory: bindings, conditions, events and what wakes waiting pods."""

from __future__ import annotations

import asyncio

from tests.controllers.workloads.workloads import running
from tests.simulation.devices import a_claim, a_class, a_device, a_slice, allocated
from tests.simulation.scheduling import a_node, a_pod

V1 = "resource.k8s.io/v1"
BLUE = {"key": "color", "value": "blue", "effect": "NoSchedule"}


class Devices:
    """The devices and claims of a cluster."""

    def __init__(self, workloads):
        self.claims = workloads.objects("resourceclaims", V1)
        self.templates = workloads.objects("resourceclaimtemplates", V1)
        self.classes = workloads.client.resource(V1, "deviceclasses")
        self.slices = workloads.client.resource(V1, "resourceslices")
        self.rules = workloads.client.resource(V1, "devicetaintrules")


class Cluster:
    """The nodes and pods of a server with a scheduler."""

    def __init__(self, workloads):
        self._workloads = workloads
        self.pods = workloads.pods
        self.nodes = workloads.client.resource("v1", "nodes")
        self.devices = Devices(workloads)
        self.settle, self.advance = workloads.settle, workloads.advance

    async def add_node(self, name="one", **fields):
        node = a_node(name, **fields)
        await self.nodes.create(node)
        await self.nodes.patch(name, {"status": node["status"]}, subresource="status")
        # Admission has tainted the node, because it is not ready.
        await self.nodes.patch(name, {"spec": {"taints": node["spec"]["taints"]}})
        await self.settle()

    async def add_pod(self, name="web", requests=None, **spec):
        metadata = {"name": name, "labels": {"app": name}}
        spec = a_pod(requests=requests, **spec)["spec"]
        await self.pods.create({"metadata": metadata, "spec": spec})
        await self.settle()

    async def node_of(self, name="web"):
        return (await self.pods.get(name))["spec"].get("nodeName")

    async def condition(self, name="web"):
        conditions = (await self.pods.get(name))["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), None)

    async def end(self, name):
        await self.pods.patch(name, {"status": {"phase": "Succeeded"}}, subresource="status")
        await self.settle()

    async def events_of(self, name):
        events = await self._workloads.items("events", "v1")
        return [each for each in events if each["involvedObject"]["name"] == name]

    async def events(self):
        return [
            (each["involvedObject"]["name"], each["reason"], each["source"]["component"])
            for each in await self._workloads.items("events", "v1")
        ]

    async def messages(self):
        return [each["message"] for each in await self._workloads.items("events", "v1")]


def on_cluster(test):
    """Run a test on a server with a scheduler."""

    async def run():
        async with running("kube-scheduler", "resourceclaim-controller") as workloads:
            classes = workloads.client.resource("scheduling.k8s.io/v1", "priorityclasses")
            for name, value in (("high", 100), ("highest", 1000)):
                await classes.create({"metadata": {"name": name}, "value": value})
            await test(Cluster(workloads))

    def run_test():
        asyncio.run(run())

    run_test.__doc__ = test.__doc__
    return run_test


@on_cluster
async def test_a_pod_is_bound(it):
    """A pod that fits is bound, with condition and event."""
    await it.add_node()
    await it.add_pod()
    assert await it.node_of() == "one"
    assert (await it.condition())["status"] == "True"
    assert await it.events() == [("web", "Scheduled", "default-scheduler")]
    assert await it.messages() == ["Successfully assigned shop/web to one"]


@on_cluster
async def test_unschedulable_pods_wait_for_nodes(it):
    """A pod without a node tells why, and is bound when a node is added or changed so that it
    fits."""
    await it.add_pod(requests={"cpu": "2"})
    condition = await it.condition()
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == "no nodes available to schedule pods"
    assert await it.events() == [("web", "FailedScheduling", "default-scheduler")]
    await it.add_node(taints=[BLUE])
    assert "1 node(s) had untolerated taint(s)" in (await it.condition())["message"]
    await it.nodes.patch("one", {"spec": {"taints": None}})
    await it.settle()
    assert await it.node_of() == "one"


@on_cluster
async def test_the_end_of_pods_makes_room(it):
    """Pods that end, or are deleted, make room for those that wait; the highest priority and then
    the oldest pod comes first."""
    await it.add_node(pods="2")
    for index in range(2):
        await it.add_pod(f"first-{index}", priorityClassName="high")
    await it.add_pod("below")
    await it.add_pod("high", priorityClassName="high")
    assert "1 Too many pods" in (await it.condition("below"))["message"]
    await it.end("first-0")
    assert await it.node_of("high") == "one"
    assert await it.node_of("below") is None
    await it.pods.delete("first-1", {"gracePeriodSeconds": 0})
    await it.settle()
    assert await it.node_of("below") == "one"


@on_cluster
async def test_other_schedulers_and_gates(it):
    """Pods of other schedulers are left alone; gated pods wait until the gates are removed."""
    await it.add_node()
    await it.add_pod("other", schedulerName="mine")
    await it.add_pod("gated", schedulingGates=[{"name": "x.io/wait"}])
    assert await it.condition("other") is None
    assert await it.node_of("other") is None
    assert (await it.condition("gated"))["reason"] == "SchedulingGated"
    assert await it.node_of("gated") is None
    await it.pods.patch("gated", {"spec": {"schedulingGates": None}})
    await it.settle()
    assert await it.node_of("gated") == "one"


@on_cluster
async def test_preemption(it):
    """A pod of high priority is nominated, its victim gets condition and event and ends, and the
    pod is bound when it has ended."""
    await it.add_node(pods="1")
    await it.add_pod("low")
    await it.add_pod("high", priorityClassName="high")
    high, low = await it.pods.get("high"), await it.pods.get("low")
    assert high["status"]["nominatedNodeName"] == "one"
    assert low["metadata"]["deletionTimestamp"]
    target = next(c for c in low["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert target["reason"] == "PreemptionByScheduler"
    assert f"Preempted by pod {high['metadata']['uid']} on node one" in await it.messages()
    await it.pods.delete("low", {"gracePeriodSeconds": 0})
    await it.settle()
    assert await it.node_of("high") == "one"
    assert "nominatedNodeName" not in (await it.pods.get("high"))["status"]


@on_cluster
async def test_nominated_pods_keep_their_room(it):
    """When one of two victims has ended, its room is kept for the pod that waits for both, until
    that pod is deleted."""
    await it.add_node(cpu="2")
    for name in ("low-0", "low-1"):
        await it.add_pod(name, requests={"cpu": "1"})
    await it.add_pod("high", requests={"cpu": "2"}, priorityClassName="high")
    await it.pods.delete("low-0", {"gracePeriodSeconds": 0})
    await it.add_pod("low-2", requests={"cpu": "1"})
    assert await it.node_of("low-2") is None
    await it.pods.delete("high")
    await it.settle()
    assert await it.node_of("low-2") == "one"


@on_cluster
async def test_less_important_nominations_end(it):
    """A pod that displaces others ends the nomination of a less important pod for that node."""
    await it.add_node(pods="1")
    await it.add_pod("low")
    await it.add_pod("high", priorityClassName="high")
    assert (await it.pods.get("high"))["status"]["nominatedNodeName"] == "one"
    await it.add_pod("highest", priorityClassName="highest")
    assert (await it.pods.get("highest"))["status"]["nominatedNodeName"] == "one"
    assert "nominatedNodeName" not in (await it.pods.get("high"))["status"]


@on_cluster
async def test_pods_are_tried_again_after_five_minutes(it):
    """A pod that fits nowhere is tried again every five minutes, and not before."""
    await it.add_node()
    await it.add_pod(requests={"cpu": "100"})
    for count in (1, 2, 3):
        (event,) = await it.events_of("web")
        assert event["count"] == count
        await it.advance(299)
        assert (await it.events_of("web"))[0]["count"] == count
        await it.advance(1)


@on_cluster
async def test_many_pods_fill_the_nodes(it):
    """Forty of 45 pods fill ten nodes evenly, and no node gets too many."""
    for index in range(10):
        await it.add_node(f"node-{index}", cpu="4")
    for index in range(45):
        await it.add_pod(f"web-{index}", requests={"cpu": "1"})
    nodes = [await it.node_of(f"web-{index}") for index in range(45)]
    assert all(nodes.count(f"node-{index}") == 4 for index in range(10))
    assert nodes.count(None) == 5


USES = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
SHARES = [{"name": "gpu", "resourceClaimName": "shared"}]


@on_cluster
async def test_devices(it):
    """Pods with claims of a template wait for class and slice, get a device each with a node, and
    give it back when they end."""
    await it.add_node()
    await it.add_node("two")
    spec = {"spec": a_claim("gpu")["spec"]}
    await it.devices.templates.create({"metadata": {"name": "gpu"}, "spec": spec})
    await it.add_pod(resourceClaims=USES)
    message = "0/2 nodes are available: request gpu: device class gpu does not exist."
    assert (await it.condition())["message"].startswith(message)
    await it.devices.classes.create(a_class())
    await it.settle()
    assert "2 cannot allocate all claims" in (await it.condition())["message"]
    await it.devices.slices.create(a_slice("gpus", "x", nodeName="two"))
    await it.settle()
    assert await it.node_of() == "two"
    (claim,) = (await it.devices.claims.list())["items"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["device"], result["request"]) == ("x", "gpu")
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["web"]
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    await it.add_pod("next", resourceClaims=USES)
    assert "2 cannot allocate all claims" in (await it.condition("next"))["message"]
    await it.end("web")
    assert await it.node_of("next") == "two"


@on_cluster
async def test_extended_resources(it):
    """A pod gets the extended resource of a device class by a claim that the scheduler makes and
    that ends with the pod."""
    await it.add_node()
    await it.devices.classes.create(a_class(extendedResourceName="example.com/gpu"))
    resources = {"limits": {"example.com/gpu": "1"}}
    await it.add_pod(containers=[{"name": "c", "image": "i", "resources": resources}])
    assert "1 cannot allocate all claims" in (await it.condition())["message"]
    await it.devices.slices.create(a_slice("gpus", "x"))
    await it.settle()
    assert await it.node_of() == "one"
    (claim,) = (await it.devices.claims.list())["items"]
    name = claim["metadata"]["name"]
    assert name.startswith("web-extended-resources-")
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["web"]
    assert (await it.pods.get("web"))["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": name,
        "requestMappings": [
            {
                "containerName": "c",
                "resourceName": "example.com/gpu",
                "requestName": "container-0-request-0",
            }
        ],
    }
    await it.end("web")
    assert (await it.devices.claims.list())["items"] == []


@on_cluster
async def test_shared_claims(it):
    """Pods that share a claim wait silently until it exists, and run where its devices are."""
    await it.add_node()
    await it.add_node("two", cpu="1")
    await it.devices.classes.create(a_class())
    await it.devices.slices.create(a_slice("gpus", "x", nodeName="two"))
    for name in ("a", "b"):
        await it.add_pod(name, resourceClaims=SHARES)
        assert await it.condition(name) is None
    claim = a_claim("shared")
    await it.devices.claims.create({"metadata": {"name": "shared"}, "spec": claim["spec"]})
    await it.settle()
    assert [await it.node_of(name) for name in ("a", "b")] == ["two", "two"]
    claim = await it.devices.claims.get("shared")
    assert {each["name"] for each in claim["status"]["reservedFor"]} == {"a", "b"}


@on_cluster
async def test_expressions_that_fail(it):
    """A claim whose expression fails is reported as an error of the scheduler, and tried again when
    the time of the backoff is over."""
    await it.add_node()
    await it.devices.classes.create(a_class("gpu", 'device.attributes["x.io"].a == "a"'))
    await it.devices.slices.create(a_slice("gpus", "x"))
    claim = a_claim("shared")
    await it.devices.claims.create({"metadata": {"name": "shared"}, "spec": claim["spec"]})
    await it.add_pod(resourceClaims=SHARES)
    condition = await it.condition()
    assert condition["reason"] == "SchedulerError"
    assert condition["message"] == (
        'running "DynamicResources" filter plugin: class gpu: selector #0 on device '
        "gpu.example.com/gpus/x: CEL runtime error: no such key: a. consider using CEL optional "
        "chaining (.? followed by orValue()) or guarding the check with has() for optional fields"
    )
    await it.devices.classes.patch("gpu", {"spec": {"selectors": None}})
    await it.settle()
    await it.advance(20)
    assert await it.node_of() == "one"


def report(claim, *conditions):
    """Let the driver of the only device of a claim report conditions that are true."""
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    device = {name: result[name] for name in ("driver", "pool", "device")}
    now = {"lastTransitionTime": "2023-11-14T22:13:20Z", "reason": "Tested", "message": ""}
    device["conditions"] = [{"type": each, "status": "True"} | now for each in conditions]
    claim["status"]["devices"] = [device]
    return claim


@on_cluster
async def test_binding_conditions(it):
    """A pod is bound when the driver has made the conditions of its device true; if the device
    fails or is not ready in time, the pod gets a device anew."""
    await it.add_node()
    await it.devices.classes.create(a_class())
    fields = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    await it.devices.slices.create(a_slice("gpus", a_device("x", bindsToNode=True, **fields)))
    spec = a_claim("c")["spec"]
    await it.devices.claims.create({"metadata": {"name": "c"}, "spec": spec})
    await it.add_pod(resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    claim = await it.devices.claims.get("c")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert {name: result[name] for name in fields} == fields
    assert await it.node_of() is None
    (event,) = await it.events_of("web")
    assert event["message"] == "waiting for binding conditions for device on node one"

    await it.devices.claims.update(report(claim, "broken"), subresource="status")
    await it.settle()
    assert "device binding failed: claim=c, reason=Tested" in (await it.condition())["message"]
    assert "allocation" not in (await it.devices.claims.get("c"))["status"]
    await it.advance(2)
    assert "allocation" in (await it.devices.claims.get("c"))["status"]

    await it.advance(601)
    assert "device binding timeout: claim=c" in (await it.condition())["message"]
    await it.advance(10)
    claim = await it.devices.claims.get("c")
    await it.devices.claims.update(report(claim, "attached"), subresource="status")
    await it.settle()
    assert await it.node_of() == "one"


@on_cluster
async def test_claims_are_freed(it):
    """A claim that nobody uses, on a node that is gone, is allocated again."""
    await it.add_node()
    await it.devices.classes.create(a_class())
    await it.devices.slices.create(a_slice("gpus", "x"))
    claim = await it.devices.claims.create(
        {"metadata": {"name": "shared"}, "spec": a_claim("shared")["spec"]}
    )
    status = allocated(a_claim("shared"), ("gpus", "x"), node="gone")["status"]
    claim["status"] = {"allocation": status["allocation"]}
    await it.devices.claims.update(claim, subresource="status")
    await it.settle()
    await it.add_pod(resourceClaims=SHARES)
    assert any("deallocation of ResourceClaim completed" in each for each in await it.messages())
    assert await it.node_of() == "one"
