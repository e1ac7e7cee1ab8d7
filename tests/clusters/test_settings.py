"""What logical clusters have of the server's settings: audit, encryption, several servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import ANNOTATIONS, Config
from kapiserver.app import serve
from kapiserver.client import Client, Resource
from kapiserver.clusters.cluster_kind import CLUSTERS, RESOURCE, cluster
from kapiserver.clusters.settings import cluster_config
from kapiserver.storage.backends import open_store
from kapiserver.storage.concurrency.clock import SystemClock
from tests.clusters.clusterkit import MAP, MAPS, Kit
from tests.storage.etcd_server import running_member, shared_etcd
from tests.storage.postgresql_server import binaries, shared_postgresql

ENCRYPTION = """
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, configmaps, roles.rbac.authorization.k8s.io]
  providers:
  - aesgcm:
      keys: [{name: one, secret: c2VjcmV0IGlzIHNlY3VyZQ==}]
  - identity: {}
"""


def test_settings_that_clusters_do_not_have() -> None:
    """Of the settings of a server, a cluster has none that names files, ports, users or keys."""
    paths = {
        name: Path("/nowhere") for name, type_ in ANNOTATIONS.items() if type_ == "Path | None"
    }
    own = Config.of(
        secure_port=6443,
        insecure_port=8080,
        oidc_issuer_url="https://issuer",
        oidc_client_id="me",
        authorization_mode=("AlwaysAllow",),
        storage="postgresql://user:password@host/db",
        flags=(("secret", "x"),),
        **paths,
    )
    settings = cluster_config(own, root="/r/uid", name="a").settings()
    defaults = Config().settings()
    different = {name for name, value in settings.items() if value != defaults[name]}
    assert different == {
        "admission_control_config_file",
        "etcd_prefix",
        "profiling",
        "secure_port",
        "service_account_issuer",
    }
    assert settings["secure_port"] is None


@pytest.mark.slow
def test_audit(tmp_path: Path) -> None:
    """The server's audit log has the requests of clusters, with an annotation."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}")
    with Kit.running(audit_policy_file=policy, audit_log_path=str(log)) as kit:
        one, two = kit.create(), kit.create()
        for access in (one, two):
            assert kit.request(access, "POST", MAPS, MAP).code == 201
        kit.request(one, "GET", MAPS, Authorization=f"Bearer {two.token}")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    name = "clusters.kapiserver.dev/cluster"
    creates = [event for event in events if event["verb"] == "create" and name in str(event)]
    assert {event["annotations"][name] for event in creates} == {one.name, two.name}
    refused = [event for event in events if event.get("responseStatus", {}).get("code") == 401]
    assert [event["annotations"][name] for event in refused] == [one.name]


@pytest.mark.slow
def test_encryption_at_rest(tmp_path: Path) -> None:
    """Objects of clusters, and the credentials of clusters, are encrypted at rest as the server's
    are; those of the start are created in each cluster then."""
    file = tmp_path / "encryption.yaml"
    file.write_text(ENCRYPTION)
    with Kit.running(encryption_provider_config=file) as kit:
        access = kit.create()
        assert kit.request(access, "POST", MAPS, MAP).code == 201
        assert kit.request(access, "GET", f"{MAPS}/x").body["data"] == {"a": "1"}
        roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles"
        kit.wait(lambda: kit.request(access, "GET", roles).names)
        (row,) = [row for row in kit.rows() if row.endswith("/configmaps/default/x")]
        root = "/registry-clusters"
        stored = kit.server.run(kit.clusters.store.get(f"{root}{row}")).item
        assert stored is not None
        assert stored.value.startswith(b"k8s:enc:aesgcm:v1:one:")
        secret = f"/registry/secrets/kapiserver-clusters/{access.name}"
        stored = kit.server.run(kit.server.running.cluster.kv.get(secret)).item
        assert stored is not None
        assert access.token.encode() not in stored.value


