"""Declared resources behave as custom resources do, and call their functions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.client import Client, StatusError
from kapiserver.extension import ApiServer, Object, Resource, Version
from tests.extension.databases import make_databases
from tests.extension.servers import serving

Check = Callable[[Client], Awaitable[None]]
SKIPPED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was "
    "invalid; correct the existing errors to complete validation"
)
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PROTOBUF, CBOR = "application/vnd.kubernetes.protobuf", "application/cbor"


def _run(check: Check) -> None:
    async def run() -> None:
        async with serving(make_databases()) as (_, client):
            await check(client)

    asyncio.run(run())


def _database(name: str = "one", version: str = "v1", **spec: Any) -> Tree:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Database",
        "metadata": {"name": name},
        "spec": spec,
    }


def _url(client: Client) -> str:
    return client._url


def test_functions() -> None:
    """Defaults, preparation and generations of a life."""

    async def check(client: Client) -> None:
        databases = client.resource("example.com/v1", "databases", namespace="default")
        created = await databases.create({**_database(size=2), "status": {"phase": "Mine"}})
        assert created["spec"] == {
            "engine": "postgres",
            "size": 2,
            "replicas": 1,
            "ownerName": "nobody",
        }
        assert created["status"] == {"phase": "New", "replicas": 0}
        assert created["metadata"]["labels"] == {"engine": "postgres"}
        assert created["metadata"]["generation"] == 1
        updated = await databases.patch("one", {"spec": {"engine": "mysql", "replicas": 5}})
        assert updated["spec"]["replicas"] == 1
        assert updated["metadata"]["annotations"] == {"was": "postgres"}
        assert updated["metadata"]["generation"] == 2
        same = await databases.update(updated)
        assert same["metadata"]["resourceVersion"] == updated["metadata"]["resourceVersion"]
        body = {**same, "status": {"phase": "Ready"}, "spec": {"size": 9}}
        ready = await databases.update(body, subresource="status")
        assert (ready["status"]["phase"], ready["spec"]["size"]) == ("Ready", 2)
        scaled = await databases.patch("one", {"spec": {"replicas": 3}}, subresource="scale")
        assert (scaled["kind"], scaled["spec"]) == ("Scale", {"replicas": 3})

    _run(check)


@pytest.mark.parametrize(
    ("patch", "subresource", "message"),
    [
        (
            {"spec": {"size": 1}},
            "",
            'Database.example.com "one" is invalid: spec.size: Forbidden: a database does not '
            "shrink",
        ),
        (
            {"spec": {"size": 101}},
            "",
            'Database.example.com "one" is invalid: spec.size: Invalid value: 101: spec.size in '
            "body should be less than or equal to 100",
        ),
        (
            {"spec": {"engine": "oracle"}},
            "",
            'Database.example.com "one" is invalid: [spec.engine: Unsupported value: "oracle": '
            f'supported values: "mysql", "postgres", {SKIPPED}]',
        ),
        (
            {"spec": {"engine": "mysql", "size": 51}},
            "",
            'Database.example.com "one" is invalid: spec: Invalid value: mysql is for small data',
        ),
        (
            {"spec": {"users": [{}]}},
            "",
            'Database.example.com "one" is invalid: [spec.users[0].name: Required value, '
            f"{SKIPPED}]",
        ),
        (
            {"status": None},
            "status",
            'Database.example.com "one" is invalid: status: Forbidden: a database keeps its status',
        ),
    ],
    ids=str,
)
def test_validation(patch: Tree, subresource: str, message: str) -> None:
    """The schema answers as kube-apiserver does, then the functions."""

    async def check(client: Client) -> None:
        databases = client.resource("example.com/v1", "databases", namespace="default")
        await databases.create(_database(size=2))
        with pytest.raises(StatusError) as raised:
            await databases.patch("one", patch, subresource=subresource)
        assert raised.value.status["message"] == message

    _run(check)


@pytest.mark.parametrize(
    "body", [{"spec": 1}, {"spec": {"size": "x"}}, {"spec": None}, {"spec": {"users": 7}}], ids=str
)
def test_malformed(body: Tree) -> None:
    """An object that does not fit the class is refused before a function sees it."""

    async def check(client: Client) -> None:
        databases = client.resource("example.com/v1", "databases", namespace="default")
        with pytest.raises(StatusError) as raised:
            await databases.create({**_database(), **body})
        assert raised.value.code in (400, 422)

    _run(check)


def test_strict_decoding_and_warnings() -> None:
    """Unknown fields are refused or dropped; warnings are those of functions and versions."""

    async def check(client: Client) -> None:
        databases = client.resource("example.com/v1", "databases", namespace="default")
        with pytest.raises(StatusError) as raised:
            await databases.create(_database(sizes=1), fieldValidation="Strict")
        assert 'unknown field "spec.sizes"' in raised.value.status["message"]
        url = f"{_url(client)}/apis/example.com/{{}}/namespaces/default/databases"
        for version, expected in (
            ("v1", ["large databases cost much"]),
            ("v1alpha1", ["example.com/v1alpha1 Database is deprecated"]),
        ):
            spec = {"size": 60} if version == "v1" else {"sizeInMib": 2048}
            body = _database(version, version, **spec)
            async with aiohttp.request("POST", url.format(version), json=body) as response:
                assert response.status == 201
                warnings = response.headers.getall("Warning")
            for text, warning in zip(expected, warnings, strict=True):
                assert text in warning

    _run(check)


def test_versions() -> None:
    """Each version shows the same object, and functions run for all of them."""

    async def check(client: Client) -> None:
        new = client.resource("example.com/v1", "databases", namespace="default")
        old = client.resource("example.com/v1alpha1", "databases", namespace="default")
        body = _database(version="v1alpha1", engine="mysql", sizeInMib=4096)
        body["metadata"]["annotations"] = {"example.com/replicas": "3", "mine": "1"}
        created = await old.create(body)
        assert created["spec"] == {"engine": "mysql", "sizeInMib": 4096}
        assert created["metadata"]["labels"] == {"engine": "mysql"}
        seen = await new.get("one")
        assert (seen["spec"]["size"], seen["spec"]["replicas"]) == (4, 3)
        assert seen["metadata"]["uid"] == created["metadata"]["uid"]
        assert seen["metadata"]["annotations"] == {"mine": "1"}
        with pytest.raises(StatusError) as raised:
            await old.patch("one", {"spec": {"sizeInMib": 1024}})
        assert "a database does not shrink" in raised.value.status["message"]
        grown = await old.patch("one", {"spec": {"sizeInMib": 8192}})
        assert grown["metadata"]["generation"] == 2
        items = (await new.list_page())["items"]
        assert [item["spec"]["size"] for item in items] == [8]

    _run(check)


def test_reads() -> None:
    """Tables, selectors, pages and watches are those of custom resources."""

    async def check(client: Client) -> None:
        databases = client.resource("example.com/v1", "databases", namespace="default")
        for number, engine in enumerate(("mysql", "postgres", "mysql")):
            await databases.create(_database(f"db-{number}", engine=engine))
        selected = await databases.list_page(fieldSelector="spec.engine=mysql")
        assert len(selected["items"]) == 2
        page = await databases.list_page(limit=2)
        assert (len(page["items"]), page["metadata"]["remainingItemCount"]) == (2, 1)
        with pytest.raises(StatusError):
            await databases.list_page(fieldSelector="spec.size=1")
        url = f"{_url(client)}/apis/example.com/v1/namespaces/default/databases"
        async with aiohttp.request("GET", url, headers={"Accept": TABLE}) as response:
            table = await response.json()
        names = [column["name"] for column in table["columnDefinitions"]]
        assert names == ["Name", "Engine", "Size"]
        assert table["rows"][0]["cells"] == ["db-0", "mysql", 1]
        for media_type, status in ((PROTOBUF, 406), (CBOR, 200)):
            async with aiohttp.request("GET", url, headers={"Accept": media_type}) as response:
                assert response.status == status

    _run(check)


def test_apply() -> None:
    """Server-side apply merges a list by its keys."""

    async def check(client: Client) -> None:
        databases = client.resource("example.com/v1", "databases", namespace="default")
        head = {"apiVersion": "example.com/v1", "kind": "Database", "metadata": {"name": "one"}}
        for manager, user in (("a", "ann"), ("b", "bob")):
            body = {**head, "spec": {"users": [{"name": user}]}}
            applied = await databases.apply(body, manager=manager)
        assert [user["name"] for user in applied["spec"]["users"]] == ["ann", "bob"]

    _run(check)


def test_only_its_groups() -> None:
    """Discovery has the resources alone, and the store their objects."""

    async def run() -> None:
        async with serving(make_databases()) as (running, client):
            groups = await client.call("GET", "/apis")
            assert [group["name"] for group in groups["groups"]] == ["example.com"]
            for path in ("/api/v1/namespaces", "/apis/apps/v1/deployments", "/apis/other.io/v1/x"):
                with pytest.raises(StatusError) as raised:
                    await client.call("GET", path)
                assert raised.value.code == 404
            databases = client.resource("example.com/v1", "databases", namespace="any")
            await databases.create(_database())
            stored = await running.server.stores.kv.range("/registry/")
            keys = [item.key for item in stored.items if "token" not in item.key]
            assert keys == ["/registry/example.com/databases/any/one"]
            document = await client.call("GET", "/openapi/v3/apis/example.com/v1")
            schema = document["components"]["schemas"]["com.example.v1.Database"]
            assert schema["description"] == "A database that the platform runs."
            size = schema["properties"]["spec"]["properties"]["size"]
            assert (size["maximum"], size["description"]) == (100, "Its size in GiB.")

    asyncio.run(run())


def test_storage(tmp_path: Path) -> None:
    """Objects are in the store after a restart."""

    async def run() -> list[str]:
        names = []
        for name in ("one", "two"):
            storage = f"sqlite:{tmp_path / 'store.db'}"
            async with serving(make_databases(), storage=storage) as (_, client):
                databases = client.resource("example.com/v1", "databases", namespace="default")
                await databases.create(_database(name))
                items = (await databases.list_page())["items"]
                names = [item["metadata"]["name"] for item in items]
        return names

    assert asyncio.run(run()) == ["one", "two"]


class Thing(Object):
    """A thing."""


class Other(Object):
    """Another thing."""


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ((Version(name="v1", type=Other),), "needs to_hub and from_hub"),
        ((Version(name="v1", to_hub=lambda thing: thing),), ""),
    ],
)
def test_unusable_versions(versions: tuple[Version, ...], message: str) -> None:
    """A version has a class of its own and both functions, or none of them."""
    if not message:
        Resource(Thing, group="example.com", versions=versions)
        return
    with pytest.raises(ValueError, match=message):
        Resource(Thing, group="example.com", versions=versions)


def test_unusable_names() -> None:
    """Names that contradict each other are refused at import."""
    thing = Resource(Thing, group="example.com")
    with pytest.raises(ValueError, match="the same name: things"):
        ApiServer([thing, thing])
    with pytest.raises(ValueError, match="there is no version v2"):
        Resource(Thing, group="example.com", storage_version="v2")


class BoxSpec(Struct):
    color: str = ""


class Box(Object):
    spec: BoxSpec


class OldSpec(Struct):
    paint: str = ""


class OldBox(Object):
    spec: OldSpec


def test_selectable_fields_of_versions() -> None:
    """A version whose fields have other names has selectable fields of its own."""

    boxes = Resource(
        Box,
        group="example.com",
        plural="boxes",
        selectable_fields=[".spec.color"],
        versions=[
            Version(name="v1"),
            Version(
                name="v1alpha1",
                type=OldBox,
                to_hub=lambda old: Box(spec=BoxSpec(color=old.spec.paint)),
                from_hub=lambda new: OldBox(spec=OldSpec(paint=new.spec.color)),
                selectable_fields=[".spec.paint"],
                deprecated=True,
                deprecation_warning="use v1",
            ),
        ],
    )

    _, old_version = boxes.definition["spec"]["versions"]
    assert old_version["deprecationWarning"] == "use v1"

    async def run() -> None:
        async with serving(boxes) as (_, client):
            new, old = (
                client.resource(f"example.com/{version}", "boxes", namespace="default")
                for version in ("v1", "v1alpha1")
            )
            head = {"kind": "Box", "metadata": {"name": "one"}}
            await new.create({**head, "spec": {"color": "red"}})
            for resource, field in ((new, "spec.color"), (old, "spec.paint")):
                for value, count in (("red", 1), ("blue", 0)):
                    page = await resource.list_page(fieldSelector=f"{field}={value}")
                    assert len(page["items"]) == count
            with pytest.raises(StatusError, match="field label not supported"):
                await old.list_page(fieldSelector="spec.color=red")

    asyncio.run(run())
