"""The binder on a server in memory: claims and volumes in any order, what wakes waiting claims, and
that no volume ever has two claims."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.controllers.volumes.persistent_volume_binder import PersistentVolumeBinder
from tests.controllers.volumes.storage import a_class
from tests.controllers.workloads.workloads import on_server, running

NAMES = ("a", "b", "c")


class Storage:
    """The claims and volumes of a server with a binder."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.settle = cluster.settle
        self.claims = cluster.objects("persistentvolumeclaims", "v1")
        self.volumes = cluster.client.resource("v1", "persistentvolumes")
        self.classes = cluster.client.resource("storage.k8s.io/v1", "storageclasses")

    async def add_claim(self, name="data", size="1Gi", **spec):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        } | spec
        await self.claims.create({"metadata": {"name": name}, "spec": spec})
        await self.settle()

    async def add_volume(self, name="disk", size="1Gi", **spec):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "hostPath": {"path": f"/tmp/{name}"},
        } | spec
        await self.volumes.create({"metadata": {"name": name}, "spec": spec})
        await self.settle()

    async def delete(self, objects, name):
        """Delete an object, and do what its protection controller does."""
        await objects.delete(name)
        await objects.patch(name, {"metadata": {"finalizers": None}})
        await self.settle()

    async def claim(self, name="data"):
        """The phase of a claim, and its volume."""
        claim = await self.claims.get(name)
        return claim["status"]["phase"], claim["spec"].get("volumeName")

    async def volume(self, name="disk"):
        """The phase of a volume, and its claim."""
        volume = await self.volumes.get(name)
        reference = volume["spec"].get("claimRef") or {}
        return volume["status"]["phase"], reference.get("name")

    async def check(self):
        """Each bound claim has a volume that refers to it, and each bound volume such a claim."""
        claims = {each["metadata"]["uid"]: each for each in (await self.claims.list())["items"]}
        owners = []
        for volume in (await self.volumes.list())["items"]:
            uid = (volume["spec"].get("claimRef") or {}).get("uid")
            if volume["status"]["phase"] == "Bound":
                owners.append(uid)
                assert claims[uid]["spec"]["volumeName"] == volume["metadata"]["name"]
                assert claims[uid]["status"]["phase"] == "Bound"
        bound = [uid for uid, each in claims.items() if each["status"]["phase"] == "Bound"]
        assert sorted(owners) == sorted(bound)


on_storage = on_server(Storage, PersistentVolumeBinder)


@on_storage
async def test_claim_before_volume(it):
    """A claim waits, with an event, until a volume fits; it is bound to the smallest."""
    await it.add_claim()
    assert await it.claim() == ("Pending", None)
    assert [event[1] for event in await it.cluster.events()] == ["FailedBinding"]
    await it.add_volume("tiny", "1Mi")
    assert await it.volume("tiny") == ("Available", None)
    await it.add_volume("disk", "2Gi")
    assert await it.claim() == ("Bound", "disk")
    assert await it.volume("disk") == ("Bound", "data")
    assert (await it.claims.get("data"))["status"]["capacity"] == {"storage": "2Gi"}


@on_storage
async def test_volume_before_claims(it):
    """Of two claims one gets the volume."""
    await it.add_volume()
    await it.add_claim("one")
    await it.add_claim("two")
    assert await it.claim("one") == ("Bound", "disk")
    assert await it.claim("two") == ("Pending", None)
    await it.check()


@on_storage
async def test_reserved_volumes(it):
    """A volume that names a claim waits for it, and a claim that names a volume gets it."""
    await it.add_volume("mine", claimRef={"namespace": "shop", "name": "data"})
    await it.add_volume("other")
    await it.add_claim("named", volumeName="other")
    await it.add_claim("data")
    assert await it.volume("mine") == ("Bound", "data")
    assert await it.claim("named") == ("Bound", "other")
    await it.check()


@on_storage
async def test_retained_volume(it):
    """A volume whose claim is gone is Released; a claim of the same name does not get it. Without
    its reference it is Available again."""
    await it.add_volume()
    await it.add_claim()
    await it.delete(it.claims, "data")
    assert await it.volume() == ("Released", "data")
    await it.add_claim()
    assert await it.claim() == ("Pending", None)
    await it.volumes.patch("disk", {"spec": {"claimRef": None}})
    await it.settle()
    assert await it.claim() == ("Bound", "disk")


@on_storage
async def test_deleted_volume(it):
    """With the policy Delete the volume goes with its claim."""
    await it.add_volume(persistentVolumeReclaimPolicy="Delete")
    await it.add_claim()
    await it.delete(it.claims, "data")
    assert (await it.volumes.get("disk"))["metadata"]["deletionTimestamp"]


