"""StatefulSets on a server: ordered pods, their claims, revisions and updates."""

from __future__ import annotations

import asyncio

from kapiserver.controllers.workloads.stateful_set.controller import StatefulSetController
from tests.controllers.workloads.workloads import running

LABELS = {"app": "db"}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def stateful_set(replicas=3, image="db:1", **spec):
    container = {"name": "db", "image": image}
    spec |= {
        "replicas": replicas,
        "serviceName": "db",
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}},
    }
    return {"metadata": {"name": "db"}, "spec": spec}


async def images(cluster):
    return {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
        for pod in await cluster.items("pods", "v1")
    }


async def names(cluster):
    return sorted(await images(cluster))


async def change(cluster, spec):
    await cluster.objects("statefulsets").patch("db", {"spec": spec})
    await cluster.settle()


def with_image(image):
    return {"template": {"spec": {"containers": [{"name": "db", "image": image}]}}}


async def status_of(cluster):
    return (await cluster.objects("statefulsets").get("db"))["status"]


def test_pods_are_created_in_order():
    """The next pod is created after the one before is ready; each has its identity."""

    async def run():
        async with running(StatefulSetController) as cluster:
            await cluster.objects("statefulsets").create(
                stateful_set(3, ordinals={"start": 5}, volumeClaimTemplates=[CLAIM])
            )
            for wanted in (["db-5"], ["db-5", "db-6"], ["db-5", "db-6", "db-7"]):
                await cluster.settle()
                assert await names(cluster) == wanted
                await cluster.get_ready()
            pod = await cluster.pods.get("db-6")
            (revision,) = await cluster.items("controllerrevisions")
            name = revision["metadata"]["name"]
            assert pod["metadata"]["labels"] == LABELS | {
                "statefulset.kubernetes.io/pod-name": "db-6",
                "apps.kubernetes.io/pod-index": "6",
                "controller-revision-hash": name,
            }
            assert pod["spec"]["hostname"] == "db-6"
            assert pod["spec"]["subdomain"] == "db"
            assert pod["spec"]["volumes"][0] == {
                "name": "data",
                "persistentVolumeClaim": {"claimName": "data-db-6"},
            }
            claims = await cluster.items("persistentvolumeclaims", "v1")
            assert [each["metadata"]["name"] for each in claims] == [
                "data-db-5",
                "data-db-6",
                "data-db-7",
            ]
            assert claims[0]["metadata"]["labels"] == LABELS
            assert "ownerReferences" not in claims[0]["metadata"]
            assert await status_of(cluster) == {
                "observedGeneration": 1,
                "replicas": 3,
                "readyReplicas": 3,
                "availableReplicas": 3,
                "currentReplicas": 3,
                "updatedReplicas": 3,
                "currentRevision": name,
                "updateRevision": name,
                "collisionCount": 0,
            }
            events = await cluster.events()
            assert (
                "db",
                "SuccessfulCreate",
                "Create Claim data-db-5 Pod db-5 in StatefulSet db success",
            ) in events
            assert (
                "db",
                "SuccessfulCreate",
                "Create Pod db-5 in StatefulSet db successful",
            ) in events

    asyncio.run(run())


def test_scale_down_in_reverse_order():
    """One pod after the other is deleted; the claims follow the retention policy."""

    async def run():
        async with running(StatefulSetController) as cluster:
            policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
            await cluster.objects("statefulsets").create(
                stateful_set(
                    3,
                    volumeClaimTemplates=[CLAIM],
                    persistentVolumeClaimRetentionPolicy=policy,
                )
            )
            await cluster.roll_out()
            before = await cluster.pods.get("db-2")
            await cluster.objects("statefulsets").patch("db", {"spec": {"replicas": 1}})
            await cluster.settle()
            terminating = [
                pod["metadata"]["name"]
                for pod in await cluster.items("pods", "v1")
                if pod["metadata"].get("deletionTimestamp")
            ]
            assert terminating == ["db-2"]
            owners = {
                claim["metadata"]["name"]: claim["metadata"]["ownerReferences"]
                for claim in await cluster.items("persistentvolumeclaims", "v1")
            }
            assert [each["kind"] for each in owners["data-db-0"]] == ["StatefulSet"]
            assert [each["uid"] for each in owners["data-db-2"]] == [before["metadata"]["uid"]]
            await cluster.roll_out()
            assert await names(cluster) == ["db-0"]
            # The claims belong to pods that are gone: new pods wait until they are deleted.
            await change(cluster, {"replicas": 2})
            assert await names(cluster) == ["db-0"]
            claims = cluster.objects("persistentvolumeclaims", "v1")
            await claims.patch("data-db-1", {"metadata": {"finalizers": None}})
            await claims.delete("data-db-1")
            await cluster.settle()
            assert await names(cluster) == ["db-0", "db-1"]

    asyncio.run(run())


