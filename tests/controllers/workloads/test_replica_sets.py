"""ReplicaSets and Deployments on a server: pods are created, adopted, released and deleted."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.controllers.workloads.deployment.controller import DeploymentController
from kapiserver.controllers.workloads.replica_set import (
    ReplicaSetController,
    ReplicationControllerController,
)
from tests.controllers.workloads.workloads import revision_of, running

LABELS = {"app": "web"}
TEMPLATE = {
    "metadata": {"labels": LABELS, "annotations": {"a": "b"}, "finalizers": ["x.dev/keep"]},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}
PLAIN = TEMPLATE | {"metadata": {"labels": LABELS}}


def replica_set(name="web", replicas=3, template=PLAIN, **spec):
    selector = {"matchLabels": LABELS}
    spec |= {"replicas": replicas, "selector": selector, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def replication_controller():
    return {"metadata": {"name": "web"}, "spec": {"replicas": 3, "template": PLAIN}}


def deployment(replicas=3, image="web:1", **spec):
    container = {"name": "web", "image": image}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    return replica_set("web", replicas, template, **spec)


def names(pods):
    return {each["metadata"]["name"] for each in pods}


@pytest.mark.parametrize(
    ("version", "resource", "kind", "body"),
    [
        ("apps/v1", "replicasets", "ReplicaSet", replica_set()),
        ("v1", "replicationcontrollers", "ReplicationController", replication_controller()),
    ],
)
def test_pods_are_created_and_deleted(version, resource, kind, body):
    async def run():
        async with running(ReplicaSetController, ReplicationControllerController) as cluster:
            owners = cluster.objects(resource, version)
            owner = await owners.create(body)
            await cluster.settle()
            pods = await cluster.items("pods", "v1")
            assert len(pods) == 3
            for pod in pods:
                metadata = pod["metadata"]
                assert metadata["generateName"] == "web-"
                assert metadata["labels"] == LABELS
                assert metadata["ownerReferences"] == [
                    {
                        "apiVersion": version,
                        "kind": kind,
                        "name": "web",
                        "uid": owner["metadata"]["uid"],
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ]
            await cluster.get_ready(2)
            status = (await owners.get("web"))["status"]
            counts = ("replicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas")
            assert [status.get(each) for each in counts] == [3, 2, 2, 3]
            await owners.patch("web", {"spec": {"replicas": 2}})
            await cluster.settle()
            await cluster.get_ready(0)
            left = await cluster.items("pods", "v1")
            assert len(left) == 2
            assert all(pod["status"]["phase"] == "Running" for pod in left)
            (gone,) = names(pods) - names(left)
            events = await cluster.events()
            assert ("web", "SuccessfulDelete", f"Deleted pod: {gone}") in events
            assert sum(reason == "SuccessfulCreate" for _, reason, _ in events) == 3

    asyncio.run(run())


def test_templates_reach_the_pods():
    async def run():
        async with running(ReplicaSetController) as cluster:
            await cluster.objects("replicasets").create(replica_set(template=TEMPLATE, replicas=1))
            await cluster.settle()
            (pod,) = await cluster.items("pods", "v1")
            assert pod["metadata"]["annotations"] == {"a": "b"}
            assert pod["metadata"]["finalizers"] == ["x.dev/keep"]

    asyncio.run(run())


def test_a_deleted_pod_is_replaced_and_a_finished_one_does_not_count():
    async def run():
        async with running(ReplicaSetController) as cluster:
            await cluster.objects("replicasets").create(replica_set())
            await cluster.settle()
            first, second, _ = names(await cluster.items("pods", "v1"))
            await cluster.pods.delete(first, {"gracePeriodSeconds": 0})
            await cluster.pods.patch(second, {"status": {"phase": "Failed"}}, subresource="status")
            await cluster.settle()
            pods = await cluster.items("pods", "v1")
            assert len(pods) == 4
            assert first not in names(pods)
            assert second in names(pods)

    asyncio.run(run())


def test_orphans_are_adopted_and_relabelled_pods_released():
    async def run():
        async with running(ReplicaSetController) as cluster:
            orphan = {"metadata": {"name": "orphan", "labels": LABELS}, "spec": PLAIN["spec"]}
            await cluster.pods.create(orphan)
            sets = cluster.objects("replicasets")
            owner = await sets.create(replica_set())
            await cluster.settle()
            assert len(await cluster.items("pods", "v1")) == 3
            adopted = await cluster.pods.get("orphan")
            assert adopted["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
            await cluster.pods.patch("orphan", {"metadata": {"labels": {"app": "other"}}})
            await cluster.settle()
            assert "ownerReferences" not in (await cluster.pods.get("orphan"))["metadata"]
            assert len(await cluster.items("pods", "v1")) == 4

    asyncio.run(run())


def test_min_ready_seconds_make_pods_available_later():
    async def run():
        async with running(ReplicaSetController) as cluster:
            sets = cluster.objects("replicasets")
            await sets.create(replica_set(minReadySeconds=10))
            await cluster.settle()
            await cluster.get_ready()
            assert (await sets.get("web"))["status"].get("availableReplicas") is None
            await cluster.advance(9)
            assert (await sets.get("web"))["status"].get("availableReplicas") is None
            await cluster.advance(1)
            assert (await sets.get("web"))["status"]["availableReplicas"] == 3

    asyncio.run(run())


def test_refused_pods_are_reported_and_retried():
    async def run():
        async with running(ReplicaSetController) as cluster:
            sets = cluster.objects("replicasets")
            broken = PLAIN | {"spec": PLAIN["spec"] | {"serviceAccountName": "absent"}}
            await sets.create(replica_set(template=broken, replicas=20))
            await cluster.settle()
            (condition,) = (await sets.get("web"))["status"]["conditions"]
            assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
            assert 'serviceaccount "absent" not found' in condition["message"]
            refused = [each for each in await cluster.events() if each[1] == "FailedCreate"]
            assert refused
            await cluster.objects("serviceaccounts", "v1").create({"metadata": {"name": "absent"}})
            await cluster.advance(1)
            status = (await sets.get("web"))["status"]
            assert status["replicas"] == 20
            assert not status.get("conditions")

    asyncio.run(run())


def test_rollout_of_a_deployment():
    async def run():
        async with running(ReplicaSetController, DeploymentController) as cluster:
            deployments = cluster.objects("deployments")
            await deployments.create(deployment())
            await cluster.roll_out()
            changed = deployment(image="web:2")["spec"]["template"]
            await deployments.patch("web", {"spec": {"template": changed}})
            await cluster.settle()
            assert await cluster.sizes() == [3, 1]
            await cluster.roll_out()
            assert await cluster.sizes() == [3]
            current = await deployments.get("web")
            assert revision_of(current) == "2"
            status = current["status"]
            assert (status["replicas"], status["availableReplicas"]) == (3, 3)
            progressing = next(c for c in status["conditions"] if c["type"] == "Progressing")
            assert progressing["reason"] == "NewReplicaSetAvailable"
            images = {
                pod["spec"]["containers"][0]["image"] for pod in await cluster.items("pods", "v1")
            }
            assert images == {"web:2"}

    asyncio.run(run())


def test_recreate_starts_new_pods_after_the_last_old_one():
    async def run():
        async with running(ReplicaSetController, DeploymentController) as cluster:
            deployments = cluster.objects("deployments")
            await deployments.create(deployment(strategy={"type": "Recreate"}))
            await cluster.roll_out()
            old = names(await cluster.items("pods", "v1"))
            changed = deployment(image="web:2")["spec"]["template"]
            await deployments.patch("web", {"spec": {"template": changed}})
            await cluster.settle()
            assert names(await cluster.items("pods", "v1")) <= old
            await cluster.roll_out()
            new = names(await cluster.items("pods", "v1"))
            assert len(new) == 3
            assert not new & old

    asyncio.run(run())


def test_names_that_collide_get_another_hash():
    async def run():
        async with running(ReplicaSetController, DeploymentController) as cluster:
            deployments, sets = cluster.objects("deployments"), cluster.objects("replicasets")
            await deployments.create(deployment(replicas=0))
            await cluster.settle()
            (first,) = await cluster.items("replicasets")
            name = first["metadata"]["name"]
            await deployments.patch("web", {"spec": {"paused": True}})
            await sets.delete(name, {"propagationPolicy": "Background"})
            foreign = {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": first["spec"]}
            await sets.create(foreign | {"metadata": {"name": name}})
            await sets.patch(name, {"metadata": {"ownerReferences": None}})
            await deployments.patch("web", {"spec": {"paused": None}})
            await cluster.settle()
            await cluster.advance(1)
            status = (await deployments.get("web"))["status"]
            assert status["collisionCount"] == 1
            assert len(await cluster.items("replicasets")) == 2

    asyncio.run(run())
