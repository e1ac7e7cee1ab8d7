"""ResourceQuotas over HTTP: charged by creates, recalculated after deletions."""

from __future__ import annotations

import pytest

from tests.controllers.waiting import wait_until


def pod(name, *, cpu=None, **spec):
    """A pod with a CPU request."""
    container = {"name": "c", "image": "i"}
    if cpu is not None:
        container["resources"] = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


@pytest.fixture
def limit(api, core):
    """Returns a function that creates a quota and waits for its status."""

    def call(hard, name="q", **spec):
        body = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
        assert api.post(f"{core}/resourcequotas", body).status == 201
        return wait_until(
            api,
            f"{core}/resourcequotas",
            name,
            lambda obj: obj["status"].get("hard") == hard and obj["status"].keys() >= {"used"},
        )["status"]["used"]

    return call


@pytest.fixture
def used(api, core):
    """Returns a function that waits until a quota has these used amounts."""

    def call(amounts, name="q"):
        wait_until(
            api,
            f"{core}/resourcequotas",
            name,
            lambda obj: amounts.items() <= obj["status"]["used"].items(),
        )

    return call


def test_over_quota(api, core, limit, used):
    """A pod beyond the quota is refused, and deleting one makes room."""
    assert limit({"pods": "1", "count/pods": "5"}) == {"pods": "0", "count/pods": "0"}
    assert api.post(f"{core}/pods", pod("a")).status == 201
    assert api.get(f"{core}/resourcequotas/q").json["status"]["used"] == {
        "count/pods": "1",
        "pods": "1",
    }
    response = api.post(f"{core}/pods", pod("b"))
    assert response.status == 403
    assert response.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    api.delete(f"{core}/pods/a")
    used({"pods": "0", "count/pods": "0"})
    assert api.post(f"{core}/pods", pod("b")).status == 201


def test_compute(api, core, limit):
    """The requests of containers are added up, and each container must have one."""
    limit({"requests.cpu": "1", "limits.cpu": "2", "requests.example.com/gpu": "1"})
    without_requests = api.post(f"{core}/pods", pod("a"))
    assert without_requests.message == (
        'pods "a" is forbidden: failed quota: q: must specify limits.cpu for: c; '
        "requests.cpu for: c"
    )
    assert api.post(f"{core}/pods", pod("a", cpu="600m")).status == 201
    response = api.post(f"{core}/pods", pod("b", cpu="500m"))
    assert response.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=500m, '
        "used: requests.cpu=600m, limited: requests.cpu=1"
    )
    status = api.get(f"{core}/resourcequotas/q").json["status"]
    assert status["used"] == {
        "limits.cpu": "600m",
        "requests.cpu": "600m",
        "requests.example.com/gpu": "0",
    }


def test_ended_pods(api, core, limit, used):
    """A pod that has ended uses no quota."""
    limit({"pods": "1", "cpu": "1"})
    api.post(f"{core}/pods", pod("a", cpu="1"))
    api.patch(f"{core}/pods/a/status", {"status": {"phase": "Succeeded"}})
    used({"pods": "0", "cpu": "0"})


def test_failed_write(api, core, limit, used):
    """The charge of an object that was not stored is taken back."""
    limit({"configmaps": "3"})
    assert api.post(f"{core}/configmaps", {"metadata": {"name": "a"}}).status == 201
    assert api.post(f"{core}/configmaps", {"metadata": {"name": "a"}}).status == 409
    usage = api.get(f"{core}/resourcequotas/q").json["status"]["used"]
    assert usage in ({"configmaps": "2"}, {"configmaps": "1"})  # taken back within seconds
    used({"configmaps": "1"})


@pytest.mark.parametrize(
    ("hard", "path", "body"),
    [
        ("count/deployments.apps", "deployments", {"kind": "Deployment"}),
        ("count/replicasets.apps", "replicasets", {"kind": "ReplicaSet"}),
    ],
)
def test_counts(api, apps, limit, hard, path, body):
    """Objects of any kind can be counted."""
    limit({hard: "0"})
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    response = api.post(f"{apps}/{path}", {"metadata": {"name": "x"}, "spec": spec, **body})
    assert response.message == (
        f'{path}.apps "x" is forbidden: exceeded quota: q, requested: {hard}=1, '
        f"used: {hard}=0, limited: {hard}=0"
    )


