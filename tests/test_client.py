"""`kapiserver.client` with a real server, and with one that supports JSON only."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import ssl
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.app import RunningServer, serve
from kapiserver.client import Client, Event, Gates, Resource, StatusError
from kapiserver.codecs.media_types import JSON
from tests.apiserver.customresources.customkit import definition
from tests.storage.etcd_server import free_port


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[RunningServer, Client]]:
    """A server and a client of it."""
    config = Config.of(secure_port=None, insecure_port=0, shutdown_timeout=1)
    async with serve(config) as running, Client(running.url, **options) as client:
        yield running, client


def config_maps(client: Client) -> Resource:
    return client.resource("v1", "configmaps", namespace="default")


ENCODINGS = [
    {},
    {"prefer": "protobuf"},
    {"prefer": "cbor"},
    {"gates": Gates(prefer_cbor=True)},
    {"prefer": "cbor", "gates": Gates(allow_cbor=False)},
]


@pytest.mark.parametrize("options", ENCODINGS, ids=str)
def test_verbs(options: dict[str, Any]) -> None:
    """All verbs work in every encoding, with the same trees."""

    async def run() -> None:
        async with connected(**options) as (_, client):
            maps = config_maps(client)
            created = await maps.create(
                {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}}
            )
            assert await maps.get("x") == created
            created["data"]["b"] = "2"
            updated = await maps.update(created)
            assert updated["data"] == {"a": "1", "b": "2"}
            patched = await maps.patch("x", {"data": {"a": None}})
            assert patched["data"] == {"b": "2"}
            config = {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"c": "3"}}
            applied = await maps.apply(config, manager="me")
            assert applied["data"] == {"b": "2", "c": "3"}
            listing = await maps.list(fieldSelector="metadata.name=x")
            assert listing["items"] == [applied]
            await maps.delete("x", {"preconditions": {"uid": created["metadata"]["uid"]}})
            with pytest.raises(StatusError, match='configmaps "x" not found') as caught:
                await maps.get("x")
            assert (caught.value.code, caught.value.reason) == (404, "NotFound")

    asyncio.run(run())


@pytest.mark.parametrize("options", ENCODINGS, ids=str)
def test_custom_kinds(options: dict[str, Any]) -> None:
    """Kinds that the client's scheme does not have work like all others."""

    async def run() -> None:
        async with connected(**options) as (_, client):
            crd = definition()
            definitions = client.resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
            await definitions.create(crd)
            spec = {"replicas": 2}
            group, name = crd["spec"]["group"], crd["metadata"]["name"]
            async for event in definitions.follow(fieldSelector=f"metadata.name={name}"):
                conditions = event.object["status"].get("conditions") or []
                if any(condition["type"] == "Established" for condition in conditions):
                    break
            widgets = client.resource(f"{group}/v1", "widgets", namespace="default")
            created = await widgets.create(
                {"kind": "Widget", "metadata": {"name": "a"}, "spec": spec}
            )
            assert (created["spec"], await widgets.get("a")) == (spec, created)
            changed = await widgets.update({**created, "spec": {"replicas": 3}})
            config = {"kind": "Widget", "metadata": {"name": "a"}, "spec": {"color": "red"}}
            applied = await widgets.apply(config, manager="me")
            assert applied["spec"] == {**changed["spec"], "color": "red"}
            assert (await widgets.list())["items"] == [applied]
            async for event in widgets.follow():
                assert event == Event("ADDED", applied)
                break
            await widgets.delete("a", {"dryRun": ["All"]})

    asyncio.run(run())


@pytest.mark.parametrize("options", ENCODINGS, ids=str)
def test_follow(options: dict[str, Any]) -> None:
    """`follow` yields existing objects first, then changes."""

    async def run() -> None:
        async with connected(**options) as (_, client):
            maps = config_maps(client)
            await maps.create({"kind": "ConfigMap", "metadata": {"name": "x"}})
            events = maps.follow(fieldSelector="metadata.name=x")
            observed = [await _next_event(events)]
            await maps.patch("x", {"data": {"a": "1"}})
            observed.append(await _next_event(events))
            await maps.delete("x")
            observed.append(await _next_event(events))
            assert observed == ["ADDED x", "MODIFIED x", "DELETED x"]
            await events.aclose()

    asyncio.run(run())


