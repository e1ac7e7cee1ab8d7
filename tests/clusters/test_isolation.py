"""Isolation of logical clusters: what their users can do to each other. Nothing."""

from __future__ import annotations

import base64
import json
import re
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

from kapiserver.clusters.service import AdministratorAccess
from tests.clusters.clusterkit import CLUSTERS, MAP, MAPS, Kit

Pair: TypeAlias = tuple[AdministratorAccess, AdministratorAccess]

PATHS = [
    "/",
    "/api",
    "/api/v1",
    "/api/v1/namespaces",
    "/api/v1/secrets",
    "/api/v1/nodes/n/proxy/",
    f"{MAPS}/x",
    f"{MAPS}?watch=1",
    "/apis",
    "/apis/apps/v1/deployments",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/openapi/v2",
    "/openapi/v3",
    "/version",
    "/metrics",
    "/metrics/slis",
    "/healthz",
    "/livez",
    "/readyz",
    "/configz",
    "/flagz",
    "/statusz",
    "/debug/pprof/",
    "/debug/api_priority_and_fairness/dump_requests",
    "/openid/v1/jwks",
    "/.well-known/openid-configuration",
    "/ui/",
    "/clusters/a/api",
    "/nothing",
]


@pytest.fixture(scope="module")
def pair(kit: Kit) -> Pair:
    """Two clusters, each of which has the ConfigMap x and the service account default."""
    one, two = kit.create("isolated-one"), kit.create("isolated-two")
    for access in (one, two):
        assert kit.request(access, "POST", MAPS, MAP).code == 201
    return one, two


def account_token(kit: Kit, access: AdministratorAccess, **spec: Any) -> str:
    """Return a token of the service account default of a cluster."""
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    answer = kit.request(access, "POST", path, {"spec": spec})
    assert answer.code == 201, answer.body
    return answer.body["status"]["token"]


def claims(token: str) -> Any:
    """Return the claims of a token."""
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_tokens_on_every_route(kit: Kit, pair: Pair) -> None:
    """On no route of another cluster, nor of the management cluster, does a credential count."""
    one, two = pair
    credentials = {"the administrator": one.token, "a service account": account_token(kit, one)}
    codes = {
        (user, prefix, path): kit.send(
            "GET", f"{prefix}{path}", Authorization=f"Bearer {token}"
        ).code
        for user, token in credentials.items()
        for prefix in (f"/clusters/{two.name}", "")
        for path in PATHS
    }
    assert {key: code for key, code in codes.items() if code != 401} == {}


DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def routes_of(kit: Kit, access: AdministratorAccess) -> Iterator[tuple[str, str]]:
    """Yield the method and the path of each route of a cluster: of collections, objects and
    subresources of all resources that its discovery has."""
    for root in ("/api", "/apis"):
        for group in json.loads(kit.request(access, "GET", root, Accept=DISCOVERY).text)["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                base = f"{root}/{name}/{version['version']}".replace("//", "/")
                for resource in version["resources"]:
                    scope = "/namespaces/default" if resource["scope"] == "Namespaced" else ""
                    collection = f"{base}{scope}/{resource['resource']}"
                    yield "GET", f"{base}/{resource['resource']}"
                    yield "GET", f"{collection}?watch=1&timeoutSeconds=1"
                    yield "POST", collection
                    yield "DELETE", collection
                    parts = [each["subresource"] for each in resource.get("subresources", ())]
                    for path in (f"{collection}/x", *(f"{collection}/x/{part}" for part in parts)):
                        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                            yield method, path


@pytest.mark.slow
def test_every_method_of_every_resource(kit: Kit, pair: Pair) -> None:
    """What a cluster serves, refuses the credentials of another cluster, and so does the management
    cluster; the objects are as before."""
    one, two = pair
    routes = list(routes_of(kit, one))
    assert len(routes) > 500
    before = [kit.request(access, "GET", f"{MAPS}/x").body for access in pair]
    codes = {
        (prefix, method, path): kit.send(
            method, f"{prefix}{path}", MAP, Authorization=f"Bearer {token}"
        ).code
        for token in (one.token, account_token(kit, one))
        for prefix in (f"/clusters/{two.name}", "")
        for method, path in routes
    }
    assert {key: code for key, code in codes.items() if code != 401} == {}
    assert [kit.request(access, "GET", f"{MAPS}/x").body for access in pair] == before


def test_service_accounts(kit: Kit, pair: Pair) -> None:
    """The token of a service account counts in its own cluster; its issuer names the cluster."""
    one, two = pair
    token = account_token(kit, one)
    claim = claims(token)
    assert claim["iss"].endswith(f"/clusters/{one.name}")
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    me = kit.request(one, "POST", path, {}, Authorization=f"Bearer {token}").body
    assert me["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    assert kit.request(two, "POST", path, {}, Authorization=f"Bearer {token}").code == 401
    # A token for the audience of the other cluster is signed by the wrong key.
    forged = account_token(kit, one, audiences=[claims(account_token(kit, two))["iss"]])
    assert kit.request(two, "POST", path, {}, Authorization=f"Bearer {forged}").code == 401


def test_token_reviews(kit: Kit, pair: Pair) -> None:
    """A TokenReview in a cluster knows the tokens of this cluster alone."""
    one, two = pair
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    own, other = account_token(kit, one), account_token(kit, two)
    for token, known in ((own, True), (other, False), (two.token, False)):
        review = kit.request(one, "POST", path, {"spec": {"token": token}}).body
        assert bool(review["status"].get("authenticated")) is known
    for audiences in ([], [claims(own)["iss"]]):
        spec = {"token": kit.server.token, "audiences": audiences}
        review = kit.request(one, "POST", path, {"spec": spec}).body
        assert not review["status"].get("authenticated")


def test_users_of_the_management_cluster(kit: Kit) -> None:
    """Members of system:masters enter every cluster, by token and by certificate; others do not,
    whatever groups a cluster gives rights to."""
    access = kit.create()
    path = f"/clusters/{access.name}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    me = kit.management("POST", path, {}).body["status"]["userInfo"]
    assert me["groups"] == ["system:masters", "system:authenticated"]
    guest = kit.server.add_token("guest", ["kapiserver:cluster-admins"])
    assert kit.send("POST", path, {}, Authorization=f"Bearer {guest}").code == 401
    assert kit.send("GET", MAPS, Authorization=f"Bearer {guest}").code == 403


def test_a_client_certificate_of_the_management_cluster(kit: Kit) -> None:
    """The administrator's certificate of the management cluster enters a cluster."""
    access, credentials = kit.create(), kit.server.running.credentials
    assert credentials is not None
    context = ssl.create_default_context(cafile=kit.server.ca)
    context.load_cert_chain(credentials.admin.certificate, credentials.admin.key)
    url = f"{access.url}/api/v1/namespaces"
    with urllib.request.urlopen(url, context=context) as response:
        assert response.status == 200


def test_masters_of_a_cluster(kit: Kit, pair: Pair) -> None:
    """Who impersonates system:masters in a cluster is nobody elsewhere."""
    one, two = pair
    headers = {"Impersonate-User": "root", "Impersonate-Group": "system:masters"}
    assert kit.request(one, "GET", "/api/v1/secrets", **headers).code == 200
    for prefix in (f"/clusters/{two.name}", ""):
        answer = kit.send(
            "GET", f"{prefix}/api/v1/secrets", Authorization=f"Bearer {one.token}", **headers
        )
        assert answer.code == 401


def test_hosts(kit: Kit, pair: Pair) -> None:
    """A cluster is at its subdomain, too, and its whole path is a path in the cluster."""
    one, two = pair
    headers = {"Host": f"{one.name}.clusters.test", "Authorization": f"Bearer {one.token}"}
    assert kit.send("GET", f"{MAPS}/x", **headers).code == 200
    assert kit.send("GET", f"/clusters/{one.name}{MAPS}/x", **headers).code == 404
    headers["Host"] = f"{two.name}.clusters.test"
    assert kit.send("GET", f"{MAPS}/x", **headers).code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/../{two}/api/v1/namespaces/default/configmaps/x",
        "/%2e%2e/{two}/api/v1/namespaces/default/configmaps/x",
        "/..%2f{two}/api/v1/namespaces/default/configmaps/x",
        "/clusters/{two}/api/v1/namespaces/default/configmaps/x",
        "//clusters/{two}/api/v1/namespaces/default/configmaps/x",
        "/api/v1/namespaces/..%2f..%2f{two_uid}/configmaps/x",
        "/api/v1/namespaces/default/configmaps/..%2f..%2f..%2f{two_uid}%2fconfigmaps%2fdefault%2fx",
        "/../../api/v1/namespaces/default/configmaps/x",
    ],
)
def test_path_tricks(kit: Kit, pair: Pair, path: str) -> None:
    """No path leads from one cluster into another one."""
    one, two = pair
    uid = kit.management("GET", f"{CLUSTERS}/{two.name}").body["metadata"]["uid"]
    marker = {"data": {"a": "secret of two"}}
    kit.request(two, "PUT", f"{MAPS}/x", {"metadata": {"name": "x"}} | marker)
    answer = kit.request(one, "GET", path.format(two=two.name, two_uid=uid))
    assert answer.code in (400, 404)
    assert "secret of two" not in str(answer.body)


def test_continue_tokens(kit: Kit, pair: Pair) -> None:
    """A continue token of one cluster is not valid in another one, for the same list."""
    one, two = pair
    page = kit.request(one, "GET", "/api/v1/namespaces?limit=1").body
    query = f"/api/v1/namespaces?limit=1&continue={page['metadata']['continue']}"
    assert kit.request(one, "GET", query).code == 200
    assert kit.request(two, "GET", query).code == 400


def test_watches(kit: Kit, pair: Pair) -> None:
    """A watch from the resource version of another cluster delivers objects of its own cluster
    alone."""
    one, two = pair
    version = kit.request(two, "GET", MAPS).body["metadata"]["resourceVersion"]
    for access in pair:
        name = f"of-{access.name}"
        assert kit.request(access, "POST", MAPS, {"metadata": {"name": name}}).code == 201
    query = f"{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=1"
    token = f"Bearer {one.token}"
    text = kit.send("GET", f"/clusters/{one.name}{query}", Authorization=token, Accept="*/*").text
    assert f"of-{one.name}" in text
    assert f"of-{two.name}" not in text


def test_pages_about_the_process(kit: Kit, pair: Pair) -> None:
    """A cluster's pages show nothing of the process, its flags and its other clusters."""
    one, two = pair
    assert kit.request(one, "GET", "/debug/pprof/").code == 404
    kit.request(two, "GET", f"{MAPS}/x")
    for path in (
        "/metrics",
        "/metrics/slis",
        "/configz",
        "/flagz",
        "/statusz",
        "/livez?verbose",
        "/debug/api_priority_and_fairness/dump_priority_levels",
        "/debug/api_priority_and_fairness/dump_queues",
        "/debug/api_priority_and_fairness/dump_requests",
        "/openid/v1/jwks",
        "/.well-known/openid-configuration",
    ):
        answer = kit.request(one, "GET", path, Accept="*/*")
        assert answer.code == 200, path
        assert not re.search(rf"\b{two.name}\b", answer.text), path
        for secret in (str(kit.server.ca.parent), two.token, kit.server.token):
            assert secret not in answer.text, path
