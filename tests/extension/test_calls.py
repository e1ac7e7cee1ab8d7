"""Subresources and calls that functions answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import aiohttp
import pytest
from msgspec import Meta, Struct, field

from kapiserver.api.types import Tree
from kapiserver.client import StatusError
from kapiserver.extension import Call, Object, Resource
from tests.extension.databases import Database, make_databases
from tests.extension.servers import serving

PATH = "/apis/example.com/v1/namespaces/default/databases/one"
BODY = {
    "apiVersion": "example.com/v1",
    "kind": "Database",
    "metadata": {"name": "one"},
    "spec": {"size": 3},
}


class QuoteSpec(Struct):
    """What is asked."""

    size: Annotated[int, Meta(ge=1)]


class QuoteStatus(Struct):
    """The answer."""

    price: int = 0
    asked_by: str = ""


class Quote(Object):
    """A question about a price."""

    spec: QuoteSpec
    status: QuoteStatus = field(default_factory=QuoteStatus)


def make_quotes() -> Resource[Quote]:
    """Return a resource whose objects are calls."""
    quotes = Resource(Quote, group="example.com", namespaced=False)

    @quotes.answer
    async def answer(call: Call, quote: Quote) -> Quote:
        quote.status = QuoteStatus(price=quote.spec.size * 3, asked_by=call.user.name)
        return quote

    return quotes


def make_connected() -> Resource[Database]:
    """Return a resource with subresources of every form."""
    databases = make_databases()

    @databases.connect("restart")
    async def restart(call: Call, database: Database) -> None:
        resource = call.client.resource("example.com/v1", "databases", namespace=call.namespace)
        await resource.patch(call.name, {"metadata": {"annotations": {"restarted": "yes"}}})

    @databases.connect("count", methods=("GET",), of_objects=False)
    async def count(call: Call, database: None) -> Any:
        return {"name": call.name, "object": database}

    @databases.connect("echo", methods=("GET", "PUT"))
    async def echo(call: Call, database: Database) -> Any:
        forms: dict[str, Any] = {
            "object": database,
            "other": Quote(spec=QuoteSpec(size=1)),
            "tree": {"size": database.spec.size},
            "text": f"{call.method} {call.name} {call.user.name}",
            "bytes": call.body,
            "stream": _pieces(),
        }
        return forms[call.query["form"][0]]

    return databases


async def _pieces() -> AsyncIterator[bytes]:
    for number in range(3):
        yield f"{number}\n".encode()


async def _fetch(url: str, method: str = "GET", **options: Any) -> tuple[int, str, bytes]:
    async with aiohttp.request(method, url, **options) as response:
        return response.status, response.content_type, await response.read()


def test_connect() -> None:
    """A function answers a subresource in the form of its result, and may write."""

    async def run() -> None:
        async with serving(make_connected(), make_quotes()) as (running, client):
            databases = client.resource("example.com/v1", "databases", namespace="default")
            await databases.create(BODY)
            restarted = await client.call("POST", f"{PATH}/restart")
            assert restarted["status"] == "Success"
            counted = await client.call("GET", f"{PATH.replace('one', '*')}/count")
            assert counted == {"name": "*", "object": None}
            database = await databases.get("one")
            assert database["metadata"]["annotations"] == {"restarted": "yes"}
            url = f"{running.url}{PATH}/echo?form="
            same = await client.call("GET", f"{PATH}/echo", parameters={"form": "object"})
            assert (same["kind"], same["metadata"]) == ("Database", database["metadata"])
            other = await client.call("GET", f"{PATH}/echo", parameters={"form": "other"})
            assert (other["kind"], other["spec"]) == ("Quote", {"size": 1})
            assert await client.call("GET", f"{PATH}/echo", parameters={"form": "tree"}) == {
                "size": 3
            }
            text = (200, "text/plain", b"GET one system:unsecured")
            assert await _fetch(f"{url}text") == text
            binary = (200, "application/octet-stream", b"\x00x")
            assert await _fetch(f"{url}bytes", "PUT", data=b"\x00x") == binary
            assert await _fetch(f"{url}stream") == (200, "text/plain", b"0\n1\n2\n")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"{PATH}/restart", 405),
        ("POST", f"{PATH}/echo", 405),
        ("POST", f"{PATH}/other", 404),
        ("POST", PATH.replace("one", "two") + "/restart", 404),
        ("GET", "/apis/example.com/v1/quotes", 405),
        ("GET", "/apis/example.com/v1/quotes/x", 404),
    ],
)
def test_refused(method: str, path: str, code: int) -> None:
    """Other methods, objects and paths are refused as everywhere."""

    async def run() -> None:
        async with serving(make_connected(), make_quotes()) as (_, client):
            await client.call("POST", PATH.removesuffix("/one"), body=BODY)
            with pytest.raises(StatusError) as raised:
                await client.call(method, path)
            assert raised.value.code == code

    asyncio.run(run())


def test_calls() -> None:
    """A call is answered, checked by its schema, and never stored."""

    async def run() -> None:
        async with serving(make_quotes()) as (running, client):
            quotes = client.resource("example.com/v1", "quotes")
            body: Tree = {"apiVersion": "example.com/v1", "kind": "Quote", "spec": {"size": 2}}
            answered = await quotes.create({**body, "metadata": {}})
            assert answered["status"] == {"price": 6, "asked_by": "system:unsecured"}
            with pytest.raises(StatusError) as raised:
                await quotes.create({**body, "metadata": {}, "spec": {"size": 0}})
            assert raised.value.code == 422
            stored = await running.server.stores.kv.range("/registry/example.com/")
            assert not stored.items
            discovery = await client.call("GET", "/apis/example.com/v1")
            assert next(each["verbs"] for each in discovery["resources"]) == ["create"]

    asyncio.run(run())
