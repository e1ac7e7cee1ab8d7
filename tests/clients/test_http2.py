"""curl and kubectl over HTTP/2. The suites of Go, Java and Node test their clients over it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.programs import Server, kubectls, run

JAVA = Path(__file__).parent / "java"


def curl(server: Server, path: str, *arguments: str) -> str:
    """The output of curl as the administrator, behind it the version of HTTP and the status."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    process = subprocess.run(
        [
            *("curl", "-sS", "-w", "\n%{http_version} %{http_code}"),
            *("--cacert", server.ca_file, "--cert", server.client_cert),
            *("--key", server.client_key, *arguments, f"{server.url}{path}"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode in (0, 28), process.stderr
    return process.stdout


@pytest.mark.parametrize(("flag", "version"), [("--http2", "2"), ("--http1.1", "1.1")])
def test_curl(server: Server, flag: str, version: str) -> None:
    """curl gets the version that it asks for, creates an object and watches."""
    output = curl(server, "/api/v1/namespaces", flag)
    assert output.endswith(f"\n{version} 200")
    body = json.dumps({"metadata": {"generateName": "curl-"}, "data": {"x": "y" * 50_000}})
    path = "/api/v1/namespaces/default/configmaps"
    sent = ("-H", "Content-Type: application/json", "-H", "Expect: 100-continue", "--data-binary")
    created = curl(server, path, flag, *sent, body)
    assert created.endswith(f"\n{version} 201")
    events = curl(server, f"{path}?watch=1&timeoutSeconds=1", flag, "-N")
    assert events.endswith(f"\n{version} 200")
    assert '"type":"ADDED"' in events


@pytest.mark.parametrize(("environment", "is_http2"), [({}, True), ({"DISABLE_HTTP2": "1"}, False)])
def test_kubectl(server: Server, environment: dict[str, str], is_http2: bool) -> None:
    """kubectl speaks HTTP/2, unless its environment says that it must not."""
    kubectl = kubectls()[0]
    debugging = {"GODEBUG": "http2debug=1"}
    process = run(kubectl, server, "get", "namespaces", **environment)
    assert "kube-system" in process
    log = subprocess.run(
        [kubectl, "get", "namespaces"],
        env={"KUBECONFIG": str(server.kubeconfig), "HOME": str(server.folder)}
        | environment
        | debugging,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stderr
    assert ("http2: Transport" in log) is is_http2


@pytest.mark.slow  # compiles Java
def test_java(server: Server, token_kubeconfig: Path) -> None:
    """Java's own client speaks HTTP/2: many requests at a time, a large body and a watch."""
    if shutil.which("javac") is None:
        pytest.skip("a JDK is not installed")
    token = yaml.safe_load(token_kubeconfig.read_text())["users"][0]["user"]["token"]
    process = subprocess.run(
        ["java", JAVA / "Http2Client.java", server.url, server.ca_file, token],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.stdout == "ok\n", process.stderr
