"""`kapiserver envtest`, used as the envtest of controller-runtime uses it."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.cli import main
from kapiserver.kube_apiserver import serve_options
from kapiserver.testing.envtest import executables
from tests.e2e.cluster import CONFIGMAPS, call, create, established, open_response
from tests.e2e.programs import Server
from tests.storage.etcd_server import Member, free_port

START_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The folders that envtest creates before it starts kube-apiserver."""

    assets: Path
    certificates: Path
    client_cas: Path
    etcd_url: str
    log: Path


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the executables."""
    folder = tmp_path_factory.mktemp("assets")
    assert main(["envtest", str(folder)]) == 0
    return folder


@contextmanager
def _running(program: Path, log: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends; SIGTERM must end it with 0."""
    with log.open("ab") as output:
        process = subprocess.Popen([program, *flags], stdout=output, stderr=output)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait(START_SECONDS)


def _wait_until_healthy(connect: Any, path: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        connection = connect()
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.01)
        finally:
            connection.close()
    raise AssertionError(log.read_text())


@pytest.fixture
def environment(assets: Path, tmp_path: Path) -> Iterator[Environment]:
    """A running etcd, and the certificates that envtest creates."""
    port, log = free_port(), tmp_path / "log"
    folder = tmp_path / "made"
    ensure_certificates(Config(), folder)
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    for name in ("apiserver.crt", "apiserver.key"):
        shutil.copy(folder / name, certificates / name)
    (tmp_path / "etcd").mkdir()
    flags = (
        f"--advertise-client-urls=http://127.0.0.1:{port}", f"--data-dir={tmp_path / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{port}", "--unsafe-no-fsync=true",
        f"--listen-peer-urls=http://127.0.0.1:{free_port()}",
    )  # fmt: skip
    with _running(assets / "etcd", log, *flags):
        _wait_until_healthy(lambda: http.client.HTTPConnection("127.0.0.1", port), "/health", log)
        yield Environment(
            assets=assets, certificates=certificates, client_cas=folder,
            etcd_url=f"http://127.0.0.1:{port}", log=log,
        )  # fmt: skip


@contextmanager
def _apiserver(environment: Environment, *flags: str) -> Iterator[Server]:
    """kube-apiserver with the flags that envtest passes."""
    port, certificates = free_port(), environment.certificates
    flags = (
        "--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1",
        f"--cert-dir={certificates}", f"--client-ca-file={environment.client_cas / 'ca.crt'}",
        "--disable-admission-plugins=ServiceAccount", f"--etcd-servers={environment.etcd_url}",
        f"--secure-port={port}", f"--service-account-issuer=https://127.0.0.1:{port}/",
        f"--service-account-key-file={environment.client_cas / 'ca.key'}",
        f"--service-account-signing-key-file={environment.client_cas / 'ca.key'}",
        "--service-cluster-ip-range=10.0.0.0/24", *flags,
    )  # fmt: skip
    context = ssl.create_default_context(cafile=environment.client_cas / "ca.crt")

    def connect() -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", port, context=context)

    with _running(environment.assets / "kube-apiserver", environment.log, *flags) as process:
        _wait_until_healthy(connect, "/healthz", environment.log)
        yield Server(
            process=process, kubeconfig=certificates / "kubeconfig",
            url=f"https://127.0.0.1:{port}", ca_file=environment.client_cas / "ca.crt",
            client_cert=environment.client_cas / "admin.crt",
            client_key=environment.client_cas / "admin.key", folder=certificates,
        )  # fmt: skip


def test_restart_keeps_the_objects(environment: Environment) -> None:
    """The server shows envtest's certificate, accepts users of its CA, and finds the objects of
    before a restart."""
    with _apiserver(environment) as server:
        create(server, "kept")
    with _apiserver(environment) as server:
        assert call(server, "GET", f"{CONFIGMAPS}/kept")["data"] == {"by": "e2e"}


