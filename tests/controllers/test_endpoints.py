"""Endpoints and EndpointSlices of Services over HTTP."""

from __future__ import annotations

import pytest

from tests.controllers.waiting import until_gone, wait_until

LABELS = {"app": "a"}


@pytest.fixture
def endpoint_slices(api, namespace):
    """Returns a function that waits until the slices of the Service satisfy a condition, and
    returns them."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    selector = "labelSelector=kubernetes.io/service-name%3Ds"

    def call(is_done):
        listing = api.get(f"{path}?{selector}").json
        by_name = {item["metadata"]["name"]: item for item in listing["items"]}
        version = listing["metadata"]["resourceVersion"]
        watch = f"{path}?{selector}&watch=1&resourceVersion={version}&timeoutSeconds=60"
        with api.watch(watch) as stream:
            while not is_done(list(by_name.values())):
                event = stream.event()
                obj = event["object"]
                by_name[obj["metadata"]["name"]] = obj
                if event["type"] == "DELETED":
                    del by_name[obj["metadata"]["name"]]
        return list(by_name.values())

    return call


def service(**spec):
    """A Service with or without a selector that matches."""
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    return {"metadata": {"name": "s", "labels": {"of": "s"}}, "spec": {"ports": ports, **spec}}


def make_pod(api, core, name, *, ready):
    """Create a pod with an address."""
    ports = [{"name": "web", "containerPort": 8080}]
    spec = {"containers": [{"name": "c", "image": "i", "ports": ports}], "nodeName": "n"}
    api.post(f"{core}/pods", {"metadata": {"name": name, "labels": LABELS}, "spec": spec})
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    address = f"10.0.0.{ord(name)}"
    status = {"podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]}
    assert api.patch(f"{core}/pods/{name}/status", {"status": status}).status == 200


def test_no_pods(api, core, endpoint_slices):
    """A Service that selects no pod has empty Endpoints and an empty slice, which are deleted with
    it."""
    api.post(f"{core}/services", service(selector=LABELS))
    endpoints = wait_until(api, f"{core}/endpoints", "s", lambda obj: obj is not None)
    assert "subsets" not in endpoints
    assert endpoints["metadata"]["labels"]["of"] == "s"
    (items,) = endpoint_slices(lambda items: len(items) == 1)
    assert (items["endpoints"], items["addressType"]) == (None, "IPv4")
    assert items["metadata"]["generateName"] == "s-"
    api.delete(f"{core}/services/s")
    until_gone(api, f"{core}/endpoints", "s")
    endpoint_slices(lambda items: not items)


def test_pods(api, core, endpoint_slices):
    """The addresses of pods are listed as ready or not ready."""
    api.post(f"{core}/services", service(selector=LABELS))
    make_pod(api, core, "a", ready=True)
    make_pod(api, core, "b", ready=False)
    endpoints = wait_until(
        api,
        f"{core}/endpoints",
        "s",
        lambda obj: obj and "notReadyAddresses" in (obj.get("subsets") or [{}])[0],
    )
    (subset,) = endpoints["subsets"]
    assert [address["ip"] for address in subset["addresses"]] == ["10.0.0.97"]
    assert subset["addresses"][0]["targetRef"]["name"] == "a"
    assert [not_ready_address["ip"] for not_ready_address in subset["notReadyAddresses"]] == [
        "10.0.0.98"
    ]
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    (items,) = endpoint_slices(lambda items: items and len(items[0]["endpoints"] or ()) == 2)
    assert [endpoint["conditions"]["ready"] for endpoint in items["endpoints"]] == [True, False]
    assert items["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
    api.delete(f"{core}/pods/a", {"gracePeriodSeconds": 0})
    endpoint_slices(lambda items: len(items[0]["endpoints"] or ()) == 1)


def test_mirrored(api, core, endpoint_slices):
    """Endpoints that a client wrote are mirrored to an EndpointSlice."""
    api.post(f"{core}/services", service())
    subset = {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}
    api.post(f"{core}/endpoints", {"metadata": {"name": "s"}, "subsets": [subset]})
    (items,) = endpoint_slices(lambda items: len(items) == 1)
    assert items["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
    subset["addresses"][0]["ip"] = "10.1.2.4"
    api.patch(f"{core}/endpoints/s", {"subsets": [subset]})
    endpoint_slices(lambda items: items[0]["endpoints"][0]["addresses"] == ["10.1.2.4"])
    api.delete(f"{core}/endpoints/s")
    endpoint_slices(lambda items: not items)
