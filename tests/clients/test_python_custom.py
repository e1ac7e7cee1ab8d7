"""The official Python client and custom kinds: its CustomObjectsApi and its dynamic client."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.library_warnings import ignore_warnings
from tests.e2e.programs import Server
from tests.e2e.test_custom_kubectl import CRONTABS

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"


def definition(group: str) -> Any:
    """The definition of CronTabs in a group of the test's own."""
    obj = yaml.safe_load(CRONTABS.replace("stable.example.com", group))
    obj["spec"]["names"].pop("shortNames")
    return obj


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
    with ignore_warnings():
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
    created = crds.create_custom_resource_definition(definition(name))
    assert created.metadata.uid
    selector = f"metadata.name={created.metadata.name}"
    watching = watch.Watch()
    for event in watching.stream(
        crds.list_custom_resource_definition, field_selector=selector, timeout_seconds=60
    ):
        conditions = event["object"].status.conditions or ()
        if any(
            condition.type == "Established" and condition.status == "True"
            for condition in conditions
        ):
            watching.stop()
    yield name
    crds.delete_custom_resource_definition(created.metadata.name)


@pytest.mark.parametrize("group", ["custom"], indirect=True)
def test_custom_objects_api(client: Any, group: str, namespace: str) -> None:
    """CustomObjectsApi reads, writes, patches and watches objects, their status and their scale."""
    from kubernetes import client as kubernetes

    with ignore_warnings():
        api = kubernetes.CustomObjectsApi(client)
        location = (group, "v1", namespace, "crontabs")
        created = api.create_namespaced_custom_object(*location, tab(group, "a"))
        assert created["spec"] == {"cronSpec": "* * * * */5", "replicas": 1}
        with pytest.raises(kubernetes.ApiException) as error:
            api.create_namespaced_custom_object(*location, tab(group, "b", replicas=11))
        assert error.value.status == 422
        assert "should be less than or equal to 10" in json.loads(error.value.body)["message"]
        listing = api.list_namespaced_custom_object(*location)
        assert [item["metadata"]["name"] for item in listing["items"]] == ["a"]
        everywhere = api.list_custom_object_for_all_namespaces(group, "v1", "crontabs")
        assert [item["metadata"]["name"] for item in everywhere["items"]] == ["a"]

        merged = api.patch_namespaced_custom_object(*location, "a", {"spec": {"image": "x"}})
        assert merged["spec"]["image"] == "x"
        steps = [{"op": "replace", "path": "/spec/image", "value": "y"}]
        patched = api.patch_namespaced_custom_object(
            *location, "a", steps, _content_type=JSON_PATCH
        )
        assert patched["spec"]["image"] == "y"
        applied = api.patch_namespaced_custom_object(
            *location,
            "a",
            tab(group, "a", replicas=2),
            field_manager="me",
            force=True,
            _content_type="application/apply-patch+yaml",
        )
        assert applied["spec"] == {"cronSpec": "* * * * */5", "image": "y", "replicas": 2}

        status = api.patch_namespaced_custom_object_status(
            *location, "a", {"status": {"replicas": 1}}
        )
        assert status["status"] == {"replicas": 1}
        assert api.get_namespaced_custom_object_status(*location, "a")["status"] == {"replicas": 1}
        scale = api.get_namespaced_custom_object_scale(*location, "a")
        assert (scale["kind"], scale["spec"], scale["status"]) == (
            "Scale",
            {"replicas": 2},
            {"replicas": 1},
        )
        scale["spec"]["replicas"] = 4
        api.replace_namespaced_custom_object_scale(*location, "a", scale)
        obj = api.get_namespaced_custom_object(*location, "a")
        assert obj["spec"]["replicas"] == 4
        obj["spec"]["image"] = "z"
        assert api.replace_namespaced_custom_object(*location, "a", obj)["spec"]["image"] == "z"
        with pytest.raises(kubernetes.ApiException) as conflict:
            api.replace_namespaced_custom_object(*location, "a", obj)
        assert conflict.value.status == 409

        assert _watch_and_delete(api, location, listing) == {"MODIFIED", "DELETED"}
        api.create_namespaced_custom_object(*location, tab(group, "c"))
        api.delete_collection_namespaced_custom_object(*location)
        assert api.list_namespaced_custom_object(*location)["items"] == []


def _watch_and_delete(api: Any, location: tuple[str, ...], listing: Any) -> set[str]:
    """Watch from a list on, delete the object when its last change arrives, and return the types of
    all events."""
    from kubernetes import watch

    watching = watch.Watch()
    event_types = []
    for event in watching.stream(
        api.list_namespaced_custom_object,
        *location,
        resource_version=listing["metadata"]["resourceVersion"],
        timeout_seconds=60,
    ):
        event_types.append(event["type"])
        if event["type"] == "MODIFIED" and event["object"]["spec"].get("image") == "z":
            assert api.delete_namespaced_custom_object(*location, "a")["status"] == "Success"
        if event["type"] == "DELETED":
            watching.stop()
    return set(event_types)


@pytest.mark.parametrize("group", ["dynamic"], indirect=True)
def test_dynamic_client(client: Any, group: str, namespace: str, tmp_path: Path) -> None:
    """The dynamic client does the same with discovery, and applies objects."""
    with ignore_warnings():
        from kubernetes import dynamic
        from kubernetes.dynamic import exceptions

        api = dynamic.DynamicClient(client, cache_file=str(tmp_path / "discovery"))
        tabs = api.resources.get(api_version=f"{group}/v1", kind="CronTab")
        assert (tabs.name, tabs.namespaced) == ("crontabs", True)
        assert set(tabs.subresources) == {"status", "scale"}
        created = tabs.create(body=tab(group, "a"), namespace=namespace)
        assert created.spec.replicas == 1
        with pytest.raises(exceptions.UnprocessibleEntityError):
            tabs.create(body=tab(group, "b", cronSpec=5), namespace=namespace)
        revision = tabs.get(namespace=namespace).metadata.resourceVersion
        assert [item.metadata.name for item in tabs.get(namespace=namespace).items] == ["a"]

        location = {"name": "a", "namespace": namespace}
        body = {"spec": {"image": "x"}}
        assert tabs.patch(**location, body=body, content_type=MERGE).spec.image == "x"
        steps = [{"op": "replace", "path": "/spec/image", "value": "y"}]
        assert tabs.patch(**location, body=steps, content_type=JSON_PATCH).spec.image == "y"
        with pytest.raises(exceptions.DynamicApiError) as strategic:
            tabs.patch(**location, body=body)  # which is a strategic merge patch
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
        patched = tabs.status.patch(**location, body=status, content_type=MERGE)
        assert patched.status.replicas == 1
        scaled = tabs.scale.patch(**location, body={"spec": {"replicas": 5}}, content_type=MERGE)
        assert (scaled.kind, scaled.spec.replicas, scaled.status.replicas) == ("Scale", 5, 1)
        obj = tabs.get(**location).to_dict()
        obj["spec"]["image"] = "z"
        assert tabs.replace(body=obj, namespace=namespace).spec.image == "z"

        event_types = []
        for event in tabs.watch(namespace=namespace, resource_version=revision, timeout=60):
            event_types.append(event["type"])
            if event["object"].spec.image == "z" and event["type"] == "MODIFIED":
                assert tabs.delete(**location).status == "Success"
            if event["type"] == "DELETED":
                break
        assert set(event_types) == {"MODIFIED", "DELETED"}
