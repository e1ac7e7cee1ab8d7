"""What many conformance tests ask of a resource: discovery, and each verb of the API."""

from __future__ import annotations

from typing import Any

from tests.conformance.cluster import _CLUSTER_SCOPED, _ROOTS, STRATEGIC, Cluster, name_of

LABEL = "special-label"


def check_operations(cluster: Cluster, resource: str, obj: Any, status: Any = None) -> None:
    """Create, read, watch, change and delete objects like `obj`; `status` is one that may be
    written, None if there is no such subresource."""
    _check_discovery(cluster, resource, status)
    value = f"{cluster.namespace}-{resource}"
    obj = obj | {"metadata": obj["metadata"] | {"labels": {LABEL: value}}}
    created = cluster.create(resource, obj)
    name, version = name_of(created), created["metadata"]["resourceVersion"]
    for number in (2, 3):
        cluster.create(resource, obj | {"metadata": obj["metadata"] | {"name": f"{name}-{number}"}})
    assert cluster.get(resource, name)["metadata"]["uid"] == created["metadata"]["uid"]
    everywhere = resource not in _CLUSTER_SCOPED
    assert len(cluster.list(resource, f"{LABEL}={value}", everywhere=everywhere)) == 3
    patched = cluster.patch(resource, name, {"metadata": {"annotations": {"patched": "true"}}})
    assert patched["metadata"]["annotations"]["patched"] == "true"

    def annotate(found: Any) -> None:
        found["metadata"]["annotations"]["updated"] = "true"

    updated = cluster.change(resource, name, annotate)
    assert updated["metadata"]["annotations"]["updated"] == "true"
    if status is not None:
        check_status(cluster, resource, name, status)
    cluster.delete(resource, name)
    events = cluster.watch(resource, version, f"{LABEL}={value}")
    assert set(events) == {"ADDED", "MODIFIED", "DELETED"}
    cluster.get(resource, name, status=404)
    assert len(cluster.list(resource, f"{LABEL}={value}")) == 2
    cluster.delete_all(resource, f"{LABEL}={value}")
    assert cluster.list(resource, f"{LABEL}={value}") == []


def check_status(cluster: Cluster, resource: str, name: str, status: Any) -> None:
    """Patch and update the status of an object, and read it."""
    patch = {"status": status, "metadata": {"annotations": {"patchedstatus": "true"}}}
    patched = cluster.patch(resource, name, patch, "status")
    keeps_metadata = "resource.k8s.io" in patched["apiVersion"]
    annotations = patched["metadata"].get("annotations", {})
    assert ("patchedstatus" in annotations) != keeps_metadata
    found = cluster.get(resource, name, "status")

    def change(obj: Any) -> None:
        obj["status"] = obj.get("status", {}) | status

    assert found["metadata"]["uid"] == patched["metadata"]["uid"]
    cluster.change(resource, name, change, "status")


def check_scale(cluster: Cluster, resource: str, name: str) -> None:
    """Read, update and patch the scale of a workload of one replica."""
    scale = cluster.get(resource, name, "scale")
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (1, 1)
    scale["spec"]["replicas"] = 2
    del scale["metadata"]["resourceVersion"]  # the update is unconditional
    assert cluster.update(resource, scale, "scale")["spec"]["replicas"] == 2
    assert cluster.get(resource, name)["spec"]["replicas"] == 2
    cluster.patch(resource, name, {"spec": {"replicas": 4}}, "scale", type=STRATEGIC)
    found = cluster.get(resource, name)
    assert (found["spec"]["replicas"], found["status"]["replicas"]) == (4, 4)


def _check_discovery(cluster: Cluster, resource: str, status: Any) -> None:
    found = cluster.request("GET", _ROOTS[resource])["resources"]
    names = {each["name"] for each in found}
    assert resource in names
    assert status is None or f"{resource}/status" in names