NAMESPACES = "/api/v1/namespaces"
DEFINITION = {
    "metadata": {"name": "things.e.io"},
    "spec": {
        "group": "e.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }],
    },
}  # fmt: skip


def test_no_controllers(environment: Environment) -> None:
    """No controller of kube-controller-manager runs: a deleted namespace keeps its finalizer and
    objects, and a new one is empty. What belongs to kube-apiserver runs: the service `kubernetes`,
    the system namespaces, and definitions that become established."""
    with _apiserver(environment) as server:
        call(server, "POST", NAMESPACES, {"metadata": {"name": "empty"}}, status=201)
        call(server, "POST", NAMESPACES, {"metadata": {"name": "going"}}, status=201)
        owner = {"apiVersion": "v1", "kind": "Node", "name": "absent", "uid": "absent"}
        owned = {"metadata": {"name": "owned", "ownerReferences": [owner]}}
        call(server, "POST", CONFIGMAPS, owned, status=201)
        call(server, "DELETE", f"{NAMESPACES}/going")
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        call(server, "POST", path, DEFINITION, status=201)
        established(server, "things.e.io")
        going = call(server, "GET", f"{NAMESPACES}/going")
        assert going["spec"]["finalizers"] == ["kubernetes"]
        assert "conditions" not in going["status"]
        assert call(server, "GET", f"{CONFIGMAPS}/owned")["metadata"]["ownerReferences"]
        for resource in ("serviceaccounts", "configmaps"):
            objects = call(server, "GET", f"{NAMESPACES}/empty/{resource}")
            assert objects["items"] == []
        services = f"{NAMESPACES}/default/services"
        with open_response(server, "GET", f"{services}?watch=1") as stream:
            assert json.loads(stream.readline())["object"]["metadata"]["name"] == "kubernetes"


def test_controllers_by_name(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment variable turns controllers on: a deleted namespace goes away."""
    monkeypatch.setenv("KAPISERVER_CONTROLLERS", "namespace,garbage-collector-controller")
    with _apiserver(environment) as server:
        call(server, "POST", NAMESPACES, {"metadata": {"name": "going"}}, status=201)
        with open_response(server, "GET", f"{NAMESPACES}?watch=1") as stream:
            call(server, "DELETE", f"{NAMESPACES}/going")
            while True:
                event = json.loads(stream.readline())
                if event["type"] == "DELETED":
                    break
        assert event["object"]["metadata"]["name"] == "going"


@pytest.mark.parametrize(
    ("variable", "flags", "controllers"),
    [
        (None, [], ()),
        ("", [], ()),
        ("*", [], ("*",)),
        ("*, -namespace", [], ("*", "-namespace")),
        ("namespace", ["--controllers=*"], ("*",)),
    ],
)
def test_controllers(
    monkeypatch: pytest.MonkeyPatch,
    variable: str | None,
    flags: list[str],
    controllers: tuple[str, ...],
) -> None:
    """The variable has the form of `--controllers`, which wins."""
    if variable is not None:
        monkeypatch.setenv("KAPISERVER_CONTROLLERS", variable)
    assert serve_options(flags).controllers == controllers


@pytest.mark.parametrize(
    ("nodes", "controllers", "expected"),
    [
        ("", "", (False, None, ())),
        ("0", "", (False, None, ())),
        ("1", None, (True, 1, ("*",))),
        ("3", "-namespace,*", (True, 3, ("-namespace", "*"))),
    ],
)
def test_simulated_nodes(
    monkeypatch: pytest.MonkeyPatch, nodes: str, controllers: str | None, expected: Any
) -> None:
    """An environment variable simulates nodes, and turns all controllers on unless another one
    names some."""
    monkeypatch.setenv("KAPISERVER_SIMULATE", nodes)
    if controllers is not None:
        monkeypatch.setenv("KAPISERVER_CONTROLLERS", controllers)
    options = serve_options([])
    assert (options.simulate, options.simulate_nodes, options.controllers) == expected


def test_simulation(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable a deployment becomes available."""
    monkeypatch.setenv("KAPISERVER_SIMULATE", "1")
    with _apiserver(environment) as server:
        labels, containers = {"app": "web"}, [{"name": "app", "image": "nginx"}]
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        path = "/apis/apps/v1/namespaces/default/deployments"
        call(server, "POST", path, {"metadata": {"name": "web"}, "spec": spec}, status=201)
        with open_response(server, "GET", f"{path}?watch=1") as stream:
            while True:
                status = json.loads(stream.readline())["object"].get("status", {})
                if status.get("availableReplicas") == 2:
                    break


@pytest.mark.parametrize(
    ("version", "flags", "emulated"),
    [
        ("", [], []),
        ("1.33", [], ["1.33"]),
        ("v1.31.2", [], ["v1.31"]),
        ("1.36.x", [], ["1.36"]),
        ("1.33", ["--emulated-version=1.35"], ["1.35"]),
    ],
)
def test_release(
    monkeypatch: pytest.MonkeyPatch, version: str, flags: list[str], emulated: list[str]
) -> None:
    """An environment variable chooses the release to emulate; `--emulated-version` wins."""
    monkeypatch.setenv("KAPISERVER_VERSION", version)
    assert serve_options(flags).emulated_version == emulated


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KAPISERVER_CONTROLLERS", "nobody", '"nobody" is not in the list of known controllers'),
        ("KAPISERVER_SIMULATE", "yes", "'yes' is not a number from 0 to 10000"),
        ("KAPISERVER_VERSION", "1.30", "emulation version 1.30 is not between [1.31, 1.37]"),
        ("KAPISERVER_VERSION", "latest", 'could not parse "latest" as version'),
    ],
)
def test_bad_variables(assets: Path, name: str, value: str, message: str) -> None:
    """A value that cannot be used ends the program with its name and the reason."""
    process = subprocess.run(
        [assets / "kube-apiserver"], env=os.environ | {name: value}, capture_output=True, text=True
    )
    assert process.returncode == 1
    assert process.stderr == f"kube-apiserver: {name}: {message}\n"


