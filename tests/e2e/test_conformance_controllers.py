"""What Kubernetes' conformance tests ask of the loops beside an API server that need no running
pod: each test here is named for one of theirs, and follows a watch where they poll."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.every_kind import MERGE, POD, STRATEGIC, Api, Tree, events, meta, pod

ROOT = "kube-root-ca.crt"


def until(api: Api, path: str, name: str, wanted: Callable[[Any], object]) -> Any:
    """The object of that name, once it is as wanted."""
    with api.watch(f"{path}?fieldSelector=metadata.name={name}") as stream:
        while True:
            (event,) = events(stream, 1)
            if event["type"] != "DELETED" and wanted(event["object"]):
                return event["object"]


def until_gone(api: Api, path: str, selector: str) -> None:
    """Wait until nothing is selected any more; nothing new may come."""
    found = api("GET", f"{path}?{selector}")
    left = {one["metadata"]["name"] for one in found["items"]}
    rv = found["metadata"]["resourceVersion"]
    with api.watch(f"{path}?{selector}&resourceVersion={rv}") as stream:
        while left:
            (event,) = events(stream, 1)
            if event["type"] == "DELETED":
                left.discard(event["object"]["metadata"]["name"])


def test_dependency_circle(api: Api, core: str) -> None:
    """Garbage collector should not be blocked by dependency circle."""
    names = ("p1", "p2", "p3")
    uids = {name: api("POST", f"{core}/pods", pod(name))["metadata"]["uid"] for name in names}
    for name, owner in zip(names, ("p3", "p1", "p2"), strict=True):
        reference = {
            "apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uids[owner],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        patch = {"metadata": {"ownerReferences": [reference]}}
        api("PATCH", f"{core}/pods/{name}", patch, sent=MERGE)
    api("DELETE", f"{core}/pods/p1", {"propagationPolicy": "Background"})
    until_gone(api, f"{core}/pods", "limit=0")


def test_services_go_with_their_namespace(api: Api, namespace: str) -> None:
    """Namespaces should ensure that all services are removed when a namespace is deleted."""
    name = f"{namespace}-more"
    core = f"/api/v1/namespaces/{name}"
    api("POST", "/api/v1/namespaces", meta(name))
    api("POST", f"{core}/services", {**meta("s"), "spec": {"ports": [{"port": 80}]}})
    api("DELETE", core)
    until_gone(api, "/api/v1/namespaces", f"fieldSelector=metadata.name={name}")
    api("POST", "/api/v1/namespaces", meta(name))
    api("GET", f"{core}/services/s", status=404)
    api("DELETE", core)


def test_root_certificates(api: Api, core: str) -> None:
    """ServiceAccounts should guarantee kube-root-ca.crt exist in any namespace."""
    path = f"{core}/configmaps"
    first = until(api, path, ROOT, lambda found: True)
    assert set(first["data"]) == {"ca.crt"}
    api("DELETE", f"{path}/{ROOT}")
    uid = first["metadata"]["uid"]
    again = until(api, path, ROOT, lambda found: found["metadata"]["uid"] != uid)
    assert again["data"] == first["data"]
    api("PUT", f"{path}/{ROOT}", {**again, "data": {"ca.crt": ""}})
    until(api, path, ROOT, lambda found: found["data"] == first["data"])


# --- quotas


TEMPLATE = {**meta("", labels={"a": "b"}), "spec": POD}
COUNTED: list[tuple[str, str, Tree, Tree]] = [
    ("configmaps", "/api/v1", {}, {"configmaps": "1"}),
    ("secrets", "/api/v1", {}, {"secrets": "1"}),
    ("replicationcontrollers", "/api/v1",
     {"spec": {"replicas": 0, "template": TEMPLATE}}, {"replicationcontrollers": "1"}),
    ("replicasets", "/apis/apps/v1",
     {"spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
     {"count/replicasets.apps": "1"}),
    ("services", "/api/v1", {"spec": {"type": "NodePort", "ports": [{"port": 80}]}},
     {"services": "1", "services.nodeports": "1", "services.loadbalancers": "0"}),
    ("services", "/api/v1", {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
     {"services": "1", "services.nodeports": "1", "services.loadbalancers": "1"}),
    ("persistentvolumeclaims", "/api/v1",
     {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
     {"persistentvolumeclaims": "1", "requests.storage": "1Gi"}),
    ("pods", "/api/v1",
     {"spec": {"containers": [{"name": "c", "image": "i", "resources": {
         "requests": {"cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi",
                      "example.com/d": "2"},
         "limits": {"example.com/d": "2"}}}]}},
     {"pods": "1", "cpu": "500m", "memory": "252Mi", "requests.ephemeral-storage": "30Gi",
      "requests.example.com/d": "2"}),
]  # fmt: skip


def _quota(api: Api, core: str, name: str, hard: Tree, **spec: object) -> Tree:
    """Create a quota, and wait until it is counted; what is used so far."""
    path = f"{core}/resourcequotas"
    api("POST", path, {**meta(name), "spec": {"hard": hard, **spec}})
    found = until(api, path, name, lambda one: one["status"].get("hard") == hard)
    used: Tree = found["status"]["used"]
    return used


@pytest.mark.parametrize(
    ("resource", "base", "obj", "taken"), COUNTED, ids=[row[0] for row in COUNTED]
)
def test_life_of_what_is_counted(
    api: Api, core: str, namespace: str, resource: str, base: str, obj: Tree, taken: Tree
) -> None:
    """ResourceQuota should create a ResourceQuota and capture the life of a configMap, secret,
    replication controller, replica set, service, claim, pod; one more is refused."""
    until(api, f"{core}/configmaps", ROOT, lambda found: True)
    there = {"configmaps": "1"} if resource == "configmaps" else {}
    full = {**taken, **dict.fromkeys(there, "2")}
    before = _quota(api, core, "q", full)
    assert {name: before[name] for name in taken} == {name: there.get(name, "0") for name in taken}
    path = f"{base}/namespaces/{namespace}/{resource}"
    api("POST", path, {**meta("one"), **obj})
    until(api, f"{core}/resourcequotas", "q", lambda found: found["status"]["used"] == full)
    refused = api("POST", path, {**meta("two"), **obj}, status=403)
    assert "exceeded quota: q, requested: " in refused["message"]
    api("DELETE", f"{path}/one?gracePeriodSeconds=0&propagationPolicy=Background")
    until(api, f"{core}/resourcequotas", "q", lambda found: found["status"]["used"] == before)


@pytest.mark.parametrize(
    ("inside", "outside", "spec"),
    [
        ("BestEffort", "NotBestEffort", {}),
        ("NotBestEffort", "BestEffort", {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        }),
        ("Terminating", "NotTerminating", {"activeDeadlineSeconds": 3600}),
        ("NotTerminating", "Terminating", {}),
    ],
)  # fmt: skip
def test_scopes(api: Api, core: str, inside: str, outside: str, spec: Tree) -> None:
    """ResourceQuota should verify ResourceQuota with best effort scope, and with terminating
    scopes."""
    for name, scope in (("in", inside), ("out", outside)):
        assert _quota(api, core, name, {"pods": "5"}, scopes=[scope]) == {"pods": "0"}
    api("POST", f"{core}/pods", pod("p", **spec))
    path = f"{core}/resourcequotas"
    until(api, path, "in", lambda found: found["status"]["used"] == {"pods": "1"})
    assert api("GET", f"{path}/out")["status"]["used"] == {"pods": "0"}
    api("DELETE", f"{core}/pods/p?gracePeriodSeconds=0")
    until(api, path, "in", lambda found: found["status"]["used"] == {"pods": "0"})


def test_status_of_a_quota(api: Api, core: str, namespace: str) -> None:
    """ResourceQuota should apply changes to a resourcequota status, and manage the lifecycle: what
    is written to the status leaves the limits alone, and the count comes back."""
    path = f"{core}/resourcequotas"
    limits = {"cpu": "500m", "memory": "500Mi"}
    _quota(api, core, "q", limits)
    label = {"metadata": {"labels": {"e2e": namespace}}}
    api("PATCH", f"{path}/q", label, sent=STRATEGIC)
    patch = {"status": {"hard": {"cpu": "1", "memory": "1Gi"}}}
    assert api("PATCH", f"{path}/q/status", patch, sent=MERGE)["spec"]["hard"] == limits
    until(api, path, "q", lambda found: found["status"]["hard"] == limits)
    changed = {"spec": {"hard": {"cpu": "1"}}}
    api("PATCH", f"{path}/q", changed, sent=STRATEGIC)
    wanted = {"cpu": "1", "memory": "500Mi"}
    until(api, path, "q", lambda found: found["status"]["hard"] == wanted)
    everywhere = f"/api/v1/resourcequotas?labelSelector=e2e={namespace}"
    assert [one["metadata"]["name"] for one in api("GET", everywhere)["items"]] == ["q"]
    api("DELETE", f"{path}?labelSelector=e2e={namespace}")
    assert not api("GET", everywhere)["items"]


# --- budgets, endpoints


def test_budgets(api: Api, core: str, namespace: str) -> None:
    """DisruptionController should create a PodDisruptionBudget, and update, patch and delete it;
    should list and delete a collection of PodDisruptionBudgets."""
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1}
    made = api("POST", path, {**meta("b", labels={"e2e": namespace}), "spec": spec})

    def observed(generation: int) -> Tree:
        found: Tree = until(
            api, path, "b", lambda one: one["status"].get("observedGeneration") == generation
        )
        return found

    found = observed(made["metadata"]["generation"])
    while True:  # the loop may come between
        found["spec"]["minAvailable"] = "2%"
        answer = api.ask("PUT", f"{path}/b", found)
        if answer.status != 409:
            break
        found = api("GET", f"{path}/b")
    assert answer.status == 200, answer.body
    observed(answer.tree["metadata"]["generation"])
    patch = {"spec": {"minAvailable": None, "maxUnavailable": 3}}
    found = api("PATCH", f"{path}/b", patch, sent=MERGE)
    assert observed(found["metadata"]["generation"])["spec"]["maxUnavailable"] == 3
    everywhere = f"/apis/policy/v1/poddisruptionbudgets?labelSelector=e2e={namespace}"
    assert [one["metadata"]["name"] for one in api("GET", everywhere)["items"]] == ["b"]
    api("DELETE", f"{path}?labelSelector=e2e={namespace}")
    assert not api("GET", everywhere)["items"]


def test_services_that_select_nothing(api: Api, core: str, namespace: str) -> None:
    """EndpointSlice and EndpointsController should create and delete what is behind a Service with
    a selector that matches no pods."""
    spec = {"selector": {"does-not-match": "anything"}, "ports": [{"port": 80}]}
    api("POST", f"{core}/services", {**meta("s"), "spec": spec})
    endpoints = until(api, f"{core}/endpoints", "s", lambda found: True)
    assert not endpoints.get("subsets")
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    selector = "labelSelector=kubernetes.io/service-name=s"
    with api.watch(f"{slices}?{selector}") as stream:
        (event,) = events(stream, 1)
    assert not event["object"].get("endpoints")
    assert event["object"]["metadata"]["ownerReferences"][0]["name"] == "s"
    api("DELETE", f"{core}/services/s")
    until_gone(api, f"{core}/endpoints", "fieldSelector=metadata.name=s")
    until_gone(api, slices, selector)


def test_mirrored_endpoints(api: Api, core: str, namespace: str) -> None:
    """EndpointSliceMirroring should mirror a custom Endpoints resource through create update and
    delete."""
    api("POST", f"{core}/services", {**meta("s"), "spec": {"ports": [{"port": 80}]}})
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    selector = "labelSelector=kubernetes.io/service-name=s"

    def subsets(address: str) -> Tree:
        ports = [{"port": 80, "name": "http"}]
        return {"subsets": [{"addresses": [{"ip": address}], "ports": ports}]}

    with api.watch(f"{slices}?{selector}") as stream:

        def mirrored(address: str) -> Tree:
            while True:
                (event,) = events(stream, 1)
                found: Tree = event["object"]
                if found["endpoints"] and found["endpoints"][0]["addresses"] == [address]:
                    return found

        api("POST", f"{core}/endpoints", {**meta("s"), **subsets("10.1.2.3")})
        found = mirrored("10.1.2.3")
        assert found["ports"] == [{"name": "http", "protocol": "TCP", "port": 80}]
        by = found["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
        assert by == "endpointslicemirroring-controller.k8s.io"
        api("PATCH", f"{core}/endpoints/s", subsets("10.2.3.4"), sent=MERGE)
        mirrored("10.2.3.4")
    api("DELETE", f"{core}/endpoints/s")
    until_gone(api, slices, selector)


# --- volumes, run times


def test_volumes_and_claims(api: Api, core: str, namespace: str) -> None:
    """PersistentVolumes should run through the lifecycle of a PV and a PVC, and apply changes to a
    pv/pvc status."""
    capacity = {"storage": "2Gi"}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": namespace}
    source = {"csi": {"driver": "e2e.example.com", "volumeHandle": "h"}, "capacity": capacity}
    claimed = {"resources": {"requests": capacity}}
    volumes, claims = "/api/v1/persistentvolumes", f"{core}/persistentvolumeclaims"
    label = f"labelSelector=e2e={namespace}"
    head = meta(namespace, labels={"e2e": namespace})
    api("POST", volumes, {**head, "spec": {**spec, **source}})
    api("POST", claims, {**head, "spec": {**spec, **claimed}})
    for path in (volumes, claims):
        one = f"{path}/{namespace}"
        patch = {"metadata": {"annotations": {"patched": "yes"}}, "status": {"phase": "Pending"}}
        found = api("PATCH", f"{one}/status", patch, sent=MERGE)
        assert (found["metadata"]["annotations"], found["status"]["phase"]) == (
            {"patched": "yes"},
            "Pending",
        )
        condition = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "m"}
        wanted = {"message": "E2E", "reason": "Test"} if path == volumes else {
            "conditions": [{**condition, "lastTransitionTime": None, "lastProbeTime": None}],
        }  # fmt: skip
        found["status"].update(wanted)
        found = api("PUT", f"{one}/status", found)
        assert {name: found["status"][name] for name in wanted} == wanted
        found["metadata"]["labels"]["updated"] = "yes"
        assert api("PUT", one, found)["metadata"]["labels"]["updated"] == "yes"
    everywhere = f"/api/v1/persistentvolumeclaims?{label}"
    assert [one["metadata"]["name"] for one in api("GET", everywhere)["items"]] == [namespace]
    for path in (claims, volumes):
        api("DELETE", f"{path}?{label}")
        until_gone(api, path, label)


def test_deleted_run_time(api: Api, core: str, namespace: str) -> None:
    """RuntimeClass should reject a Pod requesting a deleted RuntimeClass."""
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    api("POST", path, {**meta(namespace), "handler": "h"})
    api("POST", f"{core}/pods", pod("p", runtimeClassName=namespace))
    api("DELETE", f"{path}/{namespace}")
    refused = api("POST", f"{core}/pods", pod("q", runtimeClassName=namespace), status=403)
    assert f'RuntimeClass "{namespace}" not found' in refused["message"]
