"""Features of the Python clients: patches, server-side apply, pages, subresources,
propagation of deletions, errors, watches that end, leader election."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.kr8s_client import kr8s_client
from tests.clients.library_warnings import ignore_warnings

# Some clients do not close their sockets.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

APPLY = "application/apply-patch+yaml"
SECONDS = 60
LEADER = Path(__file__).parent / "python" / "leader_program.py"


@pytest.fixture(autouse=True)
def _ignored_warnings() -> Iterator[None]:
    with ignore_warnings():
        yield


def deployment(name: str, replicas: int = 1) -> Any:
    labels = {"app": name}
    containers = [{"name": "main", "image": "nginx:1"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


def config_map(name: str, **metadata: Any) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def owned_by(owner: Any) -> Any:
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name, "uid": owner.uid,
        "blockOwnerDeletion": True,
    }  # fmt: skip


SIDE = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}


def test_official(kubeconfig: str, namespace: str) -> None:
    """The official client."""
    from kubernetes import client, config, watch

    with config.new_client_from_config(kubeconfig) as api:
        core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
        apps.create_namespaced_deployment(namespace, deployment("a"))
        steps = [{"op": "replace", "path": "/spec/replicas", "value": 2}]
        patched = apps.patch_namespaced_deployment("a", namespace, steps)
        assert patched.spec.replicas == 2
        patched = apps.patch_namespaced_deployment("a", namespace, SIDE)  # strategic merge
        assert [c.name for c in patched.spec.template.spec.containers] == ["side", "main"]
        manager = {"field_manager": "me", "_content_type": APPLY}
        with pytest.raises(client.ApiException) as conflict:
            apps.patch_namespaced_deployment("a", namespace, deployment("a", 3), **manager)
        assert (conflict.value.status, "conflict" in conflict.value.body) == (409, True)
        applied = apps.patch_namespaced_deployment(
            "a", namespace, deployment("a", 3), force=True, **manager
        )
        assert applied.spec.replicas == 3

        scale = apps.read_namespaced_deployment_scale("a", namespace)
        scale.spec.replicas = 4
        apps.replace_namespaced_deployment_scale("a", namespace, scale)
        status = {"spec": {"replicas": 9}, "status": {"observedGeneration": 7}}
        reported = apps.patch_namespaced_deployment_status("a", namespace, status)
        assert (reported.spec.replicas, reported.status.observed_generation) == (4, 7)

        for index in range(5):
            body = config_map(f"page-{index}", labels={"pages": "yes"})
            core.create_namespaced_config_map(namespace, body)
        sizes, token = [], None
        while token != "":
            page = core.list_namespaced_config_map(
                namespace, label_selector="pages=yes", limit=2, _continue=token
            )
            sizes.append(len(page.items))
            token = page.metadata._continue or ""
        assert sizes == [2, 2, 1]

        owner = core.create_namespaced_config_map(namespace, config_map("owner"))
        body = config_map("dependent", ownerReferences=[owned_by(owner.metadata)])
        created = core.create_namespaced_config_map(namespace, body)
        core.delete_namespaced_config_map("owner", namespace, propagation_policy="Foreground")
        deleted = []
        for event in watch.Watch().stream(
            core.list_namespaced_config_map,
            namespace,
            resource_version=created.metadata.resource_version,
            timeout_seconds=SECONDS,
        ):
            if event["type"] == "DELETED":
                deleted.append(event["object"].metadata.name)
            if "owner" in deleted:
                break
        assert deleted == ["dependent", "owner"]


def test_official_watch_that_times_out(kubeconfig: str, namespace: str) -> None:
    """A watch of the official client resumes at the version of the last bookmark."""
    from kubernetes import client, config, watch

    with config.new_client_from_config(kubeconfig) as api:
        core = client.CoreV1Api(api)
        version = core.list_namespaced_config_map(namespace).metadata.resource_version
        watching = watch.Watch()
        types = []
        for event in watching.stream(
            core.list_namespaced_config_map,
            namespace,
            resource_version=version,
            field_selector="metadata.name=none",
            allow_watch_bookmarks=True,
            timeout_seconds=1,
        ):
            types.append(event["type"])
        assert types == ["BOOKMARK"]


def test_official_leader_election(kubeconfig: str, namespace: str) -> None:
    """A candidate of the official client's leader election takes the Lease."""
    from kubernetes import client, config

    command = [sys.executable, "-W", "ignore", str(LEADER), namespace, "lock", "candidate"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "leads\n" in process.stdout
        finally:
            process.kill()
    with config.new_client_from_config(kubeconfig) as api:
        lease = client.CoordinationV1Api(api).read_namespaced_lease("lock", namespace)
    assert lease.spec.holder_identity == "candidate"


def test_asyncio(kubeconfig: str, namespace: str) -> None:
    """kubernetes-asyncio."""

    async def work() -> None:
        from kubernetes_asyncio import client, config

        await config.load_kube_config(kubeconfig)
        async with client.ApiClient() as api:
            apps = client.AppsV1Api(api)
            await apps.create_namespaced_deployment(namespace, deployment("a"))
            steps = [{"op": "replace", "path": "/spec/replicas", "value": 2}]
            patched = await apps.patch_namespaced_deployment("a", namespace, steps)
            assert patched.spec.replicas == 2
            patched = await apps.patch_namespaced_deployment(
                "a", namespace, SIDE, _content_type="application/strategic-merge-patch+json"
            )
            assert [c.name for c in patched.spec.template.spec.containers] == ["side", "main"]
            manager = {"field_manager": "me", "_content_type": APPLY}
            body = deployment("a", 3)
            with pytest.raises(client.ApiException) as conflict:
                await apps.patch_namespaced_deployment("a", namespace, body, **manager)
            assert conflict.value.status == 409
            applied = await apps.patch_namespaced_deployment(
                "a", namespace, body, force=True, **manager
            )
            assert applied.spec.replicas == 3
            scale = await apps.read_namespaced_deployment_scale("a", namespace)
            scale.spec.replicas = 4
            await apps.replace_namespaced_deployment_scale("a", namespace, scale)
            listed = await apps.list_namespaced_deployment(namespace, limit=1)
            assert listed.items[0].spec.replicas == 4
            with pytest.raises(client.ApiException) as missing:
                await apps.read_namespaced_deployment("none", namespace)
            assert missing.value.status == 404
            await apps.delete_namespaced_deployment("a", namespace, propagation_policy="Background")

    asyncio.run(work())


def test_lightkube(kubeconfig: str, namespace: str) -> None:
    """lightkube."""
    from lightkube import ApiError, Client, KubeConfig
    from lightkube.models.autoscaling_v1 import ScaleSpec
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.apps_v1 import Deployment
    from lightkube.resources.core_v1 import ConfigMap
    from lightkube.types import CascadeType, PatchType

    config = KubeConfig.from_file(kubeconfig)
    with Client(config=config, namespace=namespace, field_manager="me") as api:
        api.create(Deployment.from_dict(deployment("a")))
        steps = [{"op": "replace", "path": "/spec/replicas", "value": 2}]
        assert api.patch(Deployment, "a", steps, patch_type=PatchType.JSON).spec.replicas == 2
        patched = api.patch(Deployment, "a", SIDE, patch_type=PatchType.STRATEGIC)
        assert [c.name for c in patched.spec.template.spec.containers] == ["side", "main"]
        merge = {"metadata": {"labels": {"x": "y"}}}
        assert api.patch(Deployment, "a", merge, patch_type=PatchType.MERGE).metadata.labels
        body = Deployment.from_dict(deployment("a", 3))
        with pytest.raises(ApiError) as conflict:
            api.apply(body, field_manager="other")
        assert conflict.value.status.code == 409
        assert api.apply(body, field_manager="other", force=True).spec.replicas == 3
        scale = Deployment.Scale(metadata=ObjectMeta(name="a"), spec=ScaleSpec(replicas=4))
        assert api.replace(scale).spec.replicas == 4
        status = {"status": {"observedGeneration": 7}}
        reported = api.patch(Deployment.Status, "a", status, patch_type=PatchType.MERGE)
        assert reported.status.observedGeneration == 7
        for index in range(5):
            api.create(ConfigMap(metadata=ObjectMeta(name=f"page-{index}", labels={"p": "y"})))
        pages = api.list(ConfigMap, labels={"p": "y"}, chunk_size=2)
        assert [item.metadata.name for item in pages] == [f"page-{index}" for index in range(5)]
        api.deletecollection(ConfigMap)
        assert not list(api.list(ConfigMap, labels={"p": "y"}))
        with pytest.raises(ApiError) as missing:
            api.get(ConfigMap, "none")
        assert missing.value.status.reason == "NotFound"
        api.delete(Deployment, "a", cascade=CascadeType.FOREGROUND)


def test_kr8s(kubeconfig: str, namespace: str) -> None:
    """kr8s."""

    async def work() -> None:
        import kr8s.asyncio
        from kr8s.asyncio.objects import ConfigMap, Deployment

        async with kr8s_client(kubeconfig) as api:
            body = deployment("a")
            body["metadata"]["namespace"] = namespace
            web = await Deployment(body, api=api)
            await web.create()
            await web.scale(3)
            assert web.replicas == 3
            await web.patch([{"op": "replace", "path": "/spec/replicas", "value": 2}], type="json")
            assert web.raw["spec"]["replicas"] == 2
            await web.label({"x": "y"})
            await web.annotate({"note": "z"})
            await web.patch({"status": {"observedGeneration": 7}}, subresource="status")
            await web.refresh()
            assert (web.labels["x"], web.annotations["note"]) == ("y", "z")
            assert web.raw["status"]["observedGeneration"] == 7
            with pytest.raises(kr8s.NotFoundError):
                await ConfigMap.get("none", namespace=namespace, api=api)
            with pytest.raises(kr8s.ServerError) as invalid:
                await web.patch({"spec": {"replicas": -1}})
            assert invalid.value.status["code"] == 422
            await web.delete(propagation_policy="Foreground")
            await web.wait("delete", timeout=SECONDS)
            assert not await web.exists()

    asyncio.run(work())
