"""Garbage collection and namespace deletion over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from kapiserver.controllers.registry import CONTROLLER_NAMES, enabled_controllers
from kapiserver.simulation.controllers import CONTROLLERS
from tests.apiserver.admission.policykit import GROUP, VALIDATING, Cluster
from tests.controllers.waiting import until_gone, wait_until


def owned_by(owner, kind="ConfigMap", version="v1", *, block=None) -> dict[str, Any]:
    """An owner reference to an object of a response."""
    metadata = owner["metadata"]
    reference = {"kind": kind, "apiVersion": version}
    reference |= {"name": metadata["name"], "uid": metadata["uid"]}
    return reference if block is None else {**reference, "blockOwnerDeletion": block}


@pytest.fixture
def make(api, core):
    """Returns a function that creates a ConfigMap with owners."""

    def call(name, *owners, path=f"{core}/configmaps", **metadata):
        metadata |= {"name": name, "ownerReferences": list(owners)}
        response = api.post(path, {"metadata": metadata})
        assert response.status == 201, response.body
        return response.json

    return call


def test_background(api, core, make):
    """The dependents of a deleted owner are deleted, and so are theirs."""
    owner = make("owner")
    child = make("child", owned_by(owner))
    make("grandchild", owned_by(child))
    make("bystander")
    api.delete(f"{core}/configmaps/owner")
    until_gone(api, f"{core}/configmaps", "grandchild")
    assert api.get(f"{core}/configmaps/child").status == 404
    assert api.get(f"{core}/configmaps/bystander").status == 200


def test_absent_owner(api, core, make):
    """An object whose owner does not exist, or has another uid, is deleted."""
    owner = make("owner")
    make("late", {**owned_by(owner), "uid": "another"})
    until_gone(api, f"{core}/configmaps", "late")


def test_one_owner_left(api, core, make):
    """An object stays while one of its owners exists, and loses the references to the others."""
    first, second = make("one"), make("other")
    make("child", owned_by(first), owned_by(second))
    api.delete(f"{core}/configmaps/one")
    child = wait_until(
        api,
        f"{core}/configmaps",
        "child",
        lambda obj: len(obj["metadata"].get("ownerReferences", ())) == 1,
    )
    assert child["metadata"]["ownerReferences"] == [owned_by(second)]
    assert api.get(f"{core}/configmaps/other").status == 200


def test_foreground(api, core, make):
    """An owner deleted in the foreground is deleted after the dependents that block it; the other
    dependents follow."""
    owner = make("owner")
    make("blocking", owned_by(owner, block=True), finalizers=["test/held"])
    make("other", owned_by(owner))
    api.delete(f"{core}/configmaps/owner", {"propagationPolicy": "Foreground"})
    blocked = wait_until(
        api,
        f"{core}/configmaps",
        "blocking",
        lambda obj: "deletionTimestamp" in obj["metadata"],
    )
    assert api.get(f"{core}/configmaps/owner").json["metadata"]["finalizers"] == [
        "foregroundDeletion"
    ]
    blocked["metadata"].pop("finalizers")
    api.patch(f"{core}/configmaps/blocking", {"metadata": {"finalizers": None}})
    until_gone(api, f"{core}/configmaps", "owner")
    assert api.get(f"{core}/configmaps/blocking").status == 404
    until_gone(api, f"{core}/configmaps", "other")


def test_orphans(api, core, make):
    """With policy Orphan an owner is deleted after its dependents have lost their reference."""
    owner = make("owner")
    make("child", owned_by(owner))
    api.delete(f"{core}/configmaps/owner", {"propagationPolicy": "Orphan"})
    until_gone(api, f"{core}/configmaps", "owner")
    assert "ownerReferences" not in api.get(f"{core}/configmaps/child").json["metadata"]


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_circle(api, core, make, policy):
    """Three objects that own each other in a circle are all deleted when one is."""
    first = make("first")
    second = make("second", owned_by(first, block=True))
    third = make("third", owned_by(second, block=True))
    owners = [owned_by(third, block=True)]
    api.patch(f"{core}/configmaps/first", {"metadata": {"ownerReferences": owners}})
    api.delete(f"{core}/configmaps/second", {"propagationPolicy": policy})
    for name in ("first", "second", "third"):
        until_gone(api, f"{core}/configmaps", name)


def test_owner_of_another_kind(api, core, apps, make):
    """Owners may be of any served kind; an owner of an unknown kind keeps its dependents."""
    deployment = {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    owner = api.post(f"{apps}/deployments", deployment).json
    make("child", owned_by(owner, "Deployment", "apps/v1"))
    make("strange", {**owned_by(owner), "kind": "Oddity", "apiVersion": "odd.example/v1"})
    api.delete(f"{apps}/deployments/d")
    until_gone(api, f"{core}/configmaps", "child")
    assert api.get(f"{core}/configmaps/strange").status == 200


def test_owner_in_another_namespace(api, core, make):
    """An owner in another namespace counts as absent, and a warning event says so."""
    other_namespace = api.post("/api/v1/namespaces", {"metadata": {"generateName": "other-"}}).json
    other_path = f"/api/v1/namespaces/{other_namespace['metadata']['name']}/configmaps"
    owner = make("far", path=other_path)
    make("child", owned_by(owner))
    until_gone(api, f"{core}/configmaps", "child")
    event = until_event(api, "child", f"{core}/events")
    assert (event["reason"], event["type"]) == ("OwnerRefInvalidNamespace", "Warning")
    assert "does not exist in namespace" in event["message"]


def test_namespaced_owner_of_a_cluster_scoped_object(api, make):
    """A cluster-scoped object with a namespaced owner is never collected."""
    owner = make("owner")
    body = {"metadata": {"generateName": "pv-", "ownerReferences": [owned_by(owner)]}}
    node = api.post("/api/v1/nodes", body).json
    name = node["metadata"]["name"]
    event = until_event(api, name)
    assert event["reason"] == "OwnerRefInvalidNamespace"
    assert api.get(f"/api/v1/nodes/{name}").status == 200


def until_event(api, name, events="/api/v1/events"):
    """The first event about an object with that name."""
    path = f"{events}?watch=1&timeoutSeconds=60"
    with api.watch(f"{path}&fieldSelector=involvedObject.name={name}") as stream:
        return stream.event()["object"]


# Namespaces.


@pytest.fixture
def leaving(api):
    """A namespace of one test."""
    response = api.post("/api/v1/namespaces", {"metadata": {"generateName": "leaving-"}})
    return response.json["metadata"]["name"]


def test_namespace_deletion(api, leaving):
    """Deleting a namespace deletes its objects; it can be created again, empty."""
    namespace_path = f"/api/v1/namespaces/{leaving}"
    api.post(f"{namespace_path}/configmaps", {"metadata": {"name": "a"}})
    api.post(
        f"{namespace_path}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    )
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    api.post(f"{namespace_path}/pods", pod)
    assert api.delete(namespace_path).status == 200
    until_gone(api, "/api/v1/namespaces", leaving)
    assert api.get(f"{namespace_path}/configmaps").json["items"] == []
    assert api.post("/api/v1/namespaces", {"metadata": {"name": leaving}}).status == 201
    assert api.get(f"{namespace_path}/services").json["items"] == []
    assert api.get(f"{namespace_path}/pods").json["items"] == []


def test_namespace_conditions(api, leaving):
    """Conditions say what blocks the deletion of a namespace, which ends as soon as nothing
    does."""
    namespace_path = f"/api/v1/namespaces/{leaving}"
    finalized = {"metadata": {"name": "a", "finalizers": ["test/held"]}}
    api.post(f"{namespace_path}/configmaps", finalized)
    api.delete(namespace_path)
    namespace = wait_until(
        api, "/api/v1/namespaces", leaving, lambda obj: "conditions" in obj["status"]
    )
    assert namespace["status"]["phase"] == "Terminating"
    conditions = {
        condition["type"]: (condition["status"], condition["message"])
        for condition in namespace["status"]["conditions"]
    }
    assert conditions["NamespaceContentRemaining"] == (
        "True",
        "Some resources are remaining: configmaps. has 1 resource instances",
    )
    assert conditions["NamespaceFinalizersRemaining"] == (
        "True",
        "Some content in the namespace has finalizers remaining: test/held in 1 resource instances",
    )
    assert conditions["NamespaceDeletionContentFailure"][0] == "False"
    response = api.post(f"{namespace_path}/configmaps", {"metadata": {"name": "b"}})
    assert response.status == 403
    api.patch(f"{namespace_path}/configmaps/a", {"metadata": {"finalizers": None}})
    until_gone(api, "/api/v1/namespaces", leaving)


def test_refused_deletion_of_content(api):
    """If admission refuses to delete the content of a namespace, a condition says why, and the
    controller tries again."""
    cluster = Cluster(api)
    name = cluster.validate({"expression": "false", "message": "keep it"}, operations=["DELETE"])
    assert cluster.config_map("kept").status == 201
    api.delete(f"/api/v1/namespaces/{cluster.namespace}")

    def failure(obj):
        conditions = {each["type"]: each for each in obj["status"].get("conditions") or ()}
        return conditions.get("NamespaceDeletionContentFailure")

    namespace = wait_until(api, "/api/v1/namespaces", cluster.namespace, failure)
    condition = failure(namespace)
    assert (condition["status"], condition["reason"]) == ("True", "ContentDeletionFailed")
    assert condition["message"].startswith("Failed to delete all resource types, 1 remaining: ")
    assert condition["message"].endswith("denied request: keep it")
    assert api.delete(f"{GROUP}/{VALIDATING}ybindings/{name}").status == 200
    until_gone(api, "/api/v1/namespaces", cluster.namespace)


def test_pods_go_first(api, leaving):
    """The other objects of a namespace are deleted after its pods."""
    namespace_path = f"/api/v1/namespaces/{leaving}"
    pod = {
        "metadata": {"name": "p", "finalizers": ["test/held"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    api.post(f"{namespace_path}/pods", pod)
    api.post(f"{namespace_path}/configmaps", {"metadata": {"name": "a"}})
    api.delete(namespace_path)
    wait_until(api, "/api/v1/namespaces", leaving, lambda obj: "conditions" in obj["status"])
    assert api.get(f"{namespace_path}/configmaps/a").status == 200
    api.patch(f"{namespace_path}/pods/p", {"metadata": {"finalizers": None}})
    until_gone(api, "/api/v1/namespaces", leaving)


# Which controllers run.


def test_off(make_server):
    """A controller that is turned off does nothing, and the others work."""
    api = make_server(controllers=("*", "-garbagecollector")).api
    owner = api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "o"}}).json
    child = {"metadata": {"name": "c", "ownerReferences": [owned_by(owner)]}}
    api.post("/api/v1/namespaces/default/configmaps", child)
    api.post("/api/v1/namespaces", {"metadata": {"name": "leaving"}})
    api.delete("/api/v1/namespaces/default/configmaps/o")
    api.delete("/api/v1/namespaces/leaving")
    until_gone(api, "/api/v1/namespaces", "leaving")
    assert api.get("/api/v1/namespaces/default/configmaps/c").status == 200


OFF_IN_KUBERNETES = {"bootstrap-signer-controller", "token-cleaner-controller"}
WORKLOADS = set(CONTROLLERS) & set(CONTROLLER_NAMES)
DEFAULT_NAMES = set(CONTROLLER_NAMES) - OFF_IN_KUBERNETES - WORKLOADS


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["*"], DEFAULT_NAMES),
        (["*", "bootstrapsigner", "tokencleaner"], DEFAULT_NAMES | OFF_IN_KUBERNETES),
        (["*", *WORKLOADS], DEFAULT_NAMES | WORKLOADS),
        (["*", "-garbagecollector"], DEFAULT_NAMES - {"garbage-collector-controller"}),
        (["namespace"], {"namespace-controller"}),
        (["namespace-controller", "-namespace"], {"namespace-controller"}),
        (["-*"], set()),
        ([], set()),
    ],
)
def test_enabled_controllers(flags, names):
    """`*` selects the default controllers, `-NAME` removes one; names are those of
    kube-controller-manager."""
    assert enabled_controllers(flags) == names


def test_unknown_controller():
    """An unknown name is an error."""
    with pytest.raises(ValueError, match='"oops" is not in the list of known controllers'):
        enabled_controllers(["*", "-oops"])
