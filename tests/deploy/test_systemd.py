"""The units of systemd: what systemd-analyze says of them, and whether the server works in the
sandbox that they describe."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.cli import parser
from kapiserver.server_config import config_of
from tests.e2e.programs import ROOT, kubectls
from tests.storage.etcd_server import free_port

UNITS = ROOT / "deploy" / "systemd"
SERVICE = UNITS / "kapiserver.service"
GREATEST_EXPOSURE = 2.0


def _settings(unit: Path) -> list[tuple[str, str]]:
    """The settings of a unit in their order."""
    lines = unit.read_text().splitlines()
    return [(name, value) for name, sign, value in (line.partition("=") for line in lines) if sign]


def _analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def test_exposure() -> None:
    """systemd-analyze rates the sandbox of the service."""
    rated = _analyze("security", "--offline=true", "--no-pager", SERVICE)
    if "unrecognized option" in rated.stderr:
        pytest.skip("this systemd-analyze rates no files")
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", rated.stdout)
    assert float(exposure) < GREATEST_EXPOSURE


def test_syntax(tmp_path: Path) -> None:
    """systemd-analyze finds nothing wrong with the units."""
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("/opt/kapiserver/bin/kapiserver", sys.executable)
        (tmp_path / unit.name).write_text(text)
    verified = _analyze("verify", *tmp_path.iterdir())
    assert (verified.returncode, verified.stderr) == (0, "")


def _command() -> list[str]:
    """The arguments of `kapiserver` in the unit, without those of the administrator."""
    command = dict(_settings(SERVICE))["ExecStart"].replace(" $KAPISERVER_FLAGS", "")
    return shlex.split(command)[1:]


def test_command() -> None:
    """The command line of the service parses, and keeps its data in the directory of its state."""
    options = parser().parse_args(_command())
    assert config_of(options).store.storage == "sqlite:${STATE_DIRECTORY}/kapiserver.db"


def _system_calls() -> set[str]:
    """The system calls that the filters of the service allow."""
    sets: dict[str, list[str]] = {}
    for line in _analyze("syscall-filter", "--no-pager").stdout.splitlines():
        word = line.strip()
        if line.startswith("@"):
            members = sets[word] = []
        elif word and not word.startswith("#"):
            members.append(word)

    def members_of(name: str) -> Iterator[str]:
        for member in sets[name]:
            if member.startswith("@"):
                yield from members_of(member)
            else:
                yield member

    allowed: set[str] = set()
    for name, value in _settings(SERVICE):
        if name == "SystemCallFilter":
            changed = {
                call for each in value.removeprefix("~").split() for call in members_of(each)
            }
            allowed = allowed - changed if value.startswith("~") else allowed | changed
    return allowed


@pytest.mark.slow
def test_sandbox(tmp_path: Path) -> None:
    """A server that starts, serves kubectl, reloads and drains makes only system calls that the
    filters allow, never has memory that is writable and executable, and needs only its own
    processes' folders in /proc."""
    if shutil.which("strace") is None or not kubectls():
        pytest.skip("needs strace and kubectl")
    port, trace, state = free_port(), tmp_path / "trace", tmp_path / "state"
    arguments = [word.replace("${STATE_DIRECTORY}", str(state)) for word in _command()]
    server = [sys.executable, "-m", "kapiserver", *arguments, f"--secure-port={port}"]
    traced = shlex.join(["strace", "-f", "-qq", "-o", str(trace), *server])
    alone = f"mount -t proc -o subset=pid,hidepid=invisible proc /proc && exec {traced}"
    command = ["unshare", "--mount", "--propagation=private", "sh", "-c", alone]
    if subprocess.run([*command[:-1], alone.partition(" && ")[0]], check=False).returncode:
        pytest.skip("mount namespaces are not allowed here")
    process = subprocess.Popen(command, cwd=ROOT)
    kubeconfig = state / "kubeconfig"
    kubectl = [kubectls()[0], f"--kubeconfig={kubeconfig}"]
    try:
        deadline = time.monotonic() + 120
        while subprocess.run([*kubectl, "create", "cm", "a"], capture_output=True).returncode:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        subprocess.run([*kubectl, "get", "cm", "a"], check=True, capture_output=True)
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for signal in ("HUP", "TERM"):
            subprocess.run(["kill", f"-{signal}", child], check=True)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    calls = trace.read_text()
    assert "PROT_WRITE|PROT_EXEC" not in calls
    used = set(re.findall(r"^\d+ +(\w+)\(", calls, re.MULTILINE))
    as_root = {"fchown"}  # SQLite makes it only as root, which the service is not
    assert used - as_root - _system_calls() == set()