def test_flags_that_kapiserver_does_not_have(environment: Environment) -> None:
    """Unknown flags, feature gates and admission plugins are ignored with a warning."""
    unknown = ("--watch-cache=false", "--feature-gates=WatchList=true,Nothing=true", "",
               "--enable-admission-plugins=MutatingAdmissionWebhook,Nothing")  # fmt: skip
    with _apiserver(environment, *unknown) as server:
        create(server, "one")
    log = environment.log.read_text()
    for ignored in ("--watch-cache=false", "Nothing=true", "admission plugin Nothing"):
        assert f"ignored {ignored}" in log or f" {ignored}, which" in log, log
    assert log.count("warning: ignored") == 3


@pytest.mark.parametrize(
    ("flags", "verbosity"), [([], 0), (["-v=2"], 0), (["--v", "4"], 1), (["-v", "8"], 2)]
)
def test_log_level(flags: list[str], verbosity: int) -> None:
    """The levels of klog that show requests and debug messages do so here."""
    assert serve_options(flags).verbose == verbosity


def test_killed_parent(environment: Environment, tmp_path: Path) -> None:
    """Both programs end when the process that started them is killed."""
    script = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.read()"
    ports = (free_port(), free_port())
    data_dir, url = tmp_path / "other", f"http://127.0.0.1:{ports[0]}"
    data_dir.mkdir()
    commands = (
        [environment.assets / "etcd", f"--data-dir={data_dir}", f"--listen-client-urls={url}"],
        [environment.assets / "kube-apiserver", f"--cert-dir={environment.certificates}",
         f"--etcd-servers={environment.etcd_url}", f"--secure-port={ports[1]}"],
    )  # fmt: skip
    for command, port in zip(commands, ports, strict=True):
        parent = subprocess.Popen([sys.executable, "-c", script, *command], stdin=subprocess.PIPE)
        _wait_for_port(port, is_open=True)
        parent.kill()
        parent.communicate()
        _wait_for_port(port, is_open=False)


