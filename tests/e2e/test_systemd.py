"""A server as a service of systemd: what it reports to a real socket, and sockets passed to it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.apiserver.serving.process.systemd import ServiceManager
from tests.e2e.programs import ROOT
from tests.storage.etcd_server import shared_etcd

SECONDS = 60
WATCHDOG_SECONDS = 0.2


class Manager:
    """Plays systemd: a socket for reports, and a listening socket that outlives the servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._reports.bind(str(folder / "notify"))
        self._reports.settimeout(SECONDS)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *flags: str, passed: socket.socket | None = None) -> subprocess.Popen[bytes]:
        """Start a server as a service with socket activation and a watchdog."""
        descriptor = (passed or self.listening).fileno()
        script = f'LISTEN_PID=$$ exec "$@" 3<&{descriptor}'
        environment = {
            "NOTIFY_SOCKET": str(self.folder / "notify"),
            "WATCHDOG_USEC": str(int(WATCHDOG_SECONDS * 1e6)),
            "LISTEN_FDS": "1",
            "LISTEN_FDNAMES": "kapiserver.socket",
        }
        command = [
            "bash", "-c", script, "bash", sys.executable, "-m", "kapiserver", "serve",
            f"--data-dir={self.folder / 'data'}", "--secure-port=6443", *flags,
        ]  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | environment,
                pass_fds=(descriptor,),
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    def receive(self) -> dict[str, str]:
        """Return the next report."""
        lines = self._reports.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def wait_for(self, name: str) -> dict[str, str]:
        """Return the next report with that name."""
        while name not in (report := self.receive()):
            pass
        return report

    def log(self) -> str:
        """Return what the servers have printed."""
        return (self.folder / "log").read_text()

    def close(self) -> None:
        """End the servers that are left."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._reports.close()
        self.listening.close()

    @contextlib.contextmanager
    def connect(self) -> Iterator[socket.socket]:
        """Connect a client to the passed socket, without TLS."""
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as client:
            yield client


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """A manager, whose servers are ended."""
    manager = Manager(tmp_path)
    yield manager
    manager.close()


def _is_alive(client: socket.socket) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(client) as secure:
        secure.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: secure.recv(4096), b"")).endswith(b"ok")


def _stop(manager: Manager, process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    report = manager.wait_for("STOPPING")
    assert int(report["EXTEND_TIMEOUT_USEC"]) >= 10_000_000
    assert process.wait(SECONDS) == 0, manager.log()


def test_service(manager: Manager) -> None:
    """A service reports its start, its life, reloads and its end. A client that connects before the
    server runs is served by it."""
    with manager.connect() as early:
        process = manager.start("--shutdown-watch-termination-grace-period=5s")
        ready = manager.wait_for("READY")
        assert ready["STATUS"] == f"serving https://127.0.0.1:{manager.port}"
        assert _is_alive(early)
    for _ in range(2):
        assert manager.wait_for("WATCHDOG") == {"WATCHDOG": "1"}
    process.send_signal(signal.SIGHUP)
    assert int(manager.wait_for("RELOADING")["MONOTONIC_USEC"]) > 0
    assert manager.wait_for("READY") == {"READY": "1"}
    _stop(manager, process)


@pytest.mark.slow
def test_restart(manager: Manager) -> None:
    """A client that connects while no server runs is served by the next one."""
    first = manager.start()
    manager.wait_for("READY")
    _stop(manager, first)
    with manager.connect() as early:
        second = manager.start()
        manager.wait_for("READY")
        assert _is_alive(early)
    _stop(manager, second)


@pytest.mark.slow
def test_workers(manager: Manager) -> None:
    """The supervisor reports for its workers, which share the passed socket."""
    process = manager.start("--workers=2", f"--etcd-servers={shared_etcd().url}")
    assert manager.wait_for("READY")["STATUS"] == "serving with 2 workers"
    for _ in range(5):
        with manager.connect() as client:
            assert _is_alive(client)
    manager.wait_for("WATCHDOG")
    process.send_signal(signal.SIGHUP)
    manager.wait_for("RELOADING")
    manager.wait_for("READY")
    _stop(manager, process)


@pytest.mark.slow
def test_wrong_socket(manager: Manager) -> None:
    """A socket that does not listen for TCP ends the start with a reason."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as passed:
        process = manager.start(passed=passed)
        assert process.wait(SECONDS) == 1
    assert "systemd passed descriptor 3, which is not a listening TCP socket" in manager.log()


def test_foreign_variables(tmp_path: Path) -> None:
    """Variables for another process are ignored, and removed; a manager that does not answer is
    logged."""
    script = (
        "import os\n"
        "from kapiserver.apiserver.serving.process.systemd import ServiceManager, passed_sockets\n"
        "service = ServiceManager()\n"
        "service.ready('x')\n"
        "service.report_life_if_due()\n"
        "assert passed_sockets() == ()\n"
        "assert not [name for name in os.environ if name.startswith(('LISTEN_', 'WATCHDOG_'))]\n"
        "assert 'NOTIFY_SOCKET' not in os.environ\n"
    )
    environment = {
        "NOTIFY_SOCKET": str(tmp_path / "missing"), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1",
        "LISTEN_PID": "1", "LISTEN_FDS": "1",
    }  # fmt: skip
    process = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr.startswith("cannot notify systemd of READY=1: ")
    assert process.stderr.count("\n") == 1


def test_abstract_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket in Linux's abstract namespace begins with @."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reports:
        reports.bind(b"")  # the system chooses a name
        name = reports.getsockname()
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name[1:].decode()}")
        ServiceManager().ready("serving")
        assert reports.recv(100) == b"READY=1\nSTATUS=serving"