STORES = {
    "etcd": lambda: f"etcd:{shared_etcd().url}",
    "postgresql": lambda: shared_postgresql().url,
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["etcd", "postgresql"])
def test_several_servers(backend: str, tmp_path: Path) -> None:
    """Two servers of one store have the same clusters: objects, tokens and deletions."""
    if backend == "postgresql" and not binaries():
        pytest.skip("no PostgreSQL")

    def maps(client: Client) -> Resource:
        return client.resource("v1", "configmaps", namespace="default")

    async def run() -> None:
        prefix = f"/{tmp_path.name}"
        settings: dict[str, Any] = {
            "storage": STORES[backend](),
            "etcd_prefix": prefix,
            "postgresql_schema": tmp_path.name.replace("-", "_"),
            "secure_port": None,
            "insecure_port": 0,
            "enable_logical_clusters": True,
        }
        config = Config.of(**settings)
        async with serve(config) as first, serve(config) as second:
            assert first.clusters is not None
            assert second.clusters is not None
            access = await first.clusters.create("a")
            async with (
                Client(f"{first.url}/clusters/a", token=access.token) as one,
                Client(f"{second.url}/clusters/a", token=access.token) as two,
            ):
                await maps(one).create({"metadata": {"name": "x"}})
                assert (await maps(two).get("x"))["metadata"]["name"] == "x"
                roles = two.resource("rbac.authorization.k8s.io/v1", "clusterroles")
                await roles.delete("view")
                names = [
                    tree["metadata"]["name"]
                    for tree in (
                        await one.resource("rbac.authorization.k8s.io/v1", "clusterroles").list()
                    )["items"]
                ]
                assert "view" not in names
                assert "edit" in names
            async with Client(second.url) as client:
                await client.resource(str(CLUSTERS), RESOURCE).create(cluster("b"))
            await second.clusters.access("b")
            assert (await first.clusters.access("b")).token
            await second.clusters.delete("a")
            assert not first.clusters.is_open("a")
            store = await open_store(
                config.store.storage, clock=SystemClock(), root=f"{prefix}-clusters",
                sections=config,
            )  # fmt: skip
            try:
                rows = (await store.range(f"{prefix}-clusters/")).items
                assert not [row for row in rows if row.key.endswith("/configmaps/default/x")]
            finally:
                await store.close()

    asyncio.run(run())


@contextmanager
def _empty_store(backend: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the settings of a store without keys, which exists until the block ends."""
    if backend == "etcd":
        with running_member() as member:
            yield {"storage": f"etcd:{member.url}"}
    elif backend == "postgresql":
        schema = folder.name.replace("-", "_")
        yield {"storage": shared_postgresql().url, "postgresql_schema": schema}
    else:
        yield {"storage": f"sqlite:{folder / 'store.db'}"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite", "etcd", "postgresql"])
def test_keys_of_the_management_cluster_begin_at_the_root(backend: str, tmp_path: Path) -> None:
    """With --etcd-prefix=/ the keys of clusters are below those of the management cluster. Each
    store still watches its own keys, which a list needs that includes the last write."""
    if backend == "postgresql" and not binaries():
        pytest.skip("no PostgreSQL")
    with (
        _empty_store(backend, tmp_path) as store,
        Kit.running(etcd_prefix="/", **store) as kit,
    ):
        access = kit.create("a")
        for number in range(3):
            kit.request(access, "POST", MAPS, {"metadata": {"name": f"in-{number}"}})
            assert f"in-{number}" in kit.request(access, "GET", MAPS).names
        assert kit.management("POST", MAPS, MAP).code == 201
        assert "x" in kit.management("GET", MAPS).names
        assert not [name for name in kit.management("GET", MAPS).names if name.startswith("in-")]
        assert "x" not in kit.request(access, "GET", MAPS).names
        kit.delete("a")
        page = kit.server.run(kit.clusters.store.range("/-clusters/"))
        assert not [item.key for item in page.items if "/configmaps/" in item.key]