def _wait_for_port(port: int, *, is_open: bool) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as client:
            if (client.connect_ex(("127.0.0.1", port)) == 0) is is_open:
                return
        time.sleep(0.01)
    raise AssertionError(f"port {port} is {'not ' * is_open}open")


def test_help_lists_a_flag_on_each_line(assets: Path) -> None:
    """envtest looks for a flag at the beginning of a line."""
    for program, flags in (
        ("kube-apiserver", ("etcd-servers", "allow-privileged")),
        ("etcd", ("unsafe-no-fsync",)),
    ):
        output = subprocess.run([assets / program, "--help"], capture_output=True, text=True)
        assert output.returncode == 0
        for flag in flags:
            assert re.search(rf"(?m)^\s*--{flag}\b", output.stdout)


def test_version(assets: Path) -> None:
    """The programs print their versions, and do not start."""
    for program, text in (("kube-apiserver", "Kubernetes v1."), ("etcd", "etcd of kapiserver")):
        output = subprocess.check_output([assets / program, "--version"], text=True)
        assert output.startswith(text)


def test_version_of_a_release(assets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable, kube-apiserver prints the version of that release."""
    monkeypatch.setenv("KAPISERVER_VERSION", "1.32.4")
    output = subprocess.check_output([assets / "kube-apiserver", "--version"], text=True)
    assert output == "Kubernetes v1.32.0+kapiserver\n"


def test_print(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    """--print alone writes to the cache directory and prints its path; again, nothing changes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["envtest", "--print"]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert folder.parent == tmp_path / "kapiserver"
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert {"kube-apiserver", "etcd", "kubectl", "certificates"} <= {path.name for path in files}
    assert main(["envtest", "--print"]) == 0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == files


def test_no_directory(capsys) -> None:
    """A directory or --print is needed."""
    assert main(["envtest"]) == 1
    assert "DIR or --print must be set" in capsys.readouterr().err


@pytest.mark.parametrize("on_path", [True, False])
def test_kubectl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys, on_path: bool) -> None:
    """kubectl runs the one on PATH, even if the directory of the executables is on PATH too; if
    there is none, it says so."""
    folder, programs = tmp_path / "assets", tmp_path / "programs"
    programs.mkdir()
    if on_path:
        (programs / "kubectl").write_text("#!/bin/sh\necho kubectl $1\n")
        (programs / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{programs}")
    for _ in range(2):
        assert main(["envtest", str(folder)]) == 0
        warning = capsys.readouterr().err
        assert ("no kubectl on PATH" in warning) is not on_path
    process = subprocess.run([folder / "kubectl", "get"], capture_output=True, text=True)
    if on_path:
        assert (process.returncode, process.stdout) == (0, "kubectl get\n")
    else:
        assert process.returncode == 1
        assert "no kubectl" in process.stderr


def test_real_etcd(etcd: Member, tmp_path: Path) -> None:
    """A real etcd stores the objects itself."""
    options = serve_options([f"--etcd-servers={etcd.url}", f"--cert-dir={tmp_path}"])
    assert (options.etcd_servers, options.storage) == ((etcd.url,), None)


def test_etcd_that_is_not_there(tmp_path: Path) -> None:
    """The server retries an etcd that does not answer yet, as with `kapiserver serve`."""
    url = f"http://127.0.0.1:{free_port()}"
    options = serve_options([f"--etcd-servers={url}", f"--cert-dir={tmp_path}"])
    assert options.etcd_servers == (url,)


def test_windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On Windows the error says what is missing."""
    monkeypatch.setattr(executables.os, "name", "nt")
    with pytest.raises(ValueError, match="WSL"):
        executables.write_executables(tmp_path, "")


def test_etcd_needs_no_package(assets: Path) -> None:
    """etcd starts without site-packages."""
    script = (assets / "etcd").read_text()
    assert f"{sys.executable} -I -S" in script