async def _next_event(events: AsyncIterator[Event]) -> str:
    event = await asyncio.wait_for(anext(events), 60)
    return f"{event.type} {event.object['metadata']['name']}"


def config_at(path: Path, port: int = 0) -> Config:
    """The configuration of a server over a file."""
    return Config.of(
        secure_port=None, insecure_port=port, shutdown_timeout=1, storage=f"sqlite:{path}"
    )


async def change_through_other_server(
    path: Path, act: Callable[[Resource], Awaitable[None]]
) -> None:
    """Change the objects in the file through another server, and compact their history."""
    async with serve(config_at(path)) as running, Client(running.url) as client:
        await act(config_maps(client))
        kv = running.cluster.kv
        await kv.compact(await kv.current_revision())


@pytest.mark.parametrize("expired", ["raise", "restart", "continue"])
def test_pages(tmp_path: Path, expired: Any) -> None:
    """A list is read in pages; an expired token raises, restarts the list or continues it."""
    path = tmp_path / "objects.db"

    async def fill(maps: Resource) -> None:
        for index in range(5):
            await maps.create({"kind": "ConfigMap", "metadata": {"name": f"m{index}"}})

    async def change(maps: Resource) -> None:
        await maps.create({"kind": "ConfigMap", "metadata": {"name": "m9"}})

    async def run() -> list[list[str]]:
        await change_through_other_server(path, fill)
        async with AsyncExitStack() as server:
            port = free_port()
            running = await server.enter_async_context(serve(config_at(path, port)))
            client = await server.enter_async_context(Client(running.url))
            pages = config_maps(client).pages(
                limit=3, expired=expired, fieldSelector="metadata.name!=kube-root-ca.crt"
            )
            names = [_names(await anext(pages))]
            await server.aclose()
            await change_through_other_server(path, change)
            running = await server.enter_async_context(serve(config_at(path, port)))
            await client.__aenter__()
            server.push_async_exit(client)
            return names + [_names(page) async for page in pages]

    if expired == "raise":
        with pytest.raises(StatusError) as caught:
            asyncio.run(run())
        assert caught.value.code == 410
        return
    pages = asyncio.run(run())
    first, names_after = pages[0], [name for page in pages[1:] for name in page]
    if expired == "continue":
        assert first + names_after == ["m0", "m1", "m2", "m3", "m4", "m9"]
    else:
        assert names_after == ["m0", "m1", "m2", "m3", "m4", "m9"]


def _names(page: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


def test_follow_through_compaction_and_restart(tmp_path: Path) -> None:
    """If a watch cannot be resumed, `follow` lists again and yields the differences as events."""
    path = tmp_path / "objects.db"

    async def change(maps: Resource) -> None:
        await maps.delete("a")
        await maps.patch("b", {"data": {"k": "v"}})
        await maps.create({"kind": "ConfigMap", "metadata": {"name": "c"}})

    async def run() -> None:
        async with AsyncExitStack() as server:
            port = free_port()
            running = await server.enter_async_context(serve(config_at(path, port)))
            async with Client(running.url, retry_seconds=0.05) as client:
                maps = config_maps(client)
                await maps.create({"kind": "ConfigMap", "metadata": {"name": "a"}})
                await maps.create({"kind": "ConfigMap", "metadata": {"name": "b"}})
                events = maps.follow(fieldSelector="metadata.name!=kube-root-ca.crt")
                assert {await _next_event(events), await _next_event(events)} == {
                    "ADDED a",
                    "ADDED b",
                }
                await server.aclose()
                await change_through_other_server(path, change)
                await server.enter_async_context(serve(config_at(path, port)))
                observed = {await _next_event(events) for _ in range(3)}
                assert observed == {"DELETED a", "MODIFIED b", "ADDED c"}
                await events.aclose()

    asyncio.run(run())


@asynccontextmanager
async def json_only() -> AsyncIterator[tuple[str, list[str]]]:
    """A server like an old one, which supports JSON only, and the Content-Types that it
    received."""
    content_types: list[str] = []

    async def echo(request: web.Request) -> web.Response:
        content_types.append(request.content_type)
        if "cbor" in request.content_type:
            return web.json_response({"kind": "Status", "code": 415}, status=415)
        return web.json_response(json.loads(await request.read()))

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield f"http://127.0.0.1:{port}", content_types
    await runner.cleanup()


def test_fallback() -> None:
    """A body that is refused with 415 is sent again as JSON; later bodies of that resource are sent
    as JSON at once."""

    async def run() -> None:
        options: dict[str, Any] = {"gates": Gates(prefer_cbor=True)}
        async with json_only() as (url, content_types), Client(url, **options) as client:
            obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}
            assert await config_maps(client).create(obj) == obj
            await config_maps(client).create(obj)
            await client.resource("v1", "secrets", namespace="default").create(obj)
            cbor, plain = "application/cbor", "application/json"
            assert content_types == [cbor, plain, plain, cbor, plain]
            content_types.clear()
            await config_maps(client).update(obj)
            for _ in range(2):
                await config_maps(client).apply(obj, manager="me")
            apply = "application/apply-patch"
            assert content_types == [cbor, plain, f"{apply}+cbor", f"{apply}+yaml", f"{apply}+yaml"]

    asyncio.run(run())


