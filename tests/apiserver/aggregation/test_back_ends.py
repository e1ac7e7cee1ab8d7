"""Where extension API servers are reached, and when they are available."""

from __future__ import annotations

import base64
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.aggregation import discovery_check
from kapiserver.apiserver.aggregation.api_services import ServiceReference
from kapiserver.apiserver.aggregation.service_resolver import Unresolved, cluster_address
from kapiserver.apiserver.http_client.errors import HostPort
from tests.apiserver.aggregation.aggregationkit import (
    GROUP,
    PATH,
    Authority,
    answer_json,
    extension_server,
    register,
    resolver_file,
    tls_of,
    wait_for_reason,
)
from tests.apiserver.conftest import Server
from tests.apiserver.proxy.upstreams import running_upstream

NAME = f"v1.{GROUP}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The CA of extension API servers."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize(
    ("spec", "name", "detail"),
    [
        ({}, "ext.default.svc", "x509: certificate signed by unknown authority"),
        ({"caBundle": True}, "other.default.svc", "is not valid for 'ext.default.svc'"),
        ({"caBundle": "bm8gY2VydGlmaWNhdGU="}, "ext.default.svc", "unable to load root"),
    ],
)
def test_certificate(
    authority: Authority,
    tmp_path: Path,
    make_server: Callable[..., Server],
    spec: dict[str, Any],
    name: str,
    detail: str,
) -> None:
    """The certificate of an extension API server must be of the CA bundle and have the name of the
    Service."""
    if spec.get("caBundle") is True:
        spec = {"caBundle": base64.b64encode(authority.pem.encode()).decode()}
    with extension_server(authority.issue(name)) as upstream:
        file = resolver_file(tmp_path, ext=f"127.0.0.1:{upstream.port}")
        api = make_server(service_resolver=file).api
        register(api, **spec)
        condition = wait_for_reason(api, NAME, "FailedDiscoveryCheck")
        assert detail in condition["message"], condition
        assert api.get(f"{PATH}/things").body == b"service unavailable\n"


