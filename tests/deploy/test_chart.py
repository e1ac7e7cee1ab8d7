"""The helm chart: real helm lints, renders and installs it into a server that simulates nodes, and
the installed command line runs as a process."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapiserver.cli import parser
from kapiserver.server_config import config_of
from tests.e2e.conftest import generations_of
from tests.e2e.programs import ROOT, Server, kubectls, run, start, stop

CHART = ROOT / "deploy" / "helm" / "kapiserver"
OVER_ETCD = (
    "--set=replicas=2", "--set=etcd.servers={https://a:2379,https://b:2379}",
    "--set=etcd.secret=etcd-client", "--set=certificates.names={api.example.com}",
    "--set=flags={--simulate,-v}",
)  # fmt: skip


@pytest.fixture(scope="module", params=generations_of("helm"))
def helm(request: pytest.FixtureRequest) -> Path:
    """The newest helm, and the oldest."""
    return request.param


def _helm(program: Path, *arguments: str, fails: bool = False) -> str:
    ended = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert (ended.returncode != 0) is fails, ended.stdout + ended.stderr
    return ended.stderr if fails else ended.stdout


def _rendered(program: Path, *flags: str) -> dict[str, Any]:
    """The objects that helm renders, by kind and name."""
    documents = yaml.safe_load_all(_helm(program, "template", "shop", str(CHART), *flags))
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in documents if each}


def _arguments(objects: dict[str, Any]) -> list[str]:
    pod = objects["StatefulSet/shop-kapiserver"]["spec"]["template"]["spec"]
    return pod["containers"][0]["args"]


def test_lint(helm: Path) -> None:
    """helm has no warning."""
    assert "[WARNING]" not in _helm(helm, "lint", "--strict", str(CHART))


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), OVER_ETCD], ids=["sqlite", "etcd"])
def test_rendered(helm: Path, flags: tuple[str, ...], tmp_path: Path) -> None:
    """`kapiserver check` has nothing to say of the rendered objects in a restricted namespace, and
    the command line of the server parses."""
    objects = _rendered(helm, *flags)
    config = config_of(parser().parse_args(_arguments(objects)))
    assert "shop-kapiserver.default.svc" in config.certificates.tls_san
    objects["Namespace/default"] = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "default",
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }
    if flags:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "etcd-client"}}
        objects["Secret/etcd-client"] = secret
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(yaml.safe_dump_all(objects.values()))
    checked = subprocess.run(
        [sys.executable, "-m", "kapiserver", "check", "--strict", manifests],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("replicas=0", "replicas"),
        ("replicas=2", "servers"),
        ("etcd.servers={a:2379}", "servers"),
        ("persistence.size=much", "size"),
        ("service.type=ExternalName", "type"),
        ("flags={simulate}", "flags"),
        ("nosuch=1", "nosuch"),
    ],
)
def test_values(helm: Path, setting: str, path: str) -> None:
    """The schema refuses values that the chart cannot use."""
    message = _helm(helm, "template", "shop", str(CHART), f"--set={setting}", fails=True)
    assert path in message


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A cluster to install into: a server with two simulated nodes."""
    running = start(tmp_path_factory.mktemp("host"), "--simulate", "--simulate-nodes=2")
    yield running
    stop(running)


@pytest.mark.slow
def test_installed(helm: Path, host: Server, tmp_path: Path) -> None:
    """helm installs the chart and waits until its pod is ready, an upgrade keeps the keys, and the
    server of the pod serves with the certificates of the Secret."""
    wait = ("--wait", "--timeout=120s")
    run(helm, host, "install", "shop", str(CHART), *wait)
    secret = _secret(host)
    run(helm, host, "upgrade", "shop", str(CHART), "--set=podAnnotations.a=b", *wait)
    assert _secret(host) == secret
    tested = yaml.safe_load(run(helm, host, "get", "hooks", "shop"))
    pod = json.loads(run(kubectls()[0], host, "get", "pod", "shop-kapiserver-0", "-o=json"))
    assert pod["status"]["containerStatuses"][0]["ready"]
    command = tested["spec"]["containers"][0]["command"]
    _check_served(pod["spec"]["containers"][0]["args"], command, secret, tmp_path)
    run(helm, host, "uninstall", "shop", *wait)
    run(kubectls()[0], host, "delete", "pvc", "--all", "--timeout=60s")


def _secret(host: Server) -> dict[str, str]:
    command = ("get", "secret", "shop-kapiserver-certificates", "-o=json")
    return json.loads(run(kubectls()[0], host, *command))["data"]


def _check_served(
    arguments: list[str], test: list[str], secret: dict[str, str], tmp_path: Path
) -> None:
    """Run the container's command with this machine's paths, call it by its Service's name, and run
    the command of `helm test`. A simulated container runs nothing, so `helm test` itself waits."""
    certificates = tmp_path / "certificates"
    certificates.mkdir(mode=0o700)
    for name, content in secret.items():
        (certificates / name).write_bytes(base64.b64decode(content))
    of_container = ("serve", "--bind-", "--secure-", "--data-", "--cert-", "--shutdown-")
    server = start(tmp_path, *(flag for flag in arguments if not flag.startswith(of_container)))
    try:
        context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        context.load_cert_chain(server.client_cert, server.client_key)
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as plain:
            wrapped = context.wrap_socket(plain, server_hostname="shop-kapiserver.default.svc")
            wrapped.close()
        with urllib.request.urlopen(f"{server.url}/api/v1/nodes", context=context) as response:
            assert response.status == 200
        subprocess.run([sys.executable, *test[1:-1], f"{server.url}/readyz"], check=True)
    finally:
        stop(server)
