"""Servers of one store say by Leases that they run."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import platform
from collections.abc import Iterator

import pytest

from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.identity import server_id
from kapiserver.apiserver.user import APISERVER
from kapiserver.app import RunningServer, serve
from tests.storage.etcd_server import Member, running_member


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    with running_member() as member:
        yield member


def config(storage: str, **settings: object) -> Config:
    return Config.of(storage=storage, secure_port=None, insecure_port=0, **settings)


async def identities(running: RunningServer) -> list[Tree]:
    client = running.cluster.server.client(APISERVER, authorize=False)
    leases = client.resource("coordination.k8s.io/v1", "leases", namespace="kube-system")
    selector = "apiserver.kubernetes.io/identity=kube-apiserver"
    items: list[Tree] = (await leases.list(labelSelector=selector))["items"]
    return items


async def until_count(running: RunningServer, count: int) -> list[Tree]:
    async with asyncio.timeout(60):
        while True:
            leases = await identities(running)
            if len(leases) == count:
                return leases
            await asyncio.sleep(0.02)


def test_names() -> None:
    """The identity of a server on kube-apiserver's port is kube-apiserver's."""
    host = platform.node().encode()
    hashed = b"\0" + bytes([len(host)]) + host + b"\0\x0ekube-apiserver"
    digest = base64.b32encode(hashlib.sha256(hashed).digest()[:16]).decode()
    assert server_id() == server_id(6443) == f"apiserver-{digest.rstrip('=').lower()}"
    assert server_id(6444) != server_id()


def test_leases(member: Member) -> None:
    """Each server of a store has a Lease while it runs."""

    async def test() -> None:
        storage = f"etcd:{member.url}"
        async with serve(config(storage)) as first:
            (lease,) = await until_count(first, 1)
            port = int(first.url.rpartition(":")[2])
            assert lease["metadata"]["name"] == server_id(port)
            assert lease["metadata"]["labels"] == {
                "apiserver.kubernetes.io/identity": "kube-apiserver",
                "kubernetes.io/hostname": platform.node(),
            }
            assert lease["spec"]["holderIdentity"].startswith(f"{server_id(port)}_")
            assert lease["spec"]["leaseDurationSeconds"] == 3600
            async with serve(config(storage)) as second:
                await until_count(first, 2)
                hooks = (
                    await second.cluster.server.health.respond(["livez"], {"verbose": [""]})
                ).body
                assert b"start-kube-apiserver-identity-lease-controller ok" in hooks
            (remaining,) = await identities(first)
            assert remaining["metadata"]["uid"] == lease["metadata"]["uid"]

    asyncio.run(test())


@pytest.mark.parametrize("reason", ["embedded", "gate"])
def test_servers_without_a_lease(member: Member, reason: str) -> None:
    """A server that owns its store has no Lease, and none without the feature gate."""

    async def test() -> None:
        if reason == "embedded":
            settings = config("sqlite::memory:")
        else:
            settings = config(f"etcd:{member.url}", feature_gates=frozenset(), etcd_prefix="/other")
        async with serve(settings) as running:
            await running.controllers.wait_settled()
            assert await identities(running) == []

    asyncio.run(test())
