"""ResourceQuota with limited resources. The cases follow admission_test.go of Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.admission.configuration import (
    BadAdmissionConfiguration,
    PluginConfiguration,
)
from kapiserver.apiserver.admission.plugins.resource_quota import ResourceQuota
from kapiserver.apiserver.context import Server
from tests.apiserver.admission.pluginkit import JANE, pod, run, write_configuration

KIND = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration"}
CPU = {"resource": "pods", "matchContains": ["cpu"]}
CLAIMS = {"resource": "persistentvolumeclaims", "matchContains": ["gold.storageclass"]}
URGENT_SCOPE = {"scopeName": "PriorityClass", "operator": "In", "values": ["urgent"]}
URGENT = {"resource": "pods", "matchScopes": [URGENT_SCOPE]}


def sized(*, urgent: bool = False, **requests: str) -> Any:
    body = pod(**({"priorityClassName": "urgent"} if urgent else {}))
    body["spec"]["containers"][0]["resources"] = {"requests": requests}
    return body


def claim(storage_class: str) -> Any:
    return {
        "metadata": {"name": "p"},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def quota(*scopes: Any, **hard: str) -> Any:
    hard = {name.replace("_", "."): value for name, value in hard.items()}
    spec: Any = {"hard": hard}
    if scopes:
        spec["scopeSelector"] = {"matchExpressions": list(scopes)}
    return {"metadata": {"name": "q"}, "spec": spec}


CASES: list[tuple[list[Any], Any, str, Any, str]] = [
    # limited resources, quota, resource, object, message
    ([CPU], None, "pods", sized(cpu="1"),
     "insufficient quota to consume: cpu,requests.cpu"),
    ([CPU], None, "pods", sized(memory="1"), ""),
    ([CPU], quota(requests_cpu="2", cpu="2"), "pods", sized(cpu="1"), ""),
    ([CPU], quota(cpu="2"), "pods", sized(cpu="1"),
     "insufficient quota to consume: requests.cpu"),
    ([CPU], quota(requests_cpu="2", cpu="2"), "pods", sized(cpu="3"),
     "exceeded quota: q, requested: cpu=3,requests.cpu=3, used: cpu=0,requests.cpu=0, limited: "
     "cpu=2,requests.cpu=2"),
    ([CPU], quota(pods="2"), "pods", sized(cpu="1"),
     "insufficient quota to consume: cpu,requests.cpu"),
    ([CPU], quota({"scopeName": "BestEffort", "operator": "Exists"}, pods="2"), "pods",
     sized(cpu="1"), "insufficient quota to consume: cpu,requests.cpu"),
    ([CLAIMS], None, "persistentvolumeclaims", claim("gold"),
     "insufficient quota to consume: gold.storageclass.storage.k8s.io/persistentvolumeclaims,"
     "gold.storageclass.storage.k8s.io/requests.storage"),
    ([CLAIMS], None, "persistentvolumeclaims", claim("silver"), ""),
    ([CLAIMS], None, "pods", sized(cpu="1"), ""),
    ([URGENT], None, "pods", sized(urgent=True),
     "insufficient quota to match these scopes: [{PriorityClass In [urgent]}]"),
    ([URGENT], None, "pods", sized(), ""),
    ([URGENT], quota(pods="2"), "pods", sized(urgent=True),
     "insufficient quota to match these scopes: [{PriorityClass In [urgent]}]"),
    ([URGENT], quota(URGENT_SCOPE, pods="2"), "pods", sized(urgent=True), ""),
    ([URGENT], quota({"scopeName": "PriorityClass", "operator": "Exists"}, pods="2"), "pods",
     sized(urgent=True), ""),
]  # fmt: skip


@pytest.mark.parametrize(("limited", "quota_object", "resource", "body", "message"), CASES)
def test_limited_resources(
    tmp_path: Path, limited: Any, quota_object: Any, resource: str, body: Any, message: str
) -> None:
    """Limited resources may be consumed only where a quota covers them."""

    async def test(server: Server) -> None:
        client = server.client(JANE)
        await client.resource("scheduling.k8s.io/v1", "priorityclasses").create(
            {"metadata": {"name": "urgent"}, "value": 1}
        )
        if quota_object is not None:
            quotas = client.resource("v1", "resourcequotas", namespace="default")
            created = await quotas.create(quota_object)
            hard = created["spec"]["hard"]
            created["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
            await quotas.update(created, subresource="status")
        write = client.resource("v1", resource, namespace="default").create(body)
        if not message:
            await write
            return
        with pytest.raises(StatusError) as caught:
            await write
        text = f'{resource} "p" is forbidden: {message}'
        assert (caught.value.status["code"], caught.value.status["message"]) == (403, text)

    configuration = {**KIND, "limitedResources": limited}
    run(
        test,
        disable_admission_plugins=("ServiceAccount",),
        admission_control_config_file=write_configuration(tmp_path, "ResourceQuota", configuration),
    )


@pytest.mark.parametrize(
    ("group", "version", "kind"),
    [
        ("apiserver.config.k8s.io", "v1", "ResourceQuotaConfiguration"),
        ("resourcequota.admission.k8s.io", "v1beta1", "Configuration"),
        ("resourcequota.admission.k8s.io", "v1alpha1", "Configuration"),
    ],
)
def test_configuration(group: str, version: str, kind: str) -> None:
    """Every limited resource must have a name."""
    tree = {"apiVersion": f"{group}/{version}", "kind": kind}

    def load(limited: Any) -> None:
        data = json.dumps({**tree, "limitedResources": limited}).encode()
        ResourceQuota(PluginConfiguration(name="ResourceQuota", data=data))

    load([CPU])
    with pytest.raises(BadAdmissionConfiguration) as caught:
        load([{"matchContains": ["cpu"]}])
    assert str(caught.value).endswith("limitedResources[0].resource: Required value")
