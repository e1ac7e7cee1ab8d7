"""The client of a webhook that a kubeconfig file names, against a real HTTPS server."""

import asyncio
import base64
import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.apiserver.webhooks import http_client
from kapiserver.apiserver.webhooks.http_client import WebhookFailed
from kapiserver.apiserver.webhooks.kubeconfig import KubeconfigWebhook, read_kubeconfig
from tests.apiserver.proxy.https_server import HttpsServer, Received, Reply, kubeconfig
from tests.clock import ManualClock


class InstantClock(ManualClock):
    """A clock whose timers call back at once; `delays` has their seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    def call_later(self, seconds: float, callback: Any) -> Any:
        self.delays.append(seconds)
        return asyncio.get_running_loop().call_soon(callback)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpsServer]:
    """A webhook that returns the review that it received."""

    def echo(received: Received) -> Reply:
        return Reply(received.body)

    server = HttpsServer(ensure_certificates(Config(), tmp_path / "certificates"), echo)
    yield server
    server.end()


def read(folder: Path, text: str, *, timeout: float = 30.0) -> tuple[KubeconfigWebhook, Any]:
    file, clock = folder / "webhook.yaml", InstantClock()
    file.write_text(text)
    return read_kubeconfig(file, clock, purpose="webhook", timeout=timeout), clock


def review(webhook: KubeconfigWebhook, *, times: int = 1) -> Any:
    async def run() -> Any:
        try:
            for _ in range(times):
                response = await webhook.review({"spec": {"a": 1}})
            return response
        finally:
            await webhook.close()
            for _ in range(20):  # later turns of the loop close the connections
                await asyncio.sleep(0)

    return asyncio.run(run())


def test_review(server: HttpsServer, tmp_path: Path) -> None:
    """A review is posted as JSON to the URL of the cluster, with the timeout."""
    webhook, _ = read(tmp_path, kubeconfig(server))
    assert review(webhook, times=2) == {"spec": {"a": 1}}
    first, _ = server.received
    assert (first.method, first.path) == ("POST", "/review?timeout=30s")
    assert first.headers["content-type"] == "application/json"
    assert "authorization" not in first.headers


def test_credentials(server: HttpsServer, tmp_path: Path) -> None:
    """The user's token, token file, or name and password are sent; a changed token file is read
    again."""
    (tmp_path / "token").write_text("one\n")
    webhook, _ = read(tmp_path, kubeconfig(server, {"tokenFile": "token"}))
    review(webhook)
    (tmp_path / "token").write_text("two\n")
    review(webhook)
    review(read(tmp_path, kubeconfig(server, {"token": "three"}))[0])
    review(read(tmp_path, kubeconfig(server, {"username": "a", "password": "b"}))[0])
    sent = [received.headers["authorization"] for received in server.received]
    basic = base64.b64encode(b"a:b").decode()
    assert sent == ["Bearer one", "Bearer two", "Bearer three", f"Basic {basic}"]


def test_client_certificate(server: HttpsServer, tmp_path: Path) -> None:
    """A client certificate is given as files or inline; an unusable one is an error of the file,
    and one that becomes unusable an error of the call."""
    admin = ensure_certificates(Config(), tmp_path / "certificates").admin
    certificate, key = tmp_path / "c.crt", tmp_path / "c.key"
    certificate.write_bytes(admin.certificate.read_bytes())
    key.write_bytes(admin.key.read_bytes())
    files = {"client-certificate": "c.crt", "client-key": str(key)}
    webhook, _ = read(tmp_path, kubeconfig(server, files))
    review(webhook)
    inline = {
        "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(key.read_bytes()).decode(),
    }
    review(read(tmp_path, kubeconfig(server, inline))[0])
    key.write_text("no key")
    os.utime(key, (1, 1))
    with pytest.raises(WebhookFailed, match="unable to load"):
        review(webhook)
    with pytest.raises(BadConfiguration, match="unable to load"):
        read(tmp_path, kubeconfig(server, files))
    certificate.unlink()
    with pytest.raises(BadConfiguration, match=r"unable to read client-certificate c\.crt"):
        read(tmp_path, kubeconfig(server, files))


def test_tls(server: HttpsServer, tmp_path: Path) -> None:
    """The server's certificate must be of the CA and have the name, unless verification is off."""
    unknown = kubeconfig(server, **{"certificate-authority": ""})
    with pytest.raises(WebhookFailed, match="x509: certificate signed by unknown authority"):
        review(read(tmp_path, unknown)[0])
    insecure = kubeconfig(server, **{"certificate-authority": "", "insecure-skip-tls-verify": True})
    review(read(tmp_path, insecure)[0])
    review(read(tmp_path, kubeconfig(server, **{"tls-server-name": "kubernetes.default"}))[0])
    with pytest.raises(WebhookFailed, match="failed to verify certificate"):
        review(read(tmp_path, kubeconfig(server, **{"tls-server-name": "other"}))[0])


