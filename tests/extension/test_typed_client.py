"""Typed clients and informers, over HTTP and inside the server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.user import APISERVER
from kapiserver.apiserver.webhooks import cluster_access, in_cluster
from kapiserver.client import Client, StatusError
from kapiserver.extension import ApiServer, Object, ObjectMeta, Resource
from kapiserver.extension.clients.informer import Informer
from kapiserver.extension.clients.typed_client import ObjectEvent, Objects
from tests.clock import ManualClock
from tests.extension.databases import (
    Database,
    DatabaseSpec,
    DatabaseStatus,
    OldDatabase,
    OldSpec,
    User,
    make_databases,
)
from tests.extension.servers import serving


@asynccontextmanager
async def _objects(*, in_process: bool) -> AsyncIterator[Objects[Database]]:
    async with serving(make_databases()) as (running, client):
        if in_process:
            internal = running.server.client(APISERVER, authorize=False)
            yield Objects(internal, Database, namespace="default")
        else:
            yield client.objects(Database, namespace="default")


def _database(name: str = "one", **spec: object) -> Database:
    return Database(metadata=ObjectMeta(name=name), spec=DatabaseSpec(**spec))  # type: ignore[arg-type]


@pytest.mark.parametrize("in_process", [False, True])
def test_verbs(in_process: bool) -> None:
    """Each verb takes and returns instances."""

    async def run() -> None:
        async with _objects(in_process=in_process) as databases:
            created = await databases.create(_database(size=2))
            assert created.spec == DatabaseSpec(size=2, owner_name="nobody")
            assert created.status == DatabaseStatus(phase="New")
            created.spec.size = 3
            updated = await databases.update(created)
            assert (updated.spec.size, updated.metadata.generation) == (3, 2)
            created.spec.size = 4
            with pytest.raises(StatusError, match="the object has been modified"):
                await databases.update(created)
            updated.status = DatabaseStatus(phase="Ready", replicas=1)
            ready = await databases.update_status(updated)
            assert ready.status == DatabaseStatus(phase="Ready", replicas=1)
            patched = await databases.patch("one", {"spec": {"replicas": 2}})
            assert patched.spec.replicas == 2

            def grow(database: Database) -> None:
                database.spec.size += 10

            assert (await databases.update_with_retry("one", grow)).spec.size == 13
            assert [each.metadata.name for each in await databases.list()] == ["one"]
            await databases.delete("one")
            with pytest.raises(StatusError, match="not found"):
                await databases.get("one")

    asyncio.run(run())


@pytest.mark.parametrize("in_process", [False, True])
def test_apply(in_process: bool) -> None:
    """An applied object owns the fields that differ from the defaults of its class."""

    async def run() -> None:
        async with _objects(in_process=in_process) as databases:
            desired = _database(replicas=3, users=[User(name="ann")])
            desired.metadata.labels["a"] = "b"
            applied = await databases.apply(desired, manager="test")
            (entry,) = applied.metadata.managed_fields
            users = {'k:{"name":"ann"}': {".": {}, "f:name": {}}}
            assert entry["fieldsV1"] == {
                "f:metadata": {"f:labels": {"f:a": {}}},
                "f:spec": {"f:replicas": {}, "f:users": users},
            }
            await databases.patch("one", {"spec": {"replicas": 5}}, fieldManager="other")
            with pytest.raises(StatusError, match="conflict"):
                await databases.apply(desired, manager="test")
            forced = await databases.apply(desired, manager="test", force=True)
            assert forced.spec.replicas == 3
            again = await databases.apply(forced, manager="test", force=True)
            assert again.spec == forced.spec

    asyncio.run(run())


def test_versions() -> None:
    """The class of another version is that version."""

    async def run() -> None:
        async with serving(make_databases()) as (_, client):
            old = client.objects(OldDatabase, namespace="default")
            spec = OldSpec(size_in_mib=2048)
            await old.create(OldDatabase(metadata=ObjectMeta(name="one"), spec=spec))
            # All namespaces: the object, or an argument, says which one.
            databases = client.objects(Database)
            database = await databases.get("one", namespace="default")
            assert database.spec.size == 2
            database.spec.size = 4
            await databases.update(database)
            assert (await old.get("one")).spec.size_in_mib == 4096

    asyncio.run(run())


def test_events() -> None:
    """`watch` and `follow` yield instances."""

    async def run() -> None:
        async with _objects(in_process=False) as databases:
            first = await databases.create(_database())
            events = databases.follow()
            assert await anext(events) == ObjectEvent("ADDED", first)
            await databases.delete("one")
            assert (await anext(events)).type == "DELETED"
            await events.aclose()
            watch = databases.watch(resource_version=first.metadata.resource_version)
            assert (await anext(watch)).object.spec == first.spec
            await watch.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("in_process", [False, True])
def test_informer(in_process: bool) -> None:
    """An informer shows the objects and their changes, and finds them by an index."""
    seen: list[tuple[str, str]] = []

    def on_change(old: Database | None, new: Database | None) -> None:
        seen.append(tuple(each.spec.engine if each else "" for each in (old, new)))  # type: ignore[arg-type]
        if new is not None and new.spec.size == 9:
            raise ValueError("an error of a handler")

    async def run() -> None:
        async with _objects(in_process=in_process) as databases:
            await databases.create(_database("one"))
            informer = Informer(databases)
            informer.add_index("engine", lambda database: [database.spec.engine])
            informer.add_handler(on_change)
            async with informer:
                await informer.wait_synced()
                assert [each.metadata.name for each in informer.list()] == ["one"]
                await databases.create(_database("two", engine="mysql", size=9))
                await informer.fresh()
                (two,) = informer.by_index("engine", "mysql")
                assert two.metadata.name == "two"
                await databases.patch("two", {"spec": {"engine": "postgres"}})
                await databases.delete("one")
                await informer.fresh()
                assert informer.by_index("engine", "mysql") == []
                assert informer.get("one", "default") is None
                assert informer.list("default") == [await databases.get("two")]
                assert informer.list("other") == []
        assert seen == [
            ("", "postgres"), ("", "mysql"), ("mysql", "postgres"), ("postgres", ""),
        ]  # fmt: skip

    asyncio.run(asyncio.wait_for(run(), 60))


class Late(Object):
    size: int


def test_informer_of_errors() -> None:
    """An informer tries again until the resource is served, and leaves out unfit objects."""
    Resource(Late, group="example.com", plural="databases")
    clock = ManualClock()

    async def run() -> None:
        resource = make_databases()
        async with ApiServer([resource]).serve(Config.of(secure_port=None)) as running:
            server = running.server
            served, server.scheme.custom = server.scheme.custom, type(server.scheme.custom)()
            internal = server.client(APISERVER, authorize=False)
            informer = Informer(Objects(internal, Late), clock=clock)
            async with informer:
                while not clock.timers:  # noqa: ASYNC110 - the clock is no event
                    await asyncio.sleep(0)
                server.scheme.custom = served
                await Objects(internal, Database, namespace="default").create(_database())
                clock.advance(5)
                await informer.wait_synced()
                await informer.fresh()
                assert informer.list() == []

    asyncio.run(asyncio.wait_for(run(), 60))


def test_undeclared() -> None:
    """A class without a Resource has no client."""

    class Undeclared(Object):
        pass

    class Derived(Database):
        pass

    for type_ in (Undeclared, Derived):
        with pytest.raises(TypeError, match=f"no Resource declares the class {type_.__name__}"):
            Client("http://127.0.0.1:1").objects(type_)


def test_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client finds its cluster by a path, the environment or the files of a pod."""

    async def check(client: Client) -> None:
        async with client:
            assert await client.objects(Database, namespace="default").list() == []

    async def run() -> None:
        config = Config.of(secure_port=0, cert_dir=tmp_path / "certificates", shutdown_timeout=1)
        async with ApiServer([make_databases()]).serve(config) as running:
            assert running.kubeconfig is not None
            await check(Client.from_kubeconfig(running.kubeconfig))
            monkeypatch.setenv("KUBECONFIG", f"{running.kubeconfig}{os.pathsep}other")
            await check(Client.from_kubeconfig())

    asyncio.run(run())
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(BadConfiguration, match="config"):
        Client.from_kubeconfig()
    monkeypatch.setattr(in_cluster, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    (tmp_path / "token").write_text("abc\n")
    assert cluster_access.cluster_access().url == "https://[fd00::1]:6443"
    (tmp_path / "ca.crt").write_text((tmp_path / "certificates" / "ca.crt").read_text())
    access = cluster_access.cluster_access()
    assert access.url == "https://[fd00::1]:6443"
    assert access.headers() == {"Authorization": "Bearer abc"}
    (tmp_path / "token").write_text("def\n")
    assert access.headers() == {"Authorization": "Bearer def"}
