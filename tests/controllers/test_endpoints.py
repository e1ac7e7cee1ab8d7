"""Endpoints and slices of services follow their pods, over HTTP."""

from __future__ import annotations

import pytest

from tests.controllers.waiting import until, until_gone

LABELS = {"app": "a"}


@pytest.fixture
def slices(api, namespace):
    """Wait until the slices of the service are as wanted; they are what is returned."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    selector = "labelSelector=kubernetes.io/service-name%3Ds"

    def call(done):
        listed = api.get(f"{path}?{selector}").json
        found = {one["metadata"]["name"]: one for one in listed["items"]}
        version = listed["metadata"]["resourceVersion"]
        watch = f"{path}?{selector}&watch=1&resourceVersion={version}&timeoutSeconds=60"
        with api.watch(watch) as stream:
            while not done(list(found.values())):
                event = stream.event()
                obj = event["object"]
                found[obj["metadata"]["name"]] = obj
                if event["type"] == "DELETED":
                    del found[obj["metadata"]["name"]]
        return list(found.values())

    return call


def service(**spec):
    """A service of the application, or of nothing."""
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    return {"metadata": {"name": "s", "labels": {"of": "s"}}, "spec": {"ports": ports, **spec}}


def make_pod(api, core, name, *, ready):
    """A pod with an address."""
    ports = [{"name": "web", "containerPort": 8080}]
    spec = {"containers": [{"name": "c", "image": "i", "ports": ports}], "nodeName": "n"}
    api.post(f"{core}/pods", {"metadata": {"name": name, "labels": LABELS}, "spec": spec})
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    address = f"10.0.0.{ord(name)}"
    status = {"podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]}
    assert api.patch(f"{core}/pods/{name}/status", {"status": status}).status == 200


def test_no_pods(api, core, slices):
    """A service that selects nothing has empty Endpoints and an empty slice, which go with it."""
    api.post(f"{core}/services", service(selector=LABELS))
    endpoints = until(api, f"{core}/endpoints", "s", lambda obj: obj is not None)
    assert "subsets" not in endpoints
    assert endpoints["metadata"]["labels"]["of"] == "s"
    (found,) = slices(lambda found: len(found) == 1)
    assert (found["endpoints"], found["addressType"]) == (None, "IPv4")
    assert found["metadata"]["generateName"] == "s-"
    api.delete(f"{core}/services/s")
    until_gone(api, f"{core}/endpoints", "s")
    slices(lambda found: not found)


def test_pods(api, core, slices):
    """Pods are behind a service by their addresses, ready or not."""
    api.post(f"{core}/services", service(selector=LABELS))
    make_pod(api, core, "a", ready=True)
    make_pod(api, core, "b", ready=False)
    endpoints = until(
        api,
        f"{core}/endpoints",
        "s",
        lambda obj: obj and "notReadyAddresses" in (obj.get("subsets") or [{}])[0],
    )
    (subset,) = endpoints["subsets"]
    assert [one["ip"] for one in subset["addresses"]] == ["10.0.0.97"]
    assert subset["addresses"][0]["targetRef"]["name"] == "a"
    assert [one["ip"] for one in subset["notReadyAddresses"]] == ["10.0.0.98"]
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    (found,) = slices(lambda found: found and len(found[0]["endpoints"] or ()) == 2)
    assert [one["conditions"]["ready"] for one in found["endpoints"]] == [True, False]
    assert found["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
    api.delete(f"{core}/pods/a", {"gracePeriodSeconds": 0})
    slices(lambda found: len(found[0]["endpoints"] or ()) == 1)


def test_mirrored(api, core, slices):
    """Endpoints that somebody else wrote are shown as a slice."""
    api.post(f"{core}/services", service())
    subset = {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}
    api.post(f"{core}/endpoints", {"metadata": {"name": "s"}, "subsets": [subset]})
    (found,) = slices(lambda found: len(found) == 1)
    assert found["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
    subset["addresses"][0]["ip"] = "10.1.2.4"
    api.patch(f"{core}/endpoints/s", {"subsets": [subset]})
    slices(lambda found: found[0]["endpoints"][0]["addresses"] == ["10.1.2.4"])
    api.delete(f"{core}/endpoints/s")
    slices(lambda found: not found)
