"""Kubernetes' conformance tests of controllers that need no running pod. Each test does what the
conformance tests named in its docstring do, and uses a watch where they poll."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.every_kind import MERGE, POD, STRATEGIC, Api, Tree, events, meta, pod

ROOT = "kube-root-ca.crt"


def wait_until(api: Api, path: str, name: str, condition: Callable[[Any], object]) -> Any:
    """Watch an object until the condition is true; return it."""
    with api.watch(f"{path}?fieldSelector=metadata.name={name}") as stream:
        while True:
            (event,) = events(stream, 1)
            if event["type"] != "DELETED" and condition(event["object"]):
                return event["object"]


def until_gone(api: Api, path: str, selector: str) -> None:
    """Wait until no object is selected."""
    listing = api("GET", f"{path}?{selector}")
    remaining = {item["metadata"]["name"] for item in listing["items"]}
    rv = listing["metadata"]["resourceVersion"]
    with api.watch(f"{path}?{selector}&resourceVersion={rv}") as stream:
        while remaining:
            (event,) = events(stream, 1)
            if event["type"] == "DELETED":
                remaining.discard(event["object"]["metadata"]["name"])


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
        api("PATCH", f"{core}/pods/{name}", patch, content_type=MERGE)
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
    first = wait_until(api, path, ROOT, lambda obj: True)
    assert set(first["data"]) == {"ca.crt"}
    api("DELETE", f"{path}/{ROOT}")
    uid = first["metadata"]["uid"]
    second = wait_until(api, path, ROOT, lambda obj: obj["metadata"]["uid"] != uid)
    assert second["data"] == first["data"]
    api("PUT", f"{path}/{ROOT}", {**second, "data": {"ca.crt": ""}})
    wait_until(api, path, ROOT, lambda obj: obj["data"] == first["data"])


# --- quotas


TEMPLATE = {**meta("", labels={"a": "b"}), "spec": POD}
QUOTA_CASES: list[tuple[str, str, Tree, Tree]] = [
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
    """Create a quota, and wait until its status is set; return the used amounts."""
    path = f"{core}/resourcequotas"
    api("POST", path, {**meta(name), "spec": {"hard": hard, **spec}})
    quota = wait_until(api, path, name, lambda quota_read: quota_read["status"].get("hard") == hard)
    used: Tree = quota["status"]["used"]
    return used


@pytest.mark.parametrize(
    ("resource", "base", "obj", "usage"), QUOTA_CASES, ids=[row[0] for row in QUOTA_CASES]
)
def test_quota_usage(
    api: Api, core: str, namespace: str, resource: str, base: str, obj: Tree, usage: Tree
) -> None:
    """ResourceQuota should create a ResourceQuota and capture the life of a configMap, secret,
    replication controller, replica set, service, claim, pod; one more is refused."""
    wait_until(api, f"{core}/configmaps", ROOT, lambda current: True)
    existing = {"configmaps": "1"} if resource == "configmaps" else {}
    full = {**usage, **dict.fromkeys(existing, "2")}
    used_before = _quota(api, core, "q", full)
    assert {name: used_before[name] for name in usage} == {
        name: existing.get(name, "0") for name in usage
    }
    path = f"{base}/namespaces/{namespace}/{resource}"
    api("POST", path, {**meta("one"), **obj})
    wait_until(
        api, f"{core}/resourcequotas", "q", lambda current: current["status"]["used"] == full
    )
    error = api("POST", path, {**meta("two"), **obj}, status=403)
    assert "exceeded quota: q, requested: " in error["message"]
    api("DELETE", f"{path}/one?gracePeriodSeconds=0&propagationPolicy=Background")
    wait_until(
        api, f"{core}/resourcequotas", "q", lambda current: current["status"]["used"] == used_before
    )


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
    wait_until(api, path, "in", lambda obj: obj["status"]["used"] == {"pods": "1"})
    assert api("GET", f"{path}/out")["status"]["used"] == {"pods": "0"}
    api("DELETE", f"{core}/pods/p?gracePeriodSeconds=0")
    wait_until(api, path, "in", lambda obj: obj["status"]["used"] == {"pods": "0"})


def test_status_of_a_quota(api: Api, core: str, namespace: str) -> None:
    """ResourceQuota should apply changes to a resourcequota status, and manage the lifecycle:
    writes of the status keep the limits, and the controller restores the count."""
    path = f"{core}/resourcequotas"
    limits = {"cpu": "500m", "memory": "500Mi"}
    _quota(api, core, "q", limits)
    label = {"metadata": {"labels": {"e2e": namespace}}}
    api("PATCH", f"{path}/q", label, content_type=STRATEGIC)
    patch = {"status": {"hard": {"cpu": "1", "memory": "1Gi"}}}
    assert api("PATCH", f"{path}/q/status", patch, content_type=MERGE)["spec"]["hard"] == limits
    wait_until(api, path, "q", lambda obj: obj["status"]["hard"] == limits)
    changed = {"spec": {"hard": {"cpu": "1"}}}
    api("PATCH", f"{path}/q", changed, content_type=STRATEGIC)
    new_limits = {"cpu": "1", "memory": "500Mi"}
    wait_until(api, path, "q", lambda obj: obj["status"]["hard"] == new_limits)
    everywhere = f"/api/v1/resourcequotas?labelSelector=e2e={namespace}"
    assert [item["metadata"]["name"] for item in api("GET", everywhere)["items"]] == ["q"]
    api("DELETE", f"{path}?labelSelector=e2e={namespace}")
    assert not api("GET", everywhere)["items"]


# --- budgets, endpoints


def test_budgets(api: Api, core: str, namespace: str) -> None:
    """DisruptionController should create a PodDisruptionBudget, and update, patch and delete it;
    should list and delete a collection of PodDisruptionBudgets."""
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1}
    created = api("POST", path, {**meta("b", labels={"e2e": namespace}), "spec": spec})

    def observed(generation: int) -> Tree:
        budget: Tree = wait_until(
            api,
            path,
            "b",
            lambda budget_read: budget_read["status"].get("observedGeneration") == generation,
        )
        return budget

    current = observed(created["metadata"]["generation"])
    while True:  # the controller may write in between
        current["spec"]["minAvailable"] = "2%"
        response = api.request("PUT", f"{path}/b", current)
        if response.status != 409:
            break
        current = api("GET", f"{path}/b")
    assert response.status == 200, response.body
    observed(response.tree["metadata"]["generation"])
    patch = {"spec": {"minAvailable": None, "maxUnavailable": 3}}
    current = api("PATCH", f"{path}/b", patch, content_type=MERGE)
    assert observed(current["metadata"]["generation"])["spec"]["maxUnavailable"] == 3
    everywhere = f"/apis/policy/v1/poddisruptionbudgets?labelSelector=e2e={namespace}"
    assert [item["metadata"]["name"] for item in api("GET", everywhere)["items"]] == ["b"]
    api("DELETE", f"{path}?labelSelector=e2e={namespace}")
    assert not api("GET", everywhere)["items"]


def test_services_without_pods(api: Api, core: str, namespace: str) -> None:
    """EndpointSlice and EndpointsController should create and delete the Endpoints and slices of a
    Service whose selector matches no pods."""
    spec = {"selector": {"does-not-match": "anything"}, "ports": [{"port": 80}]}
    api("POST", f"{core}/services", {**meta("s"), "spec": spec})
    endpoints = wait_until(api, f"{core}/endpoints", "s", lambda obj: True)
    assert not endpoints.get("subsets")
    slices_path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    selector = "labelSelector=kubernetes.io/service-name=s"
    with api.watch(f"{slices_path}?{selector}") as stream:
        (event,) = events(stream, 1)
    assert not event["object"].get("endpoints")
    assert event["object"]["metadata"]["ownerReferences"][0]["name"] == "s"
    api("DELETE", f"{core}/services/s")
    until_gone(api, f"{core}/endpoints", "fieldSelector=metadata.name=s")
    until_gone(api, slices_path, selector)


def test_mirrored_endpoints(api: Api, core: str, namespace: str) -> None:
    """EndpointSliceMirroring should mirror a custom Endpoints resource through create update and
    delete."""
    api("POST", f"{core}/services", {**meta("s"), "spec": {"ports": [{"port": 80}]}})
    slices_path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    selector = "labelSelector=kubernetes.io/service-name=s"

    def subsets(address: str) -> Tree:
        ports = [{"port": 80, "name": "http"}]
        return {"subsets": [{"addresses": [{"ip": address}], "ports": ports}]}

    with api.watch(f"{slices_path}?{selector}") as stream:

        def mirrored(address: str) -> Tree:
            while True:
                (event,) = events(stream, 1)
                endpoint_slice: Tree = event["object"]
                if endpoint_slice["endpoints"] and endpoint_slice["endpoints"][0]["addresses"] == [
                    address
                ]:
                    return endpoint_slice

        api("POST", f"{core}/endpoints", {**meta("s"), **subsets("10.1.2.3")})
        mirror = mirrored("10.1.2.3")
        assert mirror["ports"] == [{"name": "http", "protocol": "TCP", "port": 80}]
        by = mirror["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
        assert by == "endpointslicemirroring-controller.k8s.io"
        api("PATCH", f"{core}/endpoints/s", subsets("10.2.3.4"), content_type=MERGE)
        mirrored("10.2.3.4")
    api("DELETE", f"{core}/endpoints/s")
    until_gone(api, slices_path, selector)


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
        url = f"{path}/{namespace}"
        patch = {"metadata": {"annotations": {"patched": "yes"}}, "status": {"phase": "Pending"}}
        obj = api("PATCH", f"{url}/status", patch, content_type=MERGE)
        assert (obj["metadata"]["annotations"], obj["status"]["phase"]) == (
            {"patched": "yes"},
            "Pending",
        )
        condition = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "m"}
        new_condition = {"message": "E2E", "reason": "Test"} if path == volumes else {
            "conditions": [{**condition, "lastTransitionTime": None, "lastProbeTime": None}],
        }  # fmt: skip
        obj["status"].update(new_condition)
        obj = api("PUT", f"{url}/status", obj)
        assert {name: obj["status"][name] for name in new_condition} == new_condition
        obj["metadata"]["labels"]["updated"] = "yes"
        assert api("PUT", url, obj)["metadata"]["labels"]["updated"] == "yes"
    everywhere = f"/api/v1/persistentvolumeclaims?{label}"
    assert [url["metadata"]["name"] for url in api("GET", everywhere)["items"]] == [namespace]
    for path in (claims, volumes):
        api("DELETE", f"{path}?{label}")
        until_gone(api, path, label)


def test_deleted_run_time(api: Api, core: str, namespace: str) -> None:
    """RuntimeClass should reject a Pod requesting a deleted RuntimeClass."""
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    api("POST", path, {**meta(namespace), "handler": "h"})
    api("POST", f"{core}/pods", pod("p", runtimeClassName=namespace))
    api("DELETE", f"{path}/{namespace}")
    error = api("POST", f"{core}/pods", pod("q", runtimeClassName=namespace), status=403)
    assert f'RuntimeClass "{namespace}" not found' in error["message"]
