"""The claims of generic ephemeral volumes."""

from __future__ import annotations

import asyncio

from kapiserver.controllers.volumes.ephemeral_volumes import EphemeralVolumeController
from tests.controllers.workloads.workloads import running

CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "fast",
}
TEMPLATE = {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}, "spec": CLAIM}
POD = {
    "metadata": {"name": "web"},
    "spec": {
        "containers": [{"name": "main", "image": "nginx"}],
        "volumes": [
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": TEMPLATE}},
            {"name": "none", "emptyDir": {}},
        ],
    },
}


def test_claims():
    """The claim belongs to the pod, is made again when somebody deletes it, and a pod that is being
    deleted gets none."""

    async def run():
        async with running(EphemeralVolumeController) as cluster:
            claims = cluster.objects("persistentvolumeclaims", "v1")
            pod = await cluster.pods.create(POD)
            await cluster.settle()
            claim = await claims.get("web-scratch")
            assert claim["metadata"]["labels"] == {"app": "web"}
            assert claim["metadata"]["annotations"] == {"a": "b"}
            assert claim["spec"] == CLAIM | {"volumeMode": "Filesystem"}
            (owner,) = claim["metadata"]["ownerReferences"]
            assert owner == {
                "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": pod["metadata"]["uid"],
                "controller": True, "blockOwnerDeletion": True,
            }  # fmt: skip
            await remove(cluster, claims)
            assert (await claims.get("web-scratch"))["metadata"]["uid"] != claim["metadata"]["uid"]
            await cluster.pods.patch("web", {"metadata": {"finalizers": ["test/held"]}})
            await cluster.pods.delete("web")
            await remove(cluster, claims)
            assert (await claims.list())["items"] == []

    asyncio.run(run())


async def remove(cluster, claims):
    await claims.delete("web-scratch")
    await claims.patch("web-scratch", {"metadata": {"finalizers": None}})
    await cluster.settle()


def test_a_name_that_is_taken():
    """A claim of the name that belongs to nobody is not used; the pod says so."""

    async def run():
        async with running(EphemeralVolumeController) as cluster:
            claims = cluster.objects("persistentvolumeclaims", "v1")
            await claims.create({"metadata": {"name": "web-scratch"}, "spec": CLAIM})
            await cluster.pods.create(POD)
            await cluster.settle()
            assert await cluster.events() == [
                (
                    "web",
                    "FailedBinding",
                    "ephemeral volume scratch: PVC shop/web-scratch was not created for pod "
                    "shop/web (pod is not owner)",
                )
            ]

    asyncio.run(run())
