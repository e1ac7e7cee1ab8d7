"""The official Python client and custom kinds: its CustomObjectsApi and its dynamic client."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.programs import Server
from tests.e2e.test_clients import _quiet, kubeconfig
from tests.e2e.test_custom_kubectl import CRONTABS

__all__ = ["kubeconfig"]
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"


def definition(group: str) -> Any:
    """The definition of CronTabs in a group of the test's own."""
    found = yaml.safe_load(CRONTABS.replace("stable.example.com", group))
    found["spec"]["names"].pop("shortNames")
    return found


def tab(group: str, name: str, **spec: Any) -> Any:
    return {
        "apiVersion": f"{group}/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"cronSpec": "* * * * */5", **spec},
    }


@pytest.fixture
def client(kubeconfig: str) -> Iterator[Any]:
    """The official client of the server."""
    with _quiet():
        from kubernetes import client, config

        config.load_kube_config(kubeconfig)
        with client.ApiClient() as api:
            yield api


@pytest.fixture(params=["custom", "dynamic"])
def group(client: Any, server: Server, request: Any) -> Iterator[str]:
    """A group in which CronTabs are served."""
    from kubernetes import client as kubernetes
    from kubernetes import watch

    name = f"{request.node.name.partition('[')[0].replace('_', '-')}.example.com"
    crds = kubernetes.ApiextensionsV1Api(client)
    made = crds.create_custom_resource_definition(definition(name))
    assert made.metadata.uid
    selector = f"metadata.name={made.metadata.name}"
    watching = watch.Watch()
    for event in watching.stream(
        crds.list_custom_resource_definition, field_selector=selector, timeout_seconds=60
    ):
        conditions = event["object"].status.conditions or ()
        if any(one.type == "Established" and one.status == "True" for one in conditions):
            watching.stop()
    yield name
    crds.delete_custom_resource_definition(made.metadata.name)


@pytest.mark.parametrize("group", ["custom"], indirect=True)
def test_custom_objects_api(client: Any, group: str, namespace: str) -> None:
    """Objects, their status and scale, in every kind of patch, and their watch."""
    from kubernetes import client as kubernetes
    from kubernetes import watch

    with _quiet():
        api = kubernetes.CustomObjectsApi(client)
        where = (group, "v1", namespace, "crontabs")
        made = api.create_namespaced_custom_object(*where, tab(group, "a"))
        assert made["spec"] == {"cronSpec": "* * * * */5", "replicas": 1}
        with pytest.raises(kubernetes.ApiException) as refused:
            api.create_namespaced_custom_object(*where, tab(group, "b", replicas=11))
        assert refused.value.status == 422
        assert "should be less than or equal to 10" in json.loads(refused.value.body)["message"]
        listed = api.list_namespaced_custom_object(*where)
        assert [one["metadata"]["name"] for one in listed["items"]] == ["a"]
        everywhere = api.list_custom_object_for_all_namespaces(group, "v1", "crontabs")
        assert [one["metadata"]["name"] for one in everywhere["items"]] == ["a"]

        merged = api.patch_namespaced_custom_object(*where, "a", {"spec": {"image": "x"}})
        assert merged["spec"]["image"] == "x"
        steps = [{"op": "replace", "path": "/spec/image", "value": "y"}]
        patched = api.patch_namespaced_custom_object(*where, "a", steps, _content_type=JSON_PATCH)
        assert patched["spec"]["image"] == "y"
        applied = api.patch_namespaced_custom_object(
            *where,
            "a",
            tab(group, "a", replicas=2),
            field_manager="me",
            force=True,
            _content_type="application/apply-patch+yaml",
        )
        assert applied["spec"] == {"cronSpec": "* * * * */5", "image": "y", "replicas": 2}

        status = api.patch_namespaced_custom_object_status(*where, "a", {"status": {"replicas": 1}})
        assert status["status"] == {"replicas": 1}
        assert api.get_namespaced_custom_object_status(*where, "a")["status"] == {"replicas": 1}
        scale = api.get_namespaced_custom_object_scale(*where, "a")
        assert (scale["kind"], scale["spec"], scale["status"]) == (
            "Scale",
            {"replicas": 2},
            {"replicas": 1},
        )
        scale["spec"]["replicas"] = 4
        api.replace_namespaced_custom_object_scale(*where, "a", scale)
        found = api.get_namespaced_custom_object(*where, "a")
        assert found["spec"]["replicas"] == 4
        found["spec"]["image"] = "z"
        assert api.replace_namespaced_custom_object(*where, "a", found)["spec"]["image"] == "z"
        with pytest.raises(kubernetes.ApiException) as conflict:
            api.replace_namespaced_custom_object(*where, "a", found)
        assert conflict.value.status == 409

        watching = watch.Watch()
        seen = []
        for event in watching.stream(
            api.list_namespaced_custom_object,
            *where,
            resource_version=listed["metadata"]["resourceVersion"],
            timeout_seconds=60,
        ):
            seen.append(event["type"])
            if event["type"] == "MODIFIED" and event["object"]["spec"].get("image") == "z":
                assert api.delete_namespaced_custom_object(*where, "a")["status"] == "Success"
            if event["type"] == "DELETED":
                watching.stop()
        assert set(seen) == {"MODIFIED", "DELETED"}
        api.create_namespaced_custom_object(*where, tab(group, "c"))
        api.delete_collection_namespaced_custom_object(*where)
        assert api.list_namespaced_custom_object(*where)["items"] == []


