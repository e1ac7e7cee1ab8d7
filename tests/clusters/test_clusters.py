"""What a logical cluster is: its objects, definitions, roles and life."""

from __future__ import annotations

import base64
import copy

import pytest

from kapiserver.api.resource_client import StatusError
from tests.clusters.clusterkit import CLUSTERS, MAP, MAPS, Kit

WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
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
            }
        ],
    },
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_objects(kit: Kit) -> None:
    """Each cluster has objects of its own, and the management cluster has none of them."""
    one, two = kit.create(), kit.create()
    assert kit.request(one, "POST", MAPS, MAP).code == 201
    assert kit.request(two, "POST", MAPS, MAP | {"data": {"a": "2"}}).code == 201
    assert kit.request(one, "GET", f"{MAPS}/x").body["data"] == {"a": "1"}
    assert kit.request(two, "GET", f"{MAPS}/x").body["data"] == {"a": "2"}
    assert kit.management("GET", f"{MAPS}/x").code == 404
    assert kit.management("GET", f"/clusters/{one.name}{MAPS}/x").body["data"] == {"a": "1"}


@pytest.mark.slow
def test_the_start_of_a_cluster() -> None:
    """A new cluster has what a new server has, and the binding of its administrator."""
    paths = (
        "/api/v1/namespaces",
        "/api/v1/namespaces/kube-system/serviceaccounts",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/networking.k8s.io/v1/servicecidrs",
    )
    with Kit.running(seed=1) as kit:
        kit.server.clock.advance("20s")
        access = kit.create()
        for path in paths:
            own, plain = kit.request(access, "GET", path).names, kit.management("GET", path).names
            added = {
                "kapiserver:cluster-admins",
                "kapiserver-clusters",
                "v1.clusters.kapiserver.dev",
            }
            assert set(own) - added == set(plain) - added
            assert own


def test_a_new_cluster_has_no_rows(kit: Kit) -> None:
    """What every cluster has takes no rows, until the cluster changes it."""
    access = kit.create()
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"
    role = kit.request(access, "GET", path).body
    uid = kit.management("GET", f"{CLUSTERS}/{access.name}").body["metadata"]["uid"]
    assert [row for row in kit.rows(f"{uid}/") if "/kapiserver/" not in row] == []
    role["metadata"]["labels"]["mine"] = "1"
    changed = kit.request(access, "PUT", path, role).body
    assert int(changed["metadata"]["resourceVersion"]) > int(role["metadata"]["resourceVersion"])
    assert [row for row in kit.rows(f"{uid}/") if "/kapiserver/" not in row] == [
        f"/{uid}/clusterroles/view"
    ]
    assert "mine" not in kit.request(kit.create(), "GET", path).body["metadata"]["labels"]
    assert kit.request(access, "DELETE", path).code == 200
    assert kit.request(access, "GET", path).code == 404
    assert kit.request(kit.create(), "GET", path).code == 200


def test_definitions_and_discovery(kit: Kit) -> None:
    """A definition, its resource in discovery and its OpenAPI document are of one cluster."""
    one, two = kit.create(), kit.create()
    assert kit.request(one, "POST", DEFINITIONS, WIDGETS).code == 201
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    kit.wait(lambda: kit.request(one, "POST", widgets, widget).code in (201, 409))
    assert kit.request(one, "GET", "/apis/example.com/v1").code == 200
    kit.wait(lambda: "apis/example.com/v1" in kit.request(one, "GET", "/openapi/v3").body["paths"])
    for answer in (
        kit.request(two, "GET", "/apis/example.com/v1"),
        kit.request(two, "GET", widgets),
        kit.management("GET", widgets),
    ):
        assert answer.code == 404
    assert "apis/example.com/v1" not in kit.request(two, "GET", "/openapi/v3").body["paths"]


@pytest.mark.slow
def test_openapi_documents(kit: Kit) -> None:
    """Clusters share the documents of built-in groups; definitions of one name have each their own
    schema."""
    one, two = kit.create(), kit.create()
    for access, field in ((one, "first"), (two, "second")):
        body = copy.deepcopy(WIDGETS)
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
            "type": "object",
            "properties": {field: {"type": "string"}},
        }
        assert kit.request(access, "POST", DEFINITIONS, body).code == 201
        path = "apis/example.com/v1"
        kit.wait(lambda: path in kit.request(access, "GET", "/openapi/v3").body["paths"])  # noqa: B023
        for document in (f"/openapi/v3/{path}", "/openapi/v2"):
            text = kit.request(access, "GET", document).text
            assert (f'"{field}"' in text, '"first"' in text) == (True, field == "first")
    built_in = [kit.request(access, "GET", "/openapi/v3/apis/apps/v1") for access in (one, two)]
    assert built_in[0].text == built_in[1].text


def test_controllers(kit: Kit) -> None:
    """Controllers run in a cluster: a namespace gets its service account, and its deletion deletes
    what is in it."""
    access = kit.create()
    assert (
        kit.request(access, "POST", "/api/v1/namespaces", {"metadata": {"name": "n"}}).code == 201
    )
    accounts = "/api/v1/namespaces/n/serviceaccounts"
    kit.wait(lambda: kit.request(access, "GET", accounts).names == ["default"])
    assert kit.request(access, "DELETE", "/api/v1/namespaces/n").code == 200
    kit.wait(lambda: kit.request(access, "GET", "/api/v1/namespaces/n").code == 404)


