"""A whole server over HTTPS: credentials, users, bootstrap, the end."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml

from kapiserver.apiserver.config import Config
from kapiserver.app import RunningServer, serve
from tests.clock import ManualClock

Fetch = Callable[..., Awaitable[tuple[int, str]]]


@asynccontextmanager
async def _client(running: RunningServer, *, admin: bool = True) -> AsyncIterator[Fetch]:
    context = ssl.create_default_context(cafile=str(running.ca_file))
    if admin:
        assert running.credentials is not None
        pair = running.credentials.admin
        context.load_cert_chain(pair.certificate, pair.key)
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(running.url, connector=connector) as session:

        async def fetch(method: str, path: str, body=None, **headers: str) -> tuple[int, str]:
            async with session.request(method, path, json=body, headers=headers) as response:
                return response.status, await response.text()

        yield fetch


def _run(config: Config, test: Callable[[RunningServer], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with serve(config) as running:
            await test(running)

    asyncio.run(whole())


def test_https(tmp_path: Path) -> None:
    """The server shows a certificate of its own CA; the kubeconfig knows both ends."""

    async def check(running: RunningServer) -> None:
        assert running.kubeconfig is not None
        described = yaml.safe_load(running.kubeconfig.read_text())
        assert described["clusters"][0]["cluster"]["server"] == running.url
        async with _client(running) as fetch:
            assert await fetch("GET", "/readyz") == (200, "ok")
            status, body = await fetch("GET", "/version")
            assert status == 200
            found = json.loads(body)
            assert (found["major"], found["minor"]) == ("1", "37")
            assert found["gitVersion"] == "v1.37.0+kapiserver"

    _run(Config(cert_dir=tmp_path), check)


def test_users(tmp_path: Path) -> None:
    """Without a certificate one is anonymous, or who one's token says, or nobody."""
    (tmp_path / "tokens").write_text("good,ann,1\n")

    async def check(running: RunningServer) -> None:
        async with _client(running, admin=False) as fetch:
            assert (await fetch("GET", "/api", Authorization="Bearer good"))[0] == 200
            assert (await fetch("GET", "/api", Authorization="Bearer bad"))[0] == 401
            assert (await fetch("GET", "/api"))[0] == 401
        async with _client(running) as fetch:
            assert (await fetch("GET", "/api"))[0] == 200

    config = Config(cert_dir=tmp_path, token_auth_file=tmp_path / "tokens", anonymous_auth=False)
    _run(config, check)


def test_anonymous(tmp_path: Path) -> None:
    """Who shows nothing learns how the server is, and nothing of what is in it."""

    async def check(running: RunningServer) -> None:
        async with _client(running, admin=False) as fetch:
            for path in ("/version", "/healthz", "/livez", "/readyz"):
                assert (await fetch("GET", path))[0] == 200
            for path in ("/api", "/api/v1/secrets", "/openapi/v2", "/metrics"):
                assert (await fetch("GET", path))[0] == 403
            assert (await fetch("DELETE", "/api/v1/namespaces/default"))[0] == 403

    _run(Config(cert_dir=tmp_path), check)


async def _seen(running: RunningServer, path: str, wanted: Callable[[dict], bool]) -> dict:
    """The object of that path, as soon as a watch shows it as wanted."""
    collection, _, name = path.rpartition("/")
    query = {"watch": "1", "fieldSelector": f"metadata.name={name}"}
    async with (
        asyncio.timeout(60),
        aiohttp.ClientSession(running.insecure_url) as session,
        session.get(collection, params=query) as response,
    ):
        async for line in response.content:
            event = json.loads(line)
            if event["type"] != "DELETED" and wanted(event["object"]):
                return event["object"]
    raise AssertionError("the watch ended")


def _any(found: dict) -> bool:
    return True


