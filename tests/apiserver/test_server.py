"""A whole server over HTTPS: certificates, users, bootstrap and shutdown."""

import asyncio
import hashlib
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
from kapiserver.parts import Parts
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
    """The server certificate is signed by the server's CA; the kubeconfig contains the CA and the
    client certificate."""

    async def check(running: RunningServer) -> None:
        assert running.kubeconfig is not None
        described = yaml.safe_load(running.kubeconfig.read_text())
        assert described["clusters"][0]["cluster"]["server"] == running.url
        async with _client(running) as fetch:
            assert await fetch("GET", "/readyz") == (200, "ok")
            status, body = await fetch("GET", "/version")
            assert status == 200
            server_version = json.loads(body)
            assert (server_version["major"], server_version["minor"]) == ("1", "37")
            assert server_version["gitVersion"] == "v1.37.0+kapiserver"

    _run(Config.of(cert_dir=tmp_path), check)


def test_authentication(tmp_path: Path) -> None:
    """The user comes from the client certificate or the token. With anonymous authentication off,
    no credentials or a wrong token are a 401."""
    (tmp_path / "tokens").write_text("good,ann,1\n")

    async def check(running: RunningServer) -> None:
        async with _client(running, admin=False) as fetch:
            assert (await fetch("GET", "/api", Authorization="Bearer good"))[0] == 200
            assert (await fetch("GET", "/api", Authorization="Bearer bad"))[0] == 401
            assert (await fetch("GET", "/api"))[0] == 401
        async with _client(running) as fetch:
            assert (await fetch("GET", "/api"))[0] == 200

    config = Config.of(cert_dir=tmp_path, token_auth_file=tmp_path / "tokens", anonymous_auth=False)
    _run(config, check)


def test_credential_id(tmp_path: Path) -> None:
    """The user of a client certificate has the hash of the certificate as credential id."""

    async def check(running: RunningServer) -> None:
        assert running.credentials is not None
        pem = running.credentials.admin.certificate.read_text()
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
        async with _client(running) as fetch:
            path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
            status, body = await fetch("POST", path, {})
            assert status == 201
            extra = json.loads(body)["status"]["userInfo"]["extra"]
            assert extra == {"authentication.kubernetes.io/credential-id": [f"X509SHA256={digest}"]}

    _run(Config.of(cert_dir=tmp_path), check)


def test_anonymous(tmp_path: Path) -> None:
    """The anonymous user may read health and version, but no objects."""

    async def check(running: RunningServer) -> None:
        async with _client(running, admin=False) as fetch:
            for path in ("/version", "/healthz", "/livez", "/readyz"):
                assert (await fetch("GET", path))[0] == 200
            for path in ("/api", "/api/v1/secrets", "/openapi/v2", "/metrics"):
                assert (await fetch("GET", path))[0] == 403
            assert (await fetch("DELETE", "/api/v1/namespaces/default"))[0] == 403

    _run(Config.of(cert_dir=tmp_path), check)


async def _wait_for(running: RunningServer, path: str, condition: Callable[[dict], bool]) -> dict:
    """Watch until the object at the path meets the condition; return the object."""
    collection, _, name = path.rpartition("/")
    query = {"watch": "1", "fieldSelector": f"metadata.name={name}"}
    async with (
        asyncio.timeout(60),
        aiohttp.ClientSession(running.insecure_url) as session,
        session.get(collection, params=query) as response,
    ):
        async for line in response.content:
            event = json.loads(line)
            if event["type"] != "DELETED" and condition(event["object"]):
                return event["object"]
    raise AssertionError("the watch ended")


def _exists(obj: dict) -> bool:
    return True


