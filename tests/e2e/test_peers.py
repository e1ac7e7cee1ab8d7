"""Servers of one etcd that serve different API versions: each passes on what only others serve."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.apiserver.aggregation.aggregationkit import Authority
from tests.e2e.cluster import WATCH_TIMEOUT_SECONDS, call, open_response
from tests.e2e.programs import Server, kubectls, run, start, stop
from tests.storage.etcd_server import Member

GROUP = "/apis/resource.k8s.io/v1"
CLASSES = f"{GROUP}/deviceclasses"
"""A resource that releases before 1.34 do not have in this version."""
GATE = "--feature-gates=UnknownVersionInteroperabilityProxy=true"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Fleet:
    """Starts servers of one store with a common CA, each of which may name users to the others."""

    def __init__(self, folder: Path, etcd: Member, stack: ExitStack) -> None:
        self._folder = folder
        self._store = (f"--etcd-servers={etcd.url}", f"--etcd-prefix=/{folder.name}")
        self._stack = stack
        self._authority = Authority(folder, "proxies")
        self._certificate = self._authority.issue("front-proxy-client")

    def start(self, name: str, *flags: str) -> Server:
        """Start a server that passes requests on."""
        folder = self._folder / name
        folder.mkdir()
        certificates = self._folder / "certificates"
        server = start(
            folder,
            *self._store,
            f"--cert-dir={certificates}",
            f"--requestheader-client-ca-file={self._authority.files.certificate}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-uid-headers=X-Remote-Uid",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._certificate.certificate}",
            f"--proxy-client-key-file={self._certificate.key}",
            f"--peer-ca-file={certificates / 'ca.crt'}",
            *flags,
        )
        self._stack.callback(server.process.wait)
        self._stack.callback(server.process.kill)
        return server


@pytest.fixture
def fleet(tmp_path: Path, etcd: Member) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, etcd, stack)


def get(
    server: Server, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Return status, media type and body of a GET by the administrator."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    context.load_cert_chain(server.client_cert, server.client_key)
    host = server.url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, timeout=60, context=context)
    try:
        connection.request("GET", path, headers=dict(headers or {}))
        response = connection.getresponse()
        media_type = response.getheader("Content-Type") or ""
        return response.status, media_type, response.read().decode()
    finally:
        connection.close()


def wait_for_status(server: Server, path: str, *statuses: int) -> tuple[int, str, str]:
    """Return the response to a GET when it has one of these statuses."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        response = get(server, path)
        if response[0] in statuses:
            return response
        time.sleep(0.05)
    raise AssertionError(response)


def resources(server: Server, accept: str) -> set[str]:
    """Return the resources of `resource.k8s.io` that aggregated discovery shows, with versions."""
    groups = json.loads(get(server, "/apis", {"Accept": accept})[2])["items"]
    return {
        f"{version['version']}/{resource['resource']}"
        for group in groups
        if group["metadata"]["name"] == "resource.k8s.io"
        for version in group["versions"]
        for resource in version["resources"]
    }


def test_mixed_versions(fleet: Fleet) -> None:
    """A server that emulates an older release passes requests for newer resources on to a peer, as
    the client's user, watches and upgrades included; its discovery shows them, and kubectl uses
    them. When no server has the resource any more, the response is that of a server alone."""
    new = fleet.start("new")
    old = fleet.start("old", "--emulated-version=1.33", GATE)
    wait_for_status(old, CLASSES, 200)
    call(old, "POST", CLASSES, {"metadata": {"name": "c"}, "spec": {}}, status=201)
    assert call(new, "GET", f"{CLASSES}/c") == call(old, "GET", f"{CLASSES}/c")
    missing = call(old, "GET", f"{CLASSES}/missing", status=404)
    assert missing["message"] == 'deviceclasses.resource.k8s.io "missing" not found'
    assert get(old, CLASSES, {"x-kubernetes-peer-proxied": "true"})[::2] == (
        404,
        "404 page not found\n",
    )
    assert "v1/deviceclasses" in resources(old, AGGREGATED)
    assert resources(old, f"{AGGREGATED};profile=nopeer") == set()
    assert get(old, "/apis", {"Accept": AGGREGATED}) == get(new, "/apis", {"Accept": AGGREGATED})
    for kubectl in kubectls():
        assert "deviceclass" in run(kubectl, old, "get", "deviceclasses", "-o", "name")
    with open_response(old, "GET", f"{CLASSES}?watch=1") as stream, websocket_watch(old) as frames:
        assert json.loads(stream.readline())["object"]["metadata"]["name"] == "c"
        read_until(frames, b'"ADDED"')
        call(new, "DELETE", f"{CLASSES}/c")
        assert json.loads(stream.readline())["type"] == "DELETED"
        read_until(frames, b'"DELETED"')
    metrics = get(old, "/metrics")[2]
    labels = 'group="resource.k8s.io",version="v1",resource="deviceclasses"'
    assert f'apiserver_rerouted_request_total{{code="404",{labels}}} 1' in metrics
    assert re.search("^aggregator_discovery_nopeer_requests_total [1-9]", metrics, re.MULTILINE)
    assert stop(new) == 0
    assert wait_for_status(old, CLASSES, 404)[2] == "404 page not found\n"