def test_retries(server: HttpsServer, tmp_path: Path) -> None:
    """A call is retried after 429, 500, 504 or Retry-After, four times at most and with growing
    delays; after other errors it is not."""
    replies = [Reply(status=500), Reply(status=429), Reply({"ok": True})]
    server.respond = lambda _: replies.pop(0)
    webhook, clock = read(tmp_path, kubeconfig(server))
    assert review(webhook) == {"ok": True}
    first, second = clock.delays
    assert 0.5 <= first <= 0.6
    assert 0.75 <= second <= 0.9
    server.respond = lambda _: Reply(status=503, headers={"Retry-After": "1"})
    server.received.clear()
    with pytest.raises(WebhookFailed, match="currently unable") as caught:
        review(webhook)
    assert (len(server.received), caught.value.status) == (5, 503)
    server.respond = lambda _: Reply(status=503)
    server.received.clear()
    with pytest.raises(WebhookFailed):
        review(webhook)
    assert len(server.received) == 1


def test_bad_responses(
    server: HttpsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response that is not JSON, too large or too slow is an error."""
    server.respond = lambda _: Reply(b"{")
    with pytest.raises(WebhookFailed):
        review(read(tmp_path, kubeconfig(server))[0])

    def wait(_: Received) -> Reply:
        plain.over.wait(20)
        return Reply({})

    plain = HttpsServer(None, wait)
    with pytest.raises(WebhookFailed, match=r"timeout=0\.1s\": context deadline exceeded"):
        review(read(tmp_path, kubeconfig(plain), timeout=0.1)[0])
    plain.end()


CLUSTER = {"name": "c", "cluster": {"server": "https://h/p"}}
CONTEXT = {"name": "x", "context": {"cluster": "c", "user": "u"}}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, 'current-context: Invalid value: "x": no context has this name'),
        ({"contexts": [CONTEXT]}, 'contexts: Invalid value: "c": no cluster has this name'),
        ({"contexts": [CONTEXT], "clusters": [CLUSTER]}, '"u": no user has this name'),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "h"}}]},
            'clusters.server: Invalid value: "h": must be an HTTP or HTTPS URL without a query',
        ),
        (
            {"users": [{"name": "u", "user": {"exec": {"command": "c"}}}]},
            "credential plugins are not supported",
        ),
        (
            {"users": [{"name": "u", "user": {"client-key": "k"}}]},
            "client-key and client-certificate must be set together",
        ),
        (
            {
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {
                            "server": "https://h",
                            "insecure-skip-tls-verify": True,
                            "certificate-authority-data": "AAAA",
                        },
                    }
                ]
            },
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
    ],
)
def test_bad_files(tmp_path: Path, parts: Any, message: str) -> None:
    """Files without cluster, URL or usable credentials are refused."""
    whole: Any = {"contexts": [CONTEXT], "clusters": [CLUSTER], "users": []}
    if set(parts) & {"users", "clusters"} and "contexts" not in parts:
        parts = whole | {"users": [{"name": "u", "user": {}}]} | parts
    with pytest.raises(BadConfiguration) as caught:
        read(tmp_path, json.dumps({"current-context": "x", **parts}))
    assert message in str(caught.value)


def test_unknown_fields(server: HttpsServer, tmp_path: Path) -> None:
    """Fields that client-go does not know are ignored, as there."""
    text = json.dumps(json.loads(kubeconfig(server)) | {"preferences": {}, "other": 1})
    review(read(tmp_path, text)[0])
    assert http_client.TIMEOUT == 30


class Tunnel:
    """An HTTP proxy that opens one tunnel (CONNECT) and passes bytes on in both directions."""

    def __init__(self) -> None:
        self.request = ""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._listener, self._listener.accept()[0] as client:
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            self.request = head.split(b"\r\n", 1)[0].decode()
            host, _, port = self.request.split(" ")[1].rpartition(":")
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                other = threading.Thread(target=self._copy, args=(server, client))
                other.start()
                self._copy(client, server)
                other.join()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def join(self) -> None:
        self._thread.join()


def test_proxy(server: HttpsServer, tmp_path: Path) -> None:
    """Requests go by way of `proxy-url`; a certificate of another CA is refused there too."""
    tunnel = Tunnel()
    webhook, _ = read(tmp_path, kubeconfig(server, **{"proxy-url": tunnel.url}))
    assert review(webhook) == {"spec": {"a": 1}}
    tunnel.join()
    assert tunnel.request == f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"
    tunnel = Tunnel()
    unknown = kubeconfig(server, **{"proxy-url": tunnel.url, "certificate-authority": ""})
    with pytest.raises(WebhookFailed, match="x509: certificate signed by unknown authority"):
        review(read(tmp_path, unknown)[0])
    tunnel.join()


def test_proxy_that_is_not_there(server: HttpsServer, tmp_path: Path) -> None:
    """The error names the address of the proxy."""
    webhook, _ = read(tmp_path, kubeconfig(server, **{"proxy-url": "http://127.0.0.1:1"}))
    with pytest.raises(WebhookFailed, match="connect: connection refused"):
        review(webhook)
