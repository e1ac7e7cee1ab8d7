"""What an extension API server learns from its host, and when it learns it."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authentication.client_authorities import ClientAuthorities
from kapiserver.apiserver.authorizer import Verdict
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request import Certificate
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.user import User
from kapiserver.apiserver.webhooks import in_cluster
from kapiserver.app import serve
from kapiserver.client import Client
from kapiserver.extension import ApiServer, host_trust
from kapiserver.extension.access import AllowedPaths
from kapiserver.extension.delegation import Delegation
from kapiserver.extension.host_cluster import find_host
from kapiserver.extension.host_trust import HostTrust
from tests.apiserver.aggregation.aggregationkit import Authority
from tests.clock import ManualClock
from tests.extension.databases import make_databases
from tests.extension.servers import plain_config

NAME = "extension-apiserver-authentication"
KUBECONFIG = """
current-context: host
clusters: [{{name: host, cluster: {{server: "{url}"}}}}]
contexts: [{{name: host, context: {{cluster: host}}}}]
"""


@asynccontextmanager
async def _host(folder: Path) -> AsyncIterator[tuple[Client, Path]]:
    """A host, whose ConfigMap the test writes, and a kubeconfig of it."""
    config = Config.of(secure_port=None, insecure_port=0, shutdown_timeout=1)
    async with serve(config) as running, Client(running.url, retry_seconds=0.01) as client:
        file = folder / "host.kubeconfig"
        file.write_text(KUBECONFIG.format(url=running.url))
        yield client, file


async def _publish(client: Client, **data: str) -> None:
    """Write the ConfigMap."""
    maps = client.resource("v1", "configmaps", namespace="kube-system")
    body = {
        "metadata": {"name": NAME},
        "data": {name.replace("_", "-"): value for name, value in data.items()},
    }
    await maps.apply(
        {"kind": "ConfigMap", "apiVersion": "v1", **body}, manager="host", force="true"
    )


def _certificate(authority: Authority, name: str) -> Certificate:
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(authority.pem)).hexdigest()
    return Certificate(common_name=name, chain=frozenset([digest]))


class _Request:
    """A request as the authenticator of front proxies reads it."""

    def __init__(self, certificate: Certificate, headers: dict[str, str]) -> None:
        self.certificate = certificate
        self.headers = headers

    def header(self, name: str) -> str:
        return self.headers.get(name, "")


def _proxied(trust: HostTrust, authority: Authority, name: str = "front-proxy") -> Any:
    """Return the user of a request of a front proxy, or the word that refuses it."""
    request: Any = _Request(_certificate(authority, name), {"X-User": "anna", "X-Uid": "7"})
    try:
        return trust.front_proxies.authenticate(request)
    except InvalidCredentials:
        return "refused"


async def _until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 # no event tells a test
            await asyncio.sleep(0.01)


def test_trust_follows_the_config_map(tmp_path: Path) -> None:
    """CAs, names and headers are those of the ConfigMap, soon after it changes. Data that is
    malformed changes nothing."""
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    lists = {
        "requestheader_allowed_names": '["front-proxy"]',
        "requestheader_username_headers": '["X-User"]',
        "requestheader_uid_headers": '["X-Uid"]',
    }

    async def run() -> None:
        async with _host(tmp_path) as (client, file):
            await _publish(client, client_ca_file=first.pem)
            host, users = find_host(file), ClientAuthorities(())
            assert host is not None
            trust = HostTrust(host, ManualClock(), users, None)
            await trust.start(tolerates_failure=False)
            try:
                assert users.have_signed(_certificate(first, "x"))
                assert _proxied(trust, second) is None
                await _publish(
                    client, client_ca_file="", requestheader_client_ca_file=second.pem, **lists
                )
                await _until(lambda: _proxied(trust, second) is not None)
                assert _proxied(trust, second) == User(
                    name="anna", uid="7", groups=("system:authenticated",)
                )
                assert _proxied(trust, second, "other") == "refused"
                assert _proxied(trust, first) == "refused"
                assert not users.have_signed(_certificate(first, "x"))
                await _publish(client, requestheader_client_ca_file=second.pem, client_ca_file="x",
                               requestheader_allowed_names="{")  # fmt: skip
                await _publish(
                    client, requestheader_client_ca_file=first.pem, client_ca_file="", **lists
                )
                await _until(lambda: isinstance(_proxied(trust, first), User))
            finally:
                await trust.stop()

    asyncio.run(run())


async def _answer_but_never_end_a_watch(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer a GET with an empty ConfigMap, and a watch with a head and nothing else."""
    while line := await reader.readline():
        while (await reader.readline()).strip():
            pass
        if b"watch=1" in line:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def test_watch_of_a_host_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that the host does not end is given up, and the ConfigMap is read again."""
    monkeypatch.setattr(host_trust, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(host_trust, "WATCH_GRACE_SECONDS", 0.02)
    watches: list[Any] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        watches.append(writer)
        await _answer_but_never_end_a_watch(reader, writer)
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            file = tmp_path / "host.kubeconfig"
            port = server.sockets[0].getsockname()[1]
            file.write_text(KUBECONFIG.format(url=f"http://127.0.0.1:{port}"))
            host, clock = find_host(file), ManualClock()
            assert host is not None
            trust = HostTrust(host, clock, None, None)
            await trust.start(tolerates_failure=False)
            try:
                for number in (2, 3, 4):  # each attempt opens a connection; the first one started
                    await _until(lambda number=number: len(watches) >= number)
                    await _until(lambda: clock.timers)
                    clock.advance(host_trust.RETRY_SECONDS)
            finally:
                await trust.stop()

    asyncio.run(run())


@pytest.mark.parametrize("setting", ["", "tolerate_lookup_failure", "skip_lookup"])
def test_failed_lookup(setting: str, tmp_path: Path) -> None:
    """A host without the ConfigMap is an error at start, unless that is tolerated: then the lookup
    is repeated."""

    async def run() -> None:
        async with _host(tmp_path) as (_, file):
            settings = {f"authentication_{setting}": True} if setting else {}
            delegation = Delegation(kubeconfig=file, **settings)
            server = ApiServer([make_databases()])
            async with server.serve(plain_config(), delegation=delegation) as running:
                assert running.url

    if setting:
        asyncio.run(run())
    else:
        with pytest.raises(ValueError, match=f'configmaps "{NAME}" not found'):
            asyncio.run(run())


def test_host_of_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod, the files of its service account describe the host."""
    assert not Delegation().has_host
    assert find_host(None) is None
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(in_cluster, "SERVICE_ACCOUNT", tmp_path)
    assert not Delegation().has_host
    (tmp_path / "token").write_text("abc")
    (tmp_path / "ca.crt").write_text("pem")
    assert Delegation().has_host
    host = find_host(None)
    assert host is not None
    assert host.cluster == {"server": "https://[fd00::1]:443", "certificate-authority": "ca.crt"}
    assert host.user == {"tokenFile": "token"}


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/healthz", True),
        ("/healthz/x", False),
        ("/docs/a/b", True),
        ("/docs", False),
        ("/apis/example.com/v1/databases", False),
    ],
)
def test_allowed_paths(path: str, allowed: bool) -> None:
    """An asterisk stands for all that begins so; resources are not paths."""
    info = parse_request_info("GET", path, {})
    paths = AllowedPaths(("/healthz", "/docs/*", "/apis*"))
    decision = asyncio.run(paths.authorize(User(name="x"), info))
    assert (decision.verdict is Verdict.ALLOW) is allowed
