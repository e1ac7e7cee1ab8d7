"""managedFields after the writes that kubectl makes, compared with those of kube-apiserver."""

from typing import Any

import pytest
import yaml

DEPLOYMENT = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "nginx", "image": "nginx"}]},
        },
    },
}
OF_DEPLOYMENT = """
f:metadata:
  f:labels: {".": {}, "f:app": {}}
f:spec:
  f:progressDeadlineSeconds: {}
  f:replicas: {}
  f:revisionHistoryLimit: {}
  f:selector: {}
  f:strategy:
    f:rollingUpdate: {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}
    f:type: {}
  f:template:
    f:metadata:
      f:labels: {".": {}, "f:app": {}}
    f:spec:
      f:containers:
        'k:{"name":"nginx"}':
          .: {}
          f:image: {}
          f:imagePullPolicy: {}
          f:name: {}
          f:resources: {}
          f:terminationMessagePath: {}
          f:terminationMessagePolicy: {}
      f:dnsPolicy: {}
      f:restartPolicy: {}
      f:schedulerName: {}
      f:securityContext: {}
      f:terminationGracePeriodSeconds: {}
"""
SERVICE = {
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
}
OF_SERVICE = """
f:spec:
  f:internalTrafficPolicy: {}
  f:ports:
    .: {}
    'k:{"port":80,"protocol":"TCP"}':
      .: {}
      f:port: {}
      f:protocol: {}
      f:targetPort: {}
  f:selector: {}
  f:sessionAffinity: {}
  f:type: {}
"""
NAMESPACE = {"metadata": {"name": "owned"}}
OF_NAMESPACE = """
f:metadata:
  f:labels: {".": {}, "f:kubernetes.io/metadata.name": {}}
"""
SECRET = {"metadata": {"name": "keys"}, "stringData": {"a": "1"}}
OF_SECRET = """
f:data: {".": {}, "f:a": {}}
f:type: {}
"""
CREATED = {
    "deployments": ("/apis/apps/v1/namespaces/{}/deployments", DEPLOYMENT, OF_DEPLOYMENT),
    "services": ("/api/v1/namespaces/{}/services", SERVICE, OF_SERVICE),
    "namespaces": ("/api/v1/namespaces", NAMESPACE, OF_NAMESPACE),
    "secrets": ("/api/v1/namespaces/{}/secrets", SECRET, OF_SECRET),
}


def entries(obj: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """The managedFields of an object by manager and subresource."""
    return {
        (entry["manager"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in obj["metadata"]["managedFields"]
    }


@pytest.mark.parametrize(("path", "body", "fields"), CREATED.values(), ids=CREATED)
def test_created(api, namespace, path, body, fields) -> None:
    """The creator of an object owns the fields of its request and their defaults, but not allocated
    values."""
    created = api.post(f"{path.format(namespace)}?fieldManager=kubectl-create", body)
    assert created.status == 201, created.body
    assert entries(created.json) == {("kubectl-create", ""): yaml.safe_load(fields)}


def test_changed(api, apps) -> None:
    """A scale, a label and a status update each own the fields they changed; the creator owns the
    others."""
    path = f"{apps}/deployments/web"
    api.post(f"{apps}/deployments?fieldManager=kubectl-create", DEPLOYMENT)
    api.patch(f"{path}/scale?fieldManager=kubectl", {"spec": {"replicas": 3}})
    api.patch(f"{path}?fieldManager=kubectl-label", {"metadata": {"labels": {"new": "one"}}})
    condition = {"type": "Available", "status": "True"}
    status = {"status": {"observedGeneration": 2, "conditions": [condition]}}
    api.patch(f"{path}/status?fieldManager=controller", status)
    owners = entries(api.get(path).json)
    rest = yaml.safe_load(OF_DEPLOYMENT)
    del rest["f:spec"]["f:replicas"]
    conditions = {
        ".": {},
        'k:{"type":"Available"}': {
            ".": {},
            "f:lastTransitionTime": {},
            "f:lastUpdateTime": {},
            "f:status": {},
            "f:type": {},
        },
    }
    assert owners == {
        ("kubectl-create", ""): rest,
        ("kubectl", "scale"): {"f:spec": {"f:replicas": {}}},
        ("kubectl-label", ""): {"f:metadata": {"f:labels": {"f:new": {}}}},
        ("controller", "status"): {
            "f:status": {"f:conditions": conditions, "f:observedGeneration": {}}
        },
    }


def test_reset(api, core) -> None:
    """A list with one empty entry removes all owners. An empty list, or none, changes nothing."""
    path = f"{core}/configmaps/a"
    created = api.post(
        f"{core}/configmaps?fieldManager=me", {"metadata": {"name": "a"}, "data": {"k": "1"}}
    )
    managed_fields = created.json["metadata"]["managedFields"]
    for value in ([], None):
        response = api.patch(path, {"metadata": {"managedFields": value}})
        assert response.json["metadata"]["managedFields"] == managed_fields
    response = api.patch(path, {"metadata": {"managedFields": [{}]}})
    assert response.status == 200
    assert "managedFields" not in response.json["metadata"]
