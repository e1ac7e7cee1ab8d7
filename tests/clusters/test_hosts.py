"""Which cluster a request is for when the TLS handshake (SNI) and the request name hosts."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import pytest

from kapiserver.clusters.service import AdministratorAccess
from tests.apiserver.serving.http2.clientkit import connect
from tests.clusters.clusterkit import MAP, MAPS, TIMEOUT_SECONDS, Kit

Pair: TypeAlias = tuple[AdministratorAccess, AdministratorAccess]

DOMAIN = "clusters.test"
PATH = f"{MAPS}/x"
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def pair(kit: Kit) -> Pair:
    """The cluster `blue`, which has the ConfigMap x, and `red.blue`, which has not."""
    blue, red = kit.create("blue"), kit.create("red.blue")
    assert kit.request(blue, "POST", MAPS, MAP).code == 201
    return blue, red


def tls_context(kit: Kit, *protocols: str) -> ssl.SSLContext:
    """Return the context of a client that does not compare the name in the certificate."""
    context = ssl.create_default_context(cafile=kit.server.ca)
    context.check_hostname = False
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def exchange(kit: Kit, server_name: str | None, head: str) -> str:
    """Send the head of a request on a connection whose handshake names a host, and return the
    status line and what follows."""
    url = urlsplit(kit.server.url)
    address = (url.hostname or "", url.port or 0)
    with (
        socket.create_connection(address, timeout=TIMEOUT_SECONDS) as plain,
        tls_context(kit).wrap_socket(plain, server_hostname=server_name) as connection,
    ):
        connection.sendall(head.encode())
        data = b""
        while piece := connection.recv(65536):
            data += piece
    return data.decode()


def code(kit: Kit, token: str, server_name: str | None, host: str, target: str = PATH) -> int:
    """Return the status of a GET with a token."""
    head = (
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        "Connection: close\r\n\r\n"
    )
    return int(exchange(kit, server_name, head).split(" ", 2)[1])


BLUE, RED = f"blue.{DOMAIN}", f"red.blue.{DOMAIN}"
CASES: list[tuple[str, str | None, str, str, int]] = [
    ("the handshake alone", BLUE, "127.0.0.1:6443", PATH, 200),
    ("the handshake, in capital letters", BLUE.upper(), "10.0.0.1", PATH, 200),
    ("the request alone", None, BLUE, PATH, 200),
    ("the request behind a proxy, which names the server", "localhost", BLUE, PATH, 200),
    ("both", BLUE, f"{BLUE}:6443", PATH, 200),
    ("two clusters", BLUE, RED, PATH, 421),
    ("two clusters, the other way", RED, BLUE, PATH, 421),
    ("a cluster that does not exist, and one that does", f"no.{DOMAIN}", BLUE, PATH, 421),
    ("the path does not count beside a host", BLUE, "127.0.0.1", f"/clusters/blue{PATH}", 404),
    ("the target in absolute form, before Host", None, RED, f"https://{BLUE}{PATH}", 200),
    ("the target in absolute form, of another cluster", BLUE, BLUE, f"https://{RED}{PATH}", 421),
    ("no cluster: the management cluster", "localhost", "localhost", PATH, 401),
    ("the domain itself is no cluster", DOMAIN, DOMAIN, PATH, 401),
    ("the token of another cluster", RED, RED, PATH, 401),
]


@pytest.mark.parametrize(
    ("server_name", "host", "target", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_names(
    kit: Kit, pair: Pair, server_name: str | None, host: str, target: str, expected: int
) -> None:
    """The host of the handshake and that of the request name the cluster; they must not name two.
    The token is that of `blue`, which alone has the object."""
    assert code(kit, pair[0].token, server_name, host, target) == expected


def test_the_answer_to_a_misdirected_request(kit: Kit, pair: Pair) -> None:
    """The answer is a Status that names the host of the connection; it comes before the token is
    looked at, and the next request of the connection may be right."""
    del pair
    heads = [f"GET /version HTTP/1.1\r\nHost: {host}\r\n" for host in (RED, BLUE)]
    text = exchange(kit, BLUE, f"{heads[0]}\r\n{heads[1]}Connection: close\r\n\r\n")
    assert text.startswith("HTTP/1.1 421 ")
    assert f'"message":"the connection was opened for {BLUE}","code":421' in text
    assert '"gitVersion"' in text


@pytest.mark.parametrize("count", [0, 2])
def test_hosts_that_are_not_one(kit: Kit, pair: Pair, count: int) -> None:
    """A request without Host, and one with two, reaches no cluster."""
    del pair
    hosts = "".join(f"Host: {host}\r\n" for host in (BLUE, RED)[:count])
    text = exchange(kit, BLUE, f"GET /version HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n")
    assert text.startswith("HTTP/1.1 400 ")


@pytest.mark.parametrize("header", [f"X-Forwarded-Host: {BLUE}", f"Forwarded: host={BLUE}"])
def test_forwarded_hosts_do_not_count(kit: Kit, pair: Pair, header: str) -> None:
    """Headers that a client may write as it likes name no cluster."""
    assert code(kit, pair[0].token, "localhost", f"localhost\r\n{header}") == 401


def test_http2(kit: Kit, pair: Pair) -> None:
    """Of HTTP/2, the authority of each request counts, and Host does not beside it."""
    token = ("authorization", f"Bearer {pair[0].token}")

    async def run() -> list[int]:
        client = await connect(urlsplit(kit.server.url).port or 0, tls_context(kit, "h2"), BLUE)
        client.h2.config.validate_outbound_headers = False  # it refuses a Host beside an authority
        streams = [
            await client.send(PATH, "GET", token, *headers, authority=authority)
            for authority, headers in (
                (BLUE, ()),
                (RED, ()),
                (BLUE, (("host", RED),)),
                ("127.0.0.1", (("host", RED),)),
            )
        ]
        codes = [(await client.wait(stream)).status for stream in streams]
        client.abort()
        return codes

    assert asyncio.run(run()) == [200, 421, 200, 200]


@pytest.mark.slow
def test_a_client_in_a_pod(
    kit: Kit, pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client in a pod reaches the cluster of the pod if KUBERNETES_SERVICE_HOST has its host, by
    the CA and the token that each pod has."""
    from kubernetes.client import ApiClient, Configuration, CoreV1Api
    from kubernetes.config.incluster_config import InClusterConfigLoader

    blue, url = pair[0], urlsplit(kit.server.url)
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    authorities = f"{MAPS}/kube-root-ca.crt"
    for path in (account, authorities):
        kit.wait(lambda path=path: kit.request(blue, "GET", path).code == 200)  # type: ignore[misc]
    token = kit.request(blue, "POST", f"{account}/token", {"spec": {}}).body["status"]["token"]
    files = {
        "token": token,
        "ca.crt": kit.request(blue, "GET", authorities).body["data"]["ca.crt"],
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *rest: resolve(url.hostname if host == BLUE else host, *rest),
    )
    configuration = Configuration()
    InClusterConfigLoader(
        str(tmp_path / "token"),
        str(tmp_path / "ca.crt"),
        environ={"KUBERNETES_SERVICE_HOST": BLUE, "KUBERNETES_SERVICE_PORT": str(url.port)},
    ).load_and_set(configuration)
    binding = {
        "metadata": {"name": "pods"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    bindings = f"/apis/{RBAC}/v1/namespaces/default/rolebindings"
    assert kit.request(blue, "POST", bindings, binding).code == 201
    with ApiClient(configuration) as client:
        assert CoreV1Api(client).read_namespaced_config_map("x", "default").data == MAP["data"]
        client.rest_client.pool_manager.clear()
