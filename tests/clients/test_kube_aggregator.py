"""An extension API server in Python behind Kubernetes' own aggregator.

It is built from its Go module, and asks a kapiserver about tokens, rights and Services: that is its
core API server. With PEER=path/to/kube-apiserver, the aggregator of that program is tried, too.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.apiserver.aggregation.aggregationkit import Authority
from tests.bench.servers import Store, peer
from tests.clients.go_programs import build
from tests.docs.blocks import ROOT
from tests.e2e.cluster import call
from tests.e2e.extension_programs import running_extension, running_host
from tests.e2e.programs import Server, kubectls, run
from tests.storage.etcd_server import free_port, running_member

pytestmark = pytest.mark.slow  # compiles the aggregator

SOURCE = "pkg/cmd/server/start.go"
SKIPPED = "\tserverConfig.SkipOpenAPIInstallation = true\n"
MENDED = (
    "\tserverConfig.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config("
    "openapi.GetOpenAPIDefinitions, openapinamer.NewDefinitionNamer(aggregatorscheme.Scheme))\n"
)
"""The program of 0.37 ends at start, because it does not set this."""
PROGRAM = ROOT / "tests" / "extension" / "databases.py"
DATABASE = """
apiVersion: example.com/v1
kind: Database
metadata: {name: one}
spec: {size: 6}
"""
API_SERVICE = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1.example.com"},
    "spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000,
             "versionPriority": 15},
}  # fmt: skip


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Authority]]:
    """The core API server, and the CA of the front proxy."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    with running_host(tmp_path_factory.mktemp("host"), authority) as server:
        yield server, authority


@pytest.fixture(scope="module")
def aggregator(
    host: tuple[Server, Authority], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A kubeconfig of the aggregator for the host's administrator."""
    program = build("k8s.io/kube-aggregator", "v0.37.0", mended=(SOURCE, SKIPPED, MENDED + SKIPPED))
    (server, authority), folder = host, tmp_path_factory.mktemp("aggregator")
    proxy, port = authority.issue("front-proxy"), free_port()
    with running_member() as etcd, (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program, "--etcd-servers", etcd.url, "--secure-port", str(port),
                "--bind-address", "127.0.0.1", "--cert-dir", folder,
                "--kubeconfig", server.kubeconfig,
                "--authentication-kubeconfig", server.kubeconfig,
                "--authorization-kubeconfig", server.kubeconfig,
                "--proxy-client-cert-file", proxy.certificate,
                "--proxy-client-key-file", proxy.key,
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        config = yaml.safe_load(server.kubeconfig.read_text())
        config["clusters"][0]["cluster"] = {
            "server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True,
        }  # fmt: skip
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))
        try:
            _wait_ready(folder / "kubeconfig", process)
            yield folder / "kubeconfig"
        finally:
            process.terminate()
            process.wait(60)
            print((folder / "log").read_text()[-5000:])


def _kubectl(kubeconfig: Path, *arguments: str, stdin: str = "") -> tuple[int, str]:
    completed = subprocess.run(
        [kubectls()[0], "--kubeconfig", kubeconfig, *arguments],
        input=stdin, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
        check=False,
    )  # fmt: skip
    return completed.returncode, completed.stdout


def _wait_ready(kubeconfig: Path, process: subprocess.Popen[bytes]) -> None:
    while _kubectl(kubeconfig, "get", "--raw", "/readyz")[0] != 0:
        assert process.poll() is None, "the aggregator has ended"


def test_behind_the_aggregator_of_kubernetes(
    host: tuple[Server, Authority], aggregator: Path, tmp_path: Path
) -> None:
    """The server believes the front proxy of the host; the aggregator finds it available, and
    merges its discovery and OpenAPI."""
    server, authority = host
    run(kubectls()[0], server, *_EXTERNAL_NAME)
    _check(server.kubeconfig, authority, aggregator, tmp_path)
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    review = {"spec": {"user": "anna", "resourceAttributes": {
        "verb": "list", "group": "example.com", "resource": "databases"}}}  # fmt: skip
    assert call(server, "POST", path, review, status=201)["status"]["allowed"] is False


_EXTERNAL_NAME = ("create", "service", "externalname", "databases", "--external-name=localhost")


def _check(host: Path, authority: Authority, aggregator: Path, folder: Path) -> None:
    """Run the extension API server, which asks the host, and use it through the aggregator; both
    are kubeconfigs of an administrator."""
    port = free_port()
    command = (str(PROGRAM), "--secure-port", str(port))
    with running_extension(folder, host, authority, "databases", *command):
        reference = {"namespace": "default", "name": "databases", "port": port}
        transport = {"service": reference, "insecureSkipTLSVerify": True}
        body = {**API_SERVICE, "spec": {**API_SERVICE["spec"], **transport}}
        assert _kubectl(aggregator, "create", "-f", "-", stdin=json.dumps(body))[0] == 0
        wait = ("wait", "--for=condition=Available", "apiservice/v1.example.com", "--timeout=60s")
        assert _kubectl(aggregator, *wait)[0] == 0
        while "example.com/v1" not in _kubectl(aggregator, "get", "--raw", "/openapi/v3")[1]:
            pass
        code, created = _kubectl(aggregator, "create", "-f", "-", stdin=DATABASE)
        assert (code, created) == (0, "database.example.com/one created\n")
        shown = _kubectl(aggregator, "get", "databases", "--no-headers")[1].split()
        assert shown == ["one", "postgres", "6"]
        assert "Its size in GiB." in _kubectl(aggregator, "explain", "databases.spec.size")[1]
        code, refused = _kubectl(aggregator, "get", "databases", "--as=anna")
        assert code != 0
        assert 'User "anna" cannot' in refused


def test_behind_a_kube_apiserver(tmp_path: Path) -> None:
    """The same behind a kube-apiserver, which is the host, too."""
    program = os.environ.get("PEER") or ""
    if not Path(program).is_file():
        pytest.skip("PEER names no kube-apiserver")
    authority = Authority(tmp_path)
    proxy, kubeconfig = authority.issue("front-proxy"), tmp_path / "kubeconfig"
    flags = [
        f"--requestheader-client-ca-file={authority.files.certificate}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={proxy.certificate}",
        f"--proxy-client-key-file={proxy.key}",
    ]
    with (
        running_member() as etcd,
        peer(
            Path(program), tmp_path / "peer", Store(flags=["--etcd-servers", etcd.url]), flags
        ) as (target, _),
    ):
        url = f"https://{target.host}:{target.port}"
        cluster = {"server": url, "insecure-skip-tls-verify": True}
        kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "current-context": "peer",
                    "clusters": [{"name": "peer", "cluster": cluster}],
                    "users": [{"name": "admin", "user": {"token": target.token}}],
                    "contexts": [{"name": "peer", "context": {"cluster": "peer", "user": "admin"}}],
                }
            )
        )
        while _kubectl(kubeconfig, "get", "-n", "kube-system", _TRUST)[0] != 0:
            pass  # published after the server is ready
        assert _kubectl(kubeconfig, *_EXTERNAL_NAME)[0] == 0
        _check(kubeconfig, authority, kubeconfig, tmp_path / "extension")


_TRUST = "configmap/extension-apiserver-authentication"
