"""The program of an extension API server, with kubectl."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kapiserver.extension import ApiServer
from tests.apiserver.proxy.https_server import HttpsServer, Reply, kubeconfig
from tests.docs.blocks import ROOT
from tests.e2e.programs import kubectls
from tests.extension.databases import make_databases

PROGRAM = ROOT / "tests" / "extension" / "databases.py"
IMPORT = """
import sys, time
started = time.process_time()
from kapiserver.extension import ApiServer
from tests.extension.databases import make_databases
ApiServer([make_databases()])
heavy = {"aiohttp", "kapiserver.host", "kapiserver.cluster"} & sys.modules.keys()
print(sorted(heavy), time.process_time() - started < 0.5)
"""
OBJECT = """
apiVersion: example.com/v1
kind: Database
metadata: {name: one}
spec: {size: 60}
"""

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def webhook() -> Iterator[HttpsServer]:
    """A webhook that takes audit events."""
    server = HttpsServer(None, lambda _: Reply(b"{}"))
    yield server
    server.end()


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory, webhook: HttpsServer) -> Iterator[Kubectl]:
    """Run kubectl against the program; the output of both streams is returned."""
    folder = tmp_path_factory.mktemp("extension")
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "webhook.yaml").write_text(kubeconfig(webhook))
    command = [
        sys.executable, PROGRAM, "--data-dir", folder, "--secure-port", "0",
        "--audit-policy-file", folder / "policy.yaml",
        "--audit-webhook-config-file", folder / "webhook.yaml",
        "--audit-webhook-mode", "blocking", "--vmodule", "workqueue=1", "--profiling=false",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    assert "https://127.0.0.1:" in server.stdout.readline()
    program = kubectls()[0]

    def call(*arguments: str, stdin: str = "") -> str:
        completed = subprocess.run(
            [program, "--kubeconfig", folder / "kubeconfig", *arguments],
            input=stdin, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            timeout=60, env={"HOME": str(folder), "PATH": os.environ["PATH"]},
        )  # fmt: skip
        return completed.stdout

    yield call
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=60)
    assert server.returncode == 0


def test_kubectl(kubectl: Kubectl) -> None:
    """kubectl lists, creates, explains, scales, watches and deletes."""
    resources = kubectl("api-resources", "--no-headers").split("\n")
    assert [line.split() for line in resources if line] == [
        ["databases", "db", "example.com/v1", "true", "Database"]
    ]
    created = kubectl("apply", "-f", "-", stdin=OBJECT)
    assert "Warning: large databases cost much" in created
    assert "database.example.com/one created" in created
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=OBJECT)
    assert kubectl("get", "db", "--no-headers").split() == ["one", "postgres", "60"]
    assert "ownerName: nobody" in kubectl("get", "all", "-o", "yaml")
    explained = kubectl("explain", "databases.spec.size")
    assert "Its size in GiB." in explained
    assert "scaled" in kubectl("scale", "db", "one", "--replicas=3")
    shrunk = kubectl("patch", "db", "one", "--type=merge", "-p", '{"spec":{"size":2}}')
    assert "spec.size: Forbidden: a database does not shrink" in shrunk
    waited = kubectl("wait", "db/one", "--for=jsonpath={.spec.replicas}=3", "--timeout=20s")
    assert "condition met" in waited
    assert "deleted" in kubectl("delete", "db", "one")
    assert "No resources found" in kubectl("get", "db")


def test_audit_webhook(kubectl: Kubectl, webhook: HttpsServer) -> None:
    """The audit events of requests go to a webhook."""
    kubectl("get", "db", "missing")
    events = [item for each in webhook.received for item in each.json["items"]]
    of_request = [item for item in events if item["requestURI"].endswith("/databases/missing")]
    assert [item["responseStatus"]["code"] for item in of_request] == [404]


def test_debugging(kubectl: Kubectl) -> None:
    """The flags are at /flagz, and profiles can be turned off."""
    flags = kubectl("get", "--raw", "/flagz")
    assert re.search(r"^vmodule\W+workqueue=1$", flags, re.MULTILINE), flags
    assert "NotFound" in kubectl("get", "--raw", "/debug/pprof/")


def test_bad_flags(tmp_path: Path) -> None:
    """A setting that does not work is one line on standard error."""
    command = [sys.executable, PROGRAM, "--data-dir", tmp_path, "--storage", "nothing:here"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    completed = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    assert completed.returncode == 1
    assert completed.stderr.count("\n") == 1
    assert "nothing" in completed.stderr


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (
            ["--tls-cert-file=a.crt"],
            "--tls-cert-file and --tls-private-key-file must be set together",
        ),
        (
            ["--encryption-provider-config-automatic-reload"],
            "--encryption-provider-config-automatic-reload must be set with "
            "--encryption-provider-config",
        ),
        (
            ["--audit-log-mode=batch", "--audit-log-batch-throttle-enable"],
            "invalid audit batch log throttle QPS 0, must be a positive number",
        ),
        (["--feature-gates=Unknown=true"], "unrecognized feature gate: Unknown"),
    ],
)
def test_contradictions(capsys: pytest.CaptureFixture[str], flags: list[str], problem: str) -> None:
    """Flags that contradict each other are refused before anything starts."""
    assert ApiServer([make_databases()]).main(flags) == 1
    assert capsys.readouterr().err == f"{problem}\n"


def test_import() -> None:
    """Importing the library and declaring resources loads no server."""
    command = [sys.executable, "-c", IMPORT]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert completed.stdout == "[] True\n"