@contextmanager
def websocket_watch(server: Server) -> Iterator[ssl.SSLSocket]:
    """A watch whose events are frames of a WebSocket."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    context.load_cert_chain(server.client_cert, server.client_key)
    host, _, port = server.url.removeprefix("https://").rpartition(":")
    handshake = (
        f"GET {CLASSES}?watch=1 HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with (
        socket.create_connection((host, int(port)), WATCH_TIMEOUT_SECONDS) as connection,
        context.wrap_socket(connection, server_hostname=host) as secured,
    ):
        secured.sendall(handshake.encode())
        assert read_until(secured, b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
        yield secured


def read_until(connection: ssl.SSLSocket, text: bytes) -> bytes:
    """Read until a text has arrived, and return what has been read; the rest is dropped."""
    received = b""
    while text not in received:
        piece = connection.recv(1 << 16)
        assert piece, received
        received += piece
    return received


@pytest.mark.slow
def test_peer_that_dies(fleet: Fleet) -> None:
    """While the Lease of a dead peer lasts, requests fail with 503: first because the connection is
    refused, and then because the peer's address has expired. Another peer takes over."""
    new = fleet.start("new")
    old = fleet.start("old", "--emulated-version=1.33", GATE)
    wait_for_status(old, CLASSES, 200)
    new.process.kill()
    new.process.wait()
    _, media_type, body = wait_for_status(old, CLASSES, 503)
    assert media_type == "text/plain; charset=utf-8"
    address = new.url.removeprefix("https://")
    refused = f"dial tcp {address}: connect: connection refused"
    assert body == f"error trying to reach service: {refused}\n"
    deadline = time.monotonic() + 60
    while "ServiceUnavailable" not in body:
        assert time.monotonic() < deadline, body
        time.sleep(0.2)
        body = get(old, CLASSES)[2]
    assert json.loads(body)["message"] == (
        "Error getting ip and port info of the remote server while proxying"
    )
    fleet.start("third")
    wait_for_status(old, CLASSES, 200)


def test_refused_flags(tmp_path: Path, etcd: Member) -> None:
    """Flags of peers need the feature gate, and the certificate that is shown to peers."""
    store = f"--etcd-servers={etcd.url}"
    ca = f"--peer-ca-file={tmp_path / 'ca.crt'}"
    gate = "requires UnknownVersionInteroperabilityProxy feature to be turned on"
    for flags, text in (
        ((ca, GATE.replace("true", "false")), f"--peer-ca-file {gate}"),
        (
            ("--peer-advertise-ip=127.0.0.1", "--emulated-version=1.35"),
            f"--peer-advertise-ip {gate}",
        ),
        ((ca,), "error building peer proxy handler, proxy-cert-file not specified"),
    ):
        with pytest.raises(AssertionError, match=text):
            start(tmp_path, store, *flags)
    with pytest.raises(AssertionError, match="--peer-ca-file needs a store that servers share"):
        start(tmp_path, f"--storage=sqlite:{tmp_path / 'store.db'}", ca)
