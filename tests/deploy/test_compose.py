"""The compose files and the Dockerfile: their contents, and their services run as processes."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from kapiserver.cli import parser
from kapiserver.server_config import config_of
from tests.deploy.compose import Rehearsal, services_of
from tests.e2e.cluster import CONFIGMAPS, Load, call
from tests.e2e.programs import ROOT, describe
from tests.storage.etcd_server import program as etcd_program

ONE_SERVER = ROOT / "docker-compose.yml"
REPLICATED = ROOT / "deploy" / "compose" / "docker-compose.yml"
FILES = pytest.mark.parametrize("file", [ONE_SERVER, REPLICATED], ids=["one", "replicated"])


@FILES
def test_health_checks(file: Path) -> None:
    """Every service that runs on has a health check, and what it depends on is healthy first."""
    services = services_of(file)
    for name, service in services.items():
        if name != "certificates":  # ends
            check = service["healthcheck"]
            assert check["test"][0] == "CMD"
            assert {"interval", "timeout", "retries"} <= check.keys()
        for needed, dependency in service.get("depends_on", {}).items():
            assert needed in services
            ends = needed == "certificates"
            condition = "service_completed_successfully" if ends else "service_healthy"
            assert dependency == {"condition": condition}


@FILES
def test_hardening(file: Path) -> None:
    """No service writes outside its volumes, and none gets more rights than it starts with."""
    for service in services_of(file).values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


@FILES
def test_volumes_and_ports(file: Path) -> None:
    """Every named volume is declared and used, every mounted file exists, and ports are open on
    the loopback address alone."""
    mounted = set()
    for service in services_of(file).values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (file.parent / source).is_file()
            else:
                mounted.add(source)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert mounted == set(yaml.safe_load(file.read_text())["volumes"])


@FILES
def test_command_lines(file: Path) -> None:
    """The command lines of the servers parse, and use etcd."""
    for name, service in services_of(file).items():
        if name.startswith("kapiserver"):
            config = config_of(_parse(service["command"]))
            assert config.store.storage.startswith("etcd:http")


COMPOSE = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"
"""A program around the library with which `docker compose config` reads files."""


@FILES
@pytest.mark.slow
def test_specification(file: Path, tmp_path: Path) -> None:
    """The files follow the Compose Specification."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    fetched = subprocess.run(
        ["go", "install", COMPOSE],
        env=os.environ | {"GOBIN": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode:
        pytest.skip(f"go cannot fetch the program: {fetched.stderr[-300:]}")
    program = tmp_path / "cmd"
    config = subprocess.run([program, file], capture_output=True, text=True, check=False)
    assert config.returncode == 0, config.stderr
    assert set(yaml.safe_load(config.stdout)["services"]) == set(services_of(file))


def test_image() -> None:
    """The command line of the image parses, and each source of a COPY exists."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (command,) = [line.removeprefix("CMD ") for line in lines if line.startswith("CMD ")]
    assert config_of(_parse(yaml.safe_load(command))).serving.bind_address == "0.0.0.0"
    sent = (ROOT / ".dockerignore").read_text().split()
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{Path(source)}" in sent


def _parse(arguments: list[str]) -> argparse.Namespace:
    return parser().parse_args(arguments)


@pytest.fixture
def rehearsal(tmp_path: Path) -> Iterator[Rehearsal]:
    """The services of the replicated form, of which none runs yet."""
    for name in ("haproxy", "openssl"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    programs = {
        "etcd": str(etcd_program()),
        "etcdctl": str(etcd_program("etcdctl")),
        "python": sys.executable,
    }
    rehearsal = Rehearsal(REPLICATED, tmp_path, programs)
    yield rehearsal
    rehearsal.close()


def _wait(condition: Callable[[], bool], rehearsal: Rehearsal, service: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, rehearsal.log(service)
        assert rehearsal.runs(service), rehearsal.log(service)
        time.sleep(0.1)


@pytest.mark.slow
def test_replicated_form(rehearsal: Rehearsal) -> None:
    """With the commands of the compose file, a member and a server may go: clients of the balancer
    lose no acknowledged write, and none of their connections is refused."""
    rehearsal.run("certificates")
    members = [f"etcd-{number}" for number in (1, 2, 3)]
    processes = {member: rehearsal.start(member) for member in members}
    for member in members:
        _wait(lambda member=member: rehearsal.check(member), rehearsal, member)
    servers = ("kapiserver-1", "kapiserver-2")
    for name in servers:
        processes[name] = rehearsal.start(name, sys.executable, "-m", "kapiserver")
        _wait(lambda name=name: rehearsal.check(name), rehearsal, name)
    configuration = rehearsal.file_of("balancer", "/usr/local/etc/haproxy/haproxy.cfg")
    rehearsal.start("balancer", "haproxy", "-db", "-f", str(configuration))
    kubeconfig = rehearsal.folder / "volumes" / "kapiserver" / "kubeconfig"
    described = describe(processes["kapiserver-1"], kubeconfig, rehearsal.folder)
    balancer = f"https://127.0.0.1:{rehearsal.port('balancer', 6443)}"
    client = dataclasses.replace(described, url=balancer)
    _wait(lambda: _answers(client), rehearsal, "balancer")
    revision = call(client, "GET", CONFIGMAPS)["metadata"]["resourceVersion"]
    load = Load([balancer], client, revision)
    with load.running(writers=2):
        processes["etcd-1"].kill()
        processes["kapiserver-1"].send_signal(signal.SIGTERM)
        assert processes["kapiserver-1"].wait(60) == 0, rehearsal.log("kapiserver-1")
    assert load.refused == 0
    load.check(client)


def _answers(client: object) -> bool:
    try:
        call(client, "GET", CONFIGMAPS)
    except OSError:
        return False
    return True
