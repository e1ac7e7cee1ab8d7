"""PodResizeValidator and NodeDeclaredFeatureValidator. The cases follow their unit tests in
Kubernetes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.apiserver.admission.pluginkit import pod
from tests.apiserver.conftest import Api

SIZE = {"cpu": "1", "memory": "1Gi"}


def create_node(api: Api, name: str, system: str = "linux", *features: str) -> str:
    labels = {"kubernetes.io/os": system} if system else {}
    body = {"metadata": {"name": name, "labels": labels}}
    assert api.post("/api/v1/nodes", body).status == 201
    status = {"allocatable": {"cpu": "2", "memory": "2Gi"}, "declaredFeatures": list(features)}
    response = api.patch(f"/api/v1/nodes/{name}/status", {"status": status})
    assert response.status == 200, response.message
    return name


def create_pod(api: Api, core: str, node: str, *, limits: Any = None, **spec: Any) -> Any:
    body = pod(nodeName=node, **spec)
    resources = {"requests": SIZE, "limits": limits} if limits else {"requests": SIZE}
    body["spec"]["containers"][0]["resources"] = resources
    response = api.post(f"{core}/pods", body)
    assert response.status == 201, response.message
    return response.json


def resize(api: Api, core: str, body: Any, **requests: str) -> Any:
    changed = copy.deepcopy(body)
    resources = changed["spec"]["containers"][0]["resources"]
    resources["requests"].update(requests)
    if "limits" in resources:
        resources["limits"].update(requests)
    return api.put(f"{core}/pods/p/resize", changed)


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ({"cpu": "2", "memory": "2Gi"}, ""),
        ({}, ""),
        ({"cpu": "2001m"}, "Node didn't have enough allocatable resources: cpu, requested: 2001, "
         "allocatable: 2000"),
        ({"memory": "3Gi"}, "Node didn't have enough allocatable resources: memory, requested: "
         "3221225472, allocatable: 2147483648"),
        ({"cpu": "3", "memory": "3Gi"}, "Node didn't have enough allocatable resources: cpu, "
         "requested: 3000, allocatable: 2000; memory, requested: 3221225472, allocatable: "
         "2147483648"),
    ],
)  # fmt: skip
def test_allocatable(
    api: Api, core: str, namespace: str, requests: dict[str, str], message: str
) -> None:
    """A pod cannot become larger than its node."""
    body = create_pod(api, core, create_node(api, f"{namespace}-node"))
    response = resize(api, core, body, **requests)
    if message:
        expected = (403, f'pods "p" is forbidden: {message}')
        assert (response.status, response.message) == expected
    else:
        assert response.status == 200, response.message


@pytest.mark.parametrize("system", ["windows", ""])
def test_other_systems(api: Api, core: str, namespace: str, system: str) -> None:
    """Only Linux can resize pods; a resize that changes nothing is not checked."""
    node = create_node(api, f"{namespace}-node", system)
    body = create_pod(api, core, node)
    assert resize(api, core, body).status == 200
    assert resize(api, core, body, cpu="500m").message == (
        f'pods "p" is forbidden: pod resize is only supported on linux nodes, node "{node}" is '
        f'"{system}"'
    )


def test_missing_node(api: Api, core: str) -> None:
    """A pod of a missing node cannot be resized; one without a node can."""
    body = create_pod(api, core, "gone")
    assert resize(api, core, body, cpu="500m").message == (
        'pods "p" is forbidden: node "gone" not found'
    )
    api.delete(f"{core}/pods/p", {"gracePeriodSeconds": 0})
    assert resize(api, core, create_pod(api, core, ""), cpu="500m").status == 200


GUARANTEED = "GuaranteedQoSPodCPUResize"


def test_declared_features(api: Api, core: str, namespace: str) -> None:
    """A resize that needs a feature is refused unless the node declares it."""
    node = create_node(api, f"{namespace}-node")
    body = create_pod(api, core, node, limits=SIZE)
    assert body["status"]["qosClass"] == "Guaranteed"
    refused = resize(api, core, body, cpu="500m")
    assert (refused.status, refused.message) == (
        403,
        f'pods "p" is forbidden: pod update requires features {GUARANTEED} which are not available '
        f'on node "{node}"',
    )
    assert resize(api, core, body, memory="512Mi").status == 200
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert api.patch(f"{core}/pods/p", labels).status == 200
    features = {"status": {"declaredFeatures": [GUARANTEED]}}
    assert api.patch(f"/api/v1/nodes/{node}/status", features).status == 200
    body = api.get(f"{core}/pods/p").json
    assert resize(api, core, body, cpu="500m").status == 200


def test_burstable(api: Api, core: str, namespace: str) -> None:
    """The CPU of a pod that is not Guaranteed needs no feature."""
    body = create_pod(api, core, create_node(api, f"{namespace}-node"))
    assert resize(api, core, body, cpu="500m").status == 200