def test_failed_checks(
    authority: Authority,
    tmp_path: Path,
    make_server: Callable[..., Server],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The condition has the status or the error of the last attempt, and is true again when the
    extension API server answers, without a change of any object."""
    monkeypatch.setattr(discovery_check, "SECONDS", 0.2)
    with extension_server(authority.issue("ext.default.svc")) as upstream:
        address = f"127.0.0.1:{upstream.port}"
        api = make_server(service_resolver=resolver_file(tmp_path, ext=address)).api
        upstream.answer = answer_json({}, status="403 Forbidden")
        register(api, insecureSkipTLSVerify=True)
        url = f"https://{address}{PATH}"
        prefix = f"failing or missing response from {url}: "
        condition = wait_for_reason(api, NAME, "FailedDiscoveryCheck")
        assert condition["message"] == f"{prefix}bad status from {url}: 403"
        upstream.answer = answer_json({})
        wait_for_reason(api, NAME, "Passed")
        over = threading.Event()
        upstream.answer = lambda _: over.wait(60)
        register(api, insecureSkipTLSVerify=True, group="slow.example.com")
        condition = wait_for_reason(api, "v1.slow.example.com", "FailedDiscoveryCheck")
        over.set()
        canceled = r"request canceled( while waiting for connection)? \(Client.Timeout exceeded"
        assert re.search(canceled, condition["message"]), condition


def test_silent_address(
    tmp_path: Path, make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The condition says if no connection was open when the time was over."""
    monkeypatch.setattr(discovery_check, "SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = resolver_file(tmp_path, ext=f"127.0.0.1:{silent.getsockname()[1]}")
        api = make_server(service_resolver=file).api
        register(api)
        condition = wait_for_reason(api, NAME, "FailedDiscoveryCheck")
    assert condition["message"].endswith(
        "net/http: request canceled while waiting for connection "
        "(Client.Timeout exceeded while awaiting headers)"
    )


def test_dead_address(tmp_path: Path, make_server: Callable[..., Server]) -> None:
    """The condition says why no connection is made."""
    file = resolver_file(tmp_path, ext="127.0.0.1:1")
    api = make_server(service_resolver=file).api
    register(api)
    url = f"https://127.0.0.1:1{PATH}"
    condition = wait_for_reason(api, NAME, "FailedDiscoveryCheck")
    assert condition["message"] == (
        f'failing or missing response from {url}: Get "{url}": '
        "dial tcp 127.0.0.1:1: connect: connection refused"
    )


@pytest.mark.parametrize(
    "external_name", ["localhost", "127.1", "2130706433", "169.254.169.254", "0.0.0.0"]
)
def test_private_targets(make_server: Callable[..., Server], external_name: str) -> None:
    """A Service whose external name leads to the host itself or to a link-local address is not
    connected to, however the address is written."""
    api = make_server().api
    body = {
        "metadata": {"name": "ext"},
        "spec": {"type": "ExternalName", "externalName": external_name},
    }
    created = api.post("/api/v1/namespaces/default/services", body)
    assert created.status == 201, created.body
    register(api, insecureSkipTLSVerify=True)
    condition = wait_for_reason(api, NAME, "FailedDiscoveryCheck")
    assert condition["message"].endswith(": address not allowed"), condition


def test_endpoints(authority: Authority, make_server: Callable[..., Server]) -> None:
    """With --enable-aggregator-routing a Service is reached at a ready endpoint."""
    with running_upstream(tls_of(authority.issue("ext.default.svc"))) as upstream:
        upstream.answer = answer_json({"kind": "Theirs"})
        api = make_server(enable_aggregator_routing=True).api
        service = {"metadata": {"name": "ext"}, "spec": {"ports": [{"port": 443}]}}
        created = api.post("/api/v1/namespaces/default/services", service)
        assert created.status == 201, created.body
        endpoints = {
            "metadata": {"name": "ext-1", "labels": {"kubernetes.io/service-name": "ext"}},
            "addressType": "IPv4",
            "ports": [{"name": "", "port": upstream.port}],
            "endpoints": [
                {"addresses": ["192.0.2.1"], "conditions": {"ready": False}},
                {"addresses": [upstream.host]},
            ],
        }
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        created = api.post(path, endpoints)
        assert created.status == 201, created.body
        register(api, insecureSkipTLSVerify=True)
        wait_for_reason(api, NAME, "Passed")
        assert api.get(f"{PATH}/things").json == {"kind": "Theirs"}


def test_nothing_loads_without_a_service(make_server: Callable[..., Server]) -> None:
    """Without an APIService that names a Service there are no connections."""
    server = make_server()
    assert server.running.cluster.server.api_services.find(PATH) is None
    assert server.running.cluster.back_ends.is_made is False


def test_external_name(authority: Authority, make_server: Callable[..., Server]) -> None:
    """A Service with an external name is reached there, at the port that the APIService names."""
    with running_upstream(tls_of(authority.issue("ext.default.svc"))) as upstream:
        upstream.answer = answer_json({"kind": "Theirs"})
        api = make_server().api
        spec = {"type": "ExternalName", "externalName": upstream.host}
        body = {"metadata": {"name": "ext"}, "spec": spec}
        created = api.post("/api/v1/namespaces/default/services", body)
        assert created.status == 201, created.body
        reference = {"name": "ext", "namespace": "default", "port": upstream.port}
        register(api, insecureSkipTLSVerify=True, service=reference)
        wait_for_reason(api, NAME, "Passed")
        assert api.get(f"{PATH}/things").json == {"kind": "Theirs"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "ClusterIP", "clusterIP": "10.0.0.7"}, HostPort("10.0.0.7", 8443)),
        ({"type": "NodePort", "clusterIP": "fd00::7"}, HostPort("fd00::7", 8443)),
        ({"type": "LoadBalancer", "clusterIP": "10.0.0.7"}, HostPort("10.0.0.7", 8443)),
        ({"type": "ExternalName", "externalName": "a.example"}, HostPort("a.example", 8443)),
        (
            {"type": "ClusterIP", "clusterIP": "None"},
            'cannot route to service with ClusterIP "None"',
        ),
        ({"type": "Other"}, 'unsupported service type "Other"'),
        (
            {"type": "ClusterIP", "clusterIP": "10.0.0.7", "ports": [{"port": 1}]},
            'no service port 8443 found for service "api"',
        ),
    ],
)
def test_addresses(spec: Any, expected: HostPort | str) -> None:
    """Each type of Service has an address, or a reason why it has none, in Kubernetes' words."""
    service = {"spec": {"ports": [{"port": 443}, {"port": 8443}], **spec}}
    reference = ServiceReference("default", "api", 8443)
    try:
        resolved: HostPort | str = cluster_address(service, reference)
    except Unresolved as error:
        resolved = str(error)
    assert resolved == expected
