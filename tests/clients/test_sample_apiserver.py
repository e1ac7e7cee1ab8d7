"""Kubernetes' sample API server, built from its Go module, behind a host."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.aggregation.aggregationkit import Authority, resolver_file
from tests.clients.go_programs import build
from tests.e2e.cluster import call
from tests.e2e.programs import Server, kubectls, run, start, stop
from tests.storage.etcd_server import running_member

pytestmark = pytest.mark.slow  # compiles the sample API server
API_SERVICE = "v1alpha1.wardle.example.com"
FLUNDER = """
apiVersion: wardle.example.com/v1alpha1
kind: Flunder
metadata: {name: anna, labels: {sample-label: "true"}}
"""


@pytest.fixture(scope="module")
def program() -> Path:
    """The sample API server; built once."""
    return build("k8s.io/sample-apiserver", "v0.37.0")


@pytest.fixture(scope="module")
def host(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A host with the sample API server behind it."""
    folder = tmp_path_factory.mktemp("host")
    authority = Authority(folder)
    proxy, serving = authority.issue("front-proxy"), authority.issue("api.default.svc")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = start(
        folder,
        "--service-resolver", str(resolver_file(folder, api=f"127.0.0.1:{port}")),
        "--requestheader-client-ca-file", str(authority.files.certificate),
        "--requestheader-allowed-names", "front-proxy",
        "--requestheader-username-headers", "X-Remote-User",
        "--requestheader-group-headers", "X-Remote-Group",
        "--requestheader-extra-headers-prefix", "X-Remote-Extra-",
        "--proxy-client-cert-file", str(proxy.certificate),
        "--proxy-client-key-file", str(proxy.key),
    )  # fmt: skip
    with running_member() as etcd, (folder / "sample.log").open("wb") as log:
        sample = subprocess.Popen(
            [
                program, "--etcd-servers", etcd.url, "--secure-port", str(port),
                "--bind-address", "127.0.0.1",
                "--kubeconfig", server.kubeconfig,
                "--authentication-kubeconfig", server.kubeconfig,
                "--authorization-kubeconfig", server.kubeconfig,
                "--tls-cert-file", serving.certificate, "--tls-private-key-file", serving.key,
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            _register(server, authority)
            yield server
        finally:
            stop(server)  # first: the sample API server waits for the end of the host's watches
            sample.terminate()
            sample.wait(60)
            print((folder / "sample.log").read_text()[-5000:])


def _register(server: Server, authority: Authority) -> None:
    bundle = base64.b64encode(authority.pem.encode()).decode()
    body = {
        "metadata": {"name": API_SERVICE},
        "spec": {
            "group": "wardle.example.com",
            "version": "v1alpha1",
            "groupPriorityMinimum": 2000,
            "versionPriority": 200,
            "service": {"namespace": "default", "name": "api"},
            "caBundle": bundle,
        },
    }
    call(server, "POST", "/apis/apiregistration.k8s.io/v1/apiservices", body, status=201)
    wait = ("wait", "--for=condition=Available", f"apiservice/{API_SERVICE}", "--timeout=120s")
    run(kubectls()[0], server, *wait)
    while "wardle" not in json.dumps(call(server, "GET", "/openapi/v3")):
        pass


def test_flunders(host: Server) -> None:
    """kubectl finds, explains, creates, watches, patches and deletes flunders."""
    kubectl = kubectls()[0]
    resources = run(kubectl, host, "api-resources", "--api-group=wardle.example.com")
    assert "flunders" in resources
    assert "fischers" in resources
    assert "Flunder" in run(kubectl, host, "explain", "flunders.spec")
    created = run(kubectl, host, "create", "-f", "-", stdin=FLUNDER)
    assert created == "flunder.wardle.example.com/anna created\n"
    watch = subprocess.Popen(
        [kubectl, "--kubeconfig", host.kubeconfig, "get", "flunders", "-w", "-o", "name"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with watch:
        assert watch.stdout is not None
        assert watch.stdout.readline() == "flunder.wardle.example.com/anna\n"
        run(kubectl, host, "label", "flunder", "anna", "a=b")
        assert watch.stdout.readline() == "flunder.wardle.example.com/anna\n"
        watch.terminate()
    run(kubectl, host, "delete", "flunders", "-l", "sample-label=true")
    assert run(kubectl, host, "get", "flunders", "-o", "name") == ""


def test_forbidden(host: Server) -> None:
    """The host refuses users without rights before the sample API server sees them."""
    output = run(kubectls()[0], host, "get", "flunders", "--as=anna", fails=True)
    assert 'User "anna" cannot list resource "flunders"' in output
