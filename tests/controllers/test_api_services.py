"""The APIServices that the server registers for the groups it serves itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from kapiserver.api.groups import GROUPS
from kapiserver.apiserver.aggregation import discovery_check
from kapiserver.controllers.status import api_services
from kapiserver.controllers.status.api_services import MANAGED, PRIORITIES
from tests.apiserver.conftest import Api, Server
from tests.apiserver.customresources.customkit import (
    CRDS,
    definition,
    establish,
    version,
    wait_until_deleted,
)
from tests.controllers.waiting import wait_until

PATH = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A server whose controller registers APIServices without a delay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_services, "START_DELAY_SECONDS", 0.0)
        server = Server()
        yield server.api
        server.end()


def get_api_service(api: Api, name: str) -> Any:
    return wait_until(api, PATH, name, lambda obj: obj is not None)


def absent(api: Api, name: str) -> None:
    wait_until(api, PATH, name, lambda obj: obj is None)


def test_each_group_version(api: Api) -> None:
    """Every group-version of discovery except APIService's own group has an APIService, which is
    local and available."""
    groups = api.get("/apis").json["groups"]
    names = {
        f"{version['version']}.{group['name']}" for group in groups for version in group["versions"]
    }
    names = {"v1.", *names} - {"v1.apiregistration.k8s.io"}
    for name in names:
        get_api_service(api, name)
    services = {item["metadata"]["name"]: item for item in api.get(PATH).json["items"]}
    assert names <= services.keys()
    apps = services["v1.apps"]
    assert apps["metadata"]["labels"] == {MANAGED: "onstart"}
    assert apps["spec"] == {
        "group": "apps",
        "version": "v1",
        "groupPriorityMinimum": 17800,
        "versionPriority": 15,
    }
    [condition] = apps["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "Available",
        "status": "True",
        "reason": "Local",
        "message": "Local APIServices are always available",
    }


def test_custom_kinds(api: Api) -> None:
    """A group-version has an APIService while a CustomResourceDefinition serves it; it is restored
    after a deletion or a change."""
    crd = definition(version("v1"), version("v1beta1", storage=False))
    group = crd["spec"]["group"]
    second_definition = definition(
        version("v1"), group=group, names={"plural": "gadgets", "kind": "Gadget"}
    )
    establish(api, crd)
    establish(api, second_definition)
    service = get_api_service(api, f"v1.{group}")
    assert service["metadata"]["labels"] == {MANAGED: "true"}
    assert service["spec"] == {
        "group": group,
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 100,
    }
    beta = get_api_service(api, f"v1beta1.{group}")
    versions = crd["spec"]["versions"]
    served = {"spec": {"versions": [versions[0], {**versions[1], "served": False}]}}
    api.patch(f"{CRDS}/{crd['metadata']['name']}", served)
    absent(api, f"v1beta1.{group}")
    api.patch(f"{CRDS}/{crd['metadata']['name']}", {"spec": {"versions": versions}})
    second_service = get_api_service(api, f"v1beta1.{group}")
    assert second_service["metadata"]["uid"] != beta["metadata"]["uid"]
    api.delete(f"{PATH}/v1beta1.{group}")
    uid = second_service["metadata"]["uid"]
    wait_until(api, PATH, f"v1beta1.{group}", lambda obj: obj and obj["metadata"]["uid"] != uid)
    api.patch(f"{PATH}/v1.{group}", {"spec": {"versionPriority": 7}})
    wait_until(api, PATH, f"v1.{group}", lambda obj: obj["spec"]["versionPriority"] == 100)
    api.delete(f"{CRDS}/{crd['metadata']['name']}")
    absent(api, f"v1beta1.{group}")
    assert api.get(f"{PATH}/v1.{group}").status == 200
    api.delete(f"{CRDS}/{second_definition['metadata']['name']}")
    absent(api, f"v1.{group}")
    wait_until_deleted(api, second_definition["metadata"]["name"])


def test_foreign_api_services(api: Api) -> None:
    """An APIService without the label, or with another value, is not changed."""
    crd = definition()
    group = crd["spec"]["group"]
    own = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 5,
            "versionPriority": 5,
            "service": {"name": "x", "namespace": "y"},
        },
    }
    created = api.post(PATH, own)
    assert created.status == 201, created.body
    establish(api, crd)
    second = definition()
    establish(api, second)
    get_api_service(api, f"v1.{second['spec']['group']}")  # so the first one was handled
    assert api.get(f"{PATH}/v1.{group}").json["spec"] == created.json["spec"]


def test_availability(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition Available of an APIService of a service says what is missing on the way to the
    service; that of a local one does not change."""
    monkeypatch.setattr(discovery_check, "SECONDS", 0.05)  # nobody answers at a cluster IP
    name = "v1.remote.example.com"
    spec = {
        "group": "remote.example.com",
        "version": "v1",
        "groupPriorityMinimum": 5,
        "versionPriority": 5,
        "service": {"name": "x", "namespace": "default", "port": 8443},
    }
    api.post(PATH, {"metadata": {"name": name}, "spec": spec, "status": {}})
    times = []

    def wait_for(status: str, reason: str, message: str | None) -> None:
        def is_done(obj: Any) -> bool:
            conditions = obj.get("status", {}).get("conditions") or [{}]
            return bool(conditions[0].get("reason") == reason)

        [condition] = wait_until(api, PATH, name, is_done)["status"]["conditions"]
        times.append(condition.pop("lastTransitionTime"))
        if message is None:  # the message is the error of the network
            message = condition["message"]
        assert condition == {
            "type": "Available", "status": status, "reason": reason, "message": message,
        }  # fmt: skip

    def wait_unavailable(reason: str, message: str | None) -> None:
        wait_for("False", reason, message)

    wait_unavailable("ServiceNotFound", 'service/x in "default" is not present')
    services, slices = (
        f"{path}/namespaces/default/{resource}"
        for path, resource in (
            ("/api/v1", "services"),
            ("/apis/discovery.k8s.io/v1", "endpointslices"),
        )
    )
    service = {"metadata": {"name": "x"}, "spec": {"ports": [{"name": "https", "port": 443}]}}
    api.post(services, service)
    message = 'service/x in "default" is not listening on port 8443'
    wait_unavailable("ServicePortError", message)
    api.patch(f"{services}/x", {"spec": {"ports": [{"name": "https", "port": 8443}]}})
    wait_unavailable("EndpointsNotFound", 'cannot find endpointslices for service/x in "default"')
    ports = [{"name": "https", "port": 8443}]
    labels = {"kubernetes.io/service-name": "x"}
    endpoint = {"addresses": ["10.0.0.7"], "conditions": {"ready": False}}
    body = {"addressType": "IPv4", "ports": ports, "endpoints": [endpoint]}
    created = api.post(slices, {"metadata": {"name": "x-1", "labels": labels}, **body})
    assert created.status == 201, created.body
    message = 'endpointslices for service/x in "default" have no addresses with port name "https"'
    wait_unavailable("MissingEndpoints", message)
    ready = [{**endpoint, "conditions": {"ready": True}}]
    api.patch(f"{slices}/x-1", {"endpoints": ready})
    wait_unavailable("FailedDiscoveryCheck", None)
    api.patch(f"{services}/x", {"spec": {"type": "ExternalName", "externalName": "a.b"}})
    api.delete(f"{services}/x")
    wait_unavailable("ServiceNotFound", 'service/x in "default" is not present')
    assert len(set(times)) == 1  # the status has not changed since the first
    api.patch(f"{PATH}/{name}", {"spec": {"service": None}})
    wait_for("True", "Local", "Local APIServices are always available")
    local = get_api_service(api, "v1.apps")["status"]["conditions"]
    assert [condition["reason"] for condition in local] == ["Local"]
    api.delete(f"{PATH}/{name}")