@on_storage
async def test_recycled_volume(it):
    """With the policy Recycle the next claim gets the volume."""
    namespaces = it.cluster.client.resource("v1", "namespaces")
    await namespaces.create({"metadata": {"name": "default"}})
    await it.add_volume(persistentVolumeReclaimPolicy="Recycle")
    await it.add_claim("one")
    await it.add_claim("two")
    await it.delete(it.claims, "one")
    assert await it.claim("two") == ("Bound", "disk")
    # The event of a cluster-scoped object is in the namespace `default`.
    events = it.cluster.client.resource("v1", "events", namespace="default")
    reasons = [event["reason"] for event in (await events.list())["items"]]
    assert reasons == ["VolumeRecycled"]


@on_storage
async def test_lost_claim(it):
    """A claim whose volume is gone is Lost."""
    await it.add_volume()
    await it.add_claim()
    await it.delete(it.volumes, "disk")
    assert await it.claim() == ("Lost", "disk")
    assert ("data", "ClaimLost") in [event[:2] for event in await it.cluster.events()]


@on_storage
async def test_classes(it):
    """A class that is made later is asked for a volume, and a default class is given to claims
    without one."""
    await it.add_claim("fast", storageClassName="fast")
    await it.add_claim("any")
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    fast = a_class("fast")
    await it.classes.create(fast | {"metadata": {"name": "fast", "annotations": default}})
    await it.settle()
    for name in ("fast", "any"):
        claim = await it.claims.get(name)
        assert claim["spec"]["storageClassName"] == "fast"
        annotations = claim["metadata"]["annotations"]
        assert annotations["volume.kubernetes.io/storage-provisioner"] == "example.com/disk"
    assert {event[1] for event in await it.cluster.events()} == {
        "ProvisioningFailed", "FailedBinding", "ExternalProvisioning",
    }  # fmt: skip


@on_storage
async def test_first_consumer(it):
    """The event of a delayed claim names the pod that waits for it."""
    await it.classes.create(a_class("wait", volumeBindingMode="WaitForFirstConsumer"))
    await it.add_claim(storageClassName="wait")
    spec = {
        "containers": [{"name": "main", "image": "nginx"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    await it.cluster.pods.create({"metadata": {"name": "web"}, "spec": spec})
    await it.settle()
    assert [event[1:] for event in await it.cluster.events()] == [
        ("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        ("WaitForPodScheduled", "waiting for pod web to be scheduled"),
    ]


_STEPS = st.one_of(
    st.tuples(
        st.just("claim"), st.sampled_from(NAMES), st.sampled_from(["1Gi", "2Gi"]),
        st.sampled_from(["", *NAMES]),
    ),
    st.tuples(
        st.just("volume"), st.sampled_from(NAMES), st.sampled_from(["1Gi", "2Gi"]),
        st.sampled_from(["", *NAMES]),
    ),
    st.tuples(st.sampled_from(["no claim", "no volume", "free"]), st.sampled_from(NAMES)),
    st.just(("settle",)),
)  # fmt: skip


async def _take(it, step):
    """Take a step, unless what it needs exists or is missing, and do not wait for the binder."""
    metadata = {"name": step[1]} if step[1:] else {}
    spec = {"accessModes": ["ReadWriteOnce"]}
    with suppress_reason("AlreadyExists", "NotFound"):
        match step:
            case ("claim", _, size, volume):
                spec |= {"resources": {"requests": {"storage": size}}}
                spec |= {"volumeName": volume} if volume else {}
                await it.claims.create({"metadata": metadata, "spec": spec})
            case ("volume", name, size, claim):
                spec |= {"capacity": {"storage": size}, "hostPath": {"path": f"/tmp/{name}"}}
                spec |= {"persistentVolumeReclaimPolicy": "Recycle"}
                spec |= {"claimRef": {"namespace": "shop", "name": claim}} if claim else {}
                await it.volumes.create({"metadata": metadata, "spec": spec})
            case ("no claim", name):
                await it.claims.delete(name)
                await it.claims.patch(name, {"metadata": {"finalizers": None}})
            case ("no volume", name):
                await it.volumes.delete(name)
                await it.volumes.patch(name, {"metadata": {"finalizers": None}})
            case ("free", name):
                await it.volumes.patch(name, {"spec": {"claimRef": None}})
            case _:
                await it.settle()


@settings(max_examples=40, deadline=None)
@given(st.lists(_STEPS, max_size=25))
def test_one_claim_for_each_volume(steps):
    """Whatever happens, and however often the binder is interrupted: when it is settled, each bound
    claim has a volume of its own."""

    async def run():
        async with running(PersistentVolumeBinder) as cluster:
            it = Storage(cluster)
            for step in steps:
                await _take(it, step)
            await it.settle()
            await it.check()

    asyncio.run(run())