def test_the_object_of_a_cluster(kit: Kit) -> None:
    """A Cluster that a client creates becomes ready; its Secret has the token."""
    body = {"apiVersion": "clusters.kapiserver.dev/v1", "kind": "Cluster"}
    created = kit.management("POST", CLUSTERS, body | {"metadata": {"name": "byhand"}})
    assert created.code == 201
    kit.wait(lambda: "status" in kit.management("GET", f"{CLUSTERS}/byhand").body)
    tree = kit.management("GET", f"{CLUSTERS}/byhand").body
    assert tree["metadata"]["finalizers"] == ["clusters.kapiserver.dev/objects"]
    assert tree["status"]["phase"] == "Ready"
    assert tree["status"]["url"] == f"{kit.server.url}/clusters/byhand"
    assert tree["status"]["conditions"][0]["status"] == "True"
    secret = kit.management("GET", "/api/v1/namespaces/kapiserver-clusters/secrets/byhand").body
    token = base64.b64decode(secret["data"]["token"]).decode()
    path = "/clusters/byhand/api/v1/namespaces"
    assert kit.send("GET", path, Authorization=f"Bearer {token}").code == 200
    table = kit.management("GET", CLUSTERS, Accept="application/json;as=Table;g=meta.k8s.io;v=v1")
    assert [column["name"] for column in table.body["columnDefinitions"]] == [
        "Name", "Phase", "URL", "Age",
    ]  # fmt: skip


def test_deletion(kit: Kit) -> None:
    """Deleting a Cluster deletes its rows and its Secret; a new one of its name has neither its
    objects nor its users."""
    old = kit.create("again")
    assert kit.request(old, "POST", MAPS, MAP).code == 201
    uid = kit.management("GET", f"{CLUSTERS}/again").body["metadata"]["uid"]
    assert f"/{uid}/configmaps/default/x" in kit.rows()
    kit.delete("again")
    assert kit.rows(f"{uid}/") == []
    assert kit.management("GET", f"{CLUSTERS}/again").code == 404
    assert kit.management("GET", "/api/v1/namespaces/kapiserver-clusters/secrets/again").code == 404
    assert kit.request(old, "GET", MAPS).code in (401, 403)
    new = kit.create("again")
    assert kit.request(new, "GET", f"{MAPS}/x").code == 404
    assert kit.request(old, "GET", MAPS).code == 401


def test_quota(kit: Kit) -> None:
    """A cluster has as many objects as its quota says, and room again when some are deleted."""
    access = kit.create(max_objects=3)

    def create(name: str) -> int:
        answer = kit.request(access, "POST", MAPS, {"metadata": {"name": name}})
        if answer.code == 403:
            assert answer.body["reason"] == "Forbidden"
            assert "exceeded quota: the cluster may have " in answer.body["message"]
        return answer.code

    codes = [create(f"m{number}") for number in range(5)]
    assert codes == [201, 201, 201, 403, 403]
    assert kit.request(access, "DELETE", f"{MAPS}/m0").code == 200
    assert create("again") == 201
    assert create("more") == 403
    cluster = kit.management("GET", f"{CLUSTERS}/{access.name}").body
    cluster["spec"] = {"quota": {"objects": 4}}
    assert kit.management("PUT", f"{CLUSTERS}/{access.name}", cluster).code == 200
    kit.wait(lambda: create("more") == 201)
    assert create("another") == 403
    assert (
        kit.request(access, "DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/edit").code
        == 200
    )


def test_a_deleted_secret(kit: Kit) -> None:
    """A cluster whose Secret was deleted gets new credentials when it is next opened."""
    old = kit.create()
    path = f"/api/v1/namespaces/kapiserver-clusters/secrets/{old.name}"
    assert kit.management("DELETE", path).code == 200
    new = kit.server.run(kit.clusters.access(old.name))
    assert new.token != old.token
    assert kit.request(new, "GET", MAPS).code == 200
    assert kit.request(old, "GET", MAPS).code == 401


@pytest.mark.parametrize(
    "name", ["Upper", "-a", "a-", "a" * 64, "a_b", "a..b", ".a", "a.", "a:b", ".".join("abcdefghi")]
)
def test_names(kit: Kit, name: str) -> None:
    """The name of a cluster is DNS labels, up to eight levels."""
    with pytest.raises(StatusError) as caught:
        kit.create(name)
    assert caught.value.code == 422


def test_levels(kit: Kit) -> None:
    """A cluster below another one has its own objects and users; each lives without the other."""
    company, team = kit.create("company"), kit.create("team.company")
    assert kit.request(team, "POST", MAPS, MAP).code == 201
    assert kit.request(company, "GET", f"{MAPS}/x").code == 404
    path = f"/clusters/{team.name}{MAPS}/x"
    assert kit.send("GET", path, Authorization=f"Bearer {company.token}").code == 401
    kit.delete("company")
    assert kit.request(team, "GET", f"{MAPS}/x").code == 200


@pytest.mark.slow
def test_off_by_default() -> None:
    """Without the flag there is neither the resource nor the path."""
    with Kit.running(enable_logical_clusters=False) as kit:
        assert kit.server.running.clusters is None
        assert kit.management("GET", CLUSTERS).code == 404
        assert kit.management("GET", "/clusters/a/api").code == 404