def test_start(tmp_path: Any) -> None:
    """At start, APIServices without a definition are deleted, missing ones are created, and the
    others keep their uid."""
    store = f"sqlite:{tmp_path / 'store'}"
    stale_service = api_services.api_service(
        api_services.GroupVersion("gone.example.com", "v1"), (1000, 100), "true"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_services, "START_DELAY_SECONDS", 0.0)
        first = Server(storage=store)
        service_before = get_api_service(first.api, "v1.apps")
        get_api_service(first.api, "v1.batch")
        first.end()
        patch.setattr(api_services, "START_DELAY_SECONDS", 1000.0)
        idle = Server(storage=store)
        assert idle.api.post(PATH, stale_service).status == 201
        idle.api.delete(f"{PATH}/v1.batch")
        idle.end()
        patch.setattr(api_services, "START_DELAY_SECONDS", 0.0)
        second = Server(storage=store)
        get_api_service(second.api, "v1.batch")
        absent(second.api, "v1.gone.example.com")
        assert get_api_service(second.api, "v1.apps")["metadata"] == service_before["metadata"]
        second.end()


def test_order_of_groups() -> None:
    """Discovery lists the groups in the order of their priorities, as kube-aggregator does."""
    names = [group.name for group in GROUPS if group.name in PRIORITIES]
    assert names == sorted(names, key=lambda name: (-PRIORITIES[name][0], name))
