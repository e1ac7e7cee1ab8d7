"""Users of logical clusters that come from identity providers: each cluster has its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapiserver.cli import main
from kapiserver.clusters.service import AdministratorAccess
from tests.apiserver.authentication.test_jwt import Issuer, configuration
from tests.clusters.clusterkit import CLUSTERS, MAPS, Kit

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"


@pytest.fixture(scope="module")
def issuers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Issuer, Issuer]]:
    """Two issuers with equal keys, at different URLs."""
    both = Issuer(tmp_path_factory.mktemp("one")), Issuer(tmp_path_factory.mktemp("two"))
    yield both
    for issuer in both:
        issuer.server.end()


def token(kit: Kit, issuer: Issuer, **claims: Any) -> str:
    """Return a token that is valid at the time of the server."""
    now = int(kit.server.running.cluster.server.clock.now())
    return issuer.token({"exp": now + 600, "iat": now, "nbf": now} | claims)


def user(kit: Kit, access: AdministratorAccess, bearer: str) -> Any:
    """Return who a token is in a cluster; a status code if it is nobody."""
    answer = kit.request(access, "POST", REVIEWS, {}, Authorization=f"Bearer {bearer}")
    return answer.body["status"]["userInfo"] if answer.code == 201 else answer.code


def bind(kit: Kit, access: AdministratorAccess, name: str) -> None:
    """Let a user read what is in the namespace default of a cluster."""
    group = "rbac.authorization.k8s.io"
    body = {
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    }
    assert kit.request(access, "POST", BINDINGS, body).code == 201


def test_users_of_each_cluster(kit: Kit, issuers: tuple[Issuer, Issuer]) -> None:
    """A token counts in the clusters that name its issuer, and nowhere else: neither does a user of
    the same name from another issuer. Rights come from RBAC in the cluster."""
    one, two = issuers
    mappings = {"groups": {"claim": "teams", "prefix": ""}}
    blue = kit.create(issuers=[one.authenticator(mappings=mappings)])
    red = kit.create(issuers=[two.authenticator()])
    plain = kit.create()
    jane, stranger = token(kit, one, teams=["system:masters"]), token(kit, two)
    forged = token(kit, two, iss=one.url, aud="other")
    info = user(kit, blue, jane)
    assert info["username"] == "x:jane"
    assert info["groups"] == ["system:masters", "system:authenticated"]
    assert user(kit, red, stranger)["username"] == "x:jane"
    for access, bearer in (
        (red, jane), (plain, jane), (blue, stranger), (plain, stranger), (blue, forged),
    ):  # fmt: skip
        assert user(kit, access, bearer) == 401
    for bearer in (jane, stranger):
        assert kit.send("GET", MAPS, Authorization=f"Bearer {bearer}").code == 401
    header = {"Authorization": f"Bearer {stranger}"}
    assert kit.request(red, "GET", MAPS, **header).code == 403
    bind(kit, red, "x:jane")
    kit.wait(lambda: kit.request(red, "GET", MAPS, **header).code == 200)
    assert kit.request(red, "GET", "/api/v1/secrets", **header).code == 403


def test_one_provider_for_all(kit: Kit, issuers: tuple[Issuer, Issuer]) -> None:
    """Clusters that name one issuer know the same users, whom each of them gives rights; an
    audience of its own keeps the users of a cluster apart."""
    one, _ = issuers
    first, second = (kit.create(issuers=[one.authenticator()]) for _ in range(2))
    apart = kit.create(issuers=[one.authenticator(issuer={"audiences": ["apart"]})])
    jane = token(kit, one)
    bind(kit, first, "x:jane")
    header = {"Authorization": f"Bearer {jane}"}
    kit.wait(lambda: kit.request(first, "GET", MAPS, **header).code == 200)
    assert kit.request(second, "GET", MAPS, **header).code == 403
    assert kit.request(apart, "GET", MAPS, **header).code == 401
    assert user(kit, apart, token(kit, one, aud="apart"))["username"] == "x:jane"
    review = {"spec": {"token": jane}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert kit.request(second, "POST", path, review).body["status"]["authenticated"]
    assert not kit.request(apart, "POST", path, review).body["status"].get("authenticated")


def condition(kit: Kit, name: str) -> Any:
    """Return the condition UsersConfigured of a Cluster, or None."""
    status = kit.management("GET", f"{CLUSTERS}/{name}").body.get("status") or {}
    named = {each["type"]: each for each in status.get("conditions") or ()}
    return named.get("UsersConfigured")


def test_changes(kit: Kit, issuers: tuple[Issuer, Issuer]) -> None:
    """A change of the issuers counts at once, for open watches too. Invalid issuers name nobody;
    the condition says what is wrong, and the administrator still enters."""
    one, _ = issuers
    access = kit.create()
    jane = token(kit, one)
    assert user(kit, access, jane) == 401
    assert condition(kit, access.name) is None

    def set_issuers(*issuers: Any) -> None:
        tree = kit.management("GET", f"{CLUSTERS}/{access.name}").body
        tree["spec"]["authentication"] = {"jwt": list(issuers)}
        assert kit.management("PUT", f"{CLUSTERS}/{access.name}", tree).code == 200

    set_issuers(one.authenticator())
    kit.wait(lambda: user(kit, access, jane) != 401)
    kit.wait(lambda: (condition(kit, access.name) or {}).get("status") == "True")
    set_issuers({"issuer": {"url": "http://x", "audiences": [1], "colour": "red"}})
    kit.wait(lambda: condition(kit, access.name)["status"] == "False")
    assert "spec.authentication: " in condition(kit, access.name)["message"]
    kit.wait(lambda: user(kit, access, jane) == 401)
    assert kit.request(access, "GET", MAPS).code == 200
    set_issuers({"issuer": {"url": "http://x", "audiences": ["me"]}, "claimMappings": {}})
    text = 'jwt[0].issuer.url: Invalid value: "http://x": URL scheme must be https'
    kit.wait(lambda: text in condition(kit, access.name)["message"])
    set_issuers()
    kit.wait(lambda: condition(kit, access.name) is None)


def test_command(
    kit: Kit, issuers: tuple[Issuer, Issuer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`clusters create` takes the issuers of an AuthenticationConfiguration."""
    one, _ = issuers
    file, flags = tmp_path / "users.json", ("--kubeconfig", str(kit.server.kubeconfig))
    create = ("clusters", "create", "with-users", "--authentication-config", str(file), *flags)
    file.write_text(configuration(one.authenticator(), anonymous={"enabled": True}))
    assert main(create) == 1
    assert "anonymous cannot be set for one cluster" in capsys.readouterr().err
    file.write_text(configuration(one.authenticator()))
    assert main(create) == 0
    name = yaml.safe_load(capsys.readouterr().out)["current-context"]
    access = kit.server.run(kit.clusters.access(name))
    assert user(kit, access, token(kit, one))["username"] == "x:jane"