def test_services(api, core, limit, used):
    """Node ports and load balancers are counted, also when a Service is updated."""
    limit({"services": "5", "services.nodeports": "2", "services.loadbalancers": "1"})
    ports = [{"name": name, "port": 80 + i} for i, name in enumerate("ab")]
    body = {"metadata": {"name": "s"}, "spec": {"ports": ports, "type": "NodePort"}}
    assert api.post(f"{core}/services", body).status == 201
    used({"services": "1", "services.nodeports": "2", "services.loadbalancers": "0"})
    third = {"spec": {"ports": [*ports, {"name": "c", "port": 90}]}}
    response = api.patch(f"{core}/services/s", third)
    assert response.message == (
        'services "s" is forbidden: exceeded quota: q, requested: services.nodeports=1, '
        "used: services.nodeports=2, limited: services.nodeports=2"
    )
    api.patch(f"{core}/services/s", {"spec": {"type": "LoadBalancer"}})
    used({"services.loadbalancers": "1"})


def test_claims(api, core, limit):
    """Claims and their requests are counted, also by storage class."""
    gold = "gold.storageclass.storage.k8s.io"
    limit({"requests.storage": "3Gi", f"{gold}/persistentvolumeclaims": "1"})
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "gold",
    }
    path = f"{core}/persistentvolumeclaims"
    assert api.post(path, {"metadata": {"name": "a"}, "spec": spec}).status == 201
    response = api.post(path, {"metadata": {"name": "b"}, "spec": spec})
    assert response.message == (
        'persistentvolumeclaims "b" is forbidden: exceeded quota: q, requested: '
        f"{gold}/persistentvolumeclaims=1,requests.storage=2Gi, used: "
        f"{gold}/persistentvolumeclaims=1,requests.storage=2Gi, limited: "
        f"{gold}/persistentvolumeclaims=1,requests.storage=3Gi"
    )


@pytest.mark.parametrize(
    ("scopes", "inside", "outside"),
    [
        (["BestEffort"], {}, {"cpu": "1"}),
        (["NotBestEffort"], {"cpu": "1"}, {}),
        (["Terminating"], {"activeDeadlineSeconds": 5}, {}),
        (["NotTerminating"], {}, {"activeDeadlineSeconds": 5}),
    ],
)
def test_scopes(api, core, limit, scopes, inside, outside):
    """A quota with scopes counts the pods that match all of them."""
    limit({"pods": "0"}, scopes=scopes)
    assert api.post(f"{core}/pods", pod("a", **inside)).status == 403
    assert api.post(f"{core}/pods", pod("b", **outside)).status == 201


def test_scope_selector(api, core, limit):
    """A quota can select pods by priority class."""
    selector = {
        "matchExpressions": [
            {
                "scopeName": "PriorityClass",
                "operator": "In",
                "values": ["system-node-critical"],
            }
        ]
    }
    limit({"pods": "0"}, scopeSelector=selector)
    urgent = pod("a", priorityClassName="system-node-critical")
    assert "exceeded quota" in api.post(f"{core}/pods", urgent).message
    assert api.post(f"{core}/pods", pod("b")).status == 201


def test_dry_run(api, core, limit):
    """A dry run is checked against the quota and not charged."""
    limit({"secrets": "1"})
    path = f"{core}/secrets?dryRun=All"
    assert api.post(path, {"metadata": {"name": "a"}}).status == 201
    assert api.get(f"{core}/resourcequotas/q").json["status"]["used"] == {"secrets": "0"}


def test_status_is_repaired(api, core, limit, used):
    """The controller overwrites a status that a client wrote."""
    limit({"pods": "1"})
    wrong_status = {"status": {"hard": {"pods": "9"}, "used": {"pods": "7"}}}
    api.patch(f"{core}/resourcequotas/q/status", wrong_status)
    used({"pods": "0"})
