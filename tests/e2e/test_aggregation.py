"""Two kapiservers, one behind the other, seen through kubectl."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.apiserver.aggregation.aggregationkit import Authority, resolver_file
from tests.e2e.cluster import call, established
from tests.e2e.programs import Kubectl, Server, kubectl_of, kubectls, run, start, stop

GROUP = "ext.example.com"
SCHEMA = {
    "type": "object",
    "description": "A thing of the extension API server.",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"size": {"type": "integer", "description": "How large it is."}},
        }
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"things.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
                ],
            }
        ],
    },
}
THING = json.dumps(
    {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"size": 3},
    }
)


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server behind, which has the kind Thing and believes the certificate of the host."""
    folder = tmp_path_factory.mktemp("behind")
    authority = Authority(folder)
    pair = authority.issue("ext.default.svc")
    server = start(
        folder,
        "--tls-sni-cert-key", f"{pair.certificate},{pair.key}",
        "--requestheader-client-ca-file", str(authority.files.certificate),
        "--requestheader-allowed-names", "front-proxy",
        "--requestheader-username-headers", "X-Remote-User",
        "--requestheader-uid-headers", "X-Remote-Uid",
        "--requestheader-group-headers", "X-Remote-Group",
        "--requestheader-extra-headers-prefix", "X-Remote-Extra-",
    )  # fmt: skip
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    call(server, "POST", path, DEFINITION, status=201)
    established(server, DEFINITION["metadata"]["name"])
    proxy = authority.issue("front-proxy")
    (folder / "ca.txt").write_text(authority.pem)
    (folder / "proxy.crt").write_bytes(proxy.certificate.read_bytes())
    (folder / "proxy.key").write_bytes(proxy.key.read_bytes())
    yield server
    assert stop(server) == 0


@pytest.fixture(scope="module")
def host(behind: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The host, whose APIService names the server behind."""
    folder = tmp_path_factory.mktemp("host")
    address = behind.url.removeprefix("https://")
    server = start(
        folder,
        "--service-resolver", str(resolver_file(folder, ext=address)),
        "--proxy-client-cert-file", str(behind.folder / "proxy.crt"),
        "--proxy-client-key-file", str(behind.folder / "proxy.key"),
    )  # fmt: skip
    bundle = base64.b64encode((behind.folder / "ca.txt").read_bytes()).decode()
    body = {
        "metadata": {"name": f"v1.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "service": {"namespace": "default", "name": "ext"},
            "caBundle": bundle,
        },
    }
    call(server, "POST", "/apis/apiregistration.k8s.io/v1/apiservices", body, status=201)
    program = kubectls()[0]
    run(program, server, "wait", "--for=condition=Available", f"apiservice/v1.{GROUP}")
    while GROUP not in json.dumps(call(server, "GET", "/openapi/v3")):
        pass
    while f"/apis/{GROUP}/v1/" not in json.dumps(call(server, "GET", "/openapi/v2")):
        pass
    yield server
    assert stop(server) == 0


@pytest.fixture(params=kubectls(), ids=lambda path: path.parent.name)
def kubectl(request: pytest.FixtureRequest, host: Server) -> Kubectl:
    """kubectl with the host's administrator; the newest and the oldest."""
    return kubectl_of(host, request.param)


def test_one_api(kubectl: Kubectl, behind: Server) -> None:
    """kubectl finds, explains, applies, shows and deletes objects of the server behind."""
    resources = kubectl("api-resources", "--api-group", GROUP, "--no-headers").split()
    assert resources == ["things", "th", f"{GROUP}/v1", "true", "Thing"]
    explained = kubectl("explain", "things.spec.size")
    assert "How large it is." in explained
    assert kubectl("apply", "-f", "-", stdin=THING) == f"thing.{GROUP}/a created\n"
    changed = THING.replace('"size": 3', '"size": 4')
    assert kubectl("apply", "-f", "-", stdin=changed) == f"thing.{GROUP}/a configured\n"
    assert kubectl("get", "th").split() == ["NAME", "SIZE", "a", "4"]
    path = f"/apis/{GROUP}/v1/namespaces/default/things/a"
    assert call(behind, "GET", path)["spec"] == {"size": 4}
    kubectl("delete", "thing", "a")
    assert "True" in kubectl("get", "apiservice", f"v1.{GROUP}", "--no-headers")


def test_version_two_of_openapi(kubectl: Kubectl) -> None:
    """The merged OpenAPI v2 document explains the kind, too."""
    names = kubectl("explain", "--help")
    flags = ["--output", "plaintext-openapiv2"] if "plaintext-openapiv2" in names else []
    assert "How large it is." in kubectl("explain", "things.spec.size", *flags)


def test_invalid_object(kubectl: Kubectl) -> None:
    """The server behind validates objects, and kubectl shows its words."""
    invalid = THING.replace("3", '"large"').replace('"a"', '"b"')
    output = kubectl("create", "--validate=false", "-f", "-", stdin=invalid, fails=True)
    assert 'spec.size: Invalid value: "string"' in output


def test_watch(host: Server) -> None:
    """A watch shows an object that is made after it has begun."""
    program = [str(kubectls()[0]), "--kubeconfig", str(host.kubeconfig)]
    command = [*program, "get", "things", "--watch", "--no-headers"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        named = THING.replace('"a"', '"watched"')
        run(kubectls()[0], host, "apply", "-f", "-", stdin=named)
        assert watch.stdout.readline().split()[0] == "watched"
        watch.terminate()


def test_user(host: Server, behind: Server) -> None:
    """The server behind authorizes the user whom the host has authenticated."""
    program = kubectls()[0]
    rules = ("--verb=*", f"--resource=things.{GROUP}")
    binding = ("--clusterrole=things", "--user=anna")
    for server in (host, behind):
        output = run(program, host, "get", "things", "--as=anna", fails=True)
        assert 'User "anna" cannot list resource "things"' in output
        # kubectl would ask a mapper of the server that does not have the kind.
        role = run(
            program, host, "create", "clusterrole", "things", *rules, "--dry-run=client", "-oyaml"
        )
        run(program, server, "create", "-f", "-", stdin=role)
        run(program, server, "create", "clusterrolebinding", "things", *binding)
    run(program, host, "get", "things", "--as=anna")
