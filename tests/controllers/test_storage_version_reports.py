"""Servers of one store report how they store resources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.apiserver.identity import server_id
from kapiserver.apiserver.runtime_config import parse_runtime_config, resource_filter
from kapiserver.apiserver.user import APISERVER
from kapiserver.app import RunningServer, serve
from kapiserver.controllers.storage_versions.reports import storage_reports
from tests.storage.etcd_server import Member, running_member

GATE = "StorageVersionAPI"
INTERNAL = "internal.apiserver.k8s.io/v1alpha1"


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    with running_member() as member:
        yield member


def config(member: Member, *, runtime_config: str = f"{INTERNAL}=true") -> Config:
    return Config.of(
        storage=f"etcd:{member.url}",
        secure_port=None,
        insecure_port=0,
        runtime_config=runtime_config,
        feature_gates=parse_feature_gates(f"{GATE}=true"),
    )


async def until(
    running: RunningServer, name: str, condition: Callable[[Tree | None], object]
) -> Tree | None:
    """Return a StorageVersion that meets a condition; None stands for one that does not exist."""
    client = running.cluster.server.client(APISERVER, authorize=False)
    versions = client.resource(INTERNAL, "storageversions")
    async with asyncio.timeout(60):
        while True:
            try:
                tree: Tree | None = await versions.get(name)
            except StatusError:  # NotFound
                tree = None
            if condition(tree):
                return tree
            await asyncio.sleep(0.02)


def servers(tree: Tree | None) -> list[str]:
    status = (tree or {}).get("status") or {}
    return sorted(each["apiServerID"] for each in status.get("storageVersions") or ())


def identity(running: RunningServer) -> str:
    return server_id(int(running.url.rpartition(":")[2]))


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("core.pods", {"encodingVersion": "v1", "servedVersions": ["v1"]}),
        ("apps.deployments", {"encodingVersion": "apps/v1", "servedVersions": ["apps/v1"]}),
        (
            "autoscaling.horizontalpodautoscalers",
            {
                "encodingVersion": "autoscaling/v2",
                "servedVersions": ["autoscaling/v2", "autoscaling/v1"],
            },
        ),
    ],
)
def test_reports(name: str, report: Tree) -> None:
    """A report names the version that is stored, and those that are served."""
    scheme = Scheme(is_enabled=resource_filter(parse_runtime_config("")))
    reports = storage_reports(scheme)
    assert {field: reports[name][field] for field in report} == report
    assert set(report["servedVersions"]) <= set(reports[name]["decodableVersions"])


def test_resources_without_a_report() -> None:
    """Reviews have none, and Events, which two groups serve, have one."""
    reports = storage_reports(Scheme())
    assert "authorization.k8s.io.subjectaccessreviews" not in reports
    assert len([name for name in reports if name.endswith(".events")]) == 1


def test_several_servers(member: Member) -> None:
    """Each server of a store reports while it runs, and they say what they have in common."""

    async def test() -> None:
        async with serve(config(member)) as first:
            alone = await until(first, "core.pods", servers)
            assert alone is not None
            assert alone["status"]["commonEncodingVersion"] == "v1"
            (condition,) = alone["status"]["conditions"]
            assert (condition["type"], condition["status"]) == ("AllEncodingVersionsEqual", "True")
            async with serve(config(member)) as second:
                both = sorted([identity(first), identity(second)])
                await until(first, "apps.deployments", lambda tree: servers(tree) == both)
            await until(first, "apps.deployments", lambda tree: servers(tree) == [identity(first)])

    asyncio.run(test())


def test_reports_of_servers_that_are_gone(member: Member) -> None:
    """A server removes reports of servers without a Lease, and objects without a report."""

    async def test() -> None:
        async with serve(config(member)) as running:
            await until(running, "core.secrets", servers)
            client = running.cluster.server.client(APISERVER, authorize=False)
            versions = client.resource(INTERNAL, "storageversions")
            stale = {
                "apiServerID": "gone",
                "encodingVersion": "example.com/v1",
                "decodableVersions": ["example.com/v1"],
            }
            new = await versions.create({"metadata": {"name": "example.com.toys"}, "spec": {}})
            status = {"storageVersions": [stale], "commonEncodingVersion": "example.com/v1"}
            await versions.update(new | {"status": status}, subresource="status")
            await until(running, "example.com.toys", lambda tree: tree is None)

    asyncio.run(test())


def test_custom_resources(member: Member) -> None:
    """A custom resource is reported while its definition exists."""
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }
        for name in ("v1", "v1beta1")
    ]
    names = {"plural": "toys", "kind": "Toy"}
    spec = {"group": "example.com", "names": names, "scope": "Cluster", "versions": versions}

    async def test() -> None:
        async with serve(config(member)) as running:
            client = running.cluster.server.client(APISERVER, authorize=False)
            definitions = client.resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
            await definitions.create({"metadata": {"name": "toys.example.com"}, "spec": spec})
            tree = await until(running, "example.com.toys", servers)
            assert tree is not None
            (report,) = tree["status"]["storageVersions"]
            assert report["encodingVersion"] == "example.com/v1"
            assert report["servedVersions"] == ["example.com/v1", "example.com/v1beta1"]
            await definitions.delete("toys.example.com")
            await until(running, "example.com.toys", lambda tree: tree is None)

    asyncio.run(test())


def test_version_that_is_not_served(member: Member, caplog: pytest.LogCaptureFixture) -> None:
    """Without the alpha version a server starts, and says what is missing."""

    async def test() -> None:
        async with serve(config(member, runtime_config="")):
            pass

    asyncio.run(test())
    assert f"StorageVersionAPI needs --runtime-config={INTERNAL}=true" in caplog.text
