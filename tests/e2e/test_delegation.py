"""An extension API server in Python behind a host, which it asks about users and rights."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.aggregationkit import Authority
from tests.docs.blocks import ROOT
from tests.e2e.extension_programs import register, running_extension, running_host
from tests.e2e.programs import Kubectl, Server, kubectls, run
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
    with running_host(tmp_path_factory.mktemp("host"), authority, databases=port) as server:
        yield server


@pytest.fixture(scope="module")
def extension(
    host: Server, authority: Authority, port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The folder of an extension API server, whose APIServices are available."""
    folder = tmp_path_factory.mktemp("extension")
    flags = ("--secure-port", str(port), "--authorization-webhook-cache-unauthorized-ttl", "0s")
    with running_extension(folder, host, authority, "databases", str(PROGRAM), *flags):
        register(host, authority, "databases", "example.com", "v1", "v1alpha1")
        yield folder


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


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [example.com], apiVersions: [v1], resources: [databases], operations: [CREATE]}
  validations: [{expression: "object.spec.size <= 50", message: "no large databases"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small}
spec: {policyName: small, validationActions: [Deny]}
"""


def test_policy_of_the_host(host: Server, kubectl: Kubectl, extension: Path, port: int) -> None:
    """A policy of the host takes effect for a client that comes directly, and through the
    aggregator."""
    kubectl("apply", "-f", "-", stdin=POLICY)
    context = ssl.create_default_context(cafile=str(extension / "certificates" / "ca.crt"))
    context.load_cert_chain(host.client_cert, host.client_key)
    kind = {"apiVersion": "example.com/v1", "kind": "Database"}
    large = {**kind, "metadata": {"name": "large"}, "spec": {"size": 60}}
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}{PATH}?dryRun=All", data=json.dumps(large).encode(),
        headers={"Content-Type": "application/json"},
    )  # fmt: skip

    def refusal() -> str:
        """Return the refusal of a client that comes directly; "" if there is none yet."""
        try:
            with urllib.request.urlopen(request, context=context, timeout=60):
                return ""
        except urllib.error.HTTPError as error:
            with error:
                return str(json.load(error)["message"])

    denied = (
        "ValidatingAdmissionPolicy 'small' with binding 'small' denied request: no large databases"
    )
    while not refusal():
        pass
    assert refusal() == f'databases.example.com "large" is forbidden: {denied}'
    refused = kubectl("create", "-f", "-", stdin=json.dumps(large), fails=True)
    assert refused == f'The databases "large" is invalid: : {denied}\n'
    kubectl("delete", "-f", "-", stdin=POLICY)


def test_users_of_the_host(host: Server, extension: Path, port: int) -> None:
    """A client that comes directly may show a certificate of the host's CA."""
    context = ssl.create_default_context(cafile=str(extension / "certificates" / "ca.crt"))
    context.load_cert_chain(host.client_cert, host.client_key)
    url = f"https://127.0.0.1:{port}{PATH}"
    with urllib.request.urlopen(url, context=context, timeout=60) as response:
        assert json.load(response)["kind"] == "DatabaseList"