def test_bootstrap(tmp_path: Path) -> None:
    """The system namespaces are there, and each namespace has its account and its CA."""

    async def check(running: RunningServer) -> None:
        assert running.ca_file is not None
        async with _client(running) as fetch:
            status, body = await fetch("GET", "/api/v1/namespaces")
            names = [one["metadata"]["name"] for one in json.loads(body)["items"]]
            assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
            status, _ = await fetch("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})
            assert status == 201
            for name in (*names, "mine"):
                root = f"/api/v1/namespaces/{name}"
                await _seen(running, f"{root}/serviceaccounts/default", _any)
                found = await _seen(running, f"{root}/configmaps/kube-root-ca.crt", _any)
                assert found["data"] == {"ca.crt": running.ca_file.read_text()}

    _run(Config(cert_dir=tmp_path, insecure_port=0), check)


def test_what_is_deleted_comes_back(tmp_path: Path) -> None:
    """The default account and the CA are made again, and the CA is put right."""

    async def check(running: RunningServer) -> None:
        async with _client(running) as fetch:
            root = "/api/v1/namespaces/default"
            for path in (f"{root}/serviceaccounts/default", f"{root}/configmaps/kube-root-ca.crt"):
                uid = (await _seen(running, path, _any))["metadata"]["uid"]
                assert (await fetch("DELETE", path))[0] == 200
                again = await _seen(running, path, lambda one: one["metadata"]["uid"] != uid)  # noqa: B023
            right, again["data"] = again["data"], {"ca.crt": "wrong"}
            assert (await fetch("PUT", path, again))[0] == 200
            await _seen(running, path, lambda one: one["data"] == right)

    _run(Config(cert_dir=tmp_path, insecure_port=0), check)


def test_a_namespace_that_cannot_be_read() -> None:
    """The others get their accounts all the same, and however many they are, what is to be tried
    again waits for one timer."""
    clock = ManualClock()

    async def check() -> None:
        async with serve(Config(secure_port=None, insecure_port=0), clock=clock) as running:
            kv = running.app.kv
            await kv.create("/registry/namespaces/bad", b"rubbish")
            url = running.url + "/api/v1/namespaces"
            async with aiohttp.ClientSession() as session:
                for number in range(5):
                    async with session.post(url, json={"metadata": {"name": f"n{number}"}}) as made:
                        assert made.status == 201
                    key = f"/registry/serviceaccounts/n{number}/default"
                    async with asyncio.timeout(60):
                        while (await kv.get(key)).item is None:
                            pass
            waiting = [one.callback for one in clock.timers if not one.cancelled]
            owners = [getattr(one, "__self__", None) for one in waiting]
            ours = [one for one in owners if isinstance(one, asyncio.Event)]
            assert len(ours) == len({id(one) for one in ours})

    asyncio.run(check())


def test_drain(tmp_path: Path) -> None:
    """When the server ends, watches end cleanly and it is soon over."""

    async def check() -> bytes:
        serving = serve(Config(cert_dir=tmp_path, secure_port=None, insecure_port=0))
        running = await serving.__aenter__()
        async with aiohttp.ClientSession(running.url) as session:
            path = "/api/v1/namespaces?watch=1&resourceVersion=0"
            async with session.get(path) as response:
                first = await response.content.readline()
                assert json.loads(first)["type"] == "ADDED"
                ended = asyncio.ensure_future(serving.__aexit__(None, None, None))
                rest = await response.content.read()  # fails where the stream does not end well
                await ended
        assert running.app.server.health.draining
        return rest

    async def in_time() -> None:
        async with asyncio.timeout(5):
            await check()

    asyncio.run(in_time())


def test_port_taken() -> None:
    """A port that is taken is an error, and leaves nothing behind."""

    async def twice() -> None:
        async with serve(Config(secure_port=None, insecure_port=0)) as running:
            port = int(running.url.rpartition(":")[2])
            with pytest.raises(OSError, match="address already in use"):
                async with serve(Config(secure_port=None, insecure_port=port)):
                    pass

    asyncio.run(twice())


def test_many_in_one_process() -> None:
    """Servers share nothing."""

    async def two() -> None:
        config = Config(secure_port=None, insecure_port=0)
        async with (
            serve(config) as one,
            serve(config) as other,
            aiohttp.ClientSession() as session,
        ):
            body = {"metadata": {"name": "mine"}}
            made = await session.post(f"{one.url}/api/v1/namespaces", json=body)
            assert made.status == 201
            missing = await session.get(f"{other.url}/api/v1/namespaces/mine")
            assert missing.status == 404

    asyncio.run(two())
