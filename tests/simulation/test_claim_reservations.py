"""Writes of ResourceClaims by the scheduler: what happens when a claim changes meanwhile."""

from __future__ import annotations

import pytest

from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.resource_claims.pod_claims import RESOURCE
from kapiserver.simulation.scheduler.claim_reservations import ClaimReservations
from kapiserver.simulation.scheduler.plugins.dynamic_resources import ClaimToReserve
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError
from tests.controllers.workloads.workloads import on_server
from tests.simulation.devices import a_claim, allocated

ALLOCATION = allocated(a_claim("c"), ("gpus", "x"))["status"]["allocation"]
EXTENDED = {"resource.kubernetes.io/extended-resource-claim": "true"}


class Watching(Controller):
    """Watches claims, for the reservations of a test."""

    def set_up(self):
        self.reservations = ClaimReservations(self.context, self.watch(RESOURCE, "resourceclaims"))


class Claims:
    """Two claims, a pod and the reservations of a scheduler."""

    def __init__(self, workloads):
        self.claims = workloads.objects("resourceclaims", "resource.k8s.io/v1")
        self.pods = workloads.pods
        self.reservations = workloads.controllers[0].reservations

    async def add(self, name="", **metadata):
        spec = a_claim("c")["spec"]
        return await self.claims.create({"metadata": {"name": name} | metadata, "spec": spec})

    async def add_pod(self):
        resources = {"limits": {"x.io/gpu": "1"}}
        spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
        return await self.pods.create({"metadata": {"name": "web"}, "spec": spec})

    async def consumers(self, name):
        status = (await self.claims.get(name)).get("status") or {}
        return [each["name"] for each in status.get("reservedFor") or ()]


on_claims = on_server(Claims, Watching)


@on_claims
async def test_all_or_none(it):
    """If one claim is allocated by somebody else meanwhile, the reservation of the other one ends,
    and its devices stay for the next attempt."""
    first, second = await it.add("first"), await it.add("second")
    pod = await it.add_pod()
    wanted = [ClaimToReserve(first, ALLOCATION), ClaimToReserve(second, ALLOCATION)]
    taken = second | {"status": {"allocation": ALLOCATION}}
    await it.claims.update(taken, subresource="status")
    with pytest.raises(SchedulingError) as error:
        await it.reservations.reserve(pod, wanted)
    assert str(error.value) == (
        'running PreBind plugin "DynamicResources": claim shop/second got allocated elsewhere in '
        "the meantime"
    )
    assert await it.consumers("first") == []
    assert (await it.claims.get("first"))["status"]["allocation"]["devices"]["results"]


@on_claims
async def test_claims_that_are_freed_or_deleted(it):
    """A claim that was freed or is being deleted is not reserved."""
    pod = await it.add_pod()
    freed = await it.add("freed")
    with pytest.raises(SchedulingError, match="got deallocated elsewhere in the meantime"):
        await it.reservations.reserve(pod, [ClaimToReserve(freed, None)])
    leaving = await it.add("leaving", finalizers=["x.io/held"])
    await it.claims.delete("leaving")
    with pytest.raises(SchedulingError, match="claim shop/leaving got deleted in the meantime"):
        await it.reservations.reserve(pod, [ClaimToReserve(leaving, ALLOCATION)])


@on_claims
async def test_claims_for_extended_resources(it):
    """A claim for extended resources is made with its reservation, and deleted with it."""
    pod = await it.add_pod()
    metadata = {"namespace": "shop", "generateName": "web-", "annotations": EXTENDED}
    claim = {"metadata": metadata, "spec": a_claim("c")["spec"]}
    mapping = {"containerName": "c", "resourceName": "x.io/gpu", "requestName": "gpu"}
    wanted = [ClaimToReserve(claim, ALLOCATION, [mapping])]
    (made,) = await it.reservations.reserve(pod, wanted)
    name = made["metadata"]["name"]
    assert await it.consumers(name) == ["web"]
    status = (await it.pods.get("web"))["status"]["extendedResourceClaimStatus"]
    assert status == {"resourceClaimName": name, "requestMappings": [mapping]}
    await it.reservations.release(pod, [made])
    assert (await it.claims.list())["items"] == []
