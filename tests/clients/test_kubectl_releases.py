"""Logs and commands of simulated pods with kubectl of each release that speaks another protocol.

kubectl is built from its Go modules, which takes minutes for each release.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.toolchains import BUILDS, install, suite_folder
from tests.e2e.programs import Server, kubectls, run
from tests.e2e.test_simulate_streams import (
    echo,
    simulating,
    test_attach_and_follow,
    test_cp,
    test_debug,
    test_exec,
    test_forwarded_data,
    test_logs,
    test_port_forward,
    test_previous_logs,
    test_resumed_copy,
    test_top,
)

__all__ = [
    "echo",
    "simulating",
    "test_attach_and_follow",
    "test_cp",
    "test_debug",
    "test_exec",
    "test_forwarded_data",
    "test_logs",
    "test_port_forward",
    "test_previous_logs",
    "test_resumed_copy",
    "test_top",
]
pytestmark = pytest.mark.slow  # builds kubectl

SPDY, WEBSOCKET = "POST", "GET"
"""The methods of the requests that begin a stream, which tell the protocols apart."""


class Case(NamedTuple):
    """A release of kubectl, what the environment tells it, and the protocols that it then uses."""

    release: str
    websockets: str | None
    exec: str
    port_forward: str


CASES = (
    Case("1.27", None, SPDY, SPDY),
    Case("1.29", None, SPDY, SPDY),
    Case("1.29", "true", WEBSOCKET, SPDY),
    Case("1.31", None, WEBSOCKET, WEBSOCKET),
    Case("1.31", "false", SPDY, SPDY),
    Case("1.33", None, WEBSOCKET, WEBSOCKET),
    Case("1.33", "false", SPDY, SPDY),
    Case("1.35", None, WEBSOCKET, WEBSOCKET),
    Case("1.35", "false", SPDY, SPDY),
    Case("1.37", None, WEBSOCKET, WEBSOCKET),
    Case("1.37", "false", SPDY, SPDY),
)


@pytest.fixture(
    scope="module", params=CASES, ids=lambda case: f"{case.release}-{case.websockets or 'default'}"
)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture(scope="module")
def program(case: Case) -> Path:
    """kubectl of the case's release, which is built when a test needs it first."""
    built = BUILDS / f"kubectl-{case.release}" / "kubectl"
    if not built.exists():
        source = suite_folder("kubectl", "go")
        folder = shutil.copytree(source, built.parent, dirs_exist_ok=True)
        (folder / "go.mod").write_text("module kubectl\n")
        install(folder, "go", "get", f"k8s.io/kubectl@v0.{case.release.removeprefix('1.')}.0", ".")
        install(folder, "go", "build", "-o", "kubectl", ".")
    return built


@pytest.fixture(scope="module")
def debugging_program(program: Path) -> Path:
    return program


@pytest.fixture(scope="module")
def environment(case: Case) -> dict[str, str]:
    if case.websockets is None:
        return {}
    variables = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
    return dict.fromkeys(variables, case.websockets)


def upgrades(server: Server, subresource: str) -> dict[str, int]:
    """The connections that were upgraded, by the methods of their requests."""
    page = run(kubectls()[0], server, "get", "--raw", "/metrics")
    labels = rf'verb="(\w+)",.*subresource="{subresource}",.*code="101"'
    found = re.findall(rf"^apiserver_request_total{{{labels}}} (\d+)$", page, re.MULTILINE)
    return {method: int(count) for method, count in found}


@pytest.mark.parametrize("subresource", ["exec", "portforward"])
def test_protocol(
    simulating: Server,
    case: Case,
    program: Path,
    environment: dict[str, str],
    echo: int,
    subresource: str,
) -> None:
    """kubectl uses the protocol of the table, and does not fall back to another."""
    before = upgrades(simulating, subresource)
    if subresource == "exec":
        test_exec(simulating, program, environment)
    else:
        test_forwarded_data(simulating, program, environment, echo)
    after = upgrades(simulating, subresource)
    used = {method for method, count in after.items() if count != before.get(method, 0)}
    assert used == {case.exec if subresource == "exec" else case.port_forward}
