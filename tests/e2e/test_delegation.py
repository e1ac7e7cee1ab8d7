"""An extension API server in Python behind a host, which it asks about users and rights."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.aggregationkit import Authority
from tests.docs.blocks import ROOT
from tests.e2e.cluster import call
from tests.e2e.programs import Kubectl, Server, kubectls, run, start, stop
from tests.storage.etcd_server import free_port

PROGRAM = ROOT / "tests" / "extension" / "databases.py"
PATH = "/apis/example.com/v1/namespaces/default/databases"
DATABASE = """
apiVersion: example.com/v1
kind: Database
metadata: {name: one}
spec: {size: 6}
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The CA of front proxies and of the serving certificate of the extension API server."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def port() -> int:
    """The port of the extension API server, which the host must know before."""
    return free_port()


@pytest.fixture(scope="module")
def host(
    authority: Authority, port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The host."""
    folder = tmp_path_factory.mktemp("host")
    file = folder / "services.yaml"
    file.write_text(f"default/databases: 127.0.0.1:{port}\n")
    proxy = authority.issue("front-proxy")
    server = start(
        folder,
        "--requestheader-client-ca-file", str(authority.files.certificate),
        "--requestheader-allowed-names", "front-proxy",
        "--requestheader-username-headers", "X-Remote-User",
        "--requestheader-group-headers", "X-Remote-Group",
        "--requestheader-extra-headers-prefix", "X-Remote-Extra-",
        "--proxy-client-cert-file", str(proxy.certificate),
        "--proxy-client-key-file", str(proxy.key),
        "--service-resolver", str(file),
    )  # fmt: skip
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    program = kubectls()[0]
    run(program, server, "wait", "--for=create", "-n", "kube-system", "--timeout=60s",
        "configmap/extension-apiserver-authentication")  # fmt: skip
    assert "requestheader-client-ca-file" in call(server, "GET", path)["data"]
    yield server
    assert stop(server) == 0


@pytest.fixture(scope="module")
def extension(
    host: Server, authority: Authority, port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The folder of an extension API server, whose APIService is available."""
    folder = tmp_path_factory.mktemp("extension")
    pair = authority.issue("databases.default.svc")
    command = [
        sys.executable, PROGRAM, "--data-dir", folder, "--secure-port", str(port),
        "--kubeconfig", host.kubeconfig,
        "--tls-sni-cert-key", f"{pair.certificate},{pair.key}",
        "--authorization-webhook-cache-unauthorized-ttl", "0s",
    ]  # fmt: skip
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert server.stdout is not None
    assert "https://127.0.0.1:" in server.stdout.readline()
    for version in ("v1", "v1alpha1"):
        body = {
            "metadata": {"name": f"{version}.example.com"},
            "spec": {
                "group": "example.com",
                "version": version,
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
                "service": {"namespace": "default", "name": "databases"},
                "caBundle": base64.b64encode(authority.pem.encode()).decode(),
            },
        }
        call(host, "POST", "/apis/apiregistration.k8s.io/v1/apiservices", body, status=201)
        run(kubectls()[0], host, "wait", "--for=condition=Available", "--timeout=60s",
            f"apiservice/{version}.example.com")  # fmt: skip
    while "example.com/v1" not in json.dumps(call(host, "GET", "/openapi/v3")):
        pass
    yield folder
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=60)
    assert server.returncode == 0


@pytest.fixture
def kubectl(host: Server, extension: Path) -> Kubectl:
    """kubectl with the host's administrator."""

    def call_kubectl(*arguments: str, **options: str) -> str:
        return run(kubectls()[0], host, *arguments, **options)

    return call_kubectl


def _direct(extension: Path, port: int, token: str) -> tuple[int, str]:
    """GET the databases from the extension API server itself."""
    context = ssl.create_default_context(cafile=str(extension / "certificates" / "ca.crt"))
    request = urllib.request.Request(f"https://127.0.0.1:{port}{PATH}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_kubectl_through_the_host(kubectl: Kubectl) -> None:
    """The front proxy of the host names the user, whose rights are those of the host."""
    assert "created" in kubectl("apply", "-f", "-", stdin=DATABASE)
    assert kubectl("get", "db", "--no-headers").split() == ["one", "postgres", "6"]
    refused = kubectl("get", "db", "--as=anna", fails=True)
    assert 'User "anna" cannot list resource "databases" in API group "example.com"' in refused
    kubectl("create", "role", "readers", "--verb=get,list", "--resource=databases.example.com")
    kubectl("create", "rolebinding", "readers", "--role=readers", "--user=anna")
    assert kubectl("get", "db", "--no-headers", "--as=anna").split()[0] == "one"
    refused = kubectl("delete", "db", "one", "--as=anna", fails=True)
    assert 'User "anna" cannot delete resource "databases"' in refused


def test_tokens(kubectl: Kubectl, extension: Path, port: int) -> None:
    """A client that comes directly shows a token, which the host reviews."""
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot").strip()
    status, text = _direct(extension, port, token)
    assert status == 403
    assert 'User \\"system:serviceaccount:default:robot\\" cannot list' in text
    role = ("clusterrole", "robots", "--verb=list", "--resource=databases.example.com")
    kubectl("create", *role)
    binding = ("--clusterrole=robots", "--serviceaccount=default:robot")
    kubectl("create", "rolebinding", "robots", *binding)
    status, text = _direct(extension, port, token)
    assert (status, json.loads(text)["kind"]) == (200, "DatabaseList")
    assert _direct(extension, port, "wrong")[0] == 401
    assert _direct(extension, port, "")[0] == 403


def test_users_of_the_host(host: Server, extension: Path, port: int) -> None:
    """A client that comes directly may show a certificate of the host's CA."""
    context = ssl.create_default_context(cafile=str(extension / "certificates" / "ca.crt"))
    context.load_cert_chain(host.client_cert, host.client_key)
    url = f"https://127.0.0.1:{port}{PATH}"
    with urllib.request.urlopen(url, context=context, timeout=60) as response:
        assert json.load(response)["kind"] == "DatabaseList"
