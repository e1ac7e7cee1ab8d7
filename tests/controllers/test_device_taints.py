"""Evictions of pods whose devices are tainted, on a server in memory and as a plan."""

from __future__ import annotations

import pytest

from kapiserver.controllers.resource_claims.device_taints import eviction_time, rule_taints
from tests.controllers.workloads.workloads import on_server
from tests.simulation.devices import DRIVER, a_claim, a_device, a_slice, allocated, exactly
from tests.times import text_of

V1 = "resource.k8s.io/v1"
NOW = 1_700_000_000
TAINT = {"key": "broken", "effect": "NoExecute", "timeAdded": text_of(NOW)}
ALWAYS = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "seconds"),
    [
        ([], [], None),
        ([TAINT], [], 0),
        ([TAINT], [ALWAYS], None),
        ([TAINT], [ALWAYS | {"tolerationSeconds": 30}], 30),
        ([TAINT], [ALWAYS | {"tolerationSeconds": 30}, ALWAYS | {"tolerationSeconds": 5}], 5),
        ([TAINT], [ALWAYS | {"tolerationSeconds": 30}, ALWAYS], None),
        ([TAINT], [ALWAYS | {"effect": "NoSchedule"}], 0),
        ([TAINT], [ALWAYS | {"key": "other"}], 0),
        ([TAINT, TAINT | {"timeAdded": text_of(NOW - 10)}], [], -10),
        ([TAINT, TAINT | {"key": "other"}], [ALWAYS], 0),
    ],
)
def test_times(taints, tolerations, seconds):
    """The first taint that is not tolerated any more counts."""
    claim = allocated(a_claim("c"), ("gpus", "x"))
    claim["status"]["allocation"]["devices"]["results"][0]["tolerations"] = tolerations
    time = eviction_time(claim, lambda _result: taints)
    assert time == (None if seconds is None else NOW + seconds)


RESULT = {"driver": DRIVER, "pool": "gpus", "device": "x"}


@pytest.mark.parametrize(
    ("selector", "taint", "expected"),
    [
        ({}, TAINT, 1),
        ({"driver": DRIVER, "pool": "gpus", "device": "x"}, TAINT, 1),
        ({"device": "y"}, TAINT, 0),
        ({"driver": "other"}, TAINT, 0),
        (None, TAINT, 0),
        ({}, TAINT | {"effect": "NoSchedule"}, 0),
    ],
)
def test_rules(selector, taint, expected):
    """A rule taints the devices that its selector names."""
    rule = {"spec": {"deviceSelector": selector, "taint": taint}}
    assert len(rule_taints(rule, RESULT)) == expected


class Devices:
    """A pod with a device on a server."""

    def __init__(self, workloads):
        self._workloads = workloads
        self.advance, self.settle = workloads.advance, workloads.settle
        self.pods, self.claims = workloads.pods, workloads.objects("resourceclaims", V1)
        self.slices = workloads.client.resource(V1, "resourceslices")
        self.rules = workloads.client.resource(V1, "devicetaintrules")

    async def add_pod(self, **request):
        """Add a bound pod with a claim for the device `x`."""
        await self.slices.create(a_slice("gpus", "x"))
        spec = a_claim("c", exactly(**request))["spec"]
        claim = await self.claims.create({"metadata": {"name": "c"}, "spec": spec})
        references = [{"name": "c", "resourceClaimName": "c"}]
        container = {"name": "a", "image": "a"}
        spec = {"containers": [container], "nodeName": "one", "resourceClaims": references}
        pod = await self.pods.create({"metadata": {"name": "web"}, "spec": spec})
        allocation = allocated(a_claim("c"), ("gpus", "x"))["status"]["allocation"]
        results = allocation["devices"]["results"]
        results[0]["tolerations"] = request.get("tolerations", [])
        consumer = {"resource": "pods", "name": "web", "uid": pod["metadata"]["uid"]}
        claim["status"] = {"allocation": allocation, "reservedFor": [consumer]}
        await self.claims.update(claim, subresource="status")
        await self.settle()

    async def taint(self, *taints):
        slice_ = await self.slices.get("gpus")
        slice_["spec"]["devices"] = [a_device("x", taints=list(taints))]
        await self.slices.update(slice_)
        await self.settle()

    async def add_rule(self):
        taint = {"key": "broken", "effect": "NoExecute"}
        spec = {"deviceSelector": {"driver": DRIVER}, "taint": taint}
        await self.rules.create({"metadata": {"name": "rule"}, "spec": spec})
        await self.settle()

    async def is_leaving(self):
        return "deletionTimestamp" in (await self.pods.get("web"))["metadata"]

    async def events(self):
        return [
            (each["reason"], each["message"])
            for each in await self._workloads.items("events", "v1")
        ]


on_devices = on_server(Devices, "device-taint-eviction-controller")


@on_devices
async def test_taints_of_a_device(it):
    """A pod is deleted when its device is tainted, with condition and event."""
    await it.add_pod()
    assert not await it.is_leaving()
    await it.taint({"key": "a", "effect": "NoSchedule"})
    assert not await it.is_leaving()
    await it.taint({"key": "a", "effect": "NoExecute"})
    assert await it.is_leaving()
    conditions = (await it.pods.get("web"))["status"]["conditions"]
    (target,) = (each for each in conditions if each["type"] == "DisruptionTarget")
    assert target["reason"] == "DeletionByDeviceTaintManager"
    assert target["message"] == "Device Taint manager: deleting due to NoExecute taint"
    assert await it.events() == [("DeviceTaintManagerEviction", "Marking for deletion")]


@on_devices
async def test_tolerated_for_seconds(it):
    """A pod whose claim tolerates the taint for some seconds is deleted then, unless the taint is
    gone."""
    await it.add_pod(tolerations=[ALWAYS | {"tolerationSeconds": 60}])
    await it.add_rule()
    await it.advance(50)
    assert not await it.is_leaving()
    await it.rules.delete("rule")
    await it.settle()
    assert await it.events() == [("DeviceTaintManagerEviction", "Cancelling deletion")]
    await it.advance(50)
    assert not await it.is_leaving()
    await it.add_rule()
    await it.advance(60)
    assert await it.is_leaving()


@on_devices
async def test_tolerated_for_ever(it):
    """A pod whose claim tolerates the taint stays."""
    await it.add_pod(tolerations=[ALWAYS])
    await it.add_rule()
    await it.advance(1000)
    assert not await it.is_leaving()
    assert await it.events() == []
