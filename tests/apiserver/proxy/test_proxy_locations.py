"""The addresses that requests by way of services and nodes are passed on to."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.http_client.upstreams import Upstreams
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.storage.cache.offload import Offloader
from tests.apiserver.conftest import Api, Server
from tests.apiserver.proxy.test_proxy import create_pod, message
from tests.apiserver.proxy.upstreams import Upstream, machine_address, reply, running_upstream


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A server in a pod."""
    with running_upstream() as upstream:
        yield upstream


@pytest.fixture
def service(api: Api, core: str) -> str:
    """The path of a service without a selector, with the port `web`."""
    spec = {"ports": [{"name": "web", "port": 80}, {"name": "other", "port": 81}]}
    body = {"metadata": {"name": "s"}, "spec": spec}
    assert api.post(f"{core}/services", body).status == 201
    return f"{core}/services/s"


def add_slice(
    api: Api, core: str, upstream: Upstream, *, name: str = "s1", pod: str = "p", **endpoint: Any
) -> None:
    """Create an EndpointSlice of the service with an endpoint in a pod; "" leaves out the pod."""
    namespace = core.rpartition("/")[2]
    reference = {"kind": "Pod", "namespace": namespace, "name": pod}
    body = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4",
        "ports": [{"name": "web", "port": upstream.port}],
        "endpoints": [
            {"addresses": [upstream.host], **({"targetRef": reference} if pod else {}), **endpoint}
        ],
    }
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    response = api.post(path, body)
    assert response.status == 201, response.body


NO_ENDPOINTS = (503, 'no endpoints available for service "s"')


@pytest.mark.parametrize("name", ["s:web", "s:80", "http:s:web"])
def test_service(api: Api, core: str, service: str, upstream: Upstream, name: str) -> None:
    """A port is given by its name or number; the request goes to the endpoint's port."""
    create_pod(api, core, upstream.host)
    path = f"{core}/services/{name}"
    assert message(api.get(f"{path}/proxy/x")) == NO_ENDPOINTS
    add_slice(api, core, upstream)
    assert api.get(f"{path}/proxy/x?a=b").body == b"hello"
    assert upstream.request().target == "/x?a=b"


def test_service_ports(api: Api, core: str, service: str, upstream: Upstream) -> None:
    """Without a port the service needs one without a name; unknown ones are a 503."""
    create_pod(api, core, upstream.host)
    add_slice(api, core, upstream)
    services = f"{core}/services"
    assert message(api.get(f"{services}/s/proxy/")) == NO_ENDPOINTS
    assert message(api.get(f"{services}/s:other/proxy/")) == NO_ENDPOINTS
    assert message(api.get(f"{services}/s:missing/proxy/")) == NO_ENDPOINTS
    expected = 'no service port 82 found for service "s"'
    assert message(api.get(f"{services}/s:82/proxy/")) == (503, expected)
    assert message(api.get(f"{services}/t:82/proxy/")) == (404, 'services "t" not found')
    expected = 'no endpoints available for service "t"'
    assert message(api.get(f"{services}/t:web/proxy/")) == (503, expected)
    expected = 'invalid service request "ftp:s:80"'
    assert message(api.get(f"{services}/ftp:s:80/proxy/")) == (400, expected)


def test_endpoints_that_are_no_pods(api: Api, core: str, service: str, upstream: Upstream) -> None:
    """An endpoint is skipped unless it is ready and refers to the pod that has its address, so that
    nobody can make the server connect to an address by writing it into an EndpointSlice."""
    path = f"{service}:web/proxy/"
    create_pod(api, core, "192.0.2.77", name="elsewhere")
    create_pod(api, core, upstream.host)
    add_slice(api, core, upstream, name="no-reference", pod="")
    assert message(api.get(path)) == NO_ENDPOINTS
    add_slice(api, core, upstream, name="no-such-pod", pod="missing")
    assert message(api.get(path)) == NO_ENDPOINTS
    add_slice(api, core, upstream, name="other-address", pod="elsewhere")
    assert message(api.get(path)) == NO_ENDPOINTS
    foreign = {"kind": "Pod", "namespace": "default", "name": "p"}
    add_slice(api, core, upstream, name="other-namespace", targetRef=foreign)
    assert message(api.get(path)) == NO_ENDPOINTS
    add_slice(api, core, upstream, name="not-ready", conditions={"ready": False})
    assert message(api.get(path)) == NO_ENDPOINTS
    assert upstream.requests.empty()
    add_slice(api, core, upstream)
    assert api.get(path).body == b"hello"


def test_own_service(api: Api) -> None:
    """The endpoint of the server itself is no pod."""
    path = "/api/v1/namespaces/default/services/https:kubernetes:https/proxy/version"
    expected = 'no endpoints available for service "kubernetes"'
    assert message(api.get(path)) == (503, expected)