@pytest.mark.parametrize("group", ["dynamic"], indirect=True)
def test_dynamic_client(client: Any, group: str, namespace: str, tmp_path: Path) -> None:
    """The same by discovery, apply included."""
    with _quiet():
        from kubernetes import dynamic
        from kubernetes.dynamic import exceptions

        api = dynamic.DynamicClient(client, cache_file=str(tmp_path / "discovery"))
        tabs = api.resources.get(api_version=f"{group}/v1", kind="CronTab")
        assert (tabs.name, tabs.namespaced) == ("crontabs", True)
        assert set(tabs.subresources) == {"status", "scale"}
        made = tabs.create(body=tab(group, "a"), namespace=namespace)
        assert made.spec.replicas == 1
        with pytest.raises(exceptions.UnprocessibleEntityError):
            tabs.create(body=tab(group, "b", cronSpec=5), namespace=namespace)
        revision = tabs.get(namespace=namespace).metadata.resourceVersion
        assert [one.metadata.name for one in tabs.get(namespace=namespace).items] == ["a"]

        there = {"name": "a", "namespace": namespace}
        body = {"spec": {"image": "x"}}
        assert tabs.patch(**there, body=body, content_type=MERGE).spec.image == "x"
        steps = [{"op": "replace", "path": "/spec/image", "value": "y"}]
        assert tabs.patch(**there, body=steps, content_type=JSON_PATCH).spec.image == "y"
        with pytest.raises(exceptions.DynamicApiError) as strategic:
            tabs.patch(**there, body=body)  # which is a strategic merge patch
        assert strategic.value.status == 415
        applied = tabs.server_side_apply(
            body=tab(group, "a", replicas=2), namespace=namespace, field_manager="me",
            force_conflicts=True,
        )  # fmt: skip
        assert applied.to_dict()["spec"] == {
            "cronSpec": "* * * * */5",
            "image": "y",
            "replicas": 2,
        }
        with pytest.raises(exceptions.ConflictError):
            tabs.server_side_apply(
                body=tab(group, "a", replicas=3), namespace=namespace, field_manager="other"
            )
        status = {"status": {"replicas": 1}}
        told = tabs.status.patch(**there, body=status, content_type=MERGE)
        assert told.status.replicas == 1
        scaled = tabs.scale.patch(**there, body={"spec": {"replicas": 5}}, content_type=MERGE)
        assert (scaled.kind, scaled.spec.replicas, scaled.status.replicas) == ("Scale", 5, 1)
        found = tabs.get(**there).to_dict()
        found["spec"]["image"] = "z"
        assert tabs.replace(body=found, namespace=namespace).spec.image == "z"

        seen = []
        for event in tabs.watch(namespace=namespace, resource_version=revision, timeout=60):
            seen.append(event["type"])
            if event["object"].spec.image == "z" and event["type"] == "MODIFIED":
                assert tabs.delete(**there).status == "Success"
            if event["type"] == "DELETED":
                break
        assert set(seen) == {"MODIFIED", "DELETED"}
