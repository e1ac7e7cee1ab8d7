"""sig-node and sig-scheduling: kinds whose objects nothing runs."""

from __future__ import annotations

import pytest

from tests.conformance.api_operations import check_operations
from tests.conformance.cluster import meta, name_of, pod, spec, template

DEVICES = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


@spec("Lease lease API should be available")
def test_leases(cluster):
    fields = {"holderIdentity": "holder", "leaseDurationSeconds": 30, "leaseTransitions": 0}
    check_operations(cluster, "leases", meta("lease") | {"spec": fields})


@spec(
    "PodTemplates should delete a collection of pod templates",
    "PodTemplates should replace a pod template",
    "PodTemplates should run the lifecycle of PodTemplates",
)
def test_pod_templates(cluster):
    check_operations(cluster, "podtemplates", meta("template") | {"template": template()})


@spec("RuntimeClass should support RuntimeClasses API operations")
def test_runtime_classes(cluster):
    obj = meta(f"class-{cluster.namespace}") | {"handler": "handler"}
    check_operations(cluster, "runtimeclasses", obj)


@spec("ConfigMap should run through a ConfigMap lifecycle")
def test_config_maps(cluster):
    check_operations(cluster, "configmaps", meta("map") | {"data": {"valueName": "value"}})


@spec("Secrets should patch a secret")
def test_secrets(cluster):
    check_operations(cluster, "secrets", meta("secret") | {"data": {"key": "dmFsdWU="}})


@spec(
    "ConfigMap should fail to create ConfigMap with empty key",
    "Secrets should fail to create secret due to empty secret key",
)
@pytest.mark.parametrize("resource", ["configmaps", "secrets"])
def test_empty_key(cluster, resource):
    refused = cluster.create(resource, meta("empty") | {"data": {"": "dmFsdWU="}}, status=422)
    assert refused["reason"] == "Invalid"


@spec("ConfigMap should update ConfigMap successfully")
def test_updated_config_map(cluster):
    cluster.create("configmaps", meta("map") | {"data": {"data-1": "value-1"}})
    cluster.change("configmaps", "map", lambda found: found["data"].update({"data-1": "value-2"}))
    assert cluster.get("configmaps", "map")["data"] == {"data-1": "value-2"}


@spec("LimitRange should list, patch and delete a LimitRange by collection")
def test_limit_ranges(cluster):
    limits = [{"type": "Container", "max": {"cpu": "500m"}, "min": {"cpu": "50m"}}]
    check_operations(cluster, "limitranges", meta("range") | {"spec": {"limits": limits}})


@spec(
    "LimitRange should create a LimitRange with defaults and ensure pod has those defaults applied."
)
def test_defaults(cluster):
    limit = {
        "type": "Container",
        "min": {"cpu": "50m", "memory": "100Mi"},
        "max": {"cpu": "500m", "memory": "500Mi"},
        "default": {"cpu": "500m", "memory": "500Mi"},
        "defaultRequest": {"cpu": "100m", "memory": "200Mi"},
    }
    cluster.create("limitranges", meta("range") | {"spec": {"limits": [limit]}})
    resources = cluster.create("pods", pod("plain"))["spec"]["containers"][0]["resources"]
    assert resources == {"limits": limit["default"], "requests": limit["defaultRequest"]}
    some = pod("some")
    some["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "300m"}}
    resources = cluster.create("pods", some)["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "300m", "memory": "200Mi"}
    for name, cpu in (("small", "10m"), ("big", "600m")):
        bad = pod(name)
        bad["spec"]["containers"][0]["resources"] = {
            "limits": {"cpu": cpu},
            "requests": {"cpu": cpu},
        }
        cluster.create("pods", bad, status=403)

    def lower(found):
        found["spec"]["limits"][0]["min"] = {"cpu": "9m", "memory": "100Mi"}

    cluster.change("limitranges", "range", lower)
    small = pod("small")
    small["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
    cluster.server.settle()
    cluster.create("pods", small)
    cluster.delete("limitranges", "range")
    cluster.get("limitranges", "range", status=404)


@spec(
    "SchedulerPreemption PriorityClass endpoints verify PriorityClass endpoints can be operated "
    "with different HTTP methods"
)
def test_priority_classes(cluster):
    obj = meta(f"p-{cluster.namespace}") | {"value": 1}
    created = cluster.create("priorityclasses", obj)
    refused = cluster.patch("priorityclasses", name_of(created), {"value": 5}, status=422)
    assert "value" in refused["message"]
    patched = cluster.patch("priorityclasses", name_of(created), {"description": "patched"})
    assert patched["description"] == "patched"
    cluster.delete("priorityclasses", name_of(created))
    check_operations(cluster, "priorityclasses", obj)


@spec("[DRA] CRUD Tests resource.k8s.io/v1 DeviceClass")
def test_device_classes(cluster):
    check_operations(cluster, "deviceclasses", meta(f"d-{cluster.namespace}") | {"spec": {}})


@spec("[DRA] CRUD Tests resource.k8s.io/v1 DeviceTaintRule")
def test_device_taint_rules(cluster):
    taint = {"key": "example.com/taint", "value": "tainted", "effect": "NoSchedule"}
    obj = meta(f"d-{cluster.namespace}") | {"spec": {"taint": taint}}
    condition = {
        "type": "EvictionInProgress", "status": "False", "reason": "E2E", "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }  # fmt: skip
    check_operations(cluster, "devicetaintrules", obj, {"conditions": [condition]})


@spec("[DRA] CRUD Tests resource.k8s.io/v1 ResourceClaim")
def test_resource_claims(cluster):
    check_operations(cluster, "resourceclaims", meta("claim") | {"spec": DEVICES}, {})


@spec("[DRA] CRUD Tests resource.k8s.io/v1 ResourceClaimTemplate")
def test_resource_claim_templates(cluster):
    obj = meta("template") | {"spec": {"spec": DEVICES}}
    check_operations(cluster, "resourceclaimtemplates", obj)


@spec("[DRA] CRUD Tests resource.k8s.io/v1 ResourceSlice")
def test_resource_slices(cluster):
    pool = {"name": cluster.namespace, "generation": 1, "resourceSliceCount": 1}
    fields = {"driver": "dra.example.com", "pool": pool, "nodeName": "absent"}
    check_operations(cluster, "resourceslices", meta(f"s-{cluster.namespace}") | {"spec": fields})