# Nodes.


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Upstream]:
    """A server with a certificate for this machine's address, of the CA `ca.crt` in `tmp_path`. It
    asks for client certificates of that CA."""
    address = machine_address()
    credentials = ensure_certificates(Config.of(bind_address=address), tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(credentials.serving.certificate, credentials.serving.key)
    context.load_verify_locations(credentials.ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    with running_upstream(context) as upstream:
        yield upstream


def create_node(api: Api, name: str, port: int = 0, **addresses: str) -> str:
    """Create a node with addresses by their types; return the path of its proxy."""
    status: dict[str, Any] = {
        "addresses": [{"type": each, "address": address} for each, address in addresses.items()]
    }
    if port:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    body = {"metadata": {"name": name}, "status": status}
    assert api.post("/api/v1/nodes", body).status == 201
    node = api.get(f"/api/v1/nodes/{name}").json
    node["status"] |= status
    assert api.put(f"/api/v1/nodes/{name}/status", node).status == 200
    return f"/api/v1/nodes/{name}/proxy"


@pytest.fixture
def nodes(api: Api) -> Iterator[Callable[..., str]]:
    """A function that creates nodes, which are deleted after the test."""
    names = []

    def make(name: str, port: int = 0, **addresses: str) -> str:
        names.append(name)
        return create_node(api, name, port, **addresses)

    yield make
    for name in names:
        api.delete(f"/api/v1/nodes/{name}")


def test_kubelet(api: Api, nodes: Callable[..., str], kubelet: Upstream) -> None:
    """The kubelet is reached over HTTPS at the port that its node reports, whatever scheme the name
    has; without a CA for kubelets its certificate is not verified."""
    path = nodes("proxied", kubelet.port, ExternalIP="192.0.2.1", InternalIP=kubelet.host)
    assert api.get(f"{path}/metrics").body == b"hello"
    assert kubelet.request().target == "/metrics"
    named = path.replace("proxied", f"http:proxied:{kubelet.port}")
    assert api.get(f"{named}/pods").body == b"hello"


def test_other_ports_of_nodes(api: Api, nodes: Callable[..., str], upstream: Upstream) -> None:
    """Another port of the node is reached over the scheme of the name, by default plain HTTP."""
    path = nodes("other-port", InternalIP=upstream.host)
    for name in (f"other-port:{upstream.port}", f"http:other-port:{upstream.port}"):
        assert api.get(f"{path.replace('other-port', name)}/").body == b"hello"


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ({}, (500, "no preferred addresses found; known addresses: []")),
        (
            {"Other": "10.0.0.1"},
            (500, "no preferred addresses found; known addresses: [{Other 10.0.0.1}]"),
        ),
        ({"InternalIP": "127.0.0.1"}, (400, "address not allowed")),
        ({"InternalIP": "::ffff:127.0.0.1"}, (400, "address not allowed")),
        ({"InternalIP": "127.1"}, (400, "address not allowed")),
        ({"InternalIP": "2130706433"}, (400, "address not allowed")),
        ({"InternalIP": "169.254.169.254"}, (400, "address not allowed")),
        ({"Hostname": "localhost", "InternalIP": "10.0.0.1"}, (400, "address not allowed")),
        ({"Hostname": "x.invalid"}, (400, "lookup x.invalid: no such host")),
        ({"Hostname": "x/y@z"}, (400, "lookup x/y@z: no such host")),
    ],
)
def test_addresses_of_nodes(
    api: Api, nodes: Callable[..., str], addresses: dict[str, str], expected: tuple[int, str]
) -> None:
    """The address is the first by the preferred types; what it resolves to is guarded."""
    assert message(api.get(f"{nodes('guarded', **addresses)}/")) == expected


def test_unknown_node(api: Api) -> None:
    """There is no request to a node that does not exist."""
    assert message(api.get("/api/v1/nodes/absent/proxy/")) == (404, 'nodes "absent" not found')
    expected = 'invalid node request "a:b:c:d"'
    assert message(api.get("/api/v1/nodes/a:b:c:d/proxy/")) == (400, expected)


def test_verified_kubelets(
    make_server: Callable[..., Server], kubelet: Upstream, tmp_path: Path
) -> None:
    """With a CA for kubelets, their certificates are verified, and the server shows its own."""
    credentials = ensure_certificates(Config.of(bind_address=kubelet.host), tmp_path)
    kubelet.answer = lambda exchange: exchange.send(
        reply(str(bool(exchange.socket.getpeercert())).encode())  # type: ignore[attr-defined]
    )
    api = make_server(
        kubelet_preferred_address_types=("ExternalIP", "InternalIP"),
        kubelet_certificate_authority=credentials.ca,
        kubelet_client_certificate=credentials.admin.certificate,
        kubelet_client_key=credentials.admin.key,
    ).api
    path = create_node(api, "a", kubelet.port, InternalIP="10.0.0.1", ExternalIP=kubelet.host)
    assert api.get(f"{path}/").body == b"True"
    other = ensure_certificates(Config(), tmp_path / "other")
    api = make_server(kubelet_certificate_authority=other.ca).api
    path = create_node(api, "a", kubelet.port, InternalIP=kubelet.host)
    assert message(api.get(f"{path}/")) == (
        503,
        "error trying to reach service: tls: failed to verify certificate: x509: certificate "
        "signed by unknown authority",
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kubelet_certificate_authority": "ca"}, "cannot use .*/ca as CA of kubelets: "),
        ({"kubelet_client_certificate": "crt"}, "--kubelet-client-certificate needs --kubelet-cli"),
        (
            {"kubelet_client_certificate": "crt", "kubelet_client_key": "key"},
            "cannot use .*/crt with key .*/key: ",
        ),
    ],
)
def test_unusable_files(tmp_path: Path, settings: dict[str, str], message: str) -> None:
    """A file for kubelets that cannot be used is reported at start."""
    config = Config.of(**{name: tmp_path / file for name, file in settings.items()})
    with pytest.raises(ValueError, match=message):
        Upstreams(config.kubelets, Offloader())