def test_bootstrap(tmp_path: Path) -> None:
    """The system namespaces exist, and each namespace has a default service account and the CA
    config map."""

    async def check(running: RunningServer) -> None:
        assert running.ca_file is not None
        async with _client(running) as fetch:
            status, body = await fetch("GET", "/api/v1/namespaces")
            names = [item["metadata"]["name"] for item in json.loads(body)["items"]]
            assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
            status, _ = await fetch("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})
            assert status == 201
            for name in (*names, "mine"):
                root = f"/api/v1/namespaces/{name}"
                await _wait_for(running, f"{root}/serviceaccounts/default", _exists)
                config_map = await _wait_for(
                    running, f"{root}/configmaps/kube-root-ca.crt", _exists
                )
                assert config_map["data"] == {"ca.crt": running.ca_file.read_text()}

    _run(Config.of(cert_dir=tmp_path, insecure_port=0), check)


def test_deleted_objects_are_recreated(tmp_path: Path) -> None:
    """A deleted default service account or CA config map is created again, and a changed config map
    is restored."""

    async def check(running: RunningServer) -> None:
        async with _client(running) as fetch:
            root = "/api/v1/namespaces/default"
            for path in (f"{root}/serviceaccounts/default", f"{root}/configmaps/kube-root-ca.crt"):
                uid = (await _wait_for(running, path, _exists))["metadata"]["uid"]
                assert (await fetch("DELETE", path))[0] == 200
                recreated = await _wait_for(
                    running,
                    path,
                    lambda obj: obj["metadata"]["uid"] != uid,  # noqa: B023 - it is called in this turn
                )
            data, recreated["data"] = recreated["data"], {"ca.crt": "wrong"}
            assert (await fetch("PUT", path, recreated))[0] == 200
            await _wait_for(running, path, lambda obj: obj["data"] == data)

    _run(Config.of(cert_dir=tmp_path, insecure_port=0), check)


def test_undecodable_namespace() -> None:
    """Other namespaces get their service accounts, and all retries share one timer."""
    clock = ManualClock()

    async def check() -> None:
        async with serve(
            Config.of(secure_port=None, insecure_port=0), Parts(clock=clock)
        ) as running:
            kv = running.cluster.kv
            await kv.create("/registry/namespaces/bad", b"rubbish")
            url = running.url + "/api/v1/namespaces"
            async with aiohttp.ClientSession() as session:
                for number in range(5):
                    async with session.post(
                        url, json={"metadata": {"name": f"n{number}"}}
                    ) as response:
                        assert response.status == 201
                    key = f"/registry/serviceaccounts/n{number}/default"
                    async with asyncio.timeout(60):
                        while (await kv.get(key)).item is None:
                            pass
            callbacks = [timer.callback for timer in clock.timers if not timer.cancelled]
            owners = [getattr(callback, "__self__", None) for callback in callbacks]
            events = [owner for owner in owners if isinstance(owner, asyncio.Event)]
            assert len(events) == len({id(event) for event in events})

    asyncio.run(check())


def test_drain(tmp_path: Path) -> None:
    """On shutdown, watches end with a complete response, and the server stops long
    before its time-out."""

    async def check() -> bytes:
        config = Config.of(
            cert_dir=tmp_path, secure_port=None, insecure_port=0, shutdown_timeout=3600
        )
        serving = serve(config)
        running = await serving.__aenter__()
        async with aiohttp.ClientSession(running.url) as session:
            path = "/api/v1/namespaces?watch=1&resourceVersion=0"
            async with session.get(path) as response:
                line = await response.content.readline()
                assert json.loads(line)["type"] == "ADDED"
                shutdown = asyncio.ensure_future(serving.__aexit__(None, None, None))
                remaining = await response.content.read()  # raises if the last chunk is missing
                await shutdown
        assert running.cluster.server.health.draining
        return remaining

    async def in_time() -> None:
        async with asyncio.timeout(60):
            await check()

    asyncio.run(in_time())


def test_port_taken() -> None:
    """A port in use is an error."""

    async def read_twice() -> None:
        async with serve(Config.of(secure_port=None, insecure_port=0)) as running:
            port = int(running.url.rpartition(":")[2])
            with pytest.raises(OSError, match="address already in use"):
                async with serve(Config.of(secure_port=None, insecure_port=port)):
                    pass

    asyncio.run(read_twice())


def test_two_servers_in_one_process() -> None:
    """Servers in one process share no state."""

    async def serve_two() -> None:
        config = Config.of(secure_port=None, insecure_port=0)
        async with (
            serve(config) as server,
            serve(config) as other_server,
            aiohttp.ClientSession() as session,
        ):
            body = {"metadata": {"name": "mine"}}
            created = await session.post(f"{server.url}/api/v1/namespaces", json=body)
            assert created.status == 201
            missing = await session.get(f"{other_server.url}/api/v1/namespaces/mine")
            assert missing.status == 404

    asyncio.run(serve_two())
