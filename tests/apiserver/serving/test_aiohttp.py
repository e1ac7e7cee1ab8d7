"""The API as an aiohttp application, mounted in an application of a product."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kapiserver.aiohttp import SERVER, application
from kapiserver.apiserver.config import AIOHTTP, Config
from kapiserver.host import Host
from tests.apiserver.conftest import Server

MAPS = "/kube/api/v1/namespaces/default/configmaps"
PROTOBUF = "application/vnd.kubernetes.protobuf"


async def _hello(_request: web.Request) -> web.Response:
    return web.Response(text="hello")


@asynccontextmanager
async def mounted(
    folder: Path,
) -> AsyncIterator[tuple[aiohttp.ClientSession, web.AppRunner, web.Application]]:
    """A client of a product that has the API at /kube, the product's runner, and the API."""
    tokens = folder / "tokens"
    tokens.write_text("token,admin,1,system:masters\n")
    api = application(Config.of(storage="sqlite::memory:", token_auth_file=tokens))
    product = web.Application()
    product.router.add_get("/hello", _hello)
    product.add_subapp("/kube", api)
    runner = web.AppRunner(product, handler_cancellation=True, shutdown_timeout=5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        headers = {"Authorization": "Bearer token"}
        async with aiohttp.ClientSession(url, headers=headers) as client:
            yield client, runner, api
    finally:
        await runner.cleanup()


def _config_map(name: str) -> Any:
    return {"metadata": {"name": name}, "data": {"key": "x" * 1000}}


def test_mounted_application(tmp_path: Path) -> None:
    """The product's routes and the API answer side by side, in every encoding."""

    async def run() -> None:
        async with mounted(tmp_path) as (client, _, _):
            assert await (await client.get("/hello")).text() == "hello"
            assert (await client.get("/other")).status == 404
            assert (await client.get("/kube/other")).status == 404
            created = await client.post(MAPS, json=_config_map("a"))
            assert (created.status, (await created.json())["metadata"]["name"]) == (201, "a")
            assert (await client.post(MAPS, json=_config_map("a"))).status == 409
            large = await client.post(
                MAPS,
                data=io.BytesIO(b"x" * (4 << 20)),
                headers={"Content-Type": "application/json"},
            )
            assert large.status == 413
            read = await client.get(f"{MAPS}/a", headers={"Accept": PROTOBUF})
            assert (await read.read()).startswith(b"k8s\0")
            head = await client.head(f"{MAPS}/a")
            assert (head.status, await head.read()) == (405, b"")
            anonymous = await client.get(MAPS, headers={"Authorization": "Bearer other"})
            assert anonymous.status == 401

    asyncio.run(run())


def test_watches(tmp_path: Path) -> None:
    """Watches deliver events as JSON lines and over WebSocket, end when their client disconnects,
    and end when the product stops."""

    async def run() -> None:
        async with mounted(tmp_path) as (client, runner, api):
            await client.post(MAPS, json=_config_map("a"))
            watch = await client.get(f"{MAPS}?watch=1&fieldSelector=metadata.name=a")
            assert json.loads(await watch.content.readline())["type"] == "ADDED"
            async with client.ws_connect(f"{MAPS}?watch=1&fieldSelector=metadata.name=a") as socket:
                assert (await socket.receive_json())["object"]["metadata"]["name"] == "a"
                assert _watches(api) == 2
                await client.delete(f"{MAPS}/a")
                assert (await socket.receive_json())["type"] == "DELETED"
            assert json.loads(await watch.content.readline())["type"] == "DELETED"
            watch.close()
            await _wait_until(lambda: not _watches(api))
            last = await client.get(f"{MAPS}?watch=1&resourceVersion=0")
            ended = asyncio.create_task(last.content.read())
            await _wait_until(lambda: _watches(api))
            await runner.cleanup()
            assert b"DELETED" not in await ended

    asyncio.run(run())


def test_two_applications(tmp_path: Path) -> None:
    """A product mounts two clusters on one host; each has objects of its own."""
    tokens = tmp_path / "tokens"
    tokens.write_text("token,admin,1,system:masters\n")
    config = Config.of(storage="sqlite::memory:", token_auth_file=tokens)

    async def run() -> None:
        host = Host(config)
        product, apis = web.Application(), []
        for mount in ("/blue", "/green"):
            apis.append(application(config, host=host))
            product.add_subapp(mount, apis[-1])
        runner = web.AppRunner(product, handler_cancellation=True, shutdown_timeout=5)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            headers = {"Authorization": "Bearer token"}
            maps = MAPS.removeprefix("/kube")
            async with aiohttp.ClientSession(url, headers=headers) as client:
                created = await client.post(f"/blue{maps}", json=_config_map("a"))
                assert created.status == 201
                assert (await client.get(f"/blue{maps}/a")).status == 200
                assert (await client.get(f"/green{maps}/a")).status == 404
            for api in apis:
                assert api[SERVER].cluster.server.offloader is host.offloader
        finally:
            await runner.cleanup()

    asyncio.run(run())


async def _wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the figure of the server has no event
            await asyncio.sleep(0)


def _watches(api: web.Application) -> Any:
    return api[SERVER].status()["watches"]


@pytest.fixture(scope="module")
def served() -> Any:
    """A server with `--http=aiohttp`."""
    server = Server(http=AIOHTTP)
    yield server
    server.end()


def test_large_list(served: Any) -> None:
    """A list of several slices arrives whole."""
    for number in range(40):
        body = {"metadata": {"name": f"large-{number}"}, "data": {"key": "x" * 20_000}}
        assert served.api.post("/api/v1/namespaces/default/configmaps", body).status == 201
    listed = served.api.get("/api/v1/namespaces/default/configmaps")
    large = [item for item in listed.json["items"] if item["metadata"]["name"].startswith("large")]
    assert len(large) == 40
    assert listed.headers["Transfer-Encoding"] == "chunked"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked",
        b"Content-Length: 4\r\nContent-Length: 5",
        b"Content-Length: +4",
        b"Transfer-Encoding: chunked, chunked",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding : chunked",
    ],
)
def test_smuggling(served: Any, framing: bytes) -> None:
    """A request whose body ends in two ways is refused, and what follows it is not a request."""

    async def exchange() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.api.port)
        head = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\n" + framing
        writer.write(head + b"\r\n\r\n0\r\n\r\nGET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        response = await reader.read()
        writer.close()
        return response

    response = asyncio.run(exchange())
    assert b" 400 " in response.partition(b"\r\n")[0]
    assert b"gitVersion" not in response