def test_rolling_update_and_partition():
    """An update replaces pods from the highest ordinal to the partition; it can be undone."""

    async def run():
        async with running(StatefulSetController) as cluster:
            await cluster.objects("statefulsets").create(stateful_set(3))
            await cluster.roll_out()
            partition = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}
            await change(cluster, with_image("db:2") | partition)
            await cluster.roll_out()
            assert await images(cluster) == {"db-0": "db:1", "db-1": "db:1", "db-2": "db:2"}
            status = await status_of(cluster)
            assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)
            assert status["currentRevision"] != status["updateRevision"]
            # A pod below the partition comes back with the current revision.
            await cluster.pods.delete("db-0", {"gracePeriodSeconds": 0})
            await cluster.roll_out()
            assert (await images(cluster))["db-0"] == "db:1"
            await change(cluster, {"updateStrategy": {"rollingUpdate": {"partition": 0}}})
            await cluster.roll_out()
            assert set((await images(cluster)).values()) == {"db:2"}
            status = await status_of(cluster)
            assert status["currentRevision"] == status["updateRevision"]
            await change(cluster, with_image("db:1"))
            await cluster.roll_out()
            assert set((await images(cluster)).values()) == {"db:1"}
            revisions = await cluster.items("controllerrevisions")
            assert sorted(each["revision"] for each in revisions) == [2, 3]

    asyncio.run(run())


def test_history_limit_and_collisions():
    """Old revisions are deleted; a name that another revision has leads to the next name."""

    async def run():
        async with running(StatefulSetController) as cluster:
            await cluster.objects("statefulsets").create(stateful_set(1, revisionHistoryLimit=1))
            await cluster.roll_out()
            for number in range(2, 6):
                await change(cluster, with_image(f"db:{number}"))
                await cluster.roll_out()
            revisions = await cluster.items("controllerrevisions")
            assert sorted(each["revision"] for each in revisions) == [4, 5]
            newest = max(revisions, key=lambda each: each["revision"])
            revision_objects = cluster.objects("controllerrevisions")
            await revision_objects.delete(newest["metadata"]["name"])
            taken = {"name": newest["metadata"]["name"]}
            await revision_objects.create({"metadata": taken, "revision": 1, "data": {"other": 1}})
            await change(cluster, {"minReadySeconds": 1})
            await cluster.settle()
            status = await status_of(cluster)
            assert status["collisionCount"] == 1
            assert status["updateRevision"] != newest["metadata"]["name"]

    asyncio.run(run())


def test_on_delete_and_failed_pods():
    """OnDelete replaces only deleted pods. A pod that has ended is deleted and created again."""

    async def run():
        async with running(StatefulSetController) as cluster:
            strategy = {"type": "OnDelete"}
            await cluster.objects("statefulsets").create(
                stateful_set(2, updateStrategy=strategy, podManagementPolicy="Parallel")
            )
            await cluster.settle()
            assert await names(cluster) == ["db-0", "db-1"]
            await cluster.roll_out()
            await change(cluster, with_image("db:2"))
            await cluster.roll_out()
            assert await images(cluster) == {"db-0": "db:1", "db-1": "db:1"}
            failed = {"status": {"phase": "Failed"}}
            await cluster.pods.patch("db-1", failed, subresource="status")
            await cluster.roll_out()
            assert await images(cluster) == {"db-0": "db:1", "db-1": "db:2"}
            assert (
                "db",
                "SuccessfulDelete",
                "Delete Pod db-1 in StatefulSet db successful",
            ) in await cluster.events()

    asyncio.run(run())


def test_min_ready_seconds_and_identity():
    """The next pod waits until the one before is available. Lost labels are added again."""

    async def run():
        async with running(StatefulSetController) as cluster:
            await cluster.objects("statefulsets").create(stateful_set(2, minReadySeconds=10))
            await cluster.settle()
            await cluster.get_ready()
            assert await names(cluster) == ["db-0"]
            await cluster.advance(11)
            assert await names(cluster) == ["db-0", "db-1"]
            label = {"statefulset.kubernetes.io/pod-name": None}
            await cluster.pods.patch("db-0", {"metadata": {"labels": label}})
            await cluster.settle()
            labels = (await cluster.pods.get("db-0"))["metadata"]["labels"]
            assert labels["statefulset.kubernetes.io/pod-name"] == "db-0"

    asyncio.run(run())


def test_refused_pod_is_reported():
    """A pod that the server refuses leads to an event and another try."""

    async def run():
        async with running(StatefulSetController) as cluster:
            quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
            quotas = cluster.objects("resourcequotas", "v1")
            await quotas.create(quota)
            await quotas.patch(
                "q",
                {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}},
                subresource="status",
            )
            await cluster.objects("statefulsets").create(stateful_set(1))
            async with asyncio.timeout(10):
                while not any(reason == "FailedCreate" for _, reason, _ in await cluster.events()):
                    await cluster.settle()
            (message,) = {
                text for _, reason, text in await cluster.events() if reason == "FailedCreate"
            }
            assert message.startswith(
                'Create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: '
                "exceeded quota: q"
            )

    asyncio.run(run())