GATED = [
    ({}, "json", "yaml"),
    ({"prefer": "cbor"}, "cbor", "cbor"),
    ({"gates": Gates(prefer_cbor=True)}, "cbor", "cbor"),
    ({"prefer": "cbor", "gates": Gates(allow_cbor=False)}, "json", "yaml"),
    ({"prefer": "cbor", "gates": Gates(allow_cbor=False, prefer_cbor=True)}, "json", "yaml"),
]


@pytest.mark.parametrize(("options", "body", "apply"), GATED, ids=str)
def test_gates(options: dict[str, Any], body: str, apply: str) -> None:
    """The feature gates decide about the encoding of requests and responses, whatever `prefer`
    says."""

    async def run() -> None:
        obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}
        async with json_only() as (url, content_types), Client(url, **options) as client:
            await config_maps(client).create(obj)
            await config_maps(client).apply(obj, manager="me")
            assert (content_types[0], content_types[-2 if apply == "cbor" else -1]) == (
                f"application/{body}",
                f"application/apply-patch+{apply}",
            )
            assert client._accept_header(stream=False).startswith(f"application/{body}")

    asyncio.run(run())


class _TLSServer:
    """Answers with an event of a watch, and then neither reads nor closes, until `end`."""

    def __init__(self, folder: Path) -> None:
        credentials = ensure_certificates(Config(), folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(credentials.serving.certificate, credentials.serving.key)
        self.client_context = ssl.create_default_context(cafile=credentials.ca)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        plain, _ = self._listener.accept()
        with self._context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(1 << 16)
            event = b'{"type":"ADDED","object":{"metadata":{"name":"x"}}}\n'
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(event), event)
            )
            self._has_ended.wait(60)

    def end(self) -> None:
        self._has_ended.set()
        self._thread.join()
        self._listener.close()


async def _end_a_watch(client: Client) -> None:
    events = client.watch_events("/api/v1/configmaps", {"watch": "1"})
    assert (await anext(events)).object["metadata"]["name"] == "x"
    await events.aclose()


async def _leave_a_response(client: Client) -> None:
    async with client._request("GET", "/api/v1/configmaps", JSON, parameters=None) as response:
        assert response.status == 200


@pytest.mark.parametrize("use", [_end_a_watch, _leave_a_response])
def test_a_response_that_is_not_read_over_tls(
    tmp_path: Path, use: Callable[[Client], Awaitable[None]]
) -> None:
    """The connection of a response that is not read to its end is closed with the client, whatever
    the server does."""
    server = _TLSServer(tmp_path)

    async def run() -> None:
        async with Client(server.url, ssl_context=server.client_context) as client:
            await use(client)

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ResourceWarning)
            asyncio.run(run())
            gc.collect()
        assert [str(each.message) for each in caught] == []
    finally:
        server.end()
