"""PodDisruptionBudgets of a server whose clock the test moves."""

from __future__ import annotations

import pytest

from kapiserver.testing import TestServer
from tests.times import text_of

LABELS = {"app": "web"}
TARGET = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size",
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def started():
    # Without the garbage collector pods may have owners that do not exist.
    with TestServer(controllers=["-garbage-collector-controller", "*"]) as server:
        yield server


@pytest.fixture
def server(started):
    started.reset()
    return started


def budget(**spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": LABELS}, **spec},
    }


def pod(name, owner=None, *conditions):
    metadata = {"name": name, "labels": LABELS}
    if owner is not None:
        version, kind, uid = owner["apiVersion"], owner["kind"], owner["metadata"]["uid"]
        reference = {"apiVersion": version, "kind": kind, "name": owner["metadata"]["name"]}
        metadata["ownerReferences"] = [reference | {"uid": uid, "controller": True}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, *conditions]},
    }


def status_of(server):
    server.clock.advance("1s")
    return server.objects.wait_for("pdb/web", "create")["status"]


def events_of(server):
    async def read():
        async with server.client() as client:
            events = client.resource("v1", "events", namespace="default")
            return {(each["reason"], each["message"]) for each in (await events.list())["items"]}

    return server.run(read())


def reason_of(status):
    (condition,) = status["conditions"]
    return condition["reason"], condition["message"]


def test_custom_resource(server):
    """The replicas of any owner with the subresource scale count."""
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    _, owner = server.state.load([WIDGETS, widget | {"spec": {"size": 4}}])
    server.state.load([pod("a", owner), pod("b", owner), budget(maxUnavailable="50%")])
    status = status_of(server)
    assert (status["expectedPods"], status["desiredHealthy"]) == (4, 2)
    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (2, 0)
    server.state.load([pod("c", owner)])
    assert status_of(server)["disruptionsAllowed"] == 1


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o"}},
            "configmaps does not implement the scale subresource",
        ),
        (
            {"apiVersion": "example.com/v1", "kind": "Gone", "metadata": {"name": "o", "uid": "1"}},
            'no matches for kind "Gone" in version "example.com/v1"',
        ),
        (
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "o", "uid": "1"}},
            'found no controllers for pod "a"',
        ),
    ],
)
def test_unknown_scale(server, owner, message):
    """No disruption is allowed if the replicas are not known."""
    if owner["kind"] == "ConfigMap":
        (owner,) = server.state.load([owner])
    before = [pod(name, owner) for name in "abc"]
    server.state.load([*before, budget(minAvailable=1)])
    assert status_of(server)["disruptionsAllowed"] == 2
    server.state.load([budget(maxUnavailable=1)])
    status = status_of(server)
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (0, 3)
    assert reason_of(status) == ("SyncFailed", message)
    failure = f"Failed to calculate the number of expected pods: {message}"
    assert ("CalculateExpectedPodCountFailed", failure) in events_of(server)


def test_pods_that_are_missing_or_unmanaged(server):
    server.state.load([budget(maxUnavailable=1)])
    assert status_of(server)["expectedPods"] == 0
    assert ("NoPods", "No matching pods found") in events_of(server)
    server.state.load([pod("a")])
    assert reason_of(status_of(server)) == ("InsufficientPods", "")
    (message,) = [text for reason, text in events_of(server) if reason == "UnmanagedPods"]
    assert message.startswith(
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:"
        "map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found "
        "to be unmanaged."
    )


def test_stale_disruption(server):
    """A pod that is not deleted after all loses the condition DisruptionTarget."""
    server.clock.freeze()
    since = {"lastTransitionTime": text_of(server.clock.now())}
    server.state.load([budget(minAvailable=1), pod("a", None, TARGET | since)])
    server.clock.advance("118s")
    conditions = server.objects.wait_for("pod/a", "create")["status"]["conditions"]
    assert conditions[1]["status"] == "True"
    server.clock.advance("2s")
    conditions = server.objects.wait_for("pod/a", "create")["status"]["conditions"]
    assert (conditions[1]["status"], "reason" in conditions[1]) == ("False", False)
    server.clock.resume()


def test_eviction_that_does_not_delete(server):
    """An evicted pod that stays counts again after two minutes, which an event reports."""
    server.clock.freeze()
    first, *_ = server.state.load([budget(minAvailable=1), pod("a"), pod("b")])
    assert status_of(server)["disruptionsAllowed"] == 1
    time = text_of(server.clock.now())
    status = status_of(server) | {"disruptedPods": {"a": time}}
    server.state.load([first | {"status": status}])
    assert status_of(server)["disruptionsAllowed"] == 0
    server.clock.advance("2m")
    status = status_of(server)
    assert (status["disruptionsAllowed"], "disruptedPods" in status) == (1, False)
    message = "Pod was expected by PDB default/default to be deleted but it wasn't"
    assert ("NotDeleted", message) in events_of(server)
    server.clock.resume()
