"""Protection of claims and volumes in use, and PodDisruptionBudgets, over HTTP."""

from __future__ import annotations

import pytest

from tests.controllers.waiting import until_gone, wait_until

CLAIM = {
    "metadata": {"name": "c"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
LABELS = {"app": "a"}


def pod(name, **spec):
    """A pod of the application."""
    containers = [{"name": "c", "image": "i"}]
    return {
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"containers": containers, **spec},
    }


def make_ready(api, core, name):
    """Set a pod's Ready condition, as a kubelet does."""
    condition = {"type": "Ready", "status": "True"}
    response = api.patch(f"{core}/pods/{name}/status", {"status": {"conditions": [condition]}})
    assert response.status == 200, response.body


def test_unused_claim(api, core):
    """An unused claim is deleted at once."""
    created = api.post(f"{core}/persistentvolumeclaims", CLAIM).json
    assert created["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert api.delete(f"{core}/persistentvolumeclaims/c").status == 200
    until_gone(api, f"{core}/persistentvolumeclaims", "c")


def test_used_claim(api, core):
    """A claim that a scheduled pod uses is deleted after the pod."""
    api.post(f"{core}/persistentvolumeclaims", CLAIM)
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    api.post(f"{core}/pods", pod("p", volumes=[volume], nodeName="n"))
    api.delete(f"{core}/persistentvolumeclaims/c")
    # The deletion of an unused claim shows that the controller has run.
    api.post(f"{core}/persistentvolumeclaims", {**CLAIM, "metadata": {"name": "d"}})
    api.delete(f"{core}/persistentvolumeclaims/d")
    until_gone(api, f"{core}/persistentvolumeclaims", "d")
    assert api.get(f"{core}/persistentvolumeclaims/c").status == 200
    api.delete(f"{core}/pods/p", {"gracePeriodSeconds": 0})
    until_gone(api, f"{core}/persistentvolumeclaims", "c")


def test_bound_volume(api):
    """A volume is deleted when it is no longer bound."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
    }
    name = api.post(
        "/api/v1/persistentvolumes", {"metadata": {"generateName": "v-"}, "spec": spec}
    ).json["metadata"]["name"]
    path = f"/api/v1/persistentvolumes/{name}"
    api.patch(f"{path}/status", {"status": {"phase": "Bound"}})
    api.delete(path)
    api.patch(f"{path}/status", {"status": {"phase": "Released"}})
    until_gone(api, "/api/v1/persistentvolumes", name)


@pytest.fixture
def budget(api, namespace):
    """Returns a function that creates a budget and waits for its status."""
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"

    def call(**spec):
        body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}
        response = api.post(path, body)
        assert response.status == 201, response.body

    def status(**expected):
        return wait_until(api, path, "b", lambda obj: expected.items() <= obj["status"].items())[
            "status"
        ]

    call.status = status
    return call


def test_budget(api, core, budget):
    """A budget counts pods that are ready."""
    budget(minAvailable=1)
    status = budget.status(observedGeneration=1, expectedPods=0, desiredHealthy=1)
    assert [(condition["status"], condition["reason"]) for condition in status["conditions"]] == [
        ("False", "InsufficientPods")
    ]
    for name in "ab":
        api.post(f"{core}/pods", pod(name))
        make_ready(api, core, name)
    status = budget.status(expectedPods=2, currentHealthy=2, disruptionsAllowed=1)
    assert status["conditions"][0]["reason"] == "SufficientPods"
    eviction = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "a"}}
    assert api.post(f"{core}/pods/a/eviction", eviction).status == 201
    budget.status(expectedPods=1, currentHealthy=1, disruptionsAllowed=0)


def test_budget_of_a_controller(api, core, apps, budget):
    """A percentage refers to the replicas of the pods' controller."""
    spec = {
        "replicas": 4,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    owner = api.post(f"{apps}/replicasets", {"metadata": {"name": "r"}, "spec": spec}).json
    reference = {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "name": "r",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    body = pod("a")
    body["metadata"]["ownerReferences"] = [reference]
    api.post(f"{core}/pods", body)
    budget(maxUnavailable="50%")
    budget.status(expectedPods=4, desiredHealthy=2, disruptionsAllowed=0)
    api.patch(f"{apps}/replicasets/r", {"spec": {"replicas": 1}})
    budget.status(expectedPods=1, desiredHealthy=0)
